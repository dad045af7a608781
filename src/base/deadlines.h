/* Every limit of a wait that is not a setting, and the table of all waits with a limit. A new wait gets its constant
 * here and its row in deadlines.c. */
#pragma once
#include "base/clock.h"
#include "base/settings.h"

#define LS_CONNECT_TIMEOUT     (5 * LS_SECOND)
#define LS_HELLO_TIMEOUT       (5 * LS_SECOND)
#define LS_LINK_TIMEOUT        (10 * LS_SECOND)
#define LS_OWN_NAME_TIMEOUT    (5 * LS_SECOND)
#define LS_FIRST_BYTES_TIMEOUT (10 * LS_SECOND)
#define LS_FIRST_HELLO_TIMEOUT (10 * LS_SECOND)
#define LS_IDLE_TIMEOUT        (10 * LS_SECOND)
#define LS_REFUSED_TIMEOUT     (2 * LS_SECOND)
#define LS_RIVAL_TIMEOUT       (2 * LS_SECOND)
#define LS_TELL_TIMEOUT        (5 * LS_SECOND)
#define LS_CAUSE_TIMEOUT       (200 * LS_MILLISECOND)
#define LS_NAMING_TIMEOUT      (1 * LS_SECOND)
#define LS_STALL_TIMEOUT       (2 * LS_SECOND)
#define LS_GOODBYE_TIMEOUT     (5 * LS_SECOND)
#define LS_LAST_WORD_TIMEOUT   (1 * LS_SECOND)
#define LS_DEPUTY_TIMEOUT      (1 * LS_SECOND)
#define LS_WIDEN_INTERVAL      (250 * LS_MILLISECOND)
#define LS_FADING_TIMEOUT      (1 * LS_SECOND)
#define LS_SETTLE_TIMEOUT      (2 * LS_SECOND)
#define LS_QUORUM_TIMEOUT      (10 * LS_SECOND)
#define LS_TOP_TIMEOUT         (2 * LS_SECOND)
#define LS_ABORT_TIMEOUT       (2 * LS_SECOND)
#define LS_STOP_TIMEOUT        (2 * LS_SECOND)
#define LS_READING_TIMEOUT     (1 * LS_SECOND)
#define LS_REQUEST_TIMEOUT     (2 * LS_SECOND)
#define LS_POST_TIMEOUT        (5 * LS_SECOND)
#define LS_LAST_POST_TIMEOUT   (8 * LS_SECOND)

struct ls_deadline_info {
    const char *name;
    const char *setting; /* the setting's name; NULL if the limit is fixed */
    double seconds;      /* as in force now */
    const char *waits, *then;
};
/* The index-th row of the table, for people; false past the end. */
bool ls_deadlines_describe(const struct ls_settings *settings, size_t index, struct ls_deadline_info *info);
