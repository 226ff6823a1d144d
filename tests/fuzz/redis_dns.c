/* What the Redis backend's resolver reads: a name server's answer, /etc/hosts and /etc/resolv.conf.

   The input: a name, and then the bytes of an answer to the question for it, of which the first two are
   the question's number; the same bytes stand in for the two files. */
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
        if (memcmp(reply + at + 10, raw, width) == 0 && reply[at] == 0 && reply[at + 1] == (v6 ? 28 : 1)
            && reply[at + 8] == 0 && reply[at + 9] == width)
            return true;
    return false;
}

static void dns_answer(const char *name, const uint8_t *reply, size_t size, bool v6) {
    static leader_redis_lookup_ l;
    memset(&l, 0, sizeof l);
    l.query_len =
        leader_redis_question_(l.query, size >= 2 ? (unsigned)(reply[0] << 8 | reply[1]) : 7u, name, v6);
    MUST(l.query_len <= sizeof l.query);
    if (l.query_len == 0) return;
    uint8_t *exact = (uint8_t *)fuzz_text(reply, size);         // so that the byte after the last is nobody's
    int said = leader_redis_read_dns_(&l, exact, size);
    MUST(said >= LEADER_REDIS_DNS_STRANGER_ && said <= LEADER_REDIS_DNS_TAKEN_);
    MUST(l.count >= 0 && l.count <= LEADER_REDIS_ADDRESSES_
         && (l.count == 0 || said >= LEADER_REDIS_DNS_TROUBLE_));
    for (int i = 0; i < l.count; i++) MUST(dns_stands_there(reply, size, l.found[i], v6));
    if (said != LEADER_REDIS_DNS_STRANGER_) MUST(size >= l.query_len && reply[2] & 0x80);
    /* An answer to another question is not believed. */
    l.query[0] ^= 1;
    MUST(leader_redis_read_dns_(&l, exact, size) == LEADER_REDIS_DNS_STRANGER_);
    free(exact);
}

static void dns_files(const char *name) {
    leader_redis_resolv_ c;
    static leader_redis_lookup_ l;
    char form[200];
    memset(&l, 0, sizeof l);
    memcpy(l.host, name, strlen(name) + 1);
    leader_redis_look_in_hosts_(&l);
    for (int i = 0; i < l.count; i++) MUST(leader_redis_is_numeric_(l.found[i]));
    leader_redis_read_resolv_(&c);
    MUST(c.servers >= 1 && c.servers <= 3 && c.searches >= 0 && c.searches <= 6);
    for (int i = 0; i < c.servers; i++) MUST(leader_redis_is_numeric_(c.server[i]));
    int i = 0;
    while (i < 20 && leader_redis_form_(&c, name, i, form, sizeof form)) {
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
