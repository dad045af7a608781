/* A lookup turns a host's name into addresses, and its caller never waits. A numeric host has its address at once. A
 * name gets a thread of its own, because the system's resolver may take half a minute to say no and must not hold up
 * the other names. */
#pragma once
#include <lockstep/lockstep.h>
#include <netdb.h>

#define LS_NAME_NOT_FOUND "name not found" /* begins why */

struct ls_name_lookup;
ls_status ls_name_lookup_start(const char *host, int port, struct ls_name_lookup **resolve);
/* False while it is under way. Then *list has the addresses, owned by resolve, or is NULL and *why says in words why
 * ("name not found: ..."). */
bool ls_name_lookup_done(struct ls_name_lookup *resolve, const struct addrinfo **list, const char **why);
/* May be called at any time: a thread that is still in the resolver ends by itself and frees the rest. */
void ls_name_lookup_free(struct ls_name_lookup *resolve);
