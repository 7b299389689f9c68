/* error.c - names for errors. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* strerrordesc_np() */
#endif
#include <string.h>

#include <winnow/error.h>

static const char *const sentences[] = {
	[-WN_OK] = "success",
	[-WN_ERR_INVALID] = "a parameter is outside its documented range",
	[-WN_ERR_OPTION] = "an options string cannot be understood",
	[-WN_ERR_FULL] = "there is no room left",
	[-WN_ERR_NOT_FOUND] = "no such key, fingerprint or entry",
	[-WN_ERR_MISMATCH] = "two things do not belong together",
	[-WN_ERR_UNFIXABLE] = "two keys share one full hash and cannot be told apart",
	[-WN_ERR_CORRUPT] = "the bytes are damaged or not winnow's",
	[-WN_ERR_VERSION] = "a format version or filter kind that this library does not know",
	[-WN_ERR_READONLY] = "the object cannot be changed",
	[-WN_ERR_RANGE] = "a counter would pass its largest value",
	[-WN_ERR_STALE] = "the ranks of a minirun have changed since they were read",
};

#define SENTENCE_COUNT ((int)(sizeof(sentences) / sizeof(sentences[0])))

const char *wn_strerror(int error)
{
	const char *sentence = NULL;

	/* strerror() may share one buffer among threads; this one is static text. */
	if (error > 0)
		sentence = strerrordesc_np(error);
	else if (error > -SENTENCE_COUNT)
		sentence = sentences[-error];
	return sentence ? sentence : "an unknown error";
}
