#!/bin/sh
# The shared library shows names that begin with wn_, and every function that a
# public header declares.
set -eu

builddir=${WN_BUILDDIR:?run me with make check}
srcdir=${WN_SRCDIR:?run me with make check}
library=$builddir/.libs/libwinnow.so
if ! test -e "$library"; then
	echo 'no shared library in this build'
	exit 77
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

nm -D --defined-only "$library" | awk '{ print $NF }' | sort -u >"$tmp/exported"

# What instrumented builds add begins with an underscore.
if grep -v -e '^wn_' -e '^_' "$tmp/exported"; then
	echo 'these names are exported and should not be'
	exit 1
fi

cat "$srcdir"/src/winnow/*.h | tr '\n\t' '  ' | grep -o 'WN_PUBLIC [^;]*;' |
	sed -n 's/^[^(]*[ *]\(wn_[a-z0-9_]*\)(.*/\1/p' | sort -u >"$tmp/declared"
test -s "$tmp/declared" || { echo 'found no declarations'; exit 1; }
if comm -13 "$tmp/exported" "$tmp/declared" | grep .; then
	echo 'these functions are declared in a public header and not exported'
	exit 1
fi
