#!/bin/sh
# The C++ service of examples/ before and after it was moved to winnow, compiled from the one source:
# the lines that are marked are the only ones that differ. The service that was moved makes no false
# positive twice. A program that only names a policy in an options string is not without filters,
# though the linker drops a library of which nothing is called. And the header compiles without a word in every mode that RocksDB's own do.
set -eu

builddir=${WN_BUILDDIR:?run me with make check}
srcdir=${WN_SRCDIR:?run me with make check}
if ! test -e "$builddir/.libs/libwinnow-rocksdb.so"; then
	echo 'no shared library in this build'
	exit 77
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# What the library was built with, as make knows it.
eval "$(make -s -C "$builddir" print-cxx | grep '^[A-Z_]*=')"
source=$srcdir/examples/04_rocksdb_service.cc

# compile FILE FLAG...
compile()
{
	file=$1
	shift
	# shellcheck disable=SC2086
	$CXX "$STANDARD" $CXXFLAGS -I"$srcdir/src" -I"$builddir/src" -I"$srcdir/adapters/rocksdb" \
		$ROCKSDB_CFLAGS "$file" "$@"
}

# serve NAME FILE: builds and runs it.
serve()
{
	# shellcheck disable=SC2086
	compile "$2" -o "$tmp/$1" -L"$builddir/.libs" -Wl,--as-needed -lwinnow-rocksdb -lwinnow \
		$ROCKSDB_LIBS
	(cd "$tmp" && LD_LIBRARY_PATH="$builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "./$1") \
		>"$tmp/$1.out" || { cat "$tmp/$1.out"; exit 1; }
	printf '%s: ' "$1"
	cat "$tmp/$1.out"
}

sed -e 's|#include <winnow/rocksdb.hpp> .*|#include <rocksdb/db.h>|' \
	-e 's|winnow::Open(|rocksdb::DB::Open(|' "$source" >"$tmp/before.cc"
moved=$(diff "$tmp/before.cc" "$source" | grep -c '^>')
test "$moved" = 2 || { echo "$moved lines differ"; exit 1; }
case $ROCKSDB_VERSION in
11.*) echo 'before: RocksDB 11 has no DB::Open() for a plain pointer' ;;
*)
	serve before "$tmp/before.cc"
	grep -qE ' [1-9][0-9]* false positives, again: [1-9]' "$tmp/before.out"
	;;
esac
serve after "$source"
grep -qE ' [1-9][0-9]* false positives, again: 0, after a restart: 0$' "$tmp/after.out"

cat >"$tmp/string.cc" <<'END'
#include <rocksdb/convenience.h>
#include <rocksdb/table.h>
#include KNOWS_WINNOW
int main()
{
	rocksdb::BlockBasedTableOptions table;
	rocksdb::Status status = rocksdb::GetBlockBasedTableOptionsFromString(
		rocksdb::ConfigOptions(), table, "filter_policy=winnow.aqf:bits_per_key=10", &table);

	CALL;
	return !status.ok() || table.filter_policy == nullptr;
}
END
# string NAME HEADER CALL
string()
{
	# shellcheck disable=SC2086
	compile "$tmp/string.cc" -DKNOWS_WINNOW="<$2>" -DCALL="$3" -o "$tmp/$1" -L"$builddir/.libs" \
		-Wl,--as-needed -lwinnow-rocksdb -lwinnow $ROCKSDB_LIBS
	LD_LIBRARY_PATH="$builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$tmp/$1"
}
string header winnow/rocksdb.hpp '' || { echo 'the header does not keep the library'; exit 1; }
string call winnow/rocksdb.h 'if (wn_rocksdb_register()) return 1' ||
	{ echo 'wn_rocksdb_register() does not keep the library'; exit 1; }
if string nothing winnow/rocksdb.h ''; then
	echo 'this linker keeps libraries of which nothing is called'
fi

cat >"$tmp/modes.cc" <<'END'
#include <winnow/rocksdb.hpp>
rocksdb::Status open(const std::string &path, rocksdb::DB **db);
rocksdb::Status open(const std::string &path, rocksdb::DB **db)
{
	rocksdb::Options options;

	options.table_factory = nullptr;
	delete winnow::NewFilterPolicy("aqf:bits_per_key=10");
	return winnow::Open(options, path, db);
}
END
warnings='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wold-style-cast -Woverloaded-virtual'
warnings="$warnings -Wnon-virtual-dtor -Werror -fsyntax-only"
count=0
# RocksDB's headers are not ours to warn of.
ROCKSDB_CFLAGS=$(echo "$ROCKSDB_CFLAGS" | sed 's/-I/-isystem /g')
echo '#include <rocksdb/db.h>' >"$tmp/headers.cc"
for standard in -std=c++17 -std=c++20; do
	for exceptions in '' -fno-exceptions; do
		for types in '' -fno-rtti; do
			STANDARD=$standard
			# shellcheck disable=SC2086
			compile "$tmp/headers.cc" -fsyntax-only $exceptions $types 2>/dev/null || continue
			# shellcheck disable=SC2086
			compile "$tmp/modes.cc" $warnings $exceptions $types
			count=$((count + 1))
		done
	done
done
echo "rocksdb.hpp compiles in $count modes"
test "$count" -ge 2
