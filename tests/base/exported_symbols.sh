#!/bin/sh
# The shared libraries show the functions that their public headers declare, and nothing else.
set -eu

builddir=${WN_BUILDDIR:?run me with make check}
srcdir=${WN_SRCDIR:?run me with make check}
if ! test -e "$builddir/.libs/libwinnow.so"; then
	echo 'no shared library in this build'
	exit 77
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# compare LIBRARY HEADER...
compare()
{
	nm -D --defined-only "$builddir/.libs/$1" | awk '{ print $NF }' | sort -u >"$tmp/exported"
	library=$1
	shift
	cat "$@" | tr '\n\t' '  ' | grep -o 'WN_PUBLIC [^;]*;' |
		sed -n 's/^[^(]*[ *]\(wn_[a-z0-9_]*\)(.*/\1/p' | sort -u >"$tmp/declared"
	test -s "$tmp/declared" || { echo 'found no declarations'; exit 1; }
	if comm -13 "$tmp/exported" "$tmp/declared" | grep .; then
		echo "these functions are declared in a public header and $library does not export them"
		exit 1
	fi
	# What instrumented builds add begins with an underscore; C++ names do, too.
	if comm -23 "$tmp/exported" "$tmp/declared" | grep -v -e '^_[^Z]'; then
		echo "$library exports these names, and no public header declares them"
		exit 1
	fi
}

compare libwinnow.so "$srcdir"/src/winnow/*.h
if test -e "$builddir/.libs/libwinnow-rocksdb.so"; then
	compare libwinnow-rocksdb.so "$srcdir"/adapters/rocksdb/winnow/*.h
fi
if test -e "$builddir/.libs/libwinnow-leveldb.so"; then
	compare libwinnow-leveldb.so "$srcdir"/adapters/leveldb/winnow/*.h
fi
