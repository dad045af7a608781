/* Reports to a server by POST, in the thread ls-reporter: nobody waits for the server. Only the newest report is kept
 * for the thread, and one that fails is not sent again, for a newer one comes. */
#pragma once
#include <lockstep/lockstep.h>

struct ls_reporter;
/* It has copies of the texts. authority and token_file may be NULL (base/http_post.h). */
ls_status ls_reporter_new(const char *url, const char *authority, const char *token_file,
                          struct ls_reporter **reporter);
/* Takes body, which is freed with free, in place of the report before if that is not on its way yet. */
void ls_reporter_give(struct ls_reporter *reporter, char *body);
/* The status of the last report that was sent, LS_OK before. */
ls_status ls_reporter_look(struct ls_reporter *reporter);
/* Waits until the newest report is sent, and frees the reporter. Returns its status; DEADLINE_EXCEEDED where the
 * deadline passed: then the thread frees the reporter when the server has answered. */
ls_status ls_reporter_end(struct ls_reporter *reporter, int64_t deadline);
