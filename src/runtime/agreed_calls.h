/* Makes the calls that all ranks have begun. */
#pragma once
#include "runtime/async.h"

/* In the order in which they came, the same on all ranks; all-reduces that are alike go together. *news becomes true
 * where one was made. */
ls_status ls_agreed_calls(struct ls_async *async, bool *news);
