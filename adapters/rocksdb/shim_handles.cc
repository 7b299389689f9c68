/* shim_handles.cc - RocksDB's handles, in C++ and in C; see shim.h.
 *
 * In RocksDB's C API a handle is a structure whose first member points to the C++ object
 * (configure's probe looks). */
#include "shim.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#pragma GCC visibility push(default)
#include <rocksdb/db.h>
#pragma GCC visibility pop

namespace rocks = ROCKSDB_NAMESPACE;

namespace {

/* There may be more behind it in RocksDB's own, which its C API reads when it destroys a handle:
 * that is not asked to. */
struct Handle {
	void *rep;
	void *more;
};

template <typename C> C *wrap(void *rep)
{
	Handle *handle = static_cast<Handle *>(calloc(1, sizeof(Handle)));

	if (handle != nullptr)
		handle->rep = rep;
	return reinterpret_cast<C *>(handle);
}

rocks::DB *db_of(rocksdb_t *db)
{
	return static_cast<rocks::DB *>(reinterpret_cast<Handle *>(db)->rep);
}

} // namespace

rocksdb_t *wn__shim_wrap(void *db)
{
	return wrap<rocksdb_t>(static_cast<rocks::DB *>(db)->GetRootDB());
}

void wn__shim_unwrap(rocksdb_t *db)
{
	free(db);
}

rocksdb_column_family_handle_t *wn__shim_wrap_family(void *family)
{
	auto *handle = wrap<rocksdb_column_family_handle_t>(family);

	if (handle == nullptr)
		wn__shim_destroy_bare(family);
	return handle;
}

void wn__shim_destroy_wrapped(rocksdb_column_family_handle_t *family)
{
	wn__shim_destroy_bare(reinterpret_cast<Handle *>(family)->rep);
	free(family);
}

void wn__shim_destroy_bare(void *family)
{
	delete static_cast<rocks::ColumnFamilyHandle *>(family);
}

size_t wn__shim_identity(rocksdb_t *db, char *identityp, size_t size)
{
	try {
		std::string identity;

		if (!db_of(db)->GetDbIdentity(identity).ok() || identity.size() > size)
			return 0;
		memcpy(identityp, identity.data(), identity.size());
		return identity.size();
	} catch (...) {
		return 0;
	}
}
