/* missing_keys.h - missing keys for tests: noted, remembered, listed. */
#ifndef WN_TESTS_MISSING_KEYS_H
#define WN_TESTS_MISSING_KEYS_H

#include <string.h>

#include "base/secret.h"
#include "common.h"
#include "learn/negatives/missing_internal.h"

static struct wn_secret *secret;

static inline void set_up(void)
{
	secret = test_secret(1);
}

static inline void tear_down(void)
{
	wn_secret_destroy(secret);
}

static inline struct wn__missing *make(size_t capacity)
{
	struct wn__missing *missing;

	ck_assert_int_eq(wn__missing_create(capacity, secret, NULL, NULL, &missing), 0);
	return missing;
}

static inline void note(struct wn__missing *missing, const void *key, size_t size)
{
	wn__missing_note(missing, wn__hash_key(secret, key, size), key, size);
}

static inline void remember(struct wn__missing *missing, const void *key, size_t size)
{
	wn__missing_remember(missing, wn__hash_key(secret, key, size), key, size);
}

static inline void note_text(struct wn__missing *missing, const char *text)
{
	note(missing, text, strlen(text));
}

static inline size_t count_listed(struct wn__missing *missing)
{
	struct wn__missing_list *list = wn__missing_list(missing, true);
	size_t count = list->count;

	wn__missing_release(missing, list);
	return count;
}

/* In order, no two equal, and each with its own hash. */
static inline void expect_sound(const struct wn__missing *missing,
				const struct wn__missing_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct wn__missing_key *item = &list->items[i], *last = item - 1;

		expect(item->times > 0 && item->size <= WN__MISSING_MAX_SIZE);
		expect(wn_hash_compare(item->hash, wn__hash_key(secret, item->key, item->size)) ==
		       0);
		if (i)
			expect(wn__missing_compare(missing, last->key, last->size, item->key,
						   item->size) < 0);
	}
}

/* The keys of the list, one behind the other. */
static inline void expect_texts(struct wn__missing *missing, const char *wanted)
{
	struct wn__missing_list *list = wn__missing_list(missing, true);
	char text[512] = "";

	expect_sound(missing, list);
	for (size_t i = 0; i < list->count; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%.*s*%u ",
			 list->items[i].size, list->items[i].key, list->items[i].times);
	ck_assert_str_eq(text, wanted);
	wn__missing_release(missing, list);
}

#endif /* WN_TESTS_MISSING_KEYS_H */
