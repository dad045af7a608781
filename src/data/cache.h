/* A source whose examples are kept in memory once they have been read (tf.data's cache, before random stages). */
#pragma once
#include "data/sources.h"

/* Keeps what was read: *source becomes another source, which owns the one before. */
ls_status ls_source_cache(struct ls_source **source);
