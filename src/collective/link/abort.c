/* The abort flag: a status and a message under a monitor, an atomic for the quick test and an eventfd for poll(). Once
 * raised it stays so, and the message is the same, until it is reset. Any thread may raise and read it. The counterpart
 * of TensorFlow's CollectiveExecutor::StartAbort. */
#include "collective/link/abort.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/kept_error.h"
#include "base/monitor.h"
#include "base/new.h"

struct ls_abort {
    struct ls_monitor monitor; /* guards error until raised */
    struct ls_kept_error error;
    atomic_bool raised;
    atomic_uint_fast64_t begun, most; /* collectives: of this process, of the first that has left */
    atomic_int left;                  /* the rank that has left; -1 if none has */
    int fd;
};

ls_status ls_abort_new(struct ls_abort **abort) {
    LS_NEW(struct ls_abort, made, "an abort flag");
    atomic_init(&made->left, -1);
    made->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ls_status status = ls_monitor_init(&made->monitor);
    if (!status && made->fd < 0)
        status = ls_fail(LS_RESOURCE_EXHAUSTED, "cannot make an abort flag: %s", strerror(errno));
    return LS_HAND_OVER(status, abort, made, ls_abort_free(made));
}

void ls_abort_free(struct ls_abort *abort) {
    if (!abort) return;
    ls_monitor_destroy(&abort->monitor);
    if (abort->fd >= 0) (void)close(abort->fd);
    ls_free(abort);
}

void ls_abort_raise(struct ls_abort *abort, ls_status status, const char *message) {
    LS_HOLD(&abort->monitor);
    if (atomic_load(&abort->raised)) return;
    abort->error.status = status ? status : LS_UNKNOWN;
    (void)snprintf(abort->error.message, sizeof(abort->error.message), "%s", message);
    atomic_store(&abort->raised, true);
    (void)eventfd_write(abort->fd, 1);
}

void ls_abort_reset(struct ls_abort *abort) {
    eventfd_t events;
    LS_HOLD(&abort->monitor);
    atomic_store(&abort->raised, false);
    atomic_store(&abort->left, -1);
    atomic_store(&abort->begun, 0);
    (void)eventfd_read(abort->fd, &events);
}

bool ls_abort_raised(const struct ls_abort *abort) {
    return atomic_load(&abort->raised);
}

bool ls_abort_is_cancelled(struct ls_abort *abort) {
    LS_HOLD(&abort->monitor);
    return ls_abort_raised(abort) && abort->error.status == LS_CANCELLED;
}

void ls_abort_count(struct ls_abort *abort, uint64_t begun) {
    atomic_store_explicit(&abort->begun, begun, memory_order_relaxed);
}

uint64_t ls_abort_counted(const struct ls_abort *abort) {
    return atomic_load_explicit(&abort->begun, memory_order_relaxed);
}

void ls_abort_limit(struct ls_abort *abort, int rank, uint64_t calls) {
    LS_HOLD(&abort->monitor);
    if (atomic_load(&abort->left) >= 0 && calls >= atomic_load(&abort->most)) return;
    atomic_store(&abort->most, calls);
    atomic_store(&abort->left, rank);
}

int ls_abort_left_before(const struct ls_abort *abort, uint64_t sequence) {
    int left = atomic_load(&abort->left);
    return left >= 0 && sequence >= atomic_load(&abort->most) ? left : -1;
}

int ls_abort_fd(const struct ls_abort *abort) {
    return abort->fd;
}

ls_status ls_abort_status(struct ls_abort *abort) {
    LS_HOLD(&abort->monitor);
    return ls_kept_error_raise(&abort->error);
}
