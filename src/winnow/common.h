/* common.h - what every public header of winnow needs. */
#ifndef WINNOW_COMMON_H
#define WINNOW_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define WN_BEGIN_DECLS extern "C" {
#define WN_END_DECLS }
#else
#define WN_BEGIN_DECLS
#define WN_END_DECLS
#endif

/* The library is built with hidden visibility: only what carries this mark
 * can be linked against. */
#if defined(__GNUC__)
#define WN_PUBLIC __attribute__((visibility("default")))
#else
#define WN_PUBLIC
#endif

#endif /* WINNOW_COMMON_H */
