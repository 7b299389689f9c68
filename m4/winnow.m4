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
