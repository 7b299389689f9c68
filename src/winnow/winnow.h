/* winnow.h - everything in libwinnow. */
#ifndef WINNOW_WINNOW_H
#define WINNOW_WINNOW_H

#include <winnow/aqf.h>
#include <winnow/block.h>
#include <winnow/common.h>
#include <winnow/error.h>
#include <winnow/filter.h>
#include <winnow/hash.h>
#include <winnow/reversemap.h>
#include <winnow/set.h>
#include <winnow/sscf.h>
#include <winnow/version.h>
#include <winnow/yesno.h>

#endif /* WINNOW_WINNOW_H */
