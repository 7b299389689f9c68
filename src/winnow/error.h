/* error.h - how winnow says no.
 *
 * Functions that can fail return int: 0 is good, a positive value is an errno
 * that passed through (ENOMEM above all), a negative one is a WN_ERR_*.
 * Thread safety: any thread, any time. */
#ifndef WINNOW_ERROR_H
#define WINNOW_ERROR_H

#include <winnow/common.h>

WN_BEGIN_DECLS

enum wn_error {
	WN_OK = 0,
	WN_ERR_INVALID = -1,   /* a parameter is outside its documented range */
	WN_ERR_OPTION = -2,    /* an options string cannot be understood */
	WN_ERR_FULL = -3,      /* no room; the object is as it was before the call */
	WN_ERR_NOT_FOUND = -4, /* no such key, fingerprint or entry */
	WN_ERR_MISMATCH = -5,  /* two things that do not belong together */
	WN_ERR_UNFIXABLE = -6, /* two keys with one full hash: no bit tells them apart */
	WN_ERR_CORRUPT = -7,   /* bytes that are damaged or were never ours */
	WN_ERR_VERSION = -8,   /* ours, from a format version this library does not know */
	WN_ERR_READONLY = -9,  /* the object cannot be changed */
	WN_ERR_RANGE = -10,    /* a counter would pass its largest value */
	WN_ERR_STALE = -11     /* the ranks of a minirun have changed since: find it again */
};

/* A short English sentence for `error`; static storage, never NULL. */
WN_PUBLIC const char *wn_strerror(int error);

WN_END_DECLS

#endif /* WINNOW_ERROR_H */
