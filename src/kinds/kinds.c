/* kinds.c - the list of filter kinds: options, blocks and small filters all look here. */
#include <errno.h>
#include <string.h>

#include <winnow/error.h>

#include "kind.h"
#include "small.h"

#define MAX_KINDS 16

/* NULL-terminated. A new kind adds its line; the first is the default. */
static const struct wn__kind *kinds[MAX_KINDS + 1] = {
	&wn__kind_aqf,
	&wn__kind_sscf,
};

const struct wn__kind *wn__kind_at(size_t index)
{
	return index < MAX_KINDS ? kinds[index] : NULL;
}

const struct wn__kind *wn__kind_by_id(unsigned id)
{
	for (size_t i = 0; kinds[i]; i++)
		if (kinds[i]->id == id)
			return kinds[i];
	return NULL;
}

/* A colon ends the name in an options string. */
static bool is_name(const char *name)
{
	return name && *name && !strchr(name, ':');
}

static bool is_complete(const struct wn__kind *kind)
{
	return is_name(kind->name) && kind->option_count <= WN__MAX_OPTIONS && kind->build &&
	       kind->open && kind->close && kind->query && kind->query_batch && kind->describe;
}

static bool has_id(const struct wn__kind *kind)
{
	return kind->id >= 1 && kind->id <= (kind->small ? WN__SMALL_KINDS - 1 : UINT8_MAX);
}

static bool is_form_complete(const struct wn__small_form *form)
{
	return !form || (form->size && form->build && form->query && form->describe);
}

int wn__kind_register(const struct wn__kind *kind)
{
	size_t count = 0;

	if (!is_complete(kind) || !has_id(kind) || !is_form_complete(kind->small))
		return WN_ERR_INVALID;
	for (; kinds[count]; count++)
		if (kinds[count]->id == kind->id || strcmp(kinds[count]->name, kind->name) == 0)
			return WN_ERR_INVALID;
	if (count == MAX_KINDS)
		return ENOSPC;
	kinds[count] = kind;
	return 0;
}

bool wn__config_wants_costs(const struct wn_config *config)
{
	return config->kind->wants_costs;
}
