#!/bin/sh
# winnow-dump as a user calls it: what it says, and how it ends.
set -eu

builddir=${WN_BUILDDIR:?run me with make check}
dump=$builddir/tools/winnow-dump
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
"$builddir/tests/tools/test_dump" --write "$tmp"

fail()
{
	echo "not so: $*"
	cat "$tmp/said" "$tmp/complained"
	exit 1
}

# run STATUS ARGUMENT...: it must end with this status.
run()
{
	wanted=$1
	shift
	status=0
	"$dump" "$@" >"$tmp/said" 2>"$tmp/complained" || status=$?
	[ "$status" = "$wanted" ] || fail "winnow-dump $* ends with $wanted (it was $status)"
}

says() { grep -qe "$1" "$tmp/said" || fail "it says '$1'"; }
complains() { grep -qe "$1" "$tmp/complained" || fail "it complains '$1'"; }
silent() { [ ! -s "$tmp/complained" ] || fail 'it complains of nothing'; }

# ---- good files

run 0 "$tmp/full.sst"
silent
says '^table  *RocksDB, block-based, format 5, checksums by XXH3, [0-9]* bytes$'
says '^filter  *winnow aqf$'
says '^keys  *77$'
says '^parameters  *remainder bits 8'
says 'load 0\.4'
says '^bits per key  *[0-9.]*$'
says '^extensions  *0, learned before'
says '^clusters  *[0-9]*, the longest of [0-9]* slots$'
says '^verdict  *good$'

run 0 --verify "$tmp/full.sst"
says '^asked  *77 keys, 0 denied$'
says 'every byte before the footer$'
run 0 --verify "$tmp/partitioned.sst"
says '^filter  *winnow aqf, 7 partitions$'
says '^asked  *77 keys, 0 denied$'
run 0 --verify "$tmp/level.ldb"
says '^table  *LevelDB, '
says '^filter  *winnow aqf, [0-9]* filters, each for data blocks within 256 bytes$'
says '^asked  *100 keys, 0 denied$'
run 0 "$tmp/bloom.sst"
says '^filter  *stock Bloom filter of 6 probes$'
says '^bits per key  *7\.17$'
run 0 "$tmp/none.sst"
says '^filter  *none$'
run 0 "$tmp/none.sst" "$tmp/full.sst"
[ "$(grep -c '^verdict  *good$' "$tmp/said")" = 2 ] || fail 'two files have two verdicts'

# ---- JSON

run 0 --json --verify "$tmp/full.sst" "$tmp/bloom.sst"
says '"engine":"rocksdb","format_version":5,"checksum":"XXH3","entries":77,'
says '"filter":{"kind":"aqf","winnow":true,"layout":"full",'
says '"keys_asked":77,"prefixes_asked":0,"denied":0,"not_asked":"","ok":true,'
says '"filter":{"kind":"bloom","winnow":false,'
[ "$(wc -l <"$tmp/said")" = 2 ] || fail 'a file is a line'
if command -v python3 >/dev/null; then
	python3 -c 'import json, sys
for line in sys.stdin:
    found = json.loads(line)
    assert found["ok"] and found["size"] > 0 and found["problems"] == []
    lengths = found["filter"].get("clusters")
    if lengths:
        assert sum(entry["count"] for entry in lengths["lengths"]) == lengths["count"]' \
		<"$tmp/said" || fail 'the JSON can be read'
fi

# ---- wrong usage

run 2
complains 'no file is named'
run 2 --no-such-option "$tmp/full.sst"
complains 'no-such-option'
run 2 --secret="$tmp/missing" "$tmp/full.sst"
complains 'secret=.*missing: No such file'
run 2 --secret="$tmp/full.sst" "$tmp/full.sst"
run 0 --help
says '^usage: winnow-dump'
run 0 --version
says '^winnow-dump [0-9]'

# ---- what cannot be read, or is damaged

run 1 "$tmp/missing.sst"
complains 'missing.sst: No such file'
run 1 "$tmp"
complains 'Is a directory'
run 1 /dev/null
complains 'Not a regular file'
: >"$tmp/empty.sst"
run 1 "$tmp/empty.sst"
complains 'offset 0: 0 bytes are too few'
run 1 --verify "$tmp/denies.sst"
complains 'offset 0: data block: the filter says no to [0-9]* of its 11 keys'
# A good file does not make up for a bad one.
run 1 "$tmp/missing.sst" "$tmp/full.sst"
says '^verdict  *good$'

size=$(wc -c <"$tmp/full.sst")
head -c $((size - 1)) "$tmp/full.sst" >"$tmp/cut.sst"
run 1 "$tmp/cut.sst"
complains "offset $((size - 9)): no table's magic number"
run 1 --json "$tmp/cut.sst"
says '"table":false,"ok":false,"problem_count":1,"problems":\[{"offset":'

# Every byte, at a stride: changed, it is found, or in the footer it may be harmless.
stride=$((size / 60 + 1))
offset=0
while [ "$offset" -lt "$size" ]; do
	cp "$tmp/full.sst" "$tmp/flipped.sst"
	old=$(od -An -tu1 -j"$offset" -N1 "$tmp/full.sst" | tr -d ' ')
	# shellcheck disable=SC2059 # the format is the byte
	printf "\\$(printf %03o $((old ^ 64)))" |
		dd of="$tmp/flipped.sst" bs=1 seek="$offset" conv=notrunc 2>/dev/null
	status=0
	"$dump" --verify "$tmp/flipped.sst" >"$tmp/said" 2>"$tmp/complained" || status=$?
	case $status in
	1) says '^verdict  *DAMAGED' ; complains ': offset [0-9]*: ' ;;
	0) [ "$offset" -ge $((size - 53)) ] || fail "a change at $offset is found" ;;
	*) fail "a change at $offset ends it with $status" ;;
	esac
	offset=$((offset + stride))
done
