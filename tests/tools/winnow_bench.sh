#!/bin/sh
# winnow-bench as a user runs it: what it says, how it ends, what it leaves behind.
set -eu

builddir=${WN_BUILDDIR:?run me with make check}
srcdir=${WN_SRCDIR:?run me with make check}
bench=$builddir/tools/winnow-bench
tmp=$(mktemp -d)
trap 'chmod -R u+w "$tmp"; rm -rf "$tmp"' EXIT
TMPDIR=$tmp/scratch
export TMPDIR
mkdir "$TMPDIR"

fail()
{
	echo "FAIL: $*"
	[ ! -e "$tmp/out" ] || sed 's/^/out: /' "$tmp/out"
	[ ! -e "$tmp/err" ] || sed 's/^/err: /' "$tmp/err"
	exit 1
}

# run STATUS ARGUMENT...
run()
{
	wanted=$1
	shift
	status=0
	"$bench" "$@" >"$tmp/out" 2>"$tmp/err" || status=$?
	[ "$status" -eq "$wanted" ] || fail "winnow-bench $*: status $status, not $wanted"
	[ -z "$(ls -A "$TMPDIR")" ] || fail "winnow-bench $* left something behind: $(ls "$TMPDIR")"
}

# refuses STATUS WORDS ARGUMENT...: one sentence on standard error that has the words.
refuses()
{
	words=$2
	wanted=$1
	shift 2
	run "$wanted" "$@"
	grep -q -e "$words" "$tmp/err" || fail "winnow-bench $* does not say '$words'"
	[ "$(grep -c '^winnow-bench: ' "$tmp/err")" -eq 1 ] || fail "winnow-bench $* says more than one thing"
}

# parse FILE: its members into $tmp/members.
parse() { awk -f "$srcdir/tests/tools/flat_json.awk" "$1" >"$tmp/members" || fail "$1: $(tail -n 1 "$tmp/members")"; }

# member LINE NAME
member() { awk -v line="$1" -v name="$2" '$1 == line && $2 == name { print $3 }' "$tmp/members"; }

# sums_up NAME: over all lines
sum() { awk -v name="$1" '$2 == name { sum += $3 } END { print sum + 0 }' "$tmp/members"; }

is() { [ "$1" = "$2" ] || fail "$3 is '$1', not '$2'"; }
above() { [ "$1" -gt "$2" ] || fail "$3 is $1, not above $2"; }

has_engine() { "$bench" --engine="$1" --filter=none --num=1 --benchmarks=stats >/dev/null 2>"$tmp/why"; }

# ---- help and refusals ------------------------------------------------------

run 0 --help
grep -q -e '--benchmarks=LIST' "$tmp/out" || fail '--help does not list the options'
run 0 --version
refuses 2 "no option '--nosuch'" --nosuch=1
refuses 2 "'x' is not an option" x
refuses 2 'a value is missing' --num
refuses 2 "'many' is not a number" --num=many
refuses 2 'not between' --num=0
refuses 2 'not a whole number' --num=1.5
refuses 2 'not between' --key_size=3
refuses 2 'not between' --threads=100000
refuses 2 'neither 1 nor 0' --direct_reads=maybe
refuses 2 "no engine 'paper'" --engine=paper
refuses 2 "no benchmark 'dance'" --benchmarks=fillseq,dance
refuses 2 'unknown filter kind' --filter=cuckoo
refuses 2 'remainder_bits' --filter=aqf:remainder_bits=99
refuses 2 'bits_per_key' --filter=bloom:bits_per_key=1000
refuses 2 'stands there twice' --filter=aqf,aqf
refuses 2 'no distribution' --dist=normal
refuses 2 'exponent' --benchmarks=readmissing@zipfian:0
refuses 2 'share' --dist=adversarial:2
refuses 2 "--trace" --benchmarks=replay
refuses 2 'neither wrapper' --feedback=loud
refuses 2 'statistics' --feedback=statistics
refuses 2 'has no directory' --engine=memory --db="$tmp/db"
refuses 2 'has no directory' --engine=memory --cold
refuses 2 'not between' --repeat=0
refuses 2 'not between' --repeat=1001
refuses 2 'cannot read' --keys="$tmp/missing"
refuses 2 'too many' --num=10 --clients=1000000 --missing_keys=1000000
refuses 1 'cannot write' --num=10 --json="$tmp/missing/file"

# ---- every workload, every engine ---------------------------------------------

all=fillseq,flush,fillrandom,overwrite,compact,readrandom,readmissing,readmix
all=$all,ycsba,ycsbb,ycsbc,ycsbd,ycsbe,ycsbf,reopen,readmissing@zipfian:1.5
all=$all,readmissing@hotset:0.01,readmissing@adversarial:0.2,stats
fields='benchmark engine filter ops seconds ops_per_sec p50_us p99_us found wrong_results
	filter_queries filter_positives false_positives repeated_false_positives adaptations
	bits_per_key learned_bytes reversemap_bytes data_block_reads'

# all_workloads ENGINE FILTERS COUNT
all_workloads()
{
	run 0 --engine="$1" --filter="$2" --num=2000 --reads=1500 --threads=2 --benchmarks="$all" \
		--json="$tmp/json"
	parse "$tmp/json"
	is "$(grep -c . "$tmp/json")" "$((19 * $3))" "number of results in $1"
	for field in $fields; do
		is "$(awk -v name="$field" '$2 == name' "$tmp/members" | grep -c .)" "$((19 * $3))" \
			"number of $field in $1"
	done
	is "$(sum wrong_results)" 0 "wrong results in $1"
	is "$(member 1 engine)" "$1" 'the engine'
	is "$(member 3 benchmark)" fillrandom 'the third benchmark'
	is "$(member 3 ops)" 2000 'writes'
	is "$(member 6 found)" 1500 "keys that readrandom found in $1"
	is "$(member 7 found)" 0 "keys that readmissing found in $1"
	grep -q 'Every answer was right' "$tmp/out" || fail 'the table does not end in words'
}

stock=none
if "$bench" --filter=bloom --num=1 --benchmarks=stats >/dev/null 2>&1; then
	stock=bloom:bits_per_key=12.8,ribbon,none
fi
case $stock in none) count=2 ;; *) count=4 ;; esac
all_workloads memory "$stock,aqf:bits_per_key=12.8" $count
if has_engine rocksdb; then
	all_workloads rocksdb bloom,ribbon,none,aqf 4
else
	refuses 2 'without RocksDB' --engine=rocksdb
fi
if has_engine leveldb; then
	all_workloads leveldb bloom,none,aqf 3
else
	refuses 2 'without LevelDB' --engine=leveldb
fi

# ---- filters that learn -------------------------------------------------------

# The same absent keys again: what was learned is not asked for twice.
learning()
{
	run 0 --num=20000 --reads=200000 --missing_keys=20000 --filter=aqf:remainder_bits=5 \
		--benchmarks=fillrandom,compact,readmissing,readmissing,reopen,readmissing "$@" \
		--json="$tmp/json"
	parse "$tmp/json"
	is "$(sum wrong_results)" 0 'wrong results'
}
for engine in memory rocksdb; do
	has_engine "$engine" || continue
	learning --engine=$engine
	above "$(member 3 false_positives)" 100 "$engine: false positives at first"
	is "$(member 3 adaptations)" "$(member 3 false_positives)" "$engine: adaptations"
	is "$(sum repeated_false_positives)" 0 "$engine: repeated false positives"
	above "$(member 3 learned_bytes)" 0 "$engine: memory for lessons"
	above "$(member 3 reversemap_bytes)" 0 "$engine: bytes of the reverse map"
	learning --engine=$engine --feedback=none
	above "$(member 4 repeated_false_positives)" 1000 "$engine: repeated ones without feedback"
	is "$(sum adaptations)" 0 "$engine: adaptations without feedback"
done

# ---- the same operations ------------------------------------------------------

# In memory nothing depends on chance, not even which keys are false positives.
counts() { grep -v -e seconds -e _us -e per_sec "$tmp/members"; }
same_run() { run 0 --num=5000 --filter=aqf:remainder_bits=4 --benchmarks=fillrandom,readmix@zipfian:1.1,ycsbf "$@" --json=-; parse "$tmp/out"; }
same_run --seed=7
counts >"$tmp/first"
same_run --seed=7
counts | cmp - "$tmp/first" || fail 'the same seed gave other operations'
same_run --seed=8
! counts | cmp -s - "$tmp/first" || fail 'another seed gave the same operations'
same_run --seed=7 --query_seed=8
! counts | cmp -s - "$tmp/first" || fail 'another query seed gave the same operations'

# ---- repetitions ----------------------------------------------------------------

# In which order benchmarks, filters and repetitions came.
order()
{
	awk '$2 == "benchmark" || $2 == "filter" || $2 == "repeat" { value[$1 " " $2] = $3; last = $1 }
		END { for (i = 1; i <= last; i++)
			print value[i " benchmark"], value[i " filter"], value[i " repeat"] }' "$tmp/members"
}

# counts_of BENCHMARK FILTER NAME: of each repetition
counts_of()
{
	awk -v benchmark="$1" -v filter="$2" -v name="$3" '
		{ value[$1 " " $2] = $3; last = $1 }
		END { for (i = 1; i <= last; i++)
			if (value[i " benchmark"] == benchmark && value[i " filter"] == filter)
				printf "%s ", value[i " " name] }' "$tmp/members"
}

# repetitions ENGINE: the filter none errs each time alike (in RocksDB its blocks are counted).
repetitions()
{
	run 0 --engine="$1" --filter=none,aqf:remainder_bits=5 --num=20000 --reads=20000 \
		--benchmarks=fillrandom,compact,readmissing,readrandom,ycsba --repeat=3 --json="$tmp/json"
	parse "$tmp/json"
	a=none b=aqf:remainder_bits=5
	{
		printf '%s\n' "fillrandom $a 0" "fillrandom $b 0" "compact $a 0" "compact $b 0"
		for benchmark in readmissing readrandom; do
			printf "$benchmark %s\n" "$a 0" "$b 0" "$b 1" "$a 1" "$a 2" "$b 2"
		done
		printf '%s\n' "ycsba $a 0" "ycsba $b 0"
	} >"$tmp/order"
	order | cmp - "$tmp/order" || fail "$1: the filters do not take turns"
	is "$(sum wrong_results)" 0 "$1: wrong results"
	is "$(counts_of readrandom $b found)" '20000 20000 20000 ' "$1: keys found each time"
	# shellcheck disable=SC2046
	set -- "$1" $(counts_of readmissing $b false_positives)
	above "$2" 30 "$1: false positives the first time"
	above "$2" "$3" "$1: false positives the first time, and the second"
	is "$4" "$3" "$1: false positives the last time"
	grep -q "$2 false positives instead of 0.* the first time, at [0-9.]* times the speed in that pair, $4 false positives instead of 0.* the last; " \
		"$tmp/out" || fail "$1: the last line does not tell the first time and the last"
	grep -q 'in each of 3 pairs\|no difference in speed can be seen' "$tmp/out" ||
		fail "$1: the last line does not compare the speeds"
	grep -q '^readmissing, 3 times$' "$tmp/out" || fail "$1: the table does not tell repetitions"
}
repetitions memory
for engine in leveldb rocksdb; do
	has_engine $engine && repetitions $engine
done

# Without learning every repetition counts the same, and one filter can be repeated, too.
run 0 --filter=aqf:remainder_bits=4 --feedback=none --num=5000 --benchmarks=fillseq,compact,readmissing,readmix \
	--repeat=4 --json="$tmp/json"
parse "$tmp/json"
for benchmark in readmissing readmix; do
	# shellcheck disable=SC2046
	set -- $(counts_of $benchmark aqf:remainder_bits=4 false_positives)
	above "$1" 50 "$benchmark: false positives"
	is "$2 $3 $4" "$1 $1 $1" "$benchmark: false positives each time"
done
run 0 --num=1000 --json="$tmp/json" --report="$tmp/page.html" --repeat=2
grep -q '</html>' "$tmp/page.html" || fail 'the report of repetitions is not a whole page'

# ---- data on the disk -------------------------------------------------------------

for engine in leveldb rocksdb; do
	has_engine $engine || continue
	refuses 2 'one thread' --engine=$engine --cold --threads=2
	if ! "$bench" --engine=$engine --cold --filter=none --num=10 --benchmarks=fillseq >/dev/null 2>"$tmp/why"; then
		grep -q tmpfs "$tmp/why" || fail "$engine: --cold: $(cat "$tmp/why")"
		continue
	fi
	run 0 --engine=$engine --cold --filter=none,aqf --num=30000 --reads=300 --repeat=2 \
		--benchmarks=fillrandom,compact,readrandom --json="$tmp/json"
	parse "$tmp/json"
	is "$(sum wrong_results)" 0 "$engine: wrong results from the disk"
	# Not every kernel and file system says what comes from a disk.
	[ "$(sum disk_bytes_read)" -gt 0 ] || continue
	for filter in none aqf; do
		for bytes in $(counts_of readrandom $filter disk_bytes_read); do
			above "$bytes" 100000 "$engine: bytes read from the disk with $filter"
		done
	done
done

# ---- files --------------------------------------------------------------------

awk 'BEGIN { for (i = 0; i < 500; i++) print "stored." i ".example" }' >"$tmp/keys"
awk 'BEGIN { for (i = 0; i < 700; i++) print "absent." i ".example" }' >"$tmp/negatives"
run 0 --keys="$tmp/keys" --negatives="$tmp/negatives" --benchmarks=fillseq,readrandom,readmissing,ycsbe,ycsbd \
	--dist=zipfian:1 --reads=3000 --json="$tmp/json"
parse "$tmp/json"
is "$(member 1 ops)" 500 'keys from a file'
is "$(member 2 found)" 3000 'keys found'
is "$(member 3 found)" 0 'absent keys found'
is "$(sum wrong_results)" 0 'wrong results with files'
echo 'stored.3.example' >>"$tmp/negatives"
refuses 2 'line 701 of the negatives is also a key' --keys="$tmp/keys" --negatives="$tmp/negatives"
echo 'stored.3.example' >>"$tmp/keys"
refuses 2 'line 501 of the keys stands there twice' --keys="$tmp/keys"
: >"$tmp/empty"
refuses 2 'is empty' --keys="$tmp/empty"

printf 'get apple\nput apple\nget apple\nput 0x00ff\nget 0x00ff\nget pear\n' >"$tmp/trace"
run 0 --trace="$tmp/trace" --num=10 --benchmarks=replay,replay --json="$tmp/json"
parse "$tmp/json"
is "$(member 1 ops)" 6 'operations of the trace'
is "$(member 1 found)" 2 'keys found by the trace'
is "$(member 2 found)" 3 'keys found the second time'
is "$(sum wrong_results)" 0 'wrong results of the trace'
echo 'take apple' >>"$tmp/trace"
refuses 2 "line 7 of" --trace="$tmp/trace" --benchmarks=replay

run 0 --num=3000 --benchmarks=fillrandom,readmissing --report="$tmp/page.html"
grep -q '</html>' "$tmp/page.html" || fail 'the report is not a whole page'
if [ -w /dev/full ]; then
	refuses 1 'No space left' --num=100 --json=/dev/full
	refuses 1 'No space left' --num=100 --report=/dev/full
fi

# ---- directories --------------------------------------------------------------

for engine in rocksdb leveldb; do
	has_engine $engine || continue
	run 0 --engine=$engine --filter=bloom --num=500 --benchmarks=fillrandom,ycsbd --db="$tmp/$engine"
	[ -e "$tmp/$engine/CURRENT" ] || fail "--db left no database"
	run 0 --engine=$engine --filter=bloom --num=500 --benchmarks=readrandom,ycsbe --db="$tmp/$engine" \
		--json="$tmp/json"
	parse "$tmp/json"
	is "$(member 1 found)" 500 "keys in $engine's database from before"
	is "$(sum wrong_results)" 0 "wrong results in $engine's database from before"
	refuses 1 'did not write' --engine=$engine --filter=bloom --num=500 --seed=5 \
		--benchmarks=readrandom --db="$tmp/$engine"
	run 0 --engine=$engine --filter=bloom,none --num=500 --benchmarks=fillseq,readrandom --db="$tmp/$engine.two"
	for filter in bloom none; do
		[ -e "$tmp/$engine.two/$filter/CURRENT" ] || fail "$filter has no directory of its own"
	done
	refuses 1 'cannot make the directory' --engine=$engine --filter=bloom --num=10 --db="$tmp/no/such"
	: >"$tmp/file"
	refuses 1 'is not a directory' --engine=$engine --filter=bloom --num=10 --db="$tmp/file"
	if [ "$(id -u)" -ne 0 ]; then
		mkdir "$tmp/readonly.$engine"
		chmod a-w "$tmp/readonly.$engine"
		refuses 1 'cannot write to the directory' --engine=$engine --filter=bloom --num=10 \
			--db="$tmp/readonly.$engine"
	fi
	# As on a full disk: files may not grow. What was measured before is not lost.
	(
		ulimit -f 256
		refuses 1 'failed' --engine=$engine --filter=bloom --num=200000 \
			--benchmarks=stats,fillrandom --json="$tmp/json"
		parse "$tmp/json"
		is "$(member 1 benchmark)" stats 'what was measured before the disk was full'
	)
	(
		trouble=$tmp/missing
		TMPDIR=$trouble "$bench" --engine=$engine --filter=bloom --num=10 2>"$tmp/err" &&
			fail 'a temporary directory in nowhere'
		grep -q "temporary directory in '$trouble'" "$tmp/err" || fail 'nothing about TMPDIR'
	)
done

# ---- interrupted --------------------------------------------------------------

# More than can be done; the first line of the JSON tells that it is under way.
rm -f "$tmp/json" "$tmp/out"
"$bench" --num=1000 --reads=1000000000000 --benchmarks=fillrandom,readmissing,readrandom \
	--json="$tmp/json" >"$tmp/out" 2>"$tmp/err" &
child=$!
while ! [ -s "$tmp/json" ] && kill -0 $child; do
	sleep 0.05
done
kill -INT $child
status=0
wait $child || status=$?
is "$status" 130 'the status after an interrupt'
parse "$tmp/json"
is "$(sum wrong_results)" 0 'wrong results of an interrupted run'
is "$(awk '$2 == "interrupted" { last = $3 } END { print last }' "$tmp/members")" true 'interrupted'
grep -q 'Every answer was right' "$tmp/out" || fail 'no table after an interrupt'
