# winnow.m4 - the macros of configure.ac.

# WN_REQUIRE_FLAGS(FLAGS, SENTENCE): compile, link and keep FLAGS, or stop.
AC_DEFUN([WN_REQUIRE_FLAGS], [
	AC_MSG_CHECKING([whether $CC links with $1])
	wn_saved_cflags=$CFLAGS
	CFLAGS="$CFLAGS $1"
	AC_LINK_IFELSE([AC_LANG_PROGRAM()],
		[AC_MSG_RESULT([yes])],
		[AC_MSG_RESULT([no]); AC_MSG_ERROR([$2])])
	CFLAGS=$wn_saved_cflags
	WN_CFLAGS="$WN_CFLAGS $1"
	WN_CXXFLAGS="$WN_CXXFLAGS $1"
	WN_LDFLAGS="$WN_LDFLAGS $1"
])

# WN_ENGINE_WANTED(name): take --with-name apart into want_name (auto, yes, no)
# and the flags of a given prefix.
AC_DEFUN([WN_ENGINE_WANTED], [
	$1_prefix_cflags=
	$1_prefix_libs=
	AS_CASE([$with_$1],
		[auto|yes|no], [want_$1=$with_$1],
		[want_$1=yes
		 AS_IF([test ! -d "$with_$1/include/$1"],
			[AC_MSG_ERROR([--with-$1=$with_$1: there is no $with_$1/include/$1. Give the prefix that $1 is installed under.])])
		 $1_prefix_cflags="-I$with_$1/include"
		 $1_prefix_libs="-L$with_$1/lib -Wl,-rpath,$with_$1/lib"])
])

# WN_ENGINE_HEADERS(name, PACKAGE): is there a C++ compiler, and are there headers? If not, why:
# name_why gets a phrase.
AC_DEFUN([WN_ENGINE_HEADERS], [
	AC_LANG_PUSH([C++])
	AC_MSG_CHECKING([for the headers of $1])
	AC_COMPILE_IFELSE([AC_LANG_PROGRAM()],
		[AC_PREPROC_IFELSE([AC_LANG_SOURCE([[#include <$1/c.h>]])],
			[AC_MSG_RESULT([yes])],
			[AC_MSG_RESULT([no])
			 $1_why="$2 is not installed"
			 AS_IF([test -n "$$1_prefix_libs"], [$1_why="$1/c.h is missing in $with_$1/include"])])],
		[AC_MSG_RESULT([no C++ compiler])
		 $1_why="there is no C++ compiler: install the Debian package g++"])
	AC_LANG_POP([C++])
])

# WN_ENGINE_LINKS(name, HEADERS, CALL): does a program with CALL link? If not, name_why.
AC_DEFUN([WN_ENGINE_LINKS], [
	AC_MSG_CHECKING([whether a program links with $1])
	AC_LINK_IFELSE([AC_LANG_PROGRAM([[$2]], [[$3]])],
		[AC_MSG_RESULT([yes])],
		[AC_MSG_RESULT([no])
		 $1_why="its headers are here, but a program does not link with $m4_toupper($1)_LIBS, see config.log"])
])

# WN_CHECK_ROCKSDB: can this RocksDB be used? Sets have_rocksdb and the variables of the macros
# below, or rocksdb_why.
AC_DEFUN([WN_CHECK_ROCKSDB], [
	rocksdb_family=
	rocksdb_why=
	wn_saved_cppflags=$CPPFLAGS; wn_saved_libs=$LIBS; wn_saved_cxxflags=$CXXFLAGS
	CPPFLAGS="$CPPFLAGS $ROCKSDB_CFLAGS -I$srcdir/adapters/rocksdb"
	LIBS="$ROCKSDB_LIBS $LIBS"
	WN_ENGINE_HEADERS([rocksdb], [librocksdb-dev])
	AC_LANG_PUSH([C++])
	AS_IF([test -z "$rocksdb_why"], [WN_READ_ROCKSDB_VERSION])
	AS_IF([test -z "$rocksdb_why"], [WN_CHOOSE_ROCKSDB_STANDARD])
	AS_IF([test -z "$rocksdb_why"],
		[WN_ENGINE_LINKS([rocksdb], [#include <rocksdb/c.h>],
			[rocksdb_options_destroy(rocksdb_options_create())])])
	AS_IF([test -z "$rocksdb_why"], [WN_COMPARE_ROCKSDB])
	AS_IF([test -z "$rocksdb_why"], [WN_PROVE_ROCKSDB])
	AC_LANG_POP([C++])
	CPPFLAGS=$wn_saved_cppflags; LIBS=$wn_saved_libs; CXXFLAGS=$wn_saved_cxxflags
	AS_IF([test -z "$rocksdb_why"], [have_rocksdb=yes])
])

# WN_READ_ROCKSDB_VERSION: wn_cv_rocksdb_version, from the headers. Before 7.5 the C interface has no
# rocksdb_load_latest_options(), which uninstalling needs.
AC_DEFUN([WN_READ_ROCKSDB_VERSION], [
	AC_CACHE_CHECK([for RocksDB's version], [wn_cv_rocksdb_version], [
		AC_COMPUTE_INT([wn_rocksdb_major], [ROCKSDB_MAJOR], [[#include <rocksdb/version.h>]],
			[wn_rocksdb_major=0])
		AC_COMPUTE_INT([wn_rocksdb_minor], [ROCKSDB_MINOR], [[#include <rocksdb/version.h>]],
			[wn_rocksdb_minor=0])
		wn_cv_rocksdb_version=$wn_rocksdb_major.$wn_rocksdb_minor])
	AS_VERSION_COMPARE([$wn_cv_rocksdb_version], [7.5],
		[rocksdb_why="version $wn_cv_rocksdb_version is too old, 7.5 or later is needed"])
])

# WN_CHOOSE_ROCKSDB_STANDARD: the first standard of C++ with which RocksDB's headers compile: from 10.7 on
# they need C++20, which compilers have called c++2a at first. It becomes WN_CXX_STANDARD, and
# stays in CXXFLAGS for the checks that follow, in front as in the Makefile: the user's flags win.
AC_DEFUN([WN_CHOOSE_ROCKSDB_STANDARD], [
	AC_MSG_CHECKING([which C++ the headers of RocksDB $wn_cv_rocksdb_version need])
	wn_standard=none
	for wn_flag in -std=c++17 -std=c++20 -std=c++2a; do
		CXXFLAGS="$wn_flag -fno-rtti -pthread $wn_saved_cxxflags"
		AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
			#if __has_include(<rocksdb/advanced_cache.h>)
			#include <rocksdb/advanced_cache.h>
			#endif
			#include <rocksdb/cache.h>
			#include <rocksdb/comparator.h>
			#include <rocksdb/convenience.h>
			#include <rocksdb/filter_policy.h>
			#include <rocksdb/listener.h>
			#include <rocksdb/options.h>
			#include <rocksdb/table.h>
			#include <rocksdb/utilities/object_registry.h>
			#include <rocksdb/write_buffer_manager.h>]])],
			[wn_standard=$wn_flag; break])
	done
	AC_MSG_RESULT([$wn_standard])
	AS_IF([test "x$wn_standard" = xnone],
		[rocksdb_why="its headers do not compile as C++17 or C++20, see config.log"],
		[WN_CXX_STANDARD=$wn_standard])
])

# WN_COMPARE_ROCKSDB: are headers and library of one version? Not asked by probe.cc alone: a program
# with classes of other headers crashes while the library is loaded.
AC_DEFUN([WN_COMPARE_ROCKSDB], [
	AC_MSG_CHECKING([whether RocksDB's headers and its library are of one version])
	AC_RUN_IFELSE([AC_LANG_PROGRAM([[
		#include <cstdio>
		#include <string>
		#include <rocksdb/version.h>]], [[
		std::string version = ROCKSDB_NAMESPACE::GetRocksVersionAsString();
		int major = 0, minor = 0;
		sscanf(version.c_str(), "%d.%d", &major, &minor);
		return major != ROCKSDB_MAJOR || minor != ROCKSDB_MINOR]])],
		[AC_MSG_RESULT([yes])],
		[AC_MSG_RESULT([no])
		 rocksdb_why="its headers are of version $wn_cv_rocksdb_version, and the library that a program gets is of another"],
		[AC_MSG_RESULT([cannot be tried])])
])

# WN_PROVE_ROCKSDB: which order have the filter classes that RocksDB hides
# (adapters/rocksdb/filter_bits.h)? By version, or as the user says in
# wn_cv_rocksdb_family; and then proved by running adapters/rocksdb/probe.cc. Sets
# rocksdb_family, or rocksdb_why. C++ is the language.
AC_DEFUN([WN_PROVE_ROCKSDB], [
	AC_MSG_CHECKING([which filter classes RocksDB $wn_cv_rocksdb_version has])
	AS_CASE([$wn_cv_rocksdb_version],
		[[7.*|8.*|9.[0-5]]], [wn_family_by_version=1],
		[[9.*|10.[0-8]]], [wn_family_by_version=2],
		[[10.*|11.*]], [wn_family_by_version=3],
		[wn_family_by_version=unknown])
	wn_family=${wn_cv_rocksdb_family-$wn_family_by_version}
	AS_CASE([$wn_family],
		[[1|2|3]], [AC_MSG_RESULT([family $wn_family])],
		[AC_MSG_RESULT([unknown])
		 rocksdb_why="version $wn_cv_rocksdb_version is newer than this winnow, and its internal filter classes are not known here (7.5 to 11.x are); if they are those of an older version, wn_cv_rocksdb_family=3 (or 2, or 1) tries them"])

	AS_IF([test -z "$rocksdb_why"], [
		AC_MSG_CHECKING([whether RocksDB and winnow can drive each other's filters])
		CPPFLAGS="$CPPFLAGS -DWN_ROCKSDB_FAMILY=$wn_family"
		AC_LINK_IFELSE([AC_LANG_SOURCE([[#include "probe.cc"]])],
			[WN_RUN_PROBE],
			[AC_MSG_RESULT([the probe does not compile])
			 rocksdb_why="adapters/rocksdb/probe.cc does not compile with the headers of version $wn_cv_rocksdb_version, see config.log"])
	])
])

# WN_RUN_PROBE: conftest is probe.cc.
AC_DEFUN([WN_RUN_PROBE], [
	AS_IF([test "x$cross_compiling" = xyes], [
		AS_IF([test -n "${wn_cv_rocksdb_family+set}"],
			[AC_MSG_RESULT([not tried, as you say])
			 rocksdb_family=$wn_family],
			[AC_MSG_RESULT([cannot be tried])
			 rocksdb_why="winnow tries RocksDB's filter classes by running a program, and a cross-compiler's programs do not run here; run adapters/rocksdb/probe.cc where winnow will run, and say which family it passes with: wn_cv_rocksdb_family=$wn_family_by_version by version"])
	], [
		wn_said=`./conftest$ac_exeext conftest.rocksdb 2>&1`
		wn_status=$?
		AS_ECHO(["$as_me:${as_lineno-$LINENO}: probe.cc: exit status $wn_status: $wn_said"]) >&AS_MESSAGE_LOG_FD
		wn_said=`AS_ECHO(["$wn_said"]) | sed -n 's/^probe: //p' | tail -n 1`
		rm -rf conftest.rocksdb
		AS_IF([test "$wn_status" -eq 0],
			[AC_MSG_RESULT([yes])
			 rocksdb_family=$wn_family],
			[AC_MSG_RESULT([no])
			 rocksdb_why="version $wn_cv_rocksdb_version does not work with the filter classes of family $wn_family: adapters/rocksdb/probe.cc ran and failed (${wn_said:-exit status $wn_status}), see config.log"])
	])
])
