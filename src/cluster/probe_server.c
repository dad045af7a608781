/* A worker's answer to a probe. In the listener's thread: nothing here waits, and the monitor is held for a moment
 * only. */
#include "cluster/cluster_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "cluster/peer.h"

static const char *phase_name(enum ls_phase phase) {
    static const char *const names[] = {"joining", "seeking", "convening", "fenced", "forming",
                                        "ready",   "member",  "leaving",   "ended"};
    return names[phase];
}

/* Bytes of memory that this process has; 0 if that is not known. */
static long long resident(void) {
    long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file) return 0;
    if (fscanf(file, "%*s %lld", &pages) != 1) pages = 0;
    (void)fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

static void print_activity(FILE *out, const struct ls_activity *activity) {
    static const struct ls_activity none;
    if (!activity) activity = &none;
    (void)fprintf(out, "step=%lld\ncollectives=%lld\nbytes=%lld\ninside=%lld\nsince=%lld\nrestarts=%lld\n",
                  (long long)ls_activity_get(&activity->step), (long long)ls_activity_get(&activity->collectives),
                  (long long)ls_activity_get(&activity->bytes), (long long)ls_activity_get(&activity->inside),
                  (long long)ls_activity_get(&activity->since), (long long)ls_activity_get(&activity->restarts));
}

static void print_answer(FILE *out, struct ls_cluster *cluster) {
    ls_monitor_lock(&cluster->monitor);
    enum ls_phase phase = cluster->phase;
    uint64_t generation = cluster->generation;
    ls_monitor_unlock(&cluster->monitor);
    if (phase == LS_PHASE_CONVENING && !generation) phase = LS_PHASE_JOINING; /* a start looks alike on all ranks */
    (void)fprintf(out, "lockstep=1\nversion=%s\nprotocol=%u\ntask=%s\nrank=%d\nsize=%d\nphase=%s\ngeneration=%llu\n",
                  cluster->terms.version, LS_PROTOCOL_VERSION, cluster->peers[cluster->rank]->name, cluster->rank,
                  cluster->size, phase_name(phase), (unsigned long long)generation);
    print_activity(out, cluster->config.activity);
    (void)fprintf(out, "now=%lld\nstarted=%lld\nresident=%lld\n", (long long)ls_now(), (long long)cluster->next.started,
                  resident());
    (void)fprintf(out, "%send=1\n", cluster->config.tf_config->canonical);
}

/* All at once into the socket's buffer, which is made large enough: an answer to a stranger is not waited for. A
 * caller that has not shown a token that is set learns nothing of the cluster. */
void ls_probe_server_answer(void *context, int fd) {
    const struct ls_cluster *cluster = context;
    char *text = NULL;
    size_t size = 0;
    FILE *out = ls_credentials_token(&cluster->net.credentials).size ? NULL : open_memstream(&text, &size);
    if (out) {
        print_answer(out, context);
        if (fclose(out)) size = 0;
        int room = (int)(size < (1 << 20) ? 2 * size + 4096 : 1 << 21);
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
        (void)send(fd, text, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    free(text);
    (void)close(fd);
}
