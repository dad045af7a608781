/* Addresses of tasks. TensorFlow only looks for a number after the last colon, and what is wrong ends as a hang; here
 * each mistake is told from the text alone. No name is looked up. */
#include "resolver/tf_config.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "resolver/tf_config_json.h"
#include "base/plain.h"

#define HOST_SIZE  253 /* bytes of a host name, as in the DNS */
#define LABEL_SIZE 63  /* bytes between two dots */

/* The places of an address's parts in its text. */
struct address {
    const char *key, *text;
    const char *host;
    size_t host_size;
    const char *port;
    bool brackets;
};

static ls_status refuse_address(const struct address *address, const char *why) {
    return ls_fail(LS_INVALID_ARGUMENT, "%s is %s: %s", address->key, ls_tf_config_json_quote_text(address->text).text,
                   why);
}

/* Mistakes that one character or sequence gives away. */
static ls_status check_marks(const struct address *address) {
    const char *text = address->text, *scheme = strstr(text, "://");
    char why[224];
    if (!*text) return refuse_address(address, "an address is missing; write host:port, or leave the entry out");
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == 0x7F)
            return refuse_address(address, "a space or control character stands in it; remove it");
    if (scheme) {
        (void)snprintf(why, sizeof(why), "a scheme stands before it; write %s",
                       ls_tf_config_json_quote_text(scheme + 3).text);
        return refuse_address(address, why);
    }
    if (strchr(text, '@')) {
        (void)snprintf(why, sizeof(why), "a user stands before the host; write %s",
                       ls_tf_config_json_quote_text(strrchr(text, '@') + 1).text);
        return refuse_address(address, why);
    }
    if (strchr(text, ','))
        return refuse_address(address, "several addresses in one entry; make each an entry of the list");
    if (strchr(text, '/')) return refuse_address(address, "a path stands in it; write only host:port");
    return LS_OK;
}

static bool is_ipv6(const char *text, size_t size) {
    char copy[INET6_ADDRSTRLEN];
    struct in6_addr parsed;
    if (size >= sizeof(copy)) return false;
    memcpy(copy, text, size);
    copy[size] = 0;
    return inet_pton(AF_INET6, copy, &parsed) == 1;
}

static ls_status refuse_colons(const struct address *address, const char *last) {
    const char *text = address->text;
    char why[160];
    if (is_ipv6(text, (size_t)(last - text)))
        (void)snprintf(why, sizeof(why), "an IPv6 address needs brackets; write [%.*s]%s", (int)(last - text), text,
                       last);
    else if (is_ipv6(text, strlen(text)))
        (void)snprintf(why, sizeof(why), "an IPv6 address needs brackets and a port; write [%s]:2222", text);
    else
        (void)snprintf(why, sizeof(why), "more than one colon; write host:port, IPv6 as [address]:port");
    return refuse_address(address, why);
}

static ls_status split_brackets(struct address *address) {
    const char *end = strchr(address->text, ']');
    if (!end) return refuse_address(address, "the ']' of the IPv6 address is missing");
    address->brackets = true;
    address->host = address->text + 1;
    address->host_size = (size_t)(end - address->host);
    if (!is_ipv6(address->host, address->host_size))
        return refuse_address(address,
                              "no IPv6 address stands in the brackets (zones such as %eth0 mean nothing elsewhere)");
    if (end[1] != ':') return refuse_address(address, "the port is missing; write [address]:port");
    address->port = end + 2;
    return LS_OK;
}

/* The host ends at the last colon. Only an IPv6 address has colons of its own, and it stands in brackets (RFC 3986). */
static ls_status split(struct address *address) {
    const char *text = address->text, *last = strrchr(text, ':');
    if (*text == '[') return split_brackets(address);
    if (!last) return refuse_address(address, "the port is missing; write host:port, such as host:2222");
    if (strchr(text, ':') != last) return refuse_colons(address, last);
    address->host = text;
    address->host_size = (size_t)(last - text);
    address->port = last + 1;
    return LS_OK;
}

static ls_status read_port(const struct address *address, int *port) {
    const char *text = address->port;
    if (!*text) return refuse_address(address, "the port is missing after the colon; write a number from 1 to 65535");
    size_t count = strspn(text, "0123456789");
    if (text[count]) return refuse_address(address, "the port is no number; write a number from 1 to 65535");
    text += strspn(text, "0");
    if (!*text) return refuse_address(address, "port 0 means any free port, which no other task can know; name one");
    long value = strlen(text) <= 5 ? strtol(text, NULL, 10) : 65536;
    if (value > 65535) return refuse_address(address, "the port is above 65535; write a number from 1 to 65535");
    *port = (int)value;
    return LS_OK;
}

/* One label of a name; *next moves past it and its dot. */
static const char *label_problem(const char *label, size_t size) {
    if (!size) return "the host has an empty part between dots";
    if (size > LABEL_SIZE) return "a part of the host is longer than 63 characters";
    if (*label == '-') return "a part of the host starts with '-'";
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)label[i] > 0x7F) return "the host has letters outside ASCII; write its xn-- form";
        if (!ls_plain_is_letter(label[i]) && !isdigit((unsigned char)label[i]) && label[i] != '-' && label[i] != '_')
            return "the host has a character that no host name has (letters, digits, '-', '_', '.')";
    }
    return NULL;
}

/* A name whose last part is a number would be taken for an IPv4 address by every resolver. */
static const char *number_problem(const char *host) {
    struct in_addr parsed;
    const char *dot = strrchr(host, '.'), *label = dot ? dot + 1 : host;
    if (label[strspn(label, "0123456789")] || inet_pton(AF_INET, host, &parsed) == 1) return NULL;
    return "the host ends in a number but is no IPv4 address (four numbers from 0 to 255)";
}

/* host without its trailing dot. */
static const char *host_problem(const char *host) {
    if (!*host) return "the host is missing before the colon; write a name or address that the other tasks can reach";
    if (strlen(host) > HOST_SIZE) return "the host is longer than 253 characters";
    for (const char *label = host;;) {
        size_t size = strcspn(label, ".");
        const char *problem = label_problem(label, size);
        if (problem) return problem;
        if (!label[size]) break;
        label += size + 1;
    }
    return number_problem(host);
}

static char *copy_host(const char *host, size_t size) {
    char *copy = ls_alloc(size + 1);
    if (copy) memcpy(copy, host, size);
    return copy;
}

static bool has_trailing_dot(const char *host) {
    size_t size = strlen(host);
    return size > 1 && host[size - 1] == '.';
}

static ls_status check_host(const struct address *address) {
    if (address->brackets) return LS_OK;
    LS_CLEANUP(ls_free_pointer) char *host = copy_host(address->host, address->host_size);
    if (!host) return ls_fail_memory("a host name", address->host_size + 1);
    if (has_trailing_dot(host)) host[address->host_size - 1] = 0;
    const char *problem = host_problem(host);
    return problem ? refuse_address(address, problem) : LS_OK;
}

ls_status ls_tf_config_address_parse(const char *key, const char *text, char **host, int *port) {
    struct address address = {.key = key, .text = text};
    int read = 0;
    ls_status status = check_marks(&address);
    if (!status) status = split(&address);
    if (!status) status = check_host(&address);
    if (!status) status = read_port(&address, &read);
    if (status) return status;
    char *copy = copy_host(address.host, address.host_size);
    if (!copy) return ls_fail_memory("a host name", address.host_size + 1);
    *host = copy;
    *port = read;
    return LS_OK;
}

/* Names are compared in lower case and without the dot that ends a fully qualified one, as the DNS does (RFC 4343); an
 * IPv6 address has the text of inet_ntop (RFC 5952). Two names of one address stay two: nothing is looked up here. */
char *ls_tf_config_address_canonical(const char *host, int port) {
    struct in6_addr parsed;
    size_t size = strlen(host) + INET6_ADDRSTRLEN + 16;
    char *text = ls_alloc(size), short_form[INET6_ADDRSTRLEN];
    if (!text) return NULL;
    if (inet_pton(AF_INET6, host, &parsed) == 1) {
        (void)inet_ntop(AF_INET6, &parsed, short_form, sizeof(short_form));
        (void)snprintf(text, size, "[%s]:%d", short_form, port);
        return text;
    }
    (void)snprintf(text, size, "%.*s:%d", (int)strlen(host) - has_trailing_dot(host), host, port);
    for (char *c = text; *c; c++) *c = ls_plain_lower(*c);
    return text;
}

static bool is_loopback_ipv6(const struct in6_addr *address) {
    if (IN6_IS_ADDR_LOOPBACK(address) || IN6_IS_ADDR_UNSPECIFIED(address)) return true;
    return IN6_IS_ADDR_V4MAPPED(address) && address->s6_addr[12] == 127;
}

bool ls_tf_config_address_is_loopback(const char *host) {
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET6, host, &six) == 1) return is_loopback_ipv6(&six);
    if (inet_pton(AF_INET, host, &four) == 1) return ntohl(four.s_addr) >> 24 == 127 || four.s_addr == 0;
    size_t size = strlen(host) - has_trailing_dot(host), tail = sizeof("localhost") - 1;
    if (size < tail || !ls_plain_same_piece(host + size - tail, tail, "localhost")) return false;
    return size == tail || host[size - tail - 1] == '.';
}

bool ls_tf_config_address_is_nowhere(const char *host) {
    static const char end[] = ".invalid";
    size_t length = strlen(host);
    return length >= sizeof(end) && !strcmp(host + length - (sizeof(end) - 1), end);
}
