/* The address by which other hosts reach this one, where --network-interface names it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* wanted: an interface ("eth0"), a network ("10.0.0.0/8") or an address. Writes the first address that fits, an IPv4
 * one before IPv6; false, with why, if there is none. */
bool ls_interface_address(const char *wanted, char *address, size_t size, char *why, size_t why_size);
