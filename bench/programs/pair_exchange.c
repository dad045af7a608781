/* What TCP on this machine carries between two processes: each sends a vector to the other and receives the other's at
 * the same time, one thread a process, poll(), nothing added up. That is what an all-reduce of two moves, so it is the
 * limit of one over TCP. One JSON line with the time of each size, for bench/peers.
 *
 * usage: pair_exchange BYTES[,BYTES...] SECONDS TOUCH LIFETIME
 *
 * The time is the median over iterations of the slower process's. With TOUCH 1 both rewrite their vectors before each
 * iteration, and meet, untimed. The second process ends with the first, which ends after LIFETIME seconds. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SEND_MOST = 1 << 20, RECEIVE_MOST = 1 << 18, LOOKS = 2000, WARM_UP = 3, FEWEST = 7, MOST = 2000 };

typedef struct Side {
    int fd, rank, touch;
    double seconds; /* of one size, about */
    char *out, *in;
} Side;

static void give_up(const char *why) {
    fprintf(stderr, "pair_exchange: %s (%s)\n", why, strerror(errno));
    _exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Bytes moved; 0 when it would block. */
static size_t moved(ssize_t result) {
    if (result < 0 && errno != EAGAIN && errno != EINTR) {
        give_up("the connection broke");
    }
    return result > 0 ? (size_t)result : 0;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Sends and receives at once. A short wait looks again and again, a long one sleeps. */
static void exchange(const Side *side, const char *out, char *in, size_t bytes) {
    size_t sent = 0, received = 0;
    for (int idle = 0; sent < bytes || received < bytes; idle++) {
        size_t before = sent + received;
        if (sent < bytes) {
            sent += moved(send(side->fd, out + sent, least(bytes - sent, SEND_MOST), MSG_NOSIGNAL));
        }
        if (received < bytes) {
            ssize_t got = recv(side->fd, in + received, least(bytes - received, RECEIVE_MOST), 0);
            if (!got) {
                give_up("the other process has gone");
            }
            received += moved(got);
        }
        if (sent + received > before) {
            idle = 0;
        } else if (idle > LOOKS) {
            short events = (short)((received < bytes ? POLLIN : 0) | (sent < bytes ? POLLOUT : 0));
            struct pollfd wait = {.fd = side->fd, .events = events};
            poll(&wait, 1, -1);
        }
    }
}

/* The larger of both sides' values. */
static double agree(const Side *side, double value) {
    double other;
    exchange(side, (const char *)&value, (char *)&other, sizeof value);
    return value > other ? value : other;
}

static double time_one(const Side *side, size_t bytes) {
    if (side->touch) {
        memset(side->out, side->rank + 1, bytes);
        agree(side, 0);
    }
    double start = now();
    exchange(side, side->out, side->in, bytes);
    return now() - start;
}

static int compare(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double measure(const Side *side, size_t bytes) {
    double times[MOST], slowest = 0;
    for (int i = 0; i < WARM_UP; i++) {
        slowest = agree(side, time_one(side, bytes));
    }
    double wanted = side->seconds / (slowest > 1e-9 ? slowest : 1e-9);
    int iterations = wanted < FEWEST ? FEWEST : wanted > MOST ? MOST : (int)wanted;
    for (int i = 0; i < iterations; i++) {
        times[i] = time_one(side, bytes);
    }
    for (int i = 0; i < iterations; i++) {
        times[i] = agree(side, times[i]);
    }
    qsort(times, (size_t)iterations, sizeof times[0], compare);
    return (times[(iterations - 1) / 2] + times[iterations / 2]) / 2;
}

static void run_size(Side *side, size_t bytes, int first) {
    side->out = malloc(bytes);
    side->in = malloc(bytes);
    if (!side->out || !side->in) {
        give_up("out of memory");
    }
    memset(side->out, side->rank + 1, bytes);
    memset(side->in, 0, bytes);
    double seconds = measure(side, bytes);
    long wrong = 0;
    for (size_t i = 0; i < bytes; i++) {
        wrong += side->in[i] != 2 - side->rank;
    }
    wrong = (long)agree(side, (double)wrong);
    if (side->rank == 0) {
        printf("%s{\"bytes\": %zu, \"time_us\": %.3f, \"wrong\": %ld}", first ? "" : ", ", bytes, seconds * 1e6, wrong);
    }
    free(side->out);
    free(side->in);
}

static void run_sizes(Side *side, const char *sizes) {
    for (const char *next = sizes; next && *next;) {
        char *end = NULL;
        long bytes = strtol(next, &end, 10);
        if (bytes < 1 || bytes > 1L << 32 || (*end && *end != ',')) {
            give_up("BYTES must be sizes up to 4 GB, with commas between them");
        }
        run_size(side, (size_t)bytes, next == sizes);
        next = *end ? end + 1 : NULL;
    }
}

static void prepare(int fd) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
    if (fcntl(fd, F_SETFL, O_NONBLOCK)) {
        give_up("fcntl");
    }
}

/* The two ends of a connection over loopback. */
static void connect_ends(int ends[2]) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || ends[0] < 0 || bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&address, &length) ||
        connect(ends[0], (struct sockaddr *)&address, length) || (ends[1] = accept(listener, NULL, NULL)) < 0) {
        give_up("cannot connect over 127.0.0.1");
    }
    close(listener);
}

int main(int argc, char **argv) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc != 5) {
        give_up("usage: pair_exchange BYTES[,BYTES...] SECONDS TOUCH LIFETIME");
    }
    alarm((unsigned)atoi(argv[4]));
    int ends[2], status = 0;
    connect_ends(ends);
    pid_t child = fork();
    if (child < 0) {
        give_up("cannot fork");
    }
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    Side side = {.fd = ends[child == 0], .rank = child == 0, .touch = atoi(argv[3]), .seconds = atof(argv[2])};
    close(ends[child != 0]);
    prepare(side.fd);
    if (side.rank == 0) {
        printf("{\"workers\": 2, \"rows\": [");
    }
    run_sizes(&side, argv[1]);
    if (side.rank == 0) {
        printf("]}\n");
        waitpid(child, &status, 0);
    }
    return status != 0;
}
