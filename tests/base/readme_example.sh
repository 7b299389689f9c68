#!/bin/sh
# The C example in README.md is the marked part of examples/00_set.c, byte for
# byte but for one leading tab: what is shown is what the tests compile and run.
set -eu

srcdir=${WN_SRCDIR:-$(dirname "$0")/..}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# shellcheck disable=SC2016
awk '/^```/ { if (inside) exit; if ($0 == "```c") { inside = 1; next } } inside' \
	"$srcdir/README.md" >"$tmp/readme"
awk '/README: end/ { inside = 0 } inside { sub(/^\t/, ""); print } /README: begin/ { inside = 1 }' \
	"$srcdir/examples/00_set.c" >"$tmp/example"

test -s "$tmp/readme" || { echo 'README.md has no C example'; exit 1; }
test -s "$tmp/example" || { echo 'examples/00_set.c has lost its marks'; exit 1; }
diff -u "$tmp/example" "$tmp/readme"
