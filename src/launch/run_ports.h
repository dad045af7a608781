/* Free TCP ports of 127.0.0.1 for the workers of one agent. Ports lie outside the range from which the kernel draws
 * for outgoing connections, so that none is taken between the choice and the worker's start; agents that run at the
 * same time keep apart through one abstract socket a port, which ends with its agent. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct ls_port {
    int number;
    int lock; /* a bound abstract socket, for as long as the agent lives */
    int hold; /* a bound TCP socket, until the workers start; -1: none */
};
struct ls_ports {
    int count;
    struct ls_port *at; /* [count] */
};

/* Chooses count ports; false, with why, if there are not so many. */
bool ls_ports_take(int count, struct ls_ports *ports, char *why, size_t size);
/* Takes those count ports again, in the place of an agent that has ended; false, and nothing said, if it lives. */
bool ls_ports_take_again(const int *again, int count, struct ls_ports *ports);
/* Gives the ports to the workers: just before they start. */
void ls_ports_release(struct ls_ports *ports);
void ls_ports_free(struct ls_ports *ports);

/* The address by which other hosts reach this one, where --network-interface names it. */

/* wanted: an interface ("eth0"), a network ("10.0.0.0/8") or an address. Writes the first address that fits, an IPv4
 * one before IPv6; false, with why, if there is none. */
bool ls_interface_address(const char *wanted, char *address, size_t size, char *why, size_t why_size);
