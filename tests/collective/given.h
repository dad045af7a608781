/* Links between ranks that are threads or children of this process, and a source of links that were made before. */
#pragma once
#include "collective/link/link_source.h"

/* Takes links[size], of which the own one is NULL, one by one as they are asked for; those that nobody has asked for
 * are closed with the source. */
struct ls_link_source *given_links(struct ls_link *const *links, int size);
/* The two ends of a pair of connected Unix sockets. */
void local_pair(struct ls_link *ends[2]);
