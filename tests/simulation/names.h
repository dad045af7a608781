/* Addresses of simulated tasks: with 2 workers a host, rank 1027 is 10.0.2.1:2223. */
#pragma once
#include <netinet/in.h>
#include <stddef.h>

void names_begin(int per_host);
void names_of(int rank, char *text, size_t size);
int names_rank(const struct sockaddr_in *address);
