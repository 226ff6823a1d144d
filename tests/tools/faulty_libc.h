/* A C library whose allocations or system calls can fail, for the whole program and the libraries that it
   is linked with: the functions here take the place of the library's. Only what is done while armed can
   fail; see faults.h. */
#ifndef FAULTY_LIBC_H_INCLUDED
#define FAULTY_LIBC_H_INCLUDED

#include "tests/tools/faults.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static bool memory_fails;           // else: system calls

/* ---- memory ------------------------------------------------------------------------------------ */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void  __libc_free(void *block);

static long blocks;                 // that are in use
static void count_blocks(long more) { __atomic_add_fetch(&blocks, more, __ATOMIC_RELAXED); }

/* Each program has this: a look at who asked for the memory that there is not. */
static void memory_failed(const char *call);

static bool no_memory(const char *call) {
    if (!memory_fails || fault_due(call, 1) < 0) return false;
    memory_failed(call);
    fault.name = "ENOMEM";
    fault_tally(call, fault.name);
    errno = ENOMEM;
    return true;
}
void *malloc(size_t size) {
    if (no_memory("malloc")) return NULL;
    count_blocks(1);
    return __libc_malloc(size);
}
void *calloc(size_t count, size_t size) {
    if (no_memory("calloc")) return NULL;
    count_blocks(1);
    return __libc_calloc(count, size);
}
void *realloc(void *block, size_t size) {
    if (no_memory("realloc")) return NULL;
    if (!block) count_blocks(1);
    return __libc_realloc(block, size);
}
void free(void *block) {
    if (block) count_blocks(-1);
    __libc_free(block);
}

/* ---- system calls ------------------------------------------------------------------------------ */

static const fault_call socket_calls[] = {
    {"socket", "EMFILE ENFILE ENOMEM ENOBUFS EACCES"},
    {"connect", "ECONNREFUSED ETIMEDOUT ENETUNREACH EADDRNOTAVAIL EINTR EAGAIN ENOMEM"},
    {"read", "ECONNRESET ETIMEDOUT EINTR EAGAIN EIO ENOMEM short"},
    {"recv", "ECONNRESET ECONNREFUSED EINTR EAGAIN ENOMEM short"},
    {"write", "EPIPE ECONNRESET EINTR EAGAIN ENOBUFS ENOMEM short"},
    {"send", "EPIPE ECONNRESET ECONNREFUSED EINTR EAGAIN ENOBUFS short"},
    {"setsockopt", "EINVAL ENOMEM"},
    {"getsockopt", "EINVAL ENOBUFS"},
    {"fcntl", "EINVAL EINTR"},
    {"poll", "EINTR ENOMEM EINVAL"},
    {"open", "EMFILE ENFILE EACCES EINTR"},
    {"fopen", "EMFILE ENFILE EACCES EINTR ENOMEM"},
    {"close", "EIO EINTR"},
    {"getaddrinfo", "EAGAIN ENOMEM"},
    {"socketpair", "EMFILE ENFILE ENOMEM"},
    {"getsockname", "ENOBUFS"},
    {"getpeername", "ENOBUFS"},
    {NULL, NULL}};

static int how_now(const char *call) { return memory_fails ? FAULT_GO : fault_ask(socket_calls, call); }

#define SOCKET_CALL(type, name, params, args)                                                                \
    type name params {                                                                                       \
        int how = how_now(#name);                                                                            \
        return how == FAULT_FAILS ? (type)-1 : (type)syscall args;                                           \
    }
SOCKET_CALL(int, socket, (int domain, int kind, int protocol), (SYS_socket, domain, kind, protocol))
SOCKET_CALL(int, connect, (int fd, __CONST_SOCKADDR_ARG to, socklen_t len),
            (SYS_connect, fd, *(const void *const *)(const void *)&to, len))
SOCKET_CALL(ssize_t, read, (int fd, void *to, size_t size), (SYS_read, fd, to, how == FAULT_SHORT ? 1 : size))
SOCKET_CALL(ssize_t, write, (int fd, const void *from, size_t size),
            (SYS_write, fd, from, how == FAULT_SHORT ? 1 : size))
SOCKET_CALL(ssize_t, recv, (int fd, void *to, size_t size, int flags),
            (SYS_recvfrom, fd, to, how == FAULT_SHORT ? 1 : size, flags, NULL, NULL))
SOCKET_CALL(ssize_t, send, (int fd, const void *from, size_t size, int flags),
            (SYS_sendto, fd, from, how == FAULT_SHORT ? 1 : size, flags, NULL, 0))
SOCKET_CALL(int, setsockopt, (int fd, int level, int name, const void *value, socklen_t len),
            (SYS_setsockopt, fd, level, name, value, len))
SOCKET_CALL(int, getsockopt, (int fd, int level, int name, void *value, socklen_t *len),
            (SYS_getsockopt, fd, level, name, value, len))
SOCKET_CALL(int, socketpair, (int domain, int kind, int protocol, int pair[2]),
            (SYS_socketpair, domain, kind, protocol, pair))
SOCKET_CALL(int, getsockname, (int fd, __SOCKADDR_ARG at, socklen_t *len),
            (SYS_getsockname, fd, *(void *const *)(void *)&at, len))
SOCKET_CALL(int, getpeername, (int fd, __SOCKADDR_ARG at, socklen_t *len),
            (SYS_getpeername, fd, *(void *const *)(void *)&at, len))

int fcntl(int fd, int command, ...) {
    va_list args;
    va_start(args, command);
    long with = va_arg(args, long);
    va_end(args);
    return how_now("fcntl") == FAULT_FAILS ? -1 : (int)syscall(SYS_fcntl, fd, command, with);
}
int open(const char *name, int flags, ...) {
    va_list args;
    va_start(args, flags);
    int mode = flags & O_CREAT ? va_arg(args, int) : 0;
    va_end(args);
    return how_now("open") == FAULT_FAILS ? -1 : (int)syscall(SYS_openat, AT_FDCWD, name, flags, mode);
}
int close(int fd) {                 // Linux closes it whatever it answers
    int how = how_now("close"), e = errno, result = (int)syscall(SYS_close, fd);
    if (how == FAULT_GO) return result;
    errno = e;
    return -1;
}
int poll(struct pollfd *fds, nfds_t count, int ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    return how_now("poll") == FAULT_FAILS ? -1 : ppoll(fds, count, ms < 0 ? NULL : &t, NULL);
}

/* The C library's own, for what is not a system call. */
#define NEXT(type, name, params)                                                                             \
    static type(*next) params;                                                                               \
    void *found = next ? NULL : dlsym(RTLD_NEXT, #name);                                                     \
    if (!next)                                                                                               \
    memcpy(&next, &found, sizeof next)

int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out) {
    NEXT(int, getaddrinfo, (const char *, const char *, const struct addrinfo *, struct addrinfo **));
    if (how_now("getaddrinfo") == FAULT_FAILS) return errno == ENOMEM ? EAI_MEMORY : EAI_AGAIN;
    return next(host, port, hints, out);
}
FILE *fopen(const char *name, const char *mode) {
    NEXT(FILE *, fopen, (const char *, const char *));
    return how_now("fopen") == FAULT_FAILS ? NULL : next(name, mode);
}

#endif
