/* Addresses of simulated tasks: rank 513 is 10.0.2.1:2222. */
#pragma once
#include <netinet/in.h>
#include <stddef.h>

void names_of(int rank, char *text, size_t size);
int names_rank(const struct sockaddr_in *address);
