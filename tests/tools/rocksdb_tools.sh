#!/bin/sh
# RocksDB's own tools (Debian: rocksdb-tools) read a database that winnow wrote.
set -eu

builddir=${WN_BUILDDIR:?run me with make check}
if ! command -v sst_dump >/dev/null || ! command -v ldb >/dev/null; then
	echo 'sst_dump and ldb are not installed'
	exit 77
fi
# Others may not know the format of the tables.
for tool in sst_dump ldb; do
	"$tool" --version 2>&1 | grep -qF " ${WN_ROCKSDB:?run me with make check}." && continue
	echo "$tool is not of RocksDB $WN_ROCKSDB, which winnow was built for"
	exit 77
done
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
"$builddir/examples/01_rocksdb" "$tmp/db" >/dev/null

expect()
{
	wanted=$1
	shift
	"$@" >"$tmp/said" 2>&1 || true
	grep -qe "$wanted" "$tmp/said" && return
	cat "$tmp/said"
	echo "not so: '$*' says '$wanted'"
	exit 1
}

expect 'The file is ok' sst_dump --file="$tmp/db" --command=verify
expect 'filter policy name: winnow\.aqf' sst_dump --file="$tmp/db" --command=none --show_properties
expect '^0x76616C7565$' ldb --db="$tmp/db" --hex get 0x02000000
# In the words of 7 and 8, and of 9.
expect 'NotFound\|^Key not found' ldb --db="$tmp/db" --hex get 0x03000000
