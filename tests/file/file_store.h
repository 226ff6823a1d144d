/* What the tests of the file backend share: a directory of their own, the files of a store in it, and
   records written by hand. Everything works on descriptors or full names, so that tests may change
   directory. */
#ifndef FILE_STORE_H_INCLUDED
#define FILE_STORE_H_INCLUDED

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAYBE_UNUSED __attribute__((unused))

typedef struct store { char root[200], path[220], dir[224]; } store;

static MAYBE_UNUSED bool store_make(store *s) {
    const char *tmp = getenv("TMPDIR");
    snprintf(s->root, sizeof s->root, "%.150s/leader-test-XXXXXX", tmp && tmp[0] == '/' ? tmp : "/tmp");
    if (!mkdtemp(s->root)) return false;
    snprintf(s->path, sizeof s->path, "%s/job.lease", s->root);
    snprintf(s->dir, sizeof s->dir, "%s.d", s->path);
    return true;
}

static MAYBE_UNUSED int store_remove_one(const char *name, const struct stat *st, int kind, struct FTW *ftw) {
    (void)st; (void)kind; (void)ftw;
    return remove(name);
}
static MAYBE_UNUSED void store_remove_tree(const char *name) {
    nftw(name, store_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
static MAYBE_UNUSED void store_remove(store *s) {
    if (s->root[0])
        store_remove_tree(s->root);
    s->root[0] = 0;
}

/* A file of exactly these bytes, in place of whatever had the name. */
static MAYBE_UNUSED bool file_put(const char *name, const void *bytes, size_t len) {
    unlink(name);
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool good = fd >= 0;
    for (size_t done = 0; good && done < len;) {
        ssize_t n = write(fd, (const char *)bytes + done, len - done);
        good = n > 0;
        if (good) done += (size_t)n;
    }
    if (fd >= 0) close(fd);
    return good;
}
/* Its bytes with a 0 behind them; -1: no such file. */
static MAYBE_UNUSED ssize_t file_get(const char *name, char *buf, size_t cap) {
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return -1;
    ssize_t len = 0, n;
    while ((size_t)len + 1 < cap && (n = read(fd, buf + len, cap - 1 - (size_t)len)) > 0) len += n;
    buf[len] = 0;
    close(fd);
    return len;
}
static MAYBE_UNUSED bool file_exists(const char *name) { struct stat st; return lstat(name, &st) == 0; }

static MAYBE_UNUSED const char *in_dir(const store *s, const char *name) {
    static char buf[4][600];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(buf[turn], sizeof buf[turn], "%s/%s", s->dir, name);
    return buf[turn];
}
/* What stands in the directory. */
typedef struct names { int records, terms, locks, drafts, others; uint64_t token; char record[256]; } names;
static MAYBE_UNUSED names store_names(const store *s) {
    names n;
    memset(&n, 0, sizeof n);
    DIR *d = opendir(s->dir);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.' || strcmp(e->d_name, "record") == 0) continue;
        if (strncmp(e->d_name, "lock.", 5) == 0) n.locks++;
        else if (strncmp(e->d_name, "term.", 5) == 0) n.terms++;
        else if (strncmp(e->d_name, "copy.", 5) == 0 || strncmp(e->d_name, "new.", 4) == 0) n.drafts++;
        else n.others++;
    }
    if (d) closedir(d);
    d = opendir(in_dir(s, "record"));
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        n.records++;
        n.token = strtoull(e->d_name, NULL, 10);
        snprintf(n.record, sizeof n.record, "%s", e->d_name);
    }
    if (d) closedir(d);
    return n;
}
/* The one file in record/, and the text that belongs to it. */
static MAYBE_UNUSED const char *record_name(const store *s) {
    char name[300];
    snprintf(name, sizeof name, "record/%s", store_names(s).record);
    return in_dir(s, name);
}
static MAYBE_UNUSED const char *term_name(const store *s) {
    names n = store_names(s);
    char name[64], nonce[17] = "", draft[17] = "";
    sscanf(n.record, "%*[0-9].%16[0-9a-f]-%16[0-9a-f]", nonce, draft);
    snprintf(name, sizeof name, "term.%s.%s", nonce, draft);
    return in_dir(s, name);
}

static MAYBE_UNUSED void this_boot(char buf[40]) {
    ssize_t n = file_get("/proc/sys/kernel/random/boot_id", buf, 40);
    buf[n > 0 ? n : 0] = 0;
    buf[strcspn(buf, "\n")] = 0;
}
static MAYBE_UNUSED uint64_t this_time_namespace(void) {
    struct stat st;
    return stat("/proc/self/ns/time", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* A record by hand: set what matters, the rest is that of a stranger on this very kernel. */
typedef struct record {
    const char *holder, *duration, *boot;
    uint64_t token, nonce, seq, renewal, time_namespace, lock_device, lock_inode, hold_off_ms;
    int64_t stamp_ms;
    uint64_t lease_ms;                              // as its name says it; duration: as its text does
} record;

static MAYBE_UNUSED record record_of(const char *holder, uint64_t token, int64_t stamp_ms) {
    static char boot[40];
    record r = {holder, "3s", boot, token,   UINT64_C(0x5eed5eed5eed5eed), 1, 7, this_time_namespace(),
                0,      0,    0,    stamp_ms, 3000};
    this_boot(boot);
    return r;
}
static MAYBE_UNUSED size_t record_text(char *buf, size_t cap, const record *r) {
    return (size_t)snprintf(buf, cap,
                            "{\"holder\": \"%s\", \"renewTime\": \"2026-11-16T01:28:19.182774Z\", "
                            "\"leaseDuration\": \"%s\", \"acquireTime\": \"2026-11-16T01:28:19.182774Z\","
                            " \"token\": %llu, \"nonce\": \"%016llx\", \"seq\": %llu, \"bootId\": \"%s\", "
                            "\"timeNamespace\": %llu, \"bootClockMs\": %lld,"
                            " \"lockDevice\": %llu, \"lockInode\": %llu, \"holdOffMs\": %llu, \"origin\": "
                            "\"00000000000000aa\", \"renewal\": %llu}\n",
                            r->holder, r->duration, (unsigned long long)r->token,
                            (unsigned long long)r->nonce, (unsigned long long)r->seq, r->boot,
                            (unsigned long long)r->time_namespace, (long long)r->stamp_ms,
                            (unsigned long long)r->lock_device, (unsigned long long)r->lock_inode,
                            (unsigned long long)r->hold_off_ms, (unsigned long long)r->renewal);
}
/* Makes it the record, with any text. */
static MAYBE_UNUSED bool record_put_text(const store *s, const record *r, const void *text, size_t len) {
    char name[200], term[64];
    mkdir(s->dir, 0700);
    store_remove_tree(in_dir(s, "record"));
    mkdir(in_dir(s, "record"), 0700);
    snprintf(name, sizeof name, "record/%llu.%016llx-1.%llx.%llx.%llx.%llx", (unsigned long long)r->token,
             (unsigned long long)r->nonce, (unsigned long long)r->renewal, (unsigned long long)r->stamp_ms,
             (unsigned long long)r->lease_ms, (unsigned long long)r->hold_off_ms);
    snprintf(term, sizeof term, "term.%016llx.1", (unsigned long long)r->nonce);
    return file_put(in_dir(s, term), text, len) && file_put(in_dir(s, name), "", 0);
}
static MAYBE_UNUSED bool record_put(const store *s, const record *r) {
    char text[1024];
    size_t len = record_text(text, sizeof text, r);
    return record_put_text(s, r, text, len);
}

#endif
