#!/bin/sh
# The shared libraries show the functions that their public headers declare, each with a version,
# and nothing else.
set -eu

builddir=${WN_BUILDDIR:?run me with make check}
srcdir=${WN_SRCDIR:?run me with make check}
if ! test -e "$builddir/.libs/libwinnow.so"; then
	echo 'no shared library in this build'
	exit 77
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# compare LIBRARY NODE MAP HEADER...: every name has a version that begins with NODE.
compare()
{
	library=$1
	node=$2
	map=$3
	shift 3
	nm -D --with-symbol-versions --defined-only "$builddir/.libs/$library" |
		awk '$2 != "A" { print $NF }' | sort -u >"$tmp/versioned"
	sed 's/@.*//' "$tmp/versioned" | sort -u >"$tmp/exported"
	cat "$@" | tr '\n\t' '  ' | grep -o 'WN_PUBLIC [^;]*;' |
		sed -n 's/^[^(]*[ *]\(wn_[a-z0-9_]*\)(.*/\1/p' | sort -u >"$tmp/declared"
	test -s "$tmp/declared" || { echo 'found no declarations'; exit 1; }
	if comm -13 "$tmp/exported" "$tmp/declared" | grep .; then
		echo "these functions are declared in a public header and $library does not export them:"
		echo "name them in the newest node of $map"
		exit 1
	fi
	# What instrumented builds add begins with an underscore; C++ names do, too.
	if comm -23 "$tmp/exported" "$tmp/declared" | grep -v -e '^_[^Z]'; then
		echo "$library exports these names, and no public header declares them"
		exit 1
	fi
	if grep '^wn_' "$tmp/versioned" | grep -v "^[a-z0-9_]*@@${node}_[0-9]*\\.[0-9]*\$"; then
		echo "$library exports these names without a version ${node}_N.N"
		exit 1
	fi
}

compare libwinnow.so WINNOW src/winnow/exports.map "$srcdir"/src/winnow/*.h
if test -e "$builddir/.libs/libwinnow-rocksdb.so"; then
	compare libwinnow-rocksdb.so WINNOW_ROCKSDB adapters/rocksdb/exports.map \
		"$srcdir"/adapters/rocksdb/winnow/*.h
fi
if test -e "$builddir/.libs/libwinnow-leveldb.so"; then
	compare libwinnow-leveldb.so WINNOW_LEVELDB adapters/leveldb/exports.map \
		"$srcdir"/adapters/leveldb/winnow/*.h
fi
