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

/* Structures of the caller's whose size is part of the interface end in `reserved`. Among options
 * it must be zero, as it is in `= {0}` and in an initializer that names other members: what a
 * later version can be asked for is there, and a version that does not know it refuses
 * (WN_ERR_INVALID, or a message) instead of ignoring it. In results it is written as zero. Small
 * values that are complete (struct wn_hash, wn_match, wn_key) have none. */

#endif /* WINNOW_COMMON_H */
