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

# WN_ENGINE_LINKS(name, HEADERS, CALL): does a program with CALL link?
AC_DEFUN([WN_ENGINE_LINKS], [
	wn_saved_cppflags=$CPPFLAGS; wn_saved_libs=$LIBS
	CPPFLAGS="$CPPFLAGS $m4_toupper($1)_CFLAGS"
	LIBS="$m4_toupper($1)_LIBS $LIBS"
	AC_MSG_CHECKING([for $1])
	AC_LINK_IFELSE([AC_LANG_PROGRAM([[$2]], [[$3]])], [have_$1=yes], [have_$1=no])
	AC_MSG_RESULT([$have_$1])
	CPPFLAGS=$wn_saved_cppflags; LIBS=$wn_saved_libs
])

# WN_PROVE_ROCKSDB: which order have the filter classes that RocksDB hides
# (adapters/rocksdb/filter_bits.h)? By version, or as the user says in
# wn_cv_rocksdb_family; and then proved by running adapters/rocksdb/probe.cc. Sets
# rocksdb_family, or rocksdb_trouble to a sentence. C++ is the language.
AC_DEFUN([WN_PROVE_ROCKSDB], [
	rocksdb_family=
	rocksdb_trouble=
	wn_saved_cppflags=$CPPFLAGS; wn_saved_libs=$LIBS; wn_saved_family_cxxflags=$CXXFLAGS
	CPPFLAGS="$CPPFLAGS $ROCKSDB_CFLAGS -I$srcdir/adapters/rocksdb"
	CXXFLAGS="$CXXFLAGS -fno-rtti -pthread"
	LIBS="$ROCKSDB_LIBS $LIBS"

	AC_CACHE_CHECK([for RocksDB's version], [wn_cv_rocksdb_version], [
		AC_COMPUTE_INT([wn_rocksdb_major], [ROCKSDB_MAJOR], [[#include <rocksdb/version.h>]])
		AC_COMPUTE_INT([wn_rocksdb_minor], [ROCKSDB_MINOR], [[#include <rocksdb/version.h>]])
		wn_cv_rocksdb_version=$wn_rocksdb_major.$wn_rocksdb_minor])
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
		 rocksdb_trouble="RocksDB $wn_cv_rocksdb_version is newer than this winnow, and its internal filter classes are not known here (7.0 to 11.x are). If they are those of an older version, wn_cv_rocksdb_family=3 (or 2, or 1) tries them."])

	AS_IF([test -z "$rocksdb_trouble"], [
		AC_MSG_CHECKING([whether RocksDB and winnow can drive each other's filters])
		CPPFLAGS="$CPPFLAGS -DWN_ROCKSDB_FAMILY=$wn_family"
		AC_RUN_IFELSE([AC_LANG_SOURCE([[#include "probe.cc"]])],
			[AC_MSG_RESULT([yes])
			 rocksdb_family=$wn_family],
			[AC_MSG_RESULT([no])
			 rocksdb_trouble="RocksDB $wn_cv_rocksdb_version does not work with the filter classes of family $wn_family: adapters/rocksdb/probe.cc failed, see config.log."],
			[AS_IF([test -n "${wn_cv_rocksdb_family+set}"],
				[AC_MSG_RESULT([not tried, as you say])
				 rocksdb_family=$wn_family],
				[AC_MSG_RESULT([cannot be tried])
				 rocksdb_trouble="winnow tries RocksDB's filter classes by running a program, and a cross-compiler's programs do not run here. Run adapters/rocksdb/probe.cc where winnow will run, and say which family it passes with: wn_cv_rocksdb_family=$wn_family_by_version by version."])])
		rm -rf conftest.rocksdb
	])
	CPPFLAGS=$wn_saved_cppflags; LIBS=$wn_saved_libs; CXXFLAGS=$wn_saved_family_cxxflags
])
