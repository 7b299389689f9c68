# common.sh - what scripts/demo, scripts/check, scripts/lint and .ci/run share:
# installing packages, making the build. Sourced, with bash.
#
# WN_NO_INSTALL=1   install nothing; the build says what it misses
# WN_JOBS=N         jobs at once (default: one per processor)
# shellcheck shell=bash

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export DEBIAN_FRONTEND=noninteractive

# Both are read by the scripts that source this file.
# shellcheck disable=SC2034
build_packages=(build-essential autoconf automake libtool pkg-config check
	libxxhash-dev librocksdb-dev libleveldb-dev rocksdb-tools zlib1g-dev libzstd-dev)
# shellcheck disable=SC2034
lint_packages=(cppcheck shellcheck mandoc codespell)

say() { printf '==> %s\n' "$*"; }

die() {
	printf '%s: %s\n' "$(basename "$0")" "$*" >&2
	exit 1
}

job_count() { printf '%s' "${WN_JOBS:-$(nproc 2>/dev/null || echo 2)}"; }

# need_space DIRECTORY MEGABYTES
need_space()
{
	local free
	free=$(df -Pm "$1" | awk 'NR == 2 { print $4 }')
	[ "$free" -ge "$2" ] ||
		die "only $free MB are free in $1, and about $2 MB are needed: make room and run this again."
}

missing_packages()
{
	local package
	for package; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
			printf '%s\n' "$package"
	done
}

# Run as root: directly, or through sudo.
as_root()
{
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	else
		sudo DEBIAN_FRONTEND="$DEBIAN_FRONTEND" "$@"
	fi
}

# can_be_root PACKAGE...: stop unless there is a way to install the packages.
can_be_root()
{
	[ "$(id -u)" -eq 0 ] && return
	command -v sudo >/dev/null ||
		die "missing packages: $*. You are not root and there is no sudo: as root, run apt-get install $*, then run this again."
	sudo -n true 2>/dev/null && return
	[ -t 0 ] ||
		die "missing packages: $*. sudo wants a password and there is no terminal: run sudo apt-get install $*, then run this again."
}

# install_packages PACKAGE...: those that are missing, if any.
install_packages()
{
	local missing package
	[ "${WN_NO_INSTALL:-0}" = 0 ] || return 0
	if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
		die "there is no apt-get here: install what these Debian packages hold, then run this again with WN_NO_INSTALL=1: $*."
	fi
	mapfile -t missing < <(missing_packages "$@")
	if [ ${#missing[@]} -eq 0 ]; then
		say "all packages are installed: $*"
		return 0
	fi

	can_be_root "${missing[@]}"
	need_space /usr 1000
	say "installing with apt-get: ${missing[*]}"
	as_root apt-get -q -y update </dev/null ||
		die "apt-get update failed (see above): check the network and the sources in /etc/apt, then run this again."
	for package in "${missing[@]}"; do
		apt-cache show "$package" >/dev/null 2>&1 ||
			die "apt-get knows no package $package: these are the names of Debian 12 and 13; elsewhere install its counterpart and run this again with WN_NO_INSTALL=1."
	done
	as_root apt-get -q -y install --no-install-recommends "${missing[@]}" </dev/null ||
		die "apt-get could not install ${missing[*]} (see above): mend that, then run this again."
}

# install_clang: with its sanitizers and libFuzzer, whose package has its version in the name.
install_clang()
{
	[ "${WN_NO_INSTALL:-0}" = 0 ] || return 0
	install_packages clang
	install_packages "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"
}

# make_configure: autoreconf, when configure is missing or its sources have changed.
make_configure()
{
	local source stale=0 stamp=$top/build-aux/stamp-autoreconf
	[ ! -e "$top/config.status" ] ||
		die "the source tree itself has been configured: run make distclean in it, then run this again."
	[ -e "$top/configure" ] && [ -e "$top/Makefile.in" ] || stale=1
	for source in configure.ac Makefile.am m4/winnow.m4; do
		[ "$stamp" -nt "$top/$source" ] || stale=1
	done
	[ "$stale" = 1 ] || return 0
	say "making configure: autoreconf -i"
	(cd "$top" && autoreconf -i) ||
		die "autoreconf failed (see above): autoconf 2.71, automake 1.16, libtool and pkg-config are needed."
	touch "$stamp"
}

# configure_in DIRECTORY [ARGUMENT...]: again only if something changed.
configure_in()
{
	local directory=$1 wanted before
	shift
	wanted="with${*:+ }$*"
	before=$(cat "$directory/.configured" 2>/dev/null || true)
	make_configure
	need_space "$top" 500
	if [ "$directory/Makefile" -nt "$top/configure" ] && [ "$before" = "$wanted" ]; then
		say "${directory#"$top"/} is configured"
		return 0
	fi
	say "configuring in ${directory#"$top"/}: configure${*:+ }$*"
	mkdir -p "$directory" || die "cannot make $directory: check who owns it."
	rm -f "$directory/.configured"
	(cd "$directory" && "$top/configure" --quiet "$@") ||
		die "configure failed (see above, and $directory/config.log)."
	# Other flags than last time: old objects must not be taken for new ones.
	if [ "$before" != "$wanted" ]; then
		make -C "$directory" clean >/dev/null || die "make clean failed in $directory: remove it."
	fi
	printf '%s' "$wanted" >"$directory/.configured"
}

# make_in DIRECTORY [TARGET...]
make_in()
{
	local directory=$1
	shift
	say "building in ${directory#"$top"/}: make $*"
	make -C "$directory" --no-print-directory -j"$(job_count)" "$@" ||
		die "make $* failed in $directory (see above)."
}

# check_lines DIRECTORY: the closing line of every Check suite that ran there.
check_lines()
{
	local log line
	for log in $(find "$1/tests" -name 'test_*.log' | sort); do
		line=$(grep -aE '^[0-9]+%: Checks: ' "$log" | tail -n 1)
		printf '%s  (%s)\n' "${line:-no closing line: it did not come to its end}" \
			"$(basename "$log" .log)"
	done
}
