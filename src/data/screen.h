/* A source without its damaged examples. */
#pragma once
#include "data/sources.h"

/* Leaves out what check calls damaged: *source may become another source, which owns the one before. */
ls_status ls_source_screen(struct ls_source **source, int threads);
