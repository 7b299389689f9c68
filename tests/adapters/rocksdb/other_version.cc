/* other_version.cc - a RocksDB that says it is of the next minor version. In a program that has
 * this function the library's own is not asked. */
#include <string>

#include <rocksdb/version.h>

namespace ROCKSDB_NAMESPACE {

std::string GetRocksVersionAsString(bool)
{
	return std::to_string(ROCKSDB_MAJOR) + "." + std::to_string(ROCKSDB_MINOR + 1) + ".0";
}

} // namespace ROCKSDB_NAMESPACE
