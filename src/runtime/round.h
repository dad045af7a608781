/* One round of all ranks: each tells the others what it has begun since the last one. */
#pragma once
#include "runtime/async.h"

/* True if this rank has begun something that has not ended. */
bool ls_round_is_due(struct ls_async *async);
/* *news becomes true where a rank has told something. */
ls_status ls_round(struct ls_async *async, bool *news);

/* Makes the calls that all ranks have begun. */

/* In the order in which they came, the same on all ranks; all-reduces that are alike go together. *news becomes true
 * where one was made. */
ls_status ls_agreed_calls(struct ls_async *async, bool *news);
