#!/bin/sh
# Builds and runs the examples against an installed winnow, as a user would: with pkg-config and with
# CMake, each with the shared and with the static libraries, as far as they are installed.
#
# usage: run.sh EXAMPLES LIBDIR [ROOT], where winnow was installed for LIBDIR and lies under ROOT.
# CC, CXX, CFLAGS, CXXFLAGS, LDFLAGS, PKG_CONFIG as for make; CXX_STANDARD is the flag that says it.
set -eu

examples=$1
libdir=$2
root=${3-}
: "${CC:=cc}" "${CXX:=c++}" "${CXX_STANDARD:=-std=c++17}" "${PKG_CONFIG:=pkg-config}"
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

export PKG_CONFIG_PATH="$root$libdir/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
if test -n "$root"; then
	export PKG_CONFIG_SYSROOT_DIR="$root" PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 \
		PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
fi
export LD_LIBRARY_PATH="$root$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

fail()
{
	echo "installed/run.sh: $*" >&2
	exit 1
}

# component_of FILE: the part of winnow that an example uses.
component_of()
{
	case $(grep -o '#include <winnow/[a-z]*' "$1" | sort -u) in
	*winnow/rocksdb*) echo rocksdb ;;
	*winnow/leveldb*) echo leveldb ;;
	*) echo winnow ;;
	esac
}

package_of() { case $1 in winnow) echo winnow ;; *) echo "winnow-$1" ;; esac; }

# has_shared, has_static COMPONENT
has_shared() { test -e "$root$libdir/lib$(package_of "$1").so"; }
has_static() { test -e "$root$libdir/lib$(package_of "$1").a"; }

# run PROGRAM LINKAGE: it must succeed, and be linked as it should be.
run()
{
	if test "$2" = static && ldd "$1" | grep libwinnow; then
		fail "$1 was to be linked with the static libraries"
	fi
	if test "$2" = shared && ! ldd "$1" | grep -q libwinnow; then
		fail "$1 was to be linked with the shared libraries"
	fi
	"$1" >"$tmp/output" 2>&1 || { cat "$tmp/output"; fail "$1 failed"; }
	echo "ok: $(basename "$1"), $3, $2"
}

# build FILE COMPONENT LINKAGE: with pkg-config.
build()
{
	program=$tmp/$(basename "$1")-$3
	package=$(package_of "$2")
	case $1 in
	*.c) compile="$CC ${CFLAGS-}" ;;
	*) compile="$CXX $CXX_STANDARD ${CXXFLAGS-}" ;;
	esac
	case $3 in
	# The engines are shared: only a directory with nothing but winnow's archives is in front.
	static) flags="-L$tmp/static $($PKG_CONFIG --static --cflags --libs "$package")" ;;
	*) flags=$($PKG_CONFIG --cflags --libs "$package") ;;
	esac
	# shellcheck disable=SC2086
	$compile "$1" -o "$program" ${LDFLAGS-} $flags || fail "$1 cannot be built with $package"
	run "$program" "$3" pkg-config
}

mkdir "$tmp/static"
for archive in "$root$libdir"/libwinnow*.a; do
	test ! -e "$archive" || ln -s "$archive" "$tmp/static"
done

list=
for example in "$examples"/*.c "$examples"/*.cc; do
	test -e "$example" || continue
	component=$(component_of "$example")
	if ! has_shared "$component" && ! has_static "$component"; then
		echo "skipped: $(basename "$example"), winnow was built without $component"
		continue
	fi
	list="$list;$component:$example"
	if has_shared "$component"; then build "$example" "$component" shared; fi
	if has_static "$component"; then build "$example" "$component" static; fi
done
test -n "$list" || fail "there are no examples in $examples"

if ! command -v cmake >/dev/null; then
	echo 'skipped: the CMake package, there is no cmake here'
	exit 0
fi
for linkage in shared static; do
	"has_$linkage" winnow || continue
	on=OFF
	test "$linkage" = shared || on=ON
	build=$tmp/cmake-$linkage
	cmake -S "$here" -B "$build" -Dwinnow_DIR="$root$libdir/cmake/winnow" \
		-DVERSION="$($PKG_CONFIG --modversion winnow)" -DEXAMPLES="${list#;}" \
		-Dwinnow_USE_STATIC_LIBS="$on" -DCMAKE_C_COMPILER="${CC%% *}" \
		-DCMAKE_CXX_COMPILER="${CXX%% *}" -DCMAKE_CXX_FLAGS="$CXX_STANDARD" \
		-DCMAKE_EXE_LINKER_FLAGS="${LDFLAGS-}" >"$tmp/output" 2>&1 ||
		{ cat "$tmp/output"; fail 'cmake cannot use the CMake package'; }
	cmake --build "$build" >"$tmp/output" 2>&1 ||
		{ cat "$tmp/output"; fail 'what cmake made cannot be built'; }
	for entry in $(echo "${list#;}" | tr ';' ' '); do
		program=$(basename "${entry#*:}")
		run "$build/${program%.*}" "$linkage" CMake
	done
done
