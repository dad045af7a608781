/* Lists of hosts, as launchers have them: Open MPI's and DeepSpeed's "host slots=4", MPICH's and Horovod's "host:4",
 * Slurm's "n[01-03]", with "user@" before a name and an IPv6 address in brackets. A name that stands there again adds
 * its slots. Names are strict: what begins with '-' would be an option of the remote shell. */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/need.h"
#include "base/read_file.h"
#include "base/new.h"
#include "lockstep/tools.h"
#include "resolver/readers.h"
#include "base/plain.h"

#define SLOTS_MOST 1024
#define HOSTS_MOST 1024

struct reader {
    char where[4200]; /* "hosts.txt:3", for errors */
    ls_tools_slots *hosts;
    int count;
};

#define FAIL(reader, ...) ls_fail_context(ls_fail(LS_INVALID_ARGUMENT, __VA_ARGS__), "%.300s", (reader)->where)

/* The number after '=' or ':'; *end is the rest. */
static ls_status read_slots(const struct reader *reader, const char *what, const char *text, int *slots) {
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || errno || number < 1 || number > SLOTS_MOST)
        return FAIL(reader, "%.80s needs a number of slots from 1 to %d, not '%.80s'", what, SLOTS_MOST, text);
    *slots = (int)number;
    return LS_OK;
}

static ls_status add_host(struct reader *reader, const char *user, const char *name, int slots) {
    ls_tools_slots host = {.slots = slots};
    int length = snprintf(host.target, sizeof(host.target), "%s%s%s", user, *user ? "@" : "", name);
    if (length >= (int)sizeof(host.target)) return FAIL(reader, "'%.60s...' is longer than a name may be", name);
    (void)snprintf(host.name, sizeof(host.name), "%s", name);
    for (int i = 0; i < reader->count; i++) {
        if (strcmp(reader->hosts[i].target, host.target)) continue;
        if (reader->hosts[i].slots + slots > SLOTS_MOST)
            return FAIL(reader, "'%.80s' has more than %d slots in all", host.target, SLOTS_MOST);
        reader->hosts[i].slots += slots;
        return LS_OK;
    }
    if (reader->count == HOSTS_MOST) return FAIL(reader, "more than %d hosts", HOSTS_MOST);
    if (!reader->hosts && !(reader->hosts = ls_alloc_array(HOSTS_MOST, sizeof(host))))
        return ls_fail_memory("a list of hosts", HOSTS_MOST * sizeof(host));
    reader->hosts[reader->count++] = host;
    return LS_OK;
}

/* ---- One name --------------------------------------------------------------------------------------------------- */

/* Cuts "user@" off; *name is behind it. */
static ls_status split_user(const struct reader *reader, char *text, const char **user, char **name) {
    char *at = strchr(text, '@');
    *user = "";
    *name = text;
    if (!at) return LS_OK;
    *at = 0;
    if (!*text || *text == '-' ||
        text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-")])
        return FAIL(reader, "'%.80s' before '@' is no name of a user", text);
    *user = text;
    *name = at + 1;
    return LS_OK;
}

/* "[fe80::1%eth0]:4": the name without brackets, and what is behind it. */
static ls_status split_address(const struct reader *reader, char *text, char **name, char **rest) {
    char *close = strchr(text, ']');
    if (!close) return FAIL(reader, "'%.80s' has no ']'", text);
    *close = 0;
    size_t plain = strspn(text + 1, "0123456789abcdefABCDEF:.");
    bool fine = strchr(text, ':') && (!text[1 + plain] || text[1 + plain] == '%');
    for (const char *zone = text + 1 + plain; *zone; zone++)
        fine = fine && (ls_plain_is_letter(*zone) || isdigit((unsigned char)*zone) || strchr("%._-", *zone));
    if (!fine) return FAIL(reader, "'%.80s]' is no IPv6 address", text);
    *name = text + 1;
    *rest = close + 1;
    return LS_OK;
}

static ls_status check_name(const struct reader *reader, const char *name) {
    if (!*name) return FAIL(reader, "a host's name is missing");
    size_t fine = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    if (*name == '-') return FAIL(reader, "'%.80s' is no name of a host: '-' is in it, and begins it", name);
    if ((name[fine] < ' ' || name[fine] > '~') && name[fine])
        return FAIL(reader, "a host's name has byte 0x%02x: letters, digits, '.', '-' and '_' are in it",
                    (unsigned char)name[fine]);
    if (name[fine]) return FAIL(reader, "'%.80s' is no name of a host: '%c' is in it", name, name[fine]);
    if (strlen(name) > 253) return FAIL(reader, "'%.60s...' is longer than a name may be", name);
    return LS_OK;
}

/* "name", or Slurm's "n[01-03]". */
static ls_status add_names(struct reader *reader, const char *user, const char *names, int slots) {
    char **list = NULL;
    int count = 0;
    if (!strchr(names, '[')) {
        ls_status status = check_name(reader, names);
        return status ? status : add_host(reader, user, names, slots);
    }
    ls_status status = ls_slurm_nodes_expand(reader->where, names, &list, &count);
    if (status) return status;
    for (int i = 0; i < count && !status; i++) {
        status = check_name(reader, list[i]);
        if (!status) status = add_host(reader, user, list[i], slots);
    }
    ls_slurm_nodes_free(list, count);
    return status;
}

/* "user@name:4"; slots is the line's own number, 0 if it has none. */
static ls_status read_item(struct reader *reader, char *text, int slots) {
    const char *user;
    char *name, *rest = NULL;
    int own = 0;
    ls_status status = split_user(reader, text, &user, &name);
    if (status) return status;
    bool address = *name == '[';
    if (address) {
        status = split_address(reader, name, &name, &rest);
        if (!status && *rest && *rest != ':')
            status = FAIL(reader, "'%.80s' behind ']': only :SLOTS may stand there", rest);
    } else if ((rest = strchr(name, ':')) && strchr(rest + 1, ':')) {
        return FAIL(reader, "'%.80s': an IPv6 address stands in brackets, [%.80s]:SLOTS", name, name);
    }
    if (!status && rest && *rest) {
        *rest = 0;
        status = read_slots(reader, name, rest + 1, &own);
    }
    if (!status && own && slots)
        status = FAIL(reader, "'%.80s' has its slots twice, :%d and slots=%d", name, own, slots);
    if (status) return status;
    int number = own ? own : slots ? slots : 1;
    return address ? add_host(reader, user, name, number) : add_names(reader, user, name, number);
}

/* Cuts the item that begins at text off, at a comma outside of brackets; the rest, NULL after the last. */
static char *cut_item(char *text) {
    for (int depth = 0; *text; text++) {
        depth += (*text == '[') - (*text == ']');
        if (*text != ',' || depth > 0) continue;
        *text = 0;
        return text + 1;
    }
    return NULL;
}

static ls_status read_items(struct reader *reader, char *text, int slots) {
    ls_status status = LS_OK;
    for (char *rest; text && !status; text = rest) {
        rest = cut_item(text);
        status = *text ? read_item(reader, text, slots) : FAIL(reader, "a host's name is missing");
    }
    return status;
}

/* ---- Lines ------------------------------------------------------------------------------------------------------ */

/* "slots=4", "max_slots=8", "max-slots=8": Open MPI's words behind a name. */
static ls_status read_behind(const struct reader *reader, const char *word, int *slots, int *most) {
    const char *equals = strchr(word, '=');
    if (!equals) return FAIL(reader, "'%.80s' behind the host: only slots=N and max_slots=N may stand there", word);
    bool own = !strncmp(word, "slots=", 6),
         limit = !strncmp(word, "max_slots=", 10) || !strncmp(word, "max-slots=", 10);
    if (!own && !limit) return FAIL(reader, "'%.80s': only slots=N and max_slots=N are known", word);
    int *number = own ? slots : most;
    if (*number) return FAIL(reader, "'%.*s' stands there twice", (int)(equals - word), word);
    return read_slots(reader, own ? "slots" : "max_slots", equals + 1, number);
}

static ls_status read_line(struct reader *reader, char *line) {
    char *words = NULL, *items, *word;
    int slots = 0, most = 0;
    line[strcspn(line, "#\r\n")] = 0;
    if (!(items = strtok_r(line, " \t", &words))) return LS_OK;
    while ((word = strtok_r(NULL, " \t", &words))) {
        ls_status status = read_behind(reader, word, &slots, &most);
        if (status) return status;
    }
    if (most && slots > most) return FAIL(reader, "slots=%d is more than max_slots=%d", slots, most);
    return read_items(reader, items, slots);
}

static ls_status read_file(struct reader *reader, const char *path) {
    LS_CLEANUP(ls_free_pointer) char *text = NULL;
    size_t size;
    int number = 0;
    ls_status status = ls_read_file_given("--hostfile", path, SIZE_MAX - 1, &text, &size);
    if (status) return status;
    for (char *rest = text, *line; !status && (line = strsep(&rest, "\n"));) {
        (void)snprintf(reader->where, sizeof(reader->where), "%s:%d", path, ++number);
        bool whole = rest || line + strlen(line) == text + size;
        status = whole ? read_line(reader, line) : FAIL(reader, "a zero byte: this is no text");
    }
    (void)snprintf(reader->where, sizeof(reader->where), "%s", path);
    return !status && !reader->count ? FAIL(reader, "no host stands in it") : status;
}

static ls_status read_list(struct reader *reader, const char *list) {
    char *copy = ls_strdup(list);
    if (!copy) return ls_fail_memory("a list of hosts", strlen(list));
    (void)snprintf(reader->where, sizeof(reader->where), "-H %.300s", list);
    ls_status status = read_items(reader, copy, 0);
    ls_free(copy);
    return status;
}

ls_status ls_tools_hosts(const char *list, const char *hostfile, ls_tools_slots **hosts, int *count) {
    LS_NEED(hosts, count);
    struct reader reader = {.count = 0};
    if (!list && !hostfile) return ls_fail(LS_INVALID_ARGUMENT, "neither a list of hosts nor a hostfile");
    ls_status status = list ? read_list(&reader, list) : LS_OK;
    if (!status && hostfile) status = read_file(&reader, hostfile);
    if (!status) *count = reader.count;
    return LS_HAND_OVER(status, hosts, reader.hosts, ls_free(reader.hosts));
}
