/* The functions of libc that the linker wraps: the control plane's calls come here (tests/simulation/meson.build). */
#pragma once
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>

int __wrap_pthread_join(pthread_t thread, void **result);
int __real_pthread_join(pthread_t thread, void **result);
int __wrap_eventfd(unsigned initial, int flags);
int __real_eventfd(unsigned initial, int flags);
int __wrap_eventfd_write(int fd, eventfd_t value);
int __real_eventfd_write(int fd, eventfd_t value);
int __wrap_eventfd_read(int fd, eventfd_t *value);
int __real_eventfd_read(int fd, eventfd_t *value);
int __wrap_close(int fd);
int __real_close(int fd);
int __wrap_poll(struct pollfd *slots, nfds_t count, int timeout);
int __real_poll(struct pollfd *slots, nfds_t count, int timeout);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __real_clock_gettime(clockid_t clock, struct timespec *time);
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags);
int __wrap_gethostname(char *name, size_t size);
long __wrap_sysconf(int name);
long __real_sysconf(int name);
int __wrap_socket(int family, int type, int protocol);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t size);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *size);
