/* Those who call at LOCKSTEP_HTTP, all polled by one thread: nobody waits for another. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Writes the whole answer to a request, a string that it may change. */
typedef void ls_http_answer_fn(void *context, char *request, FILE *answer);

struct ls_http_callers;
/* NULL: there is no memory. */
struct ls_http_callers *ls_http_callers_new(ls_http_answer_fn *answer, void *context);
/* Waits until deadline at most and attends to who calls at listening (-1: nobody). False: wake is readable. */
bool ls_http_callers_turn(struct ls_http_callers *callers, int listening, int wake, int64_t deadline);
void ls_http_callers_free(struct ls_http_callers *callers);
