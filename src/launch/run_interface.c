/* Compares each address of this machine with an interface's name or a network. */
#include "launch/run_ports.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct network {
    int family, bits;
    unsigned char bytes[16];
};

static bool read_network(const char *wanted, struct network *network) {
    char text[64];
    const char *slash = strchr(wanted, '/');
    size_t length = slash ? (size_t)(slash - wanted) : strlen(wanted);
    if (length >= sizeof(text)) return false;
    memcpy(text, wanted, length);
    text[length] = 0;
    network->family = strchr(text, ':') ? AF_INET6 : AF_INET;
    if (inet_pton(network->family, text, network->bytes) != 1) return false;
    int most = network->family == AF_INET ? 32 : 128;
    char *end = NULL;
    long bits = slash ? strtol(slash + 1, &end, 10) : most;
    network->bits = (int)bits;
    return bits >= 0 && bits <= most && (!slash || (end > slash + 1 && !*end));
}

static bool is_in(const struct network *network, const struct sockaddr *address) {
    const unsigned char *bytes = address->sa_family == AF_INET
                                     ? (const void *)&((const struct sockaddr_in *)(const void *)address)->sin_addr
                                     : (const void *)&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    if (address->sa_family != network->family) return false;
    for (int bit = 0; bit < network->bits; bit++)
        if (((bytes[bit / 8] ^ network->bytes[bit / 8]) >> (7 - bit % 8)) & 1) return false;
    return true;
}

static bool find(const struct ifaddrs *all, int family, const char *wanted, const struct network *network,
                 char *address, size_t size) {
    for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
        bool usable = one->ifa_addr && one->ifa_addr->sa_family == family && one->ifa_flags & IFF_UP;
        socklen_t length = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        if (usable && (network ? is_in(network, one->ifa_addr) : !strcmp(one->ifa_name, wanted)) &&
            !getnameinfo(one->ifa_addr, length, address, (socklen_t)size, NULL, 0, NI_NUMERICHOST))
            return true;
    }
    return false;
}

static void list_addresses(const struct ifaddrs *all, const char *wanted, char *why, size_t size) {
    int used = snprintf(why, size, "no address fits --network-interface %.100s; there are", wanted);
    for (const struct ifaddrs *one = all; one && used < (int)size - 100; one = one->ifa_next) {
        char text[64];
        if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET) continue;
        if (!getnameinfo(one->ifa_addr, sizeof(struct sockaddr_in), text, sizeof(text), NULL, 0, NI_NUMERICHOST))
            used += snprintf(why + used, size - (size_t)used, " %s (%s)", one->ifa_name, text);
    }
}

bool ls_interface_address(const char *wanted, char *address, size_t size, char *why, size_t why_size) {
    struct ifaddrs *all = NULL;
    struct network network = {0}, *given = read_network(wanted, &network) ? &network : NULL;
    if (getifaddrs(&all)) all = NULL;
    bool found = find(all, AF_INET, wanted, given, address, size) || find(all, AF_INET6, wanted, given, address, size);
    if (!found) list_addresses(all, wanted, why, why_size);
    if (all) freeifaddrs(all);
    return found;
}
