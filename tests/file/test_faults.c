/* The core on a store in memory that answers anything, and the file backend on a file system that fails:
   every call once, in every way. Time is turned by the test, so that a run takes about a millisecond. */
#if !defined(_GNU_SOURCE)
#  define _GNU_SOURCE 1
#endif
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "tests/tools/utest.h"
#include "tests/file/file_store.h"
#include "tests/tools/faults.h"

#include <sys/inotify.h>
#include <sys/vfs.h>

static void let_pass(int wait_ms) { S.now_ms += wait_ms; }

static bool on_files;               // else: in memory

/* ---- a store in memory that keeps the rules, and can be told to answer anything ---------------- */

enum { REPLY_MS = 3, LATE_MS = 9000 };

typedef struct request { int op, player; uint64_t seq, nonce, min_token; int64_t lease_ms; } request;
static struct {
    int      holder;                // a player; -1: nobody
    uint64_t nonce, seq, token;
    int64_t  until_ms;
    request  late;  // carried out at late_ms, when its sender has given it up; late_ms 0: none
    int64_t  late_ms;
    int      opens, closes;
    // requests under way
    struct {
        uint64_t seq;
        int64_t due_ms;
        leader_result result;
        leader_record seen;
        bool mute;
    } line[PLAYERS];
} mem;

enum { MEM_ACQUIRE, MEM_RENEW, MEM_RELEASE, MEM_OBSERVE };

static leader_result mem_do(const request *r, leader_record *seen) {
    bool held = mem.holder >= 0,
         mine = held && mem.holder == r->player && mem.nonce == r->nonce && mem.seq <= r->seq;
    bool taken = held && S.now_ms <= mem.until_ms && !mine;
    snprintf(seen->holder, sizeof seen->holder, "%s", held ? S.p[mem.holder].cfg.identity : "");
    seen->token = held ? mem.token : 0;
    seen->expires_in_ms = held && mem.until_ms >= S.now_ms ? mem.until_ms - S.now_ms : 0;
    if (r->op == MEM_OBSERVE) return held && S.now_ms <= mem.until_ms ? LEADER_HELD : LEADER_OK;
    if (r->op == MEM_ACQUIRE && taken) return LEADER_HELD;
    if (r->op != MEM_ACQUIRE && !mine) return LEADER_LOST;
    if (r->op == MEM_RELEASE) { mem.holder = -1; return LEADER_OK; }
    if (r->op == MEM_ACQUIRE) {
        mem.token = mem.token + 1 > r->min_token ? mem.token + 1 : r->min_token;
        mem.holder = r->player;
        mem.nonce = r->nonce;
        mem.seq = r->seq;
        seen->token = mem.token;
    }
    mem.until_ms = S.now_ms + r->lease_ms;
    return LEADER_OK;
}

/* Every answer that a store may give, and those that it may not. `acts`: the request is carried out all
   the same: 1 at once, 2 when its sender has long given it up. */
static const struct { const char *name; leader_result result; int acts; uint64_t token; } answers[] = {
    
    #define EVERY(name, number, text) {"not done, " #name, name, 0, 0}, {"done, " #name, name, 1, 0},
    LEADER_RESULTS(EVERY)
    #undef EVERY
    {"done late, LEADER_PENDING", LEADER_PENDING, 2, 0},
    {"done late, LEADER_E_IO", LEADER_E_IO, 2, 0},
    {"done late, LEADER_E_TIMEOUT", LEADER_E_TIMEOUT, 2, 0},
    {"token 2^63", LEADER_HELD, 0, UINT64_C(1) << 63},
    {"token 2^64 - 1", LEADER_E_IO, 1, UINT64_MAX},
    {"result 99", (leader_result)99, 1, 0},
    {"result -99", (leader_result)-99, 1, 0}};
enum { ANSWERS = sizeof answers / sizeof answers[0] };

static leader_result mem_call(int op, void *self, const leader_request *q, leader_record *seen) {
    int i = (int)((player *)self - S.p);
    request r = {op, i, q->seq, q->nonce, q->min_token, q->lease_ms};
    bool fresh = mem.line[i].seq != q->seq;
    if (fresh && q->seq < mem.line[i].seq) wrong("seq fell");
    if (fresh) { mem.line[i].seq = q->seq; mem.line[i].mute = false; }
    if (!fresh && (mem.line[i].mute || S.now_ms < mem.line[i].due_ms)) return LEADER_PENDING;
    int way = fault_due(fresh ? "request" : "answer", ANSWERS);
    /* An OK that is not true would be a store that breaks its one duty: it is left out. */
    if (way >= 0 && !(answers[way].result == LEADER_OK && !answers[way].acts)) {
        fault.name = answers[way].name;
        fault_tally("store", answers[way].name);
        leader_record unseen;
        memset(&unseen, 0, sizeof unseen);
        if (fresh && answers[way].acts == 1) {
            leader_result truth = mem_do(&r, &unseen);
            if (answers[way].result == LEADER_OK) {
                *seen = unseen;
                return truth;
            }
        }
        if (fresh && answers[way].acts == 2) { mem.late = r; mem.late_ms = S.now_ms + LATE_MS; }
        if (answers[way].result == LEADER_OK) { *seen = mem.line[i].seen; return mem.line[i].result; }
        mem.line[i].mute = answers[way].result == LEADER_PENDING;
        seen->token = answers[way].token;
        return answers[way].result;
    }
    if (fresh) {
        memset(&mem.line[i].seen, 0, sizeof mem.line[i].seen);
        mem.line[i].result = mem_do(&r, &mem.line[i].seen);
        mem.line[i].due_ms = S.now_ms + REPLY_MS;
        return LEADER_PENDING;
    }
    *seen = mem.line[i].seen;
    return mem.line[i].result;
}
static leader_result mem_acquire(void *self, const leader_request *q, leader_record *seen) {
    return mem_call(MEM_ACQUIRE, self, q, seen);
}
static leader_result mem_renew(void *self, const leader_request *q, leader_record *seen) {
    return mem_call(MEM_RENEW, self, q, seen);
}
static leader_result mem_release(void *self, const leader_request *q, leader_record *seen) {
    return mem_call(MEM_RELEASE, self, q, seen);
}
static leader_result mem_observe(void *self, const leader_request *q, leader_record *seen) {
    return mem_call(MEM_OBSERVE, self, q, seen);
}
static bool mem_poll(void *self) {
    (void)self;
    if (fault_due("poll", 1) < 0) return false;
    fault_tally("poll", "true");
    return true;
}
static void mem_cancel(void *self) { mem.line[(player *)self - S.p].mute = true; }
static const char *mem_open(void *self, const leader_host *host) {
    (void)host;
    memset(&mem.line[(player *)self - S.p], 0, sizeof mem.line[0]);
    if (fault_due("open", 1) >= 0) { fault_tally("open", "refuses"); return "the store does not want to"; }
    mem.opens++;
    return NULL;
}
static void mem_close(void *self) { (void)self; mem.closes++; }

/* ---- a file system whose calls can fail -------------------------------------------------------- */

static const fault_call file_calls[] = {
    {"open", "EMFILE ENFILE ENOMEM EACCES EIO EINTR"},
    {"openat", "EMFILE ENFILE ENOMEM EACCES EIO EINTR"},
    {"create", "EMFILE ENFILE ENOMEM EACCES EIO EINTR ENOSPC EDQUOT EROFS"},
    {"close", "EIO EINTR"},
    {"read", "EIO EINTR short"},
    {"write", "ENOSPC EDQUOT EIO EINTR ENOMEM short"},
    {"fsync", "EIO ENOSPC EDQUOT EROFS lie"},
    {"lseek", "EIO"},
    {"getdents64", "EIO ENOMEM EINTR"},
    {"fstat", "EIO ENOMEM"},
    {"fstatat", "EIO ENOMEM EACCES EINTR"},
    {"stat", "EIO ENOMEM EACCES"},
    {"lstat", "EIO ENOMEM EACCES"},
    {"fstatfs", "EIO EINTR ENOSYS"},
    {"fcntl", "ENOLCK EINTR EAGAIN"},
    {"link", "ENOSPC EDQUOT EIO EROFS EACCES ENOMEM lie"},
    {"linkat", "ENOSPC EDQUOT EIO EROFS EACCES ENOMEM EINTR lie"},
    {"unlink", "EIO EROFS EACCES ENOMEM lie"},
    {"unlinkat", "EIO EROFS EACCES ENOMEM EINTR lie"},
    {"renameat", "ENOSPC EDQUOT EIO EROFS EACCES ENOMEM lie"},
    {"mkdir", "ENOSPC EDQUOT EIO EROFS EACCES ENOMEM lie"},
    {"chmod", "EIO EROFS EACCES"},
    {"fchmod", "EIO EROFS EACCES"},
    {"mkdirat", "ENOSPC EDQUOT EIO EROFS EACCES ENOMEM lie"},
    {"pwrite", "ENOSPC EDQUOT EIO EINTR"},
    {"fchown", "EIO EROFS EPERM"},
    {"inotify_rm_watch", "EINVAL"},
    {"inotify_init1", "EMFILE ENFILE ENOMEM"},
    {"inotify_add_watch", "ENOSPC ENOMEM EACCES"},
    {"getrandom", "EAGAIN ENOSYS"},
    {NULL, NULL}};

#define FILE_CALL(type, name, params, args)                                                                  \
    type __real_##name params;                                                                               \
    type __wrap_##name params;                                                                               \
    type __wrap_##name params {                                                                              \
        FAULTY(file_calls, type, name, __real_##name args);                                                  \
    }
FILE_CALL(off_t, lseek, (int fd, off_t at, int from), (fd, at, from))
FILE_CALL(int, fstat, (int fd, struct stat *st), (fd, st))
FILE_CALL(int, fstatat, (int dir, const char *name, struct stat *st, int flags), (dir, name, st, flags))
FILE_CALL(int, stat, (const char *name, struct stat *st), (name, st))
FILE_CALL(int, lstat, (const char *name, struct stat *st), (name, st))
FILE_CALL(int, fstatfs, (int fd, struct statfs *st), (fd, st))
FILE_CALL(int, link, (const char *from, const char *to), (from, to))
FILE_CALL(int, linkat, (int from_dir, const char *from, int to_dir, const char *to, int flags),
          (from_dir, from, to_dir, to, flags))
FILE_CALL(int, unlink, (const char *name), (name))
FILE_CALL(int, unlinkat, (int dir, const char *name, int flags), (dir, name, flags))
FILE_CALL(int, renameat, (int from_dir, const char *from, int to_dir, const char *to),
          (from_dir, from, to_dir, to))
FILE_CALL(int, mkdir, (const char *name, mode_t mode), (name, mode))
FILE_CALL(int, mkdirat, (int dir, const char *name, mode_t mode), (dir, name, mode))
FILE_CALL(ssize_t, pwrite, (int fd, const void *from, size_t size, off_t at), (fd, from, size, at))
FILE_CALL(int, fchown, (int fd, uid_t owner, gid_t group), (fd, owner, group))
FILE_CALL(int, inotify_rm_watch, (int fd, int watch), (fd, watch))
FILE_CALL(int, chmod, (const char *name, mode_t mode), (name, mode))
FILE_CALL(int, fchmod, (int fd, mode_t mode), (fd, mode))
FILE_CALL(int, inotify_init1, (int flags), (flags))
FILE_CALL(int, inotify_add_watch, (int fd, const char *name, uint32_t mask), (fd, name, mask))

int __wrap_fsync(int fd);           // nothing here has to outlive the machine
int __wrap_fsync(int fd) { FAULTY(file_calls, int, fsync, ((void)fd, 0)); }

int __real_close(int fd);
int __wrap_close(int fd);           // Linux closes it whatever it answers
int __wrap_close(int fd) {
    int how = fault_ask(file_calls, "close"), e = errno, result = __real_close(fd);
    if (how == FAULT_GO) return result;
    errno = e;
    return -1;
}

ssize_t __real_read(int fd, void *to, size_t size);
ssize_t __wrap_read(int fd, void *to, size_t size);
ssize_t __wrap_read(int fd, void *to, size_t size) {
    int how = fault_ask(file_calls, "read");
    struct stat st;                 // inotify hands out whole events only
    bool whole = how == FAULT_SHORT && __real_fstat(fd, &st) == 0 && !S_ISREG(st.st_mode);
    return how == FAULT_FAILS ? -1 : __real_read(fd, to, how == FAULT_SHORT && !whole ? 1 : size);
}
ssize_t __real_write(int fd, const void *from, size_t size);
ssize_t __wrap_write(int fd, const void *from, size_t size);
ssize_t __wrap_write(int fd, const void *from, size_t size) {
    int how = fault_ask(file_calls, "write");
    return how == FAULT_FAILS ? -1 : __real_write(fd, from, how == FAULT_SHORT ? 1 : size);
}

static mode_t mode_after(int flags, va_list args) { return flags & O_CREAT ? (mode_t)va_arg(args, int) : 0; }
int __real_open(const char *name, int flags, ...);
int __wrap_open(const char *name, int flags, ...);
int __wrap_open(const char *name, int flags, ...) {
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_after(flags, args);
    va_end(args);
    FAULTY(file_calls, int, open, __real_open(name, flags, mode));
}
int __real_openat(int dir, const char *name, int flags, ...);
int __wrap_openat(int dir, const char *name, int flags, ...);
int __wrap_openat(int dir, const char *name, int flags, ...) {
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_after(flags, args);
    va_end(args);
    if (flags & O_CREAT) FAULTY(file_calls, int, create, __real_openat(dir, name, flags, mode));
    FAULTY(file_calls, int, openat, __real_openat(dir, name, flags));
}
int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...) {
    va_list args;
    va_start(args, command);
    void *with = va_arg(args, void *);      // the library asks for locks only
    va_end(args);
    FAULTY(file_calls, int, fcntl, __real_fcntl(fd, command, with));
}
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...) {
    va_list args;
    va_start(args, number);
    long a = va_arg(args, long), b = va_arg(args, long), c = va_arg(args, long);
    va_end(args);
    if (number == SYS_getdents64) FAULTY(file_calls, long, getdents64, __real_syscall(number, (int)a, b, c));
    static uint64_t chance = 88172645463325252u;         // the same in every run: so are its n
    if (S.beats == 0 && !S.p[0].open) chance = 88172645463325252u;
    chance ^= chance << 13; chance ^= chance >> 7; chance ^= chance << 17;
    memcpy((void *)a, &chance, sizeof chance);
    FAULTY(file_calls, long, getrandom, (long)sizeof chance);
}

/* ---- runs -------------------------------------------------------------------------------------- */

static store files;
static leader_file file_of[PLAYERS];

static leader_backend backend_of(int i) {
    leader_backend b = {&S.p[i],    mem_acquire, mem_renew, mem_release, mem_observe, mem_poll,
                        mem_cancel, mem_open,    mem_close, NULL,        "memory"};
    return on_files ? leader_file_backend(&file_of[i], files.path) : b;
}

/* A candidate that reads true has the record: its own, of that token, that nobody else may take. */
static void checked(void) {
    int who = leading();
    if (on_files && fault.hit) {    // before that, every run is the beginning of the next one
        names n = who >= 0 ? store_names(&files) : (names){0, 0, 0, 0, 0, 0, ""};
        char text[4096], holder[40];
        if (who < 0) return;
        snprintf(holder, sizeof holder, "\"holder\": \"%s\"", S.p[who].cfg.identity);
        bool its = file_get(term_name(&files), text, sizeof text) > 0 && strstr(text, holder);
        if (!its || strstr(n.record, "released") || n.token != leader_token(&S.p[who].me))
            wrong("FALSE LEADER: %s, and the record is %s", S.p[who].cfg.identity, text);
        return;
    }
    if (on_files) return;
    if (mem.late_ms && S.now_ms >= mem.late_ms) {
        leader_record unseen;
        memset(&unseen, 0, sizeof unseen);
        mem.late_ms = 0;
        mem_do(&mem.late, &unseen);
    }
    if (who >= 0
        && (mem.holder != who || mem.token != leader_token(&S.p[who].me) || S.now_ms >= mem.until_ms))
        wrong("FALSE LEADER: %s, and the record is %s's", S.p[who].cfg.identity,
              mem.holder < 0 ? "nobody" : S.p[mem.holder].cfg.identity);
}

static void prepare(void) {
    S.now_ms = S.led_ms = 1000000;
    S.expires = true;
    S.gap_max_ms = 6000;       // a lease, the longest retry, and a request that times out
    for (int i = 0; i < PLAYERS; i++) {
        S.p[i].cfg.lease_ms = 3000;
        S.p[i].cfg.renew_deadline_ms = 2700;
        S.p[i].cfg.retry_ms = i == WATCHER ? 2000 : 1000;
        S.p[i].cfg.retry_max_ms = 2000;
    }
    memset(&mem, 0, sizeof mem);
    mem.holder = -1;
    if (on_files && !store_make(&files)) wrong("no directory");
}

static void run_once(void) {
    play();
    if (mem.opens != mem.closes) wrong("%d opens, %d closes", mem.opens, mem.closes);
    // what could not be removed at the end of a life is removed by the next one
    if (on_files && !S.wrong[0]) {
        fault.nth = -1;
        enter_stage(PLAYER_A);
        until_led(0);
        leader_stop(&S.p[PLAYER_A].me);
        until_stopped(PLAYER_A);
        exit_stage(PLAYER_A);
        names n = store_names(&files);
        if (n.records != 1 || n.terms != 1) wrong("%d records and %d texts in the end", n.records, n.terms);
        if (n.locks || n.drafts || n.others)
            wrong("in the end there are %d locks, %d drafts, %d others", n.locks, n.drafts, n.others);
    }
    if (on_files) store_remove(&files);
}

UTEST(faults, one_leader_whatever_the_store_answers) {
    on_files = false;
    EXPECT_EQ(0, sweep("core", 2));
}
UTEST(faults, one_leader_whichever_system_call_of_the_file_store_fails) {
    on_files = true;
    static store all;               // of all runs: one that crashed cleans up nothing
    // many small files: no disk need be involved
    if (!getenv("TMPDIR") && access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 1);
    ASSERT_TRUE(store_make(&all));
    setenv("TMPDIR", all.root, 1);
    EXPECT_EQ(0, sweep("file", 2));
    store_remove(&all);
}

UTEST_MAIN()
