/* A switch in user space for bench/network and tests/recovery: TAP devices in other network namespaces, joined with a
 * rate a port, a delay and a loss.
 *
 * usage: delay_switch BITS_PER_SECOND DELAY_US LOSS INTERFACE NAMESPACE NAMESPACE...
 *
 * Makes INTERFACE in each network namespace (a path such as /proc/PID/ns/net), prints "ready" and forwards Ethernet
 * frames until it is killed. A frame takes its time on the sender's line, the delay, and its turn on the receiver's
 * line, both counted with everything that Ethernet adds to a frame; it is cut through, so an idle way costs its time on
 * the line once. Frames travel with the kernel's offload headers, so that a segment of 64 KB is one read and one write,
 * and are counted as the frames that they would become. A receiver's line that is behind by more than LONGEST_QUEUE
 * loses frames. LOSS is the part of all frames that is lost on the way, each by itself, drawn from one seed; where it
 * is not 0, nothing is offloaded, so that each packet is a frame. One thread. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_PORTS = 64,
    FIRST_SPACE = 5, /* of the arguments */
    MAC = 6,
    ETHERNET = 14,           /* destination, source, type */
    SHORTEST = 60,           /* what Ethernet fills a short frame up to */
    AROUND = 24,             /* preamble, checksum and the gap to the next frame */
    LARGEST = 128 * 1024,    /* more than any segment with its headers */
    READ_AHEAD = 200000,     /* ns that a line may be booked in advance, so that a late wake-up leaves no gap */
    LONGEST_QUEUE = 50000000 /* ns */
};

typedef struct Frame {
    struct Frame *next;
    int64_t due; /* ns; when its last bit arrives */
    size_t size;
    unsigned char data[]; /* struct virtio_net_hdr, then the frame */
} Frame;

typedef struct Port {
    int fd;
    bool known; /* mac is the address of who is behind this port */
    unsigned char mac[MAC];
    int64_t up_free, down_free; /* ns; until when either direction of the line is booked */
    Frame *first, *last;        /* on their way to this port, by due */
} Port;

typedef struct Switch {
    double ns_a_byte;
    int64_t delay; /* ns, one way */
    double loss;
    unsigned short draws[3]; /* state of erand48 */
    int count;
    Port ports[MOST_PORTS];
} Switch;

static void give_up(const char *what) {
    perror(what);
    exit(1);
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int64_t later(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* ---- the devices ---- */

static int open_port(const char *path, const char *interface, unsigned offload) {
    int space = open(path, O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET)) {
        give_up(path);
    }
    close(space);
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", interface);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request)) {
        give_up("/dev/net/tun");
    }
    if (ioctl(fd, TUNSETOFFLOAD, offload)) {
        give_up("TUNSETOFFLOAD");
    }
    return fd;
}

/* A switch does not wait for the programs that it serves; with them on one machine it has to go first. */
static void become_prompt(void) {
    struct sched_param first = {.sched_priority = 1};
    prctl(PR_SET_TIMERSLACK, 1);
    if (sched_setscheduler(0, SCHED_FIFO, &first)) {
        perror("delay_switch: no real-time priority, so delays will vary with the load");
    }
}

/* ---- time on the line ---- */

/* Bytes that a frame takes on the line: a large segment counts as the frames that it would be cut into. */
static size_t line_bytes(const unsigned char *data, size_t size) {
    struct virtio_net_hdr header;
    memcpy(&header, data, sizeof(header));
    size_t length = size - sizeof(header), pieces = 1, headers = 0;
    size_t offset = header.csum_start + 12U; /* of the byte that holds the length of the TCP header */
    if (header.gso_type != VIRTIO_NET_HDR_GSO_NONE && header.gso_size && offset < length) {
        headers = header.csum_start + (data[sizeof(header) + offset] >> 4) * 4U;
        pieces = headers < length ? (length - headers + header.gso_size - 1) / header.gso_size : 1;
    }
    size_t bytes = length + (pieces - 1) * headers;
    return (bytes < SHORTEST ? SHORTEST : bytes) + pieces * AROUND;
}

static void append(Port *port, Frame *frame) {
    frame->next = NULL;
    if (port->first) {
        port->last->next = frame;
    } else {
        port->first = frame;
    }
    port->last = frame;
}

/* Books the receiver's line from start + delay on, and keeps the frame until then. */
static void send_later(Switch *self, Port *to, int64_t start, int64_t duration, const unsigned char *data,
                       size_t size) {
    int64_t arrival = start + self->delay;
    if (to->down_free - arrival > LONGEST_QUEUE || erand48(self->draws) < self->loss) {
        return;
    }
    Frame *frame = malloc(sizeof(*frame) + size);
    if (!frame) {
        give_up("delay_switch");
    }
    to->down_free = later(arrival, to->down_free) + duration;
    frame->due = to->down_free;
    frame->size = size;
    memcpy(frame->data, data, size);
    append(to, frame);
}

/* ---- forwarding ---- */

static bool is_for(const Port *port, const unsigned char *mac) {
    return !port->known || (mac[0] & 1) || !memcmp(port->mac, mac, MAC);
}

static void forward(Switch *self, Port *from, int64_t time, const unsigned char *data, size_t size) {
    const unsigned char *ethernet = data + sizeof(struct virtio_net_hdr);
    int64_t duration = (int64_t)((double)line_bytes(data, size) * self->ns_a_byte);
    int64_t start = later(time, from->up_free);
    from->up_free = start + duration;
    from->known = true;
    memcpy(from->mac, ethernet + MAC, MAC);
    for (Port *to = self->ports; to < self->ports + self->count; to++) {
        if (to != from && is_for(to, ethernet)) {
            send_later(self, to, start, duration, data, size);
        }
    }
}

static bool is_booked(const Port *port, int64_t time) {
    return port->up_free > time + READ_AHEAD;
}

static void take_frames(Switch *self, Port *port) {
    static unsigned char data[LARGEST];
    for (int64_t time; time = now(), !is_booked(port, time);) {
        ssize_t size = read(port->fd, data, sizeof(data));
        if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (size < 0) {
            give_up("delay_switch: read");
        }
        if ((size_t)size >= sizeof(struct virtio_net_hdr) + ETHERNET) {
            forward(self, port, time, data, (size_t)size);
        }
    }
}

static void deliver_frames(Port *port) {
    while (port->first && port->first->due <= now()) {
        Frame *frame = port->first;
        port->first = frame->next;
        if (write(port->fd, frame->data, frame->size) < 0 && errno != EIO && errno != EAGAIN) { /* EIO: it is down */
            give_up("delay_switch: write");
        }
        free(frame);
    }
}

/* Until a frame is due, a booked line is free again, or a frame comes in on a line that is free. */
static void wait_for_work(const Switch *self) {
    struct pollfd polls[MOST_PORTS];
    int64_t time = now(), next = time + 1000000000;
    for (int i = 0; i < self->count; i++) {
        const Port *port = &self->ports[i];
        bool booked = is_booked(port, time);
        polls[i] = (struct pollfd){.fd = booked ? -1 : port->fd, .events = POLLIN};
        if (booked && port->up_free - READ_AHEAD < next) {
            next = port->up_free - READ_AHEAD;
        }
        if (port->first && port->first->due < next) {
            next = port->first->due;
        }
    }
    int64_t left = later(next - time, 0);
    struct timespec limit = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
    if (ppoll(polls, (nfds_t)self->count, &limit, NULL) < 0 && errno != EINTR) {
        give_up("delay_switch: ppoll");
    }
}

static void run(Switch *self) {
    for (;;) {
        wait_for_work(self);
        for (int i = 0; i < self->count; i++) {
            deliver_frames(&self->ports[i]);
            take_frames(self, &self->ports[i]);
        }
    }
}

int main(int argc, char **argv) {
    static Switch self;
    bool enough = argc > 6 && argc <= FIRST_SPACE + MOST_PORTS;
    double rate = enough ? atof(argv[1]) : 0, delay = enough ? atof(argv[2]) : -1, loss = enough ? atof(argv[3]) : -1;
    if (rate < 1e3 || rate > 1e12 || !(delay >= 0 && delay < 1e7) || !(loss >= 0 && loss < 1)) {
        fprintf(stderr, "usage: delay_switch BITS_PER_SECOND DELAY_US LOSS INTERFACE NAMESPACE NAMESPACE...\n");
        return 2;
    }
    self.ns_a_byte = 8e9 / rate;
    self.delay = (int64_t)(delay * 1e3);
    self.loss = loss;
    for (int i = FIRST_SPACE; i < argc; i++) {
        self.ports[self.count++].fd = open_port(argv[i], argv[4], loss > 0 ? 0 : TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6);
    }
    become_prompt();
    puts("ready");
    fflush(stdout);
    run(&self);
}
