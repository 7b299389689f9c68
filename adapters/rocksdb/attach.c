/* attach.c - for programs that open their database themselves. */
#include <winnow/error.h>

#include "database.h"
#include "store.h"

void wn_rocksdb_create(const char *path, const struct wn_rocksdb_options *given,
		       struct wn_rocksdb **wnp, char **errptr)
{
	*wnp = wn__database_create(path, given, false, errptr);
}

void wn_rocksdb_attach(struct wn_rocksdb *wn, rocksdb_t *db,
		       rocksdb_column_family_handle_t *family, char **errptr)
{
	int err = WN_ERR_INVALID;

	if (!wn->rocks) {
		wn->rocks = db;
		err = wn__database_claim(wn);
		if (!err)
			err = wn__database_open_store(wn, family);
	}
	if (err)
		wn__set_error(errptr, wn->directory ? wn->directory : wn->path, wn_strerror(err));
}

void wn_rocksdb_detach(struct wn_rocksdb *wn)
{
	wn_rocksdb_close(wn);
}
