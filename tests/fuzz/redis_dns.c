/* What the Redis backend's resolver reads: a name server's answer, /etc/hosts and /etc/resolv.conf.

   The input: a name, and then the bytes of an answer to the question for it, of which the first two are the question's number;
   the same bytes stand in for the two files. */
#ifndef LEADER_WITH_REDIS
#  define LEADER_WITH_REDIS
#endif
#include "fuzz.h"
#include <sys/mman.h>

/* An address that was believed stands in the answer, behind its type, its class and its length. */
static bool dns_stands_there(const uint8_t *reply, size_t size, const char *address, bool v6) {
    uint8_t raw[16];
    size_t width = v6 ? 16 : 4;
    if (inet_pton(v6 ? AF_INET6 : AF_INET, address, raw) != 1) return false;
    for (size_t at = 12; at + 10 + width <= size; at++)
        if (memcmp(reply + at + 10, raw, width) == 0 && reply[at] == 0 && reply[at + 1] == (v6 ? 28 : 1) && reply[at + 8] == 0 && reply[at + 9] == width) return true;
    return false;
}

static void dns_answer(const char *name, const uint8_t *reply, size_t size, bool v6) {
    unsigned char query[300];
    char address[64] = "none";
    size_t length = leader_redis_question_(query, size >= 2 ? (unsigned)(reply[0] << 8 | reply[1]) : 7u, name, v6);
    MUST(length <= sizeof query);
    if (length == 0) return;
    uint8_t *exact = (uint8_t *)fuzz_text(reply, size);         /* so that the byte after the last is nobody's           */
    int said = leader_redis_read_dns_(exact, size, query, length, address);
    MUST(said >= -1 && said <= 1);
    MUST(said == 1 ? dns_stands_there(reply, size, address, v6) : strcmp(address, "none") == 0);
    if (said >= 0) MUST(size >= length && reply[2] & 0x80);
    /* An answer to another question is not believed. */
    query[0] ^= 1;
    MUST(leader_redis_read_dns_(exact, size, query, length, address) == -1);
    free(exact);
}

static void dns_files(const char *name) {
    leader_redis_resolver_ c;
    char address[64] = "", form[200];
    unsigned char raw[16];
    if (leader_redis_in_hosts_(name, address)) MUST(inet_pton(AF_INET, address, raw) == 1 || inet_pton(AF_INET6, address, raw) == 1);
    leader_redis_read_resolver_(&c);
    MUST(c.servers >= 1 && c.servers <= 3 && c.searches >= 0 && c.searches <= 6);
    for (int i = 0; i < c.servers; i++) MUST(leader_redis_is_numeric_(c.server[i]));
    int i = 0;
    while (i < 20 && leader_redis_candidate_(&c, name, i, form, sizeof form)) {
        MUST(strncmp(form, name, strlen(name)) == 0);
        i++;
    }
    MUST(i <= 7);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char path[64];
    static int file = -1;
    fuzz_input in = fuzz_open(data, size);
    fuzz_reset();
    char *name = fuzz_line(&in);
    size_t left = (size_t)(in.end - in.at);
    if (file < 0) {
        file = (int)syscall(SYS_memfd_create, "fuzz", 0u);
        MUST(file >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    MUST(ftruncate(file, 0) == 0 && pwrite(file, in.at, left, 0) == (ssize_t)left);
    fuzz_conf_path = path;
    if (strlen(name) < 256) {
        dns_answer(name, in.at, left, false);
        dns_answer(name, in.at, left, true);
        dns_files(name);
    }
    fuzz_conf_path = "/dev/null";
    free(name);
    return 0;
}
