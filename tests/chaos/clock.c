/* Preloaded into redis-server: its wall clock is off by as many microseconds as the first eight bytes of
   the file $CHAOS_CLOCK say, from one moment to the next. (libfaketime and the memory allocator of
   redis-server do not get on.) */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *apart_us;

__attribute__((constructor)) static void find(void) {
    const char *path = getenv("CHAOS_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *page = fd >= 0 ? mmap(NULL, sizeof *apart_us, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (fd >= 0) close(fd);
    if (page == MAP_FAILED) _exit(127);
    apart_us = (const volatile int64_t *)page;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    int64_t us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 + (apart_us ? *apart_us : 0);
    t->tv_sec = (time_t)(us / 1000000);
    t->tv_usec = (suseconds_t)(us % 1000000);
    return 0;
}
