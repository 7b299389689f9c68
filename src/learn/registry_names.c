/* registry_names.c - registries that are found by name: databases that were closed and are opened
 * again, while readers hold what they have learned. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "lessons_internal.h"

/* Taken before a registry's own lock. */
static pthread_mutex_t named_lock = PTHREAD_MUTEX_INITIALIZER;
static struct wn__registry *named;

/* Hold it, unless the last one to hold it has just let go. What it has already it keeps, also
 * if the budget is now a smaller one. */
static bool try_hold(struct wn__registry *registry, size_t budget)
{
	bool alive;

	wn__lock(&registry->lock, WN__LOCK_LAST);
	alive = registry->users > 0;
	registry->users += alive;
	if (alive)
		registry->budget = budget ? budget : WN__REGISTRY_BUDGET;
	wn__unlock(&registry->lock);
	return alive;
}

static struct wn__registry *find_named(const char *name, size_t budget)
{
	struct wn__registry *registry = named;

	wn__assert_locked(&named_lock);
	while (registry && (strcmp(registry->name, name) != 0 || !try_hold(registry, budget)))
		registry = registry->next_named;
	return registry;
}

/* With its name, or not at all. */
static int create_named(const char *name, size_t budget, struct wn__registry **registryp)
{
	int err = wn__registry_create(budget, registryp);

	if (err)
		return err;
	(*registryp)->name = wn__alloc(strlen(name) + 1);
	if (!(*registryp)->name) {
		wn__registry_destroy(*registryp);
		*registryp = NULL;
		return ENOMEM;
	}
	strcpy((*registryp)->name, name);
	(*registryp)->next_named = named;
	named = *registryp;
	return 0;
}

int wn__registry_open(const char *name, size_t budget, struct wn__registry **registryp)
{
	int err = 0;

	wn__lock(&named_lock, WN__LOCK_NAMES);
	*registryp = find_named(name, budget);
	if (!*registryp)
		err = create_named(name, budget, registryp);
	wn__unlock(&named_lock);
	return err;
}

void wn__registry_leave_name(struct wn__registry *registry)
{
	struct wn__registry **at = &named;

	if (!registry->name)
		return;
	wn__lock(&named_lock, WN__LOCK_NAMES);
	while (*at != registry)
		at = &(*at)->next_named;
	*at = registry->next_named;
	wn__unlock(&named_lock);
	free(registry->name);
}
