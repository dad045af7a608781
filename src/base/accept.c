/* A turn of a loop costs a few calls of the system, however many connections it takes. So a flood is taken in few
 * turns: when TURNS of them fall into one WINDOW, the next waits for the window's end. */
#define _GNU_SOURCE
#include "base/accept.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <sys/resource.h>

#include "base/thread.h"

#define TURN_MOST    64 /* connections of a turn */
#define TURNS        4
#define WINDOW       (5 * LS_MILLISECOND)
#define ACCEPT_PAUSE (100 * LS_MILLISECOND) /* after a failure */
#define CROWD        32                     /* strangers */
#define CROWD_PAUSE  5                      /* milliseconds */
#define SHARE        4                      /* strangers have at most this part of the descriptors */

bool ls_accept_is_open(const struct ls_accept *accept, int64_t now, int64_t *until) {
    if (now >= accept->at) return true;
    if (accept->at < *until) *until = accept->at;
    return false;
}

static void end_turn(struct ls_accept *accept) {
    int64_t now = ls_now();
    accept->taken = 0;
    if (now >= accept->window) {
        accept->window = now + WINDOW;
        accept->turns = 0;
    }
    if (++accept->turns >= TURNS) accept->at = accept->window;
}

int ls_accept_next(struct ls_accept *accept, int listening, struct sockaddr_storage *address) {
    int fd = -1;
    bool fails = false;
    while (fd < 0 && !fails && accept->taken < TURN_MOST) {
        socklen_t size = sizeof(*address);
        fd = accept4(listening, (struct sockaddr *)address, address ? &size : NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        fails = fd < 0 && errno != EINTR && errno != ECONNABORTED;
    }
    bool lacks = fails && errno != EAGAIN;
    if (fd < 0) {
        end_turn(accept);
        if (lacks) accept->at = ls_now() + ACCEPT_PAUSE;
        return -1;
    }
    accept->taken++;
    ls_forked_closes(fd);
    return fd;
}

int64_t ls_accept_look_again(int count) {
    return count >= CROWD ? LS_LOOK_AGAIN_CROWD : LS_LOOK_AGAIN;
}

void ls_accept_rest(int count) {
    if (count >= CROWD) (void)poll(NULL, 0, CROWD_PAUSE);
}

int ls_accept_most(int most, int descriptors_each) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit)) return most;
    rlim_t share = limit.rlim_cur / SHARE / (rlim_t)descriptors_each;
    if (share >= (rlim_t)most) return most;
    return share > 2 ? (int)share : 2;
}
