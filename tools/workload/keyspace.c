/* keyspace.c - see keyspace.h. */
#include "keyspace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "bench/bench_util.h"

#define TAG_BITS 24
#define INSERTED_PREFIX "\0inserted" /* no line of a file begins so */

/* ---- lists -------------------------------------------------------------- */

/* Room for one more than `count` elements. */
static bool make_room(void **arrayp, size_t *roomp, size_t count, size_t element)
{
	size_t room = *roomp > 0 ? *roomp : 1024;
	void *larger;

	while (room <= count)
		room *= 2;
	if (room == *roomp)
		return true;
	larger = wn__realloc(*arrayp, room * element);
	if (!larger)
		return false;
	*arrayp = larger;
	*roomp = room;
	return true;
}

bool key_list_add(struct key_list *list, const void *bytes, size_t size)
{
	if (!make_room((void **)&list->starts, &list->room, list->count + 1,
		       sizeof(*list->starts)) ||
	    !make_room((void **)&list->bytes, &list->byte_room, list->byte_count + size, 1))
		return false;
	if (size > 0)
		memcpy(list->bytes + list->byte_count, bytes, size);
	list->starts[list->count++] = list->byte_count;
	list->byte_count += size;
	list->starts[list->count] = list->byte_count;
	return true;
}

void key_list_fini(struct key_list *list)
{
	free(list->bytes);
	free(list->starts);
	memset(list, 0, sizeof(*list));
}

static const char *list_key(const struct key_list *list, size_t number, size_t *sizep)
{
	*sizep = list->starts[number + 1] - list->starts[number];
	return list->bytes + list->starts[number];
}

static bool add_line(struct key_list *list, const char *path, const char *line, size_t length,
		     char *message, size_t size)
{
	if (length > 0 && line[length - 1] == '\n')
		length--;
	if (length > 0 && line[length - 1] == '\r')
		length--;
	if (length == 0 || length > KEY_MAX_SIZE - 16 || memchr(line, '\0', length)) {
		snprintf(message, size, "line %zu of '%s' is no key: 1 to %d bytes, none of them 0",
			 list->count + 1, path, KEY_MAX_SIZE - 16);
		return false;
	}
	if (list->count >= KEYS_MAX - 1 || !key_list_add(list, line, length)) {
		snprintf(message, size, "no memory for the lines of '%s'", path);
		return false;
	}
	return true;
}

bool key_list_read(struct key_list *list, const char *path, char *message, size_t size)
{
	FILE *file = fopen(path, "r");
	char *line = NULL;
	size_t room = 0;
	ssize_t length;
	bool good = true;

	if (!file) {
		snprintf(message, size, "cannot read '%s': %s", path, strerror(errno));
		return false;
	}
	while (good && (length = getline(&line, &room, file)) >= 0)
		good = add_line(list, path, line, (size_t)length, message, size);
	if (good && ferror(file)) {
		snprintf(message, size, "reading '%s' failed: %s", path, strerror(errno));
		good = false;
	} else if (good && list->count == 0) {
		snprintf(message, size, "'%s' is empty: it should have a key on each line", path);
		good = false;
	}
	free(line);
	fclose(file);
	return good;
}

/* ---- the index of a list ------------------------------------------------ */

uint64_t key_number(const void *key, size_t size)
{
	const unsigned char *bytes = key;
	uint64_t number = bench_mix(size + 1);

	while (size >= sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, bytes, sizeof(word));
		number = bench_mix(number ^ word) + UINT64_C(0x9e3779b97f4a7c15);
		bytes += sizeof(word);
		size -= sizeof(word);
	}
	while (size-- > 0)
		number = bench_mix(number ^ *bytes++) + UINT64_C(0x9e3779b97f4a7c15);
	return number != 0 ? number : 1;
}

/* The slot of the key, or the empty one where it would be. */
static size_t index_slot(const struct key_index *index, const struct key_list *list,
			 const void *key, size_t size)
{
	size_t slot = (size_t)key_number(key, size) & index->mask;

	for (; index->slots[slot] != 0; slot = (slot + 1) & index->mask) {
		size_t other_size;
		const char *other = list_key(list, index->slots[slot] - 1, &other_size);

		if (other_size == size && memcmp(other, key, size) == 0)
			break;
	}
	return slot;
}

/* *repeatedp: a key that stands there twice, or the count. */
static bool index_list(struct key_index *index, const struct key_list *list, size_t *repeatedp)
{
	size_t slots = 64;

	*repeatedp = list->count;
	while (slots < 2 * list->count)
		slots *= 2;
	free(index->slots);
	index->slots = wn__calloc(slots, sizeof(*index->slots));
	index->mask = slots - 1;
	if (!index->slots)
		return false;
	for (size_t i = 0; i < list->count; i++) {
		size_t size;
		const char *key = list_key(list, i, &size);
		size_t slot = index_slot(index, list, key, size);

		if (index->slots[slot] != 0) {
			*repeatedp = i;
			return true;
		}
		index->slots[slot] = (uint32_t)i + 1;
	}
	return true;
}

static bool find_in_list(const struct key_index *index, const struct key_list *list,
			 const void *key, size_t size, uint64_t *numberp)
{
	size_t slot;

	if (!index->slots)
		return false;
	slot = index_slot(index, list, key, size);
	if (index->slots[slot] == 0)
		return false;
	*numberp = index->slots[slot] - 1;
	return true;
}

bool keyspace_index_lists(struct keyspace *keyspace, char *message, size_t size)
{
	size_t repeated;
	uint64_t index;

	if (keyspace->keys.count > 0) {
		if (!index_list(&keyspace->key_index, &keyspace->keys, &repeated)) {
			snprintf(message, size, "no memory for an index of the keys");
			return false;
		}
		if (repeated < keyspace->keys.count) {
			snprintf(message, size, "line %zu of the keys stands there twice",
				 repeated + 1);
			return false;
		}
	}
	for (size_t i = 0; i < keyspace->negatives.count; i++) {
		size_t key_size;
		const char *key = list_key(&keyspace->negatives, i, &key_size);

		if (keyspace_find(keyspace, key, key_size, &index)) {
			snprintf(message, size, "line %zu of the negatives is also a key", i + 1);
			return false;
		}
	}
	return true;
}

void keyspace_fini(struct keyspace *keyspace)
{
	key_list_fini(&keyspace->keys);
	key_list_fini(&keyspace->negatives);
	key_list_fini(&keyspace->extras);
	free(keyspace->key_index.slots);
	free(keyspace->extra_index.slots);
}

/* ---- keys --------------------------------------------------------------- */

uint64_t keyspace_room(const struct keyspace *keyspace)
{
	return keyspace->count + keyspace->inserts + keyspace->extras.count;
}

static size_t make_key(const struct keyspace *keyspace, uint64_t place, uint64_t tag, char *keyp)
{
	const uint64_t word = place << TAG_BITS | tag;
	uint64_t more = word ^ bench_mix(keyspace->seed + 1);

	for (unsigned i = 0; i < sizeof(word); i++)
		keyp[i] = (char)(word >> (56 - 8 * i));
	for (size_t i = sizeof(word); i < keyspace->key_size; i += sizeof(more)) {
		const size_t left = keyspace->key_size - i;

		more = bench_mix(more + i);
		memcpy(keyp + i, &more, left < sizeof(more) ? left : sizeof(more));
	}
	return keyspace->key_size;
}

static bool read_key(const struct keyspace *keyspace, const void *key, size_t size,
		     uint64_t *placep)
{
	const unsigned char *bytes = key;
	uint64_t word = 0;
	char made[KEY_MAX_SIZE];

	if (size != keyspace->key_size)
		return false;
	for (unsigned i = 0; i < sizeof(word); i++)
		word = word << 8 | bytes[i];
	*placep = word >> TAG_BITS;
	make_key(keyspace, *placep, 0, made);
	return memcmp(made, key, size) == 0;
}

/* What an insert adds to keys from a file: a name that sorts before every line. */
static size_t make_inserted(uint64_t number, char *keyp)
{
	memcpy(keyp, INSERTED_PREFIX, sizeof(INSERTED_PREFIX) - 1);
	keyp += sizeof(INSERTED_PREFIX) - 1;
	for (unsigned i = 0; i < 8; i++)
		keyp[i] = (char)(number >> (56 - 8 * i));
	return sizeof(INSERTED_PREFIX) - 1 + 8;
}

static bool read_inserted(const void *key, size_t size, uint64_t *numberp)
{
	const unsigned char *bytes = key;

	if (size != sizeof(INSERTED_PREFIX) - 1 + 8 ||
	    memcmp(key, INSERTED_PREFIX, sizeof(INSERTED_PREFIX) - 1) != 0)
		return false;
	*numberp = 0;
	for (unsigned i = 0; i < 8; i++)
		*numberp = *numberp << 8 | bytes[sizeof(INSERTED_PREFIX) - 1 + i];
	return true;
}

size_t keyspace_stored(const struct keyspace *keyspace, uint64_t index, char *keyp)
{
	const struct key_list *list = &keyspace->keys;
	size_t size;
	const char *key;

	if (index >= keyspace->count + keyspace->inserts) {
		list = &keyspace->extras;
		index -= keyspace->count + keyspace->inserts;
	} else if (list->count == 0) {
		return make_key(keyspace, index, 0, keyp);
	} else if (index >= list->count) {
		return make_inserted(index - list->count, keyp);
	}
	key = list_key(list, (size_t)index, &size);
	memcpy(keyp, key, size);
	return size;
}

uint64_t keyspace_max_absent(const struct keyspace *keyspace)
{
	if (keyspace->negatives.count > 0)
		return keyspace->negatives.count;
	return keyspace->count * ((UINT64_C(1) << TAG_BITS) - 1);
}

size_t keyspace_absent(const struct keyspace *keyspace, uint64_t number, char *keyp)
{
	const uint64_t place = number % keyspace->count, tag = 1 + number / keyspace->count;
	size_t size;
	const char *key;

	if (keyspace->negatives.count > 0) {
		key = list_key(&keyspace->negatives, (size_t)number, &size);
		memcpy(keyp, key, size);
		return size;
	}
	if (keyspace->keys.count == 0)
		return make_key(keyspace, place, tag, keyp);
	/* A line with a 0 and the tag behind it is no line. */
	key = list_key(&keyspace->keys, (size_t)place, &size);
	memcpy(keyp, key, size);
	keyp[size++] = '\0';
	memcpy(keyp + size, &tag, sizeof(tag));
	return size + sizeof(tag);
}

bool keyspace_find(const struct keyspace *keyspace, const void *key, size_t size, uint64_t *indexp)
{
	if (find_in_list(&keyspace->extra_index, &keyspace->extras, key, size, indexp)) {
		*indexp += keyspace->count + keyspace->inserts;
		return true;
	}
	if (keyspace->keys.count == 0)
		return read_key(keyspace, key, size, indexp) &&
		       *indexp < keyspace->count + keyspace->inserts;
	if (find_in_list(&keyspace->key_index, &keyspace->keys, key, size, indexp))
		return true;
	if (!read_inserted(key, size, indexp) || *indexp >= keyspace->inserts)
		return false;
	*indexp += keyspace->count;
	return true;
}

bool keyspace_name(struct keyspace *keyspace, const void *key, size_t size, uint64_t *indexp)
{
	struct key_index *index = &keyspace->extra_index;
	struct key_list *extras = &keyspace->extras;
	size_t slot, repeated;

	if (keyspace_find(keyspace, key, size, indexp))
		return true;
	if (extras->count >= KEYS_MAX - 1 || !key_list_add(extras, key, size))
		return false;
	*indexp = keyspace->count + keyspace->inserts + extras->count - 1;
	if (!index->slots || 2 * extras->count > index->mask)
		return index_list(index, extras, &repeated);
	slot = index_slot(index, extras, key, size);
	index->slots[slot] = (uint32_t)extras->count;
	return true;
}

/* ---- values ------------------------------------------------------------- */

static uint64_t value_seed(const struct keyspace *keyspace, uint64_t index, unsigned version)
{
	return bench_mix(keyspace->seed ^ (index << 8 | (uint64_t)version));
}

void keyspace_value(const struct keyspace *keyspace, uint64_t index, unsigned version,
		    void *valuep, size_t size)
{
	uint64_t state = value_seed(keyspace, index, version);

	for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
		const uint64_t word = bench_random(&state);

		memcpy((char *)valuep + i, &word,
		       size - i < sizeof(word) ? size - i : sizeof(word));
	}
}

bool keyspace_is_value(const struct keyspace *keyspace, uint64_t index, unsigned version,
		       const void *value, size_t size)
{
	uint64_t state = value_seed(keyspace, index, version);

	for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
		const uint64_t word = bench_random(&state);

		if (memcmp((const char *)value + i, &word,
			   size - i < sizeof(word) ? size - i : sizeof(word)) != 0)
			return false;
	}
	return true;
}
