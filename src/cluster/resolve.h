/* Names to addresses without waiting: a numeric host at once, a name by a thread of its own, because the resolver may
 * take half a minute to say no and must not hold up the other names. */
#pragma once
#include <lockstep/lockstep.h>
#include <netdb.h>

struct ls_resolve;
ls_status ls_resolve_start(const char *host, int port, struct ls_resolve **resolve);
/* False while it is under way. Then *list has the addresses, owned by resolve, or is NULL and *why says in words why
 * ("name not found: ..."). */
bool ls_resolve_done(struct ls_resolve *resolve, const struct addrinfo **list, const char **why);
/* Any time; a resolver thread still at work ends by itself and frees the rest. */
void ls_resolve_free(struct ls_resolve *resolve);
