/* fuzz.h - what the fuzz targets share: a deterministic leader.h, a clock, the input as a stream of small
   choices, MUST.

   Each target is one file with LLVMFuzzerTestOneInput. libFuzzer drives it (make fuzz), and all.c feeds
   the inputs of corpus/ to all of them with any compiler (make test). A target that needs a backend
   defines LEADER_WITH_... before it includes this. */
#ifndef FUZZ_H_INCLUDED
#define FUZZ_H_INCLUDED

#define LEADER_IMPLEMENTATION
#define LEADER_RANDOM64() fuzz_random64()
#define fsync fuzz_fsync                            // no record of a fuzzer needs to survive a power cut
#include <stdint.h>
#include <unistd.h>
int fuzz_fsync(int fd) { (void)fd; return 0; }
static uint64_t fuzz_random64(void);
static const char *fuzz_conf_path = "/dev/null";    // what stands in for /etc/hosts and /etc/resolv.conf
#define LEADER_REDIS_HOSTS fuzz_conf_path
#define LEADER_REDIS_RESOLV_CONF fuzz_conf_path
#include "leader.h"
#include <stdlib.h>

#define FUZZ_UNUSED __attribute__((unused))

/* A broken promise ends the program, as a sanitizer's finding does: that is what libFuzzer and all.c look
   for. */
#define MUST(x) ((x) ? (void)0 : fuzz_broken(#x, __FILE__, __LINE__))
FUZZ_UNUSED static void fuzz_broken(const char *what, const char *file, int line) {
    fprintf(stderr, "%s:%d: broken: %s\n", file, line, what);
    abort();
}

/* The same input is the same run. */
static uint64_t fuzz_random_state;
static uint64_t fuzz_random64(void) {
    return fuzz_random_state = fuzz_random_state * 6364136223846793005u + 1442695040888963407u;
}

static int64_t fuzz_now_ms;
FUZZ_UNUSED static int64_t fuzz_clock_ms(void *user) { (void)user; return fuzz_now_ms; }

FUZZ_UNUSED static void fuzz_reset(void) {
    fuzz_random_state = 1;
    fuzz_now_ms = 1000000;
}

/* The input as a stream; past its end all is 0. */
typedef struct fuzz_input { const uint8_t *at, *end; } fuzz_input;

FUZZ_UNUSED static fuzz_input fuzz_open(const uint8_t *data, size_t size) {
    fuzz_input in = {data, data + size};
    return in;
}

FUZZ_UNUSED static uint8_t fuzz_byte(fuzz_input *in) { return in->at < in->end ? *in->at++ : 0; }

FUZZ_UNUSED static uint64_t fuzz_bytes(fuzz_input *in, int count) {
    uint64_t n = 0;
    while (count-- > 0) n = n << 8 | fuzz_byte(in);
    return n;
}

/* A number of any size in a form that mutation finds its way through: first how large, then which. */
FUZZ_UNUSED static int64_t fuzz_number(fuzz_input *in) {
    int kind = fuzz_byte(in);
    switch (kind & 7) {
    case 0:  return 0;
    case 1:  return (int64_t)fuzz_bytes(in, 1);
    case 2:  return (int64_t)fuzz_bytes(in, 2);
    case 3:  return (int64_t)fuzz_bytes(in, 4);
    case 4:  return INT64_MAX - (int64_t)fuzz_bytes(in, 2);
    case 5:  return INT64_MIN + (int64_t)fuzz_bytes(in, 2);
    case 6:  return -(int64_t)fuzz_bytes(in, 2);
    default: return (int64_t)fuzz_bytes(in, 8);
    }
}

/* The rest of the input, or of its next line, as a string that ends where it must: one byte beyond it is
   not ours to read. */
FUZZ_UNUSED static char *fuzz_text(const void *data, size_t size) {
    char *text = (char *)malloc(size + 1);
    MUST(text != NULL);
    if (size) memcpy(text, data, size);
    text[size] = 0;
    return text;
}

FUZZ_UNUSED static char *fuzz_line(fuzz_input *in) {
    const uint8_t *start = in->at;
    while (in->at < in->end && *in->at != '\n') in->at++;
    char *line = fuzz_text(start, (size_t)(in->at - start));
    if (in->at < in->end) in->at++;
    return line;
}

/* UTF-8 by the book: decode, and see whether the shortest form of what came out is what stood there. */
FUZZ_UNUSED static size_t fuzz_utf8(const char *text, size_t left) {
    const unsigned char *s = (const unsigned char *)text;
    size_t width = s[0] < 0x80             ? 1
                   : (s[0] & 0xe0) == 0xc0 ? 2
                   : (s[0] & 0xf0) == 0xe0 ? 3
                   : (s[0] & 0xf8) == 0xf0 ? 4
                                           : 0;
    unsigned long point = width == 1 ? s[0] : s[0] & (0x7fu >> width);
    if (width == 0 || width > left) return 0;
    for (size_t i = 1; i < width; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
        point = point << 6 | (s[i] & 0x3f);
    }
    if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return 0;
    return width == (point < 0x80 ? 1u : point < 0x800 ? 2u : point < 0x10000 ? 3u : 4u) ? width : 0;
}

FUZZ_UNUSED static bool fuzz_is_utf8(const char *text, size_t size) {
    for (size_t at = 0, width; at < size; at += width)
        if ((width = fuzz_utf8(text + at, size - at)) == 0)
            return false;
    return true;
}

/* The core as a backend sees it, for functions of a backend that are called without an election. */
static leader_config fuzz_config;
FUZZ_UNUSED static char fuzz_said[600];
FUZZ_UNUSED static void fuzz_host_fd(void *core, intptr_t fd, int events) {
    (void)core;
    (void)fd;
    (void)events;
}
FUZZ_UNUSED static void fuzz_host_due(void *core) { (void)core; }
FUZZ_UNUSED static void fuzz_host_log(void *core, leader_level level, const char *text) {
    (void)core; (void)level;
    MUST(strlen(text) < sizeof fuzz_said);
    memcpy(fuzz_said, text, strlen(text) + 1);
}
FUZZ_UNUSED static leader_host fuzz_host(void) {
    leader_host host = {NULL, &fuzz_config, fuzz_host_fd, fuzz_host_due, fuzz_host_log, fuzz_clock_ms,
                        NULL};
    memset(&fuzz_config, 0, sizeof fuzz_config);
    fuzz_config.lease_ms = 15000;
    fuzz_config.renew_deadline_ms = 10000;
    fuzz_config.request_timeout_ms = 2500;
    return host;
}

#endif
