/* attach.c - for programs that open their database themselves. */
#include <string.h>

#include <winnow/error.h>

#include "database.h"

void wn_rocksdb_create(const char *path, const struct wn_rocksdb_options *given,
		       struct wn_rocksdb **wnp, char **errptr)
{
	wn__database_create(path, given, false, wnp, errptr);
}

/* They refuse to ingest, before they look at the list of files. Others refuse the empty list.
 * Neither changes anything. */
bool wn__is_read_only(rocksdb_t *db)
{
	rocksdb_ingestexternalfileoptions_t *options = rocksdb_ingestexternalfileoptions_create();
	static const char refusal[] = "Not implemented";
	char *error = NULL;
	bool read_only;

	rocksdb_ingest_external_file(db, NULL, 0, options, &error);
	read_only = error && strncmp(error, refusal, sizeof(refusal) - 1) == 0;
	rocksdb_free(error);
	rocksdb_ingestexternalfileoptions_destroy(options);
	return read_only;
}

void wn_rocksdb_attach(struct wn_rocksdb *wn, rocksdb_t *db,
		       rocksdb_column_family_handle_t *family, char **errptr)
{
	int err = WN_ERR_INVALID;

	if (!wn->rocks) {
		wn->rocks = db;
		wn->read_only = wn__is_read_only(db);
		err = wn__database_claim(wn);
		if (!err)
			err = wn__database_open_store(wn, family);
	}
	if (err)
		wn__set_open_error(errptr, wn, err);
}

void wn_rocksdb_detach(struct wn_rocksdb *wn)
{
	wn_rocksdb_close(wn);
}
