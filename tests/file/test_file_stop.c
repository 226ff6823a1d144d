/* The file backend among real processes that are stopped, killed, or refused a system call at every point
   of every write. A driver like a debugger (ptrace) lets a candidate, the victim, run up to its nth system
   call inside an operation; what then happens to it is the test. A rival goes on meanwhile.

   That never two lead is checked in two ways. Each process, whenever it reads true, compares its token
   with the highest one that anybody had read true with before it asked. And since the elections themselves
   stand in shared memory, the driver looks at the deadlines of both: a stopped leader that does not ask
   counts as well. */
#if !defined(_GNU_SOURCE)
#  define _GNU_SOURCE 1
#endif
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "tests/tools/patience.h"
#include "tests/tools/utest.h"
#include "tests/file/file_store.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <linux/ptrace.h>

enum { GENEROUS_MS = 20000, WORKERS = 10, LONG_MS = 300000 };

static int64_t boot_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
static void nap_ms(int ms) { poll(NULL, 0, ms); }

/* ---- what all processes of a run share --------------------------------------------------------- */

typedef struct player { leader_t l; leader_file f; } player;
typedef struct shared {
    player   players[3];
    leader_stats stats[3];          // as each process last reported them
    uint64_t highest_true;          // the highest token that anybody has read true with
    int      late_truths;           // true with a lower token than one that had already been read
    int      unordered;             // terms that started with a token no greater than an earlier one's
    uint64_t highest_started;
    int      ready, go, done, quit;
} shared;

static void report(shared *s, int i) { s->stats[i] = leader_get_stats(&s->players[i].l); }

static shared *shared_make(void) {
    void *p = mmap(NULL, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : (shared *)p;
}
#define LOAD(x)     __atomic_load_n(&(x), __ATOMIC_SEQ_CST)
#define STORE(x, v) __atomic_store_n(&(x), (v), __ATOMIC_SEQ_CST)
#define ADD(x, v)   __atomic_fetch_add(&(x), (v), __ATOMIC_SEQ_CST)
static void keep_max(uint64_t *at, uint64_t v) {
    uint64_t old = __atomic_load_n(at, __ATOMIC_SEQ_CST);
    while (old < v && !__atomic_compare_exchange_n(at, &old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
}

/* Asks "am I the leader?" and checks the answer against what others were told before the question. */
static bool ask(shared *s, const leader_t *l) {
    uint64_t before = LOAD(s->highest_true), token = leader_token(l);
    if (!leader_is_leader(l) || token == 0) return false;
    if (token < before) ADD(s->late_truths, 1);
    keep_max(&s->highest_true, token);
    return true;
}
static void on_started(void *user, uint64_t token) {
    shared *s = (shared *)user;
    if (token <= LOAD(s->highest_started)) ADD(s->unordered, 1);
    keep_max(&s->highest_started, token);
}

/* Two deadlines in the future at one moment? The first is read again after the second, so that a hand-over
   is none. */
static bool two_lead(const shared *s) {
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < i; j++) {
            int64_t a = LOAD(s->players[i].l.until_ms), b = LOAD(s->players[j].l.until_ms);
            if (a == LOAD(s->players[i].l.until_ms) && LOAD(s->players[i].l.life)
                && LOAD(s->players[j].l.life)) {
                int64_t now = boot_ms();
                if (now < a && now < b) return true;
            }
        }
    }
    return false;
}

/* ---- a run: one victim, one rival, one point --------------------------------------------------- */

enum { TAKE_EMPTY, TAKE_EXPIRED, RENEW, RENEW_BARE, RELEASE, ADOPT, CLOSE, OPS };
static const char *const op_names[OPS] = {"take of an empty store",
                                          "take-over of an expired lease",
                                          "renewal",
                                          "renewal after somebody removed lock and text",
                                          "release",
                                          "adoption",
                                          "close that keeps the lease"};
static bool renews(int op) { return op == RENEW || op == RENEW_BARE; }
enum { COUNT, STOP, KILL, FAIL };

typedef struct run {
    int op, how, point, error;      // point: the system call of the operation before which it happens
    bool lie;                       // the call is carried out, but the victim hears that it failed
    store s;
    shared *sh;
    pid_t victim;
    bool traced, rival_open, overlapped;
    int calls;                      // system calls seen inside the operation
    long call;                      // the one at the point
    const char *wrong;
} run;

static leader_config config_of(run *r, int i, const char *identity) {
    leader_config c;
    memset(&c, 0, sizeof c);
    c.identity = identity;
    c.backend = leader_file_backend(&r->sh->players[i].f, r->s.path);
    c.lease_ms = r->how == STOP ? 300 : 15000;
    if (r->how == FAIL) {
        c.lease_ms = 6000;
        c.renew_ms = 40;
        c.renew_retry_ms = 20;
        c.retry_ms = 40;
        c.retry_max_ms = 200;
        c.request_timeout_ms = 2000;
    }
    // no machine is so slow that the term ends by itself
    if (r->how == FAIL && r->op == RENEW) c.lease_ms = 60000;
    if (r->how == KILL) {
        c.lease_ms = LONG_MS;       // longer than a busy machine needs to take over
        c.renew_ms = 40;
        c.renew_retry_ms = 20;
        c.retry_ms = 2000;
    }
    c.keep_lease_on_stop = r->op == CLOSE && i == 0;
    c.on_started_leading = on_started;
    c.user = r->sh;
    return c;
}

enum { MARK_BEGIN = -770001, MARK_END = -770002 };
static void mark(int which) { syscall(SYS_close, which); }  // no such descriptor: seen by the driver alone

/* The answers to the first acquires are lost: the record is ours, and we do not know. A slow first tick
   may try twice. */
static leader_result (*real_acquire)(void *, const leader_request *, leader_record *);
static bool losing;
static leader_result lose_answer(void *self, const leader_request *q, leader_record *seen) {
    leader_result result = real_acquire(self, q, seen);
    return losing && result == LEADER_OK ? LEADER_E_IO : result;
}

/* What rm -rf has removed when it fails at record/, into which a new name had come. */
static void strip(run *r) {
    char name[64];
    unlink(term_name(&r->s));
    snprintf(name, sizeof name, "lock.%016llx", (unsigned long long)r->sh->players[0].f.nonce);
    unlink(in_dir(&r->s, name));
}

static void victim_main(run *r) {
    leader_t *l = &r->sh->players[0].l;
    leader_config c = config_of(r, 0, "victim");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    if (r->op == ADOPT) { real_acquire = c.backend.acquire; c.backend.acquire = lose_answer; losing = true; }
    if (leader_init(l, &c) != LEADER_OK) _exit(10);
    if (r->op == ADOPT) {
        leader_tick(l);
        if (leader_is_leader(l) || store_names(&r->s).records != 1) _exit(11);
        while (leader_due_ms(l) > 0) nap_ms(1);
        losing = false;
    }
    if (renews(r->op) || r->op == RELEASE || r->op == CLOSE) {
        if (leader_wait(l, GENEROUS_MS) != LEADER_OK) _exit(12);
        ask(r->sh, l);
        STORE(r->sh->ready, 1);
        for (int64_t start = boot_ms(); !LOAD(r->sh->go) && boot_ms() - start < GENEROUS_MS;) {
            leader_tick(l);
            ask(r->sh, l);
            nap_ms(2);
        }
        if (leader_wait(l, GENEROUS_MS) != LEADER_OK) _exit(13);
        if (r->op == RENEW_BARE) strip(r);
        if (renews(r->op)) for (int64_t due = l->plan.next_ms; boot_ms() < due;) nap_ms(1);
        else if (r->op == RELEASE) leader_stop(l);
    }
    mark(MARK_BEGIN);
    if (r->op == CLOSE) leader_close(l, 3000);
    else leader_tick(l);
    mark(MARK_END);
    ask(r->sh, l);
    STORE(r->sh->done, 1);
    if (r->op == RELEASE || r->op == CLOSE) {
        leader_close(l, 3000);
        c = config_of(r, 0, "victim");
        if (leader_init(l, &c) != LEADER_OK) _exit(14);
    }
    while (!LOAD(r->sh->quit)) { leader_tick(l); ask(r->sh, l); report(r->sh, 0); leader_sleep(l, 5); }
    leader_close(l, 3000);
    _exit(0);
}

/* -- the driver -- */

static bool fail(run *r, const char *wrong) { if (!r->wrong) r->wrong = wrong; return false; }

static void open_rival(run *r) {
    if (r->rival_open) return;
    leader_config c = config_of(r, 1, "rival");
    r->rival_open = leader_init(&r->sh->players[1].l, &c) == LEADER_OK;
}
static void close_rival(run *r) {
    if (r->rival_open) leader_close(&r->sh->players[1].l, 3000);
    r->rival_open = false;
}
static bool rival_leads(run *r) { return r->rival_open && leader_is_leader(&r->sh->players[1].l); }
static bool victim_leads(run *r) { return LOAD(r->sh->players[0].l.until_ms) > boot_ms(); }
static bool victim_renewed(run *r) { return LOAD(r->sh->stats[0].renewals) >= 4; }
static bool victim_ready(run *r) { return LOAD(r->sh->ready) != 0; }
static bool victim_done(run *r) { return LOAD(r->sh->done) != 0; }

/* Turns the rival and looks at everybody, for a moment. False: the victim has ended, which is never right
   here. */
static bool pump(run *r) {
    if (r->rival_open) {
        leader_tick(&r->sh->players[1].l);
        ask(r->sh, &r->sh->players[1].l);
    }
    if (two_lead(r->sh)) r->overlapped = true;
    int status;
    if (r->victim && !r->traced && waitpid(r->victim, &status, WNOHANG) == r->victim) {
        r->victim = 0;
        return fail(r, WIFSIGNALED(status) ? "the victim crashed" : "the victim ended");
    }
    if (r->rival_open) leader_sleep(&r->sh->players[1].l, 3);
    else nap_ms(2);
    return true;
}
static bool wait_for(run *r, bool (*what)(run *), const char *else_wrong) {
    for (patience p = patience_ms(GENEROUS_MS); !what(r);) {
        if (!patience_left(&p)) return fail(r, else_wrong);
        if (!pump(r)) return false;
    }
    return true;
}

static bool prepare(run *r) {
    if (!store_make(&r->s)) return fail(r, "no directory");
    if (!(r->sh = shared_make())) return fail(r, "no memory");
    if (r->op == TAKE_EXPIRED) {
        record old = record_of("old", 300, 1);
        if (!record_put(&r->s, &old)) return fail(r, "no record");
    }
    fflush(stdout);
    r->victim = fork();
    if (r->victim < 0) { r->victim = 0; return fail(r, "no process"); }
    if (r->victim == 0) victim_main(r);
    int status;
    if (waitpid(r->victim, &status, 0) != r->victim || !WIFSTOPPED(status))
        return fail(r, "the victim did not start");
    r->traced = true;
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SETOPTIONS, r->victim, NULL, (void *)options) != 0) return fail(r, "no ptrace");
    return true;
}

/* Lets the victim run to its next stop at the entrance of a system call. */
static bool to_next_call(run *r, struct ptrace_syscall_info *info) {
    for (int64_t start = boot_ms(); boot_ms() - start < GENEROUS_MS;) {
        int status;
        if (ptrace(PTRACE_SYSCALL, r->victim, NULL, NULL) != 0) return fail(r, "the victim cannot go on");
        for (;;) {                                   // the rival, if it is there already, goes on
            pid_t got = waitpid(r->victim, &status, r->rival_open ? WNOHANG : 0);
            if (got == r->victim) break;
            if (got != 0) return fail(r, "the victim is gone");
            if (!pump(r)) return false;
        }
        if (!WIFSTOPPED(status)) {
            r->victim = 0;
            r->traced = false;
            return fail(r, WIFSIGNALED(status) ? "the victim crashed" : "the victim ended early");
        }
        if (WSTOPSIG(status) != (SIGTRAP | 0x80)) continue;
        if (ptrace((enum __ptrace_request)PTRACE_GET_SYSCALL_INFO, r->victim, (void *)sizeof *info, info)
            <= 0)
            return fail(r, "no PTRACE_GET_SYSCALL_INFO");
        if (info->op == PTRACE_SYSCALL_INFO_ENTRY) return true;
    }
    return fail(r, "the victim hangs");
}
static bool is_mark(const struct ptrace_syscall_info *info, int which) {
    return info->entry.nr == SYS_close && (int)info->entry.args[0] == which;
}

/* Stops the victim at the point: before that system call, or after the last one where there are no more. */
static bool to_point(run *r) {
    struct ptrace_syscall_info info;
    do {
        if (!to_next_call(r, &info)) return false;
        // it leads: a rival that has seen it, at every other point
        if (victim_ready(r) && !LOAD(r->sh->go)) {
            if (r->point % 2) {
                open_rival(r);
                for (int i = 0; i < 3; i++) if (!pump(r)) return false;
            }
            STORE(r->sh->go, 1);
        }
        if (rival_leads(r)) close_rival(r);  // a busy machine cost the victim its term: it gets it back
    } while (!is_mark(&info, MARK_BEGIN));
    for (r->calls = 0;; r->calls++) {
        if (!to_next_call(r, &info)) return false;
        r->call = (long)info.entry.nr;
        if (is_mark(&info, MARK_END) || r->calls == r->point) return true;
    }
}
/* A lock that is free under its name says that its process is dead. Nobody is. */
static bool locks_are_held(run *r) {
    bool held = true;
    DIR *d = opendir(r->s.dir);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        int fd = strncmp(e->d_name, "lock.", 5) == 0 ? openat(dirfd(d), e->d_name, O_RDONLY | O_CLOEXEC) : -1;
        if (fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK) held = false;
        if (fd >= 0) close(fd);
    }
    if (d) closedir(d);
    return held || fail(r, "the lock of a living process is free under its name");
}
static void let_go(run *r) {
    ptrace(PTRACE_DETACH, r->victim, NULL, NULL);
    r->traced = false;
}

/* In the end there is one record, of nobody, its copy, and nothing else. */
static bool is_tidy(run *r) {
    char copy[4096];
    names n = store_names(&r->s);
    if (n.records != 1) return fail(r, "in the end there is not exactly one record");
    if (n.terms != 1) return fail(r, "in the end there is not exactly one text");
    if (!file_exists(term_name(&r->s))) return fail(r, "in the end the record has no text");
    if (n.drafts) return fail(r, "a draft is left behind");
    if (n.locks) return fail(r, "a lock is left behind");
    if (n.others) return fail(r, "something is left behind");
    if (!strstr(n.record, ".released")) return fail(r, "the last record is not a release");
    if (file_get(r->s.path, copy, sizeof copy) <= 0 || !strstr(copy, "\"holder\": \"\""))
        return fail(r, "the copy is not that of the last record");
    return true;
}
static bool end_victim(run *r) {
    int status;
    STORE(r->sh->quit, 1);
    for (int64_t start = boot_ms(); boot_ms() - start < GENEROUS_MS; nap_ms(2)) {
        if (waitpid(r->victim, &status, WNOHANG) != r->victim) continue;
        r->victim = 0;
        return status == 0 ? true : fail(r, "the victim ended with an error");
    }
    return fail(r, "the victim does not end");
}

/* The victim stands before the point until the rival has taken over; then it goes on. */
static void stopped_at(run *r) {
    if (!to_point(r) || !locks_are_held(r)) return;
    open_rival(r);
    if (!wait_for(r, rival_leads, "nobody took over from the stopped one")) return;
    let_go(r);
    if (!wait_for(r, victim_done, "the resumed one does not go on")) return;
    for (int i = 0; i < 10; i++) if (!pump(r)) return;
    close_rival(r);
    if (!wait_for(r, victim_leads, "the resumed one does not recover")) return;
    open_rival(r);  // and it can take part again: refused while the other leads
    for (int i = 0; i < 3; i++) if (!pump(r)) return;
    if (end_victim(r) && wait_for(r, rival_leads, "no leader in the end")) { close_rival(r); is_tidy(r); }
}

/* The victim dies at the point. Nobody waits for its lease. */
static void killed_at(run *r) {
    int status;
    if (!to_point(r)) return;
    int64_t start = boot_ms();
    kill(r->victim, SIGKILL);
    waitpid(r->victim, &status, 0);
    STORE(r->sh->players[0].l.until_ms, LEADER_NEVER_);          // the dead do not ask
    r->victim = 0;
    r->traced = false;
    open_rival(r);
    if (!wait_for(r, rival_leads, "nobody took over from the dead one")) return;
    if (boot_ms() - start >= LONG_MS) { fail(r, "the take-over waited for the lease"); return; }
    close_rival(r);
    open_rival(r);                                   // it may have taken over just before the death: the next
    if (!wait_for(r, rival_leads, "no leader in the end")) return;           // take sweeps
    close_rival(r);
    is_tidy(r);
}

/* One system call fails, once. Only calls that the library makes: the sanitizers' own may not fail. */
static bool may_fail(long call) {
    static const long calls[] = {
        SYS_openat,
        SYS_read,
        SYS_write,
        SYS_newfstatat,
        SYS_fstat,
        SYS_fstatfs,
        SYS_lseek,
        SYS_getdents64,
        SYS_fcntl,
        SYS_linkat,
        SYS_pwrite64,
        SYS_unlinkat,
        SYS_renameat,
        SYS_mkdirat,
        SYS_fsync,
        SYS_fchmod,
        SYS_inotify_init1,
        SYS_inotify_add_watch,
        SYS_inotify_rm_watch,
        SYS_close
#if defined(SYS_open)
        ,
        SYS_open,
        SYS_stat,
        SYS_lstat,
        SYS_mkdir,
        SYS_chmod,
        SYS_link,
        SYS_unlink,
        SYS_rename,
        SYS_readlink
#endif
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) if (calls[i] == call) return true;
    return false;
}
static bool refuse_call(run *r) {
#if defined(__x86_64__)
    int status;
    unsigned long result = (unsigned long)-(long)r->error;
    return (r->lie
            || ptrace(PTRACE_POKEUSER, r->victim, (void *)offsetof(struct user_regs_struct, orig_rax),
                      (void *)-1L)
                   == 0)
           && ptrace(PTRACE_SYSCALL, r->victim, NULL, NULL) == 0
           && waitpid(r->victim, &status, 0) == r->victim && WIFSTOPPED(status)
           && ptrace(PTRACE_POKEUSER, r->victim, (void *)offsetof(struct user_regs_struct, rax),
                     (void *)result)
                  == 0;
#else
    return false;
#endif
}
static void refused_at(run *r) {
    if (!to_point(r)) return;
    if (may_fail(r->call) && !refuse_call(r)) { fail(r, "the call could not be refused"); return; }
    let_go(r);
    if (!wait_for(r, victim_done, "the refused one does not go on")) return;
    close_rival(r);
    if (!wait_for(r, victim_leads, "the refused one does not recover")) return;
    if (renews(r->op)) {                             // one failed renewal keeps the term
        if (!wait_for(r, victim_renewed, "no renewal succeeds any more")) return;
        if (LOAD(r->sh->stats[0].terms) != 1) { fail(r, "one failed renewal cost the term"); return; }
    }
    open_rival(r);
    for (int i = 0; i < 3; i++) if (!pump(r)) return;
    if (end_victim(r) && wait_for(r, rival_leads, "no leader in the end")) { close_rival(r); is_tidy(r); }
}

/* True if nothing was wrong. r->calls: how many system calls the operation has, where the point was beyond
   them. */
static bool run_it(run *r) {
    if (prepare(r)) {
        if (r->how == COUNT) to_point(r);
        else if (r->how == STOP) stopped_at(r);
        else if (r->how == KILL) killed_at(r);
        else refused_at(r);
    }
    if (r->sh && r->overlapped) fail(r, "TWO LEADERS at one moment");
    if (r->sh && LOAD(r->sh->late_truths))
        fail(r, "TWO LEADERS: true was read with a token older than another's");
    if (r->sh && LOAD(r->sh->unordered)) fail(r, "a term began with a token that is not new");
    if (r->victim) { kill(r->victim, SIGKILL); waitpid(r->victim, NULL, 0); r->victim = 0; }
    close_rival(r);
    bool good = r->wrong == NULL;
    if (!good) {
        printf("%s, %s before call %d (number %ld)%s%s: %s\n", op_names[r->op],
               r->how == STOP   ? "stopped"
               : r->how == KILL ? "killed"
               : r->lie         ? "lied to"
               : r->how == FAIL ? "refused"
                                : "run",
               r->point, r->call, r->error ? " with " : "", r->error ? strerror(r->error) : "", r->wrong);
        fflush(stdout);
    }
    store_remove(&r->s);
    if (r->sh) munmap(r->sh, sizeof *r->sh);
    return good;
}

/* ---- every point of every operation, in a few processes at a time ------------------------------ */

static int calls_of(int op) {
    run r;
    memset(&r, 0, sizeof r);
    r.op = op;
    r.how = COUNT;
    r.point = 1 << 20;
    return run_it(&r) ? r.calls : -1;
}

typedef struct board { int next, done, bad; } board;

static void every_point(int *utest_result, int how, int least_calls) {
    static const int errors[] = {ENOSPC, EIO, EINTR, EMFILE, EIO};
    int counts[OPS], total = 0, variants = how == FAIL ? 5 : 1;
    for (int op = 0; op < OPS; op++) {
        counts[op] = 0;
        if ((op == RENEW_BARE || op == CLOSE) && how != STOP) continue;      // nothing tells of its death
        counts[op] = calls_of(op);
        ASSERT_GE(counts[op], op == CLOSE ? 4 : least_calls);       // fewer: nothing was seen
        counts[op] += 3;                             // a run may see a few more: notices
        total += counts[op] * variants;
    }
    board *b = (board *)mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_TRUE(b != (board *)MAP_FAILED);
    pid_t workers[WORKERS];
    fflush(stdout);
    for (int w = 0; w < WORKERS; w++) {
        workers[w] = fork();
        ASSERT_GE(workers[w], 0);
        if (workers[w] != 0) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int task; (task = ADD(b->next, 1)) < total;) {
            run r;
            memset(&r, 0, sizeof r);
            r.how = how;
            r.error = how == FAIL ? errors[task % variants] : 0;
            r.lie = task % variants == 4;
            r.point = task / variants;
            while (r.point >= counts[r.op]) r.point -= counts[r.op++];
            if (!run_it(&r)) ADD(b->bad, 1);
            ADD(b->done, 1);
        }
        _exit(0);
    }
    for (int w = 0; w < WORKERS; w++) {
        int status;
        EXPECT_EQ(workers[w], waitpid(workers[w], &status, 0));
        EXPECT_EQ(0, status);
    }
    EXPECT_EQ(total, b->done);
    EXPECT_EQ(0, b->bad);
    printf("   %d points\n", b->done);
    munmap(b, sizeof *b);
}

UTEST(file_stop, stopped_at_any_point_of_a_write_it_blocks_nobody) { every_point(utest_result, STOP, 10); }
UTEST(file_stop, killed_at_any_point_of_a_write_it_is_succeeded_at_once) {
    every_point(utest_result, KILL, 10);
}
UTEST(file_stop, refused_any_system_call_it_recovers_and_never_leads_falsely) {
#if !defined(__x86_64__)
    UTEST_SKIP("refusing a system call is written for x86-64");
#else
    every_point(utest_result, FAIL, 10);
#endif
}

/* ---- whole processes: killed, stopped, forked, of one name, many at once ----------------------- */

struct crowd { store s; shared *sh; pid_t pids[3]; player here; };

static void crowd_config(struct crowd *w, leader_config *c, player *p, const char *identity,
                         int64_t lease_ms) {
    memset(c, 0, sizeof *c);
    c->identity = identity;
    c->backend = leader_file_backend(&p->f, w->s.path);
    c->lease_ms = lease_ms;
    c->on_started_leading = on_started;
    c->user = w->sh;
}
/* A process that is a candidate until it is killed or told to quit; before that it can be a parent. */
static void crowd_start(int *utest_result, struct crowd *w, int i, const char *identity, int64_t lease_ms,
                        bool forks) {
    fflush(stdout);
    w->pids[i] = fork();
    ASSERT_GE(w->pids[i], 0);
    if (w->pids[i] != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    player *p = &w->sh->players[i];
    leader_config c;
    crowd_config(w, &c, p, identity, lease_ms);
    if (leader_init(&p->l, &c) != LEADER_OK) _exit(1);
    if (forks) {
        if (leader_wait(&p->l, GENEROUS_MS) != LEADER_OK) _exit(2);
        pid_t heir = fork();  // it has the lock's descriptor, and lives until the test is over
        if (heir == 0) {
            prctl(PR_SET_PDEATHSIG, 0);
            for (int64_t start = boot_ms(); !LOAD(w->sh->quit) && boot_ms() - start < 3 * GENEROUS_MS;)
                nap_ms(5);
            ADD(w->sh->done, 1);
            _exit(0);
        }
    }
    while (!LOAD(w->sh->quit)) {
        leader_tick(&p->l);
        ask(w->sh, &p->l);
        report(w->sh, i);
        leader_sleep(&p->l, 20);
    }
    leader_close(&p->l, 3000);
    _exit(0);
}
static bool there_leads(const struct crowd *w, int i) {
    return LOAD(w->sh->players[i].l.until_ms) > boot_ms();
}
static void crowd_kill(struct crowd *w, int i) {
    if (w->pids[i] <= 0) return;
    kill(w->pids[i], SIGKILL);
    waitpid(w->pids[i], NULL, 0);
    w->pids[i] = 0;
    STORE(w->sh->players[i].l.until_ms, LEADER_NEVER_);
}
/* Ticks the election of this process until it leads or the time is over. */
static bool here_leads(struct crowd *w, int64_t within_ms, bool *overlapped) {
    for (int64_t start = boot_ms(); boot_ms() - start < within_ms;) {
        leader_tick(&w->here.l);
        if (ask(w->sh, &w->here.l)) {
            *overlapped = *overlapped || there_leads(w, 0) || there_leads(w, 1);
            return true;
        }
        leader_sleep(&w->here.l, 20);
    }
    return false;
}

UTEST_F_SETUP(crowd) {
    ASSERT_TRUE(store_make(&utest_fixture->s));
    utest_fixture->sh = shared_make();
    ASSERT_TRUE(utest_fixture->sh != NULL);
}
UTEST_F_TEARDOWN(crowd) {
    STORE(utest_fixture->sh->quit, 1);
    leader_close(&utest_fixture->here.l, 1000);
    for (int i = 0; i < 3; i++) {
        if (utest_fixture->pids[i] > 0)
            kill(utest_fixture->pids[i], SIGCONT);
        crowd_kill(utest_fixture, i);
    }
    EXPECT_EQ(0, LOAD(utest_fixture->sh->late_truths));
    EXPECT_EQ(0, LOAD(utest_fixture->sh->unordered));
    munmap(utest_fixture->sh, sizeof(shared));
    store_remove(&utest_fixture->s);
}
#define W utest_fixture

static void wait_until_there_leads(int *utest_result, struct crowd *w, int i) {
    for (int64_t start = boot_ms(); !there_leads(w, i) && boot_ms() - start < GENEROUS_MS;) nap_ms(2);
    ASSERT_TRUE(there_leads(w, i));
}
static void join_here(int *utest_result, struct crowd *w, const char *identity, int64_t lease_ms) {
    leader_config c;
    crowd_config(w, &c, &w->here, identity, lease_ms);
    ASSERT_EQ(LEADER_OK, leader_init(&w->here.l, &c));
}

UTEST_F(crowd, a_killed_leader_is_succeeded_long_before_its_lease_runs_out) {
    bool overlapped = false;
    crowd_start(utest_result, W, 0, "doomed", 15000, false);
    wait_until_there_leads(utest_result, W, 0);
    join_here(utest_result, W, "standby", 15000);
    EXPECT_FALSE(here_leads(W, 300, &overlapped));
    int64_t killed = boot_ms();
    crowd_kill(W, 0);
    EXPECT_TRUE(here_leads(W, 10000, &overlapped));
    EXPECT_LT(boot_ms() - killed, 10000);
    printf("   after %lld ms\n", (long long)(boot_ms() - killed));
    EXPECT_FALSE(overlapped);
}
UTEST_F(crowd, a_standby_that_starts_after_the_death_leads_at_once) {
    bool overlapped = false;
    crowd_start(utest_result, W, 0, "doomed", 15000, false);
    wait_until_there_leads(utest_result, W, 0);
    crowd_kill(W, 0);
    join_here(utest_result, W, "newcomer", 15000);
    EXPECT_TRUE(here_leads(W, 10000, &overlapped));
    leader_close(&W->here.l, 1000);                  // sweeps, if no renewal did
    EXPECT_EQ(0, store_names(&W->s).locks);
    EXPECT_EQ(1, store_names(&W->s).terms);
}
UTEST_F(crowd, a_stopped_leader_reads_false_when_it_goes_on) {
    bool overlapped = false;
    crowd_start(utest_result, W, 0, "sleeper", 2000, false);
    wait_until_there_leads(utest_result, W, 0);
    join_here(utest_result, W, "standby", 2000);
    EXPECT_FALSE(here_leads(W, 100, &overlapped));
    ASSERT_EQ(0, kill(W->pids[0], SIGSTOP));
    ASSERT_EQ(W->pids[0], waitpid(W->pids[0], NULL, WUNTRACED));
    int64_t renewed = W->sh->players[0].l.request.sent_ms;
    uint64_t token = W->sh->players[0].l.lease.token;
    ASSERT_TRUE(here_leads(W, GENEROUS_MS, &overlapped));
    EXPECT_GT(boot_ms(), renewed + 2000);
    EXPECT_GT(leader_token(&W->here.l), token);
    ASSERT_EQ(0, kill(W->pids[0], SIGCONT));
    for (int i = 0; i < 50; i++) {                   // it asks at once, before any tick; so do we
        leader_tick(&W->here.l);
        ask(W->sh, &W->here.l);
        EXPECT_FALSE(leader_is_leader(&W->here.l) && there_leads(W, 0));
        // only where we are held up as well may it lead again, and never in its old term
        EXPECT_FALSE(there_leads(W, 0) && W->sh->players[0].l.lease.token == token);
        leader_sleep(&W->here.l, 10);
    }
    EXPECT_FALSE(overlapped);
}
UTEST_F(crowd, with_a_lock_inherited_by_a_child_the_lease_decides) {
    bool overlapped = false;
    crowd_start(utest_result, W, 0, "parent", 3000, true);
    wait_until_there_leads(utest_result, W, 0);
    for (int i = 0; i < 100 && LOAD(W->sh->stats[0].renewals) == 0; i++) nap_ms(30);      // it has forked
    join_here(utest_result, W, "standby", 3000);
    EXPECT_FALSE(here_leads(W, 50, &overlapped));
    kill(W->pids[0], SIGKILL);
    waitpid(W->pids[0], NULL, 0);
    int64_t renewed = W->sh->players[0].l.request.sent_ms;
    W->pids[0] = 0;
    STORE(W->sh->players[0].l.until_ms, LEADER_NEVER_);
    EXPECT_TRUE(here_leads(W, GENEROUS_MS, &overlapped));
    EXPECT_GT(boot_ms(), renewed + 3000);
    STORE(W->sh->quit, 1);                           // the child of the dead one ends by itself
    for (int64_t start = boot_ms(); !LOAD(W->sh->done) && boot_ms() - start < GENEROUS_MS;) nap_ms(5);
    EXPECT_EQ(1, LOAD(W->sh->done));
}
UTEST_F(crowd, of_two_processes_with_one_name_one_leads) {
    crowd_start(utest_result, W, 0, "twin", 15000, false);
    wait_until_there_leads(utest_result, W, 0);
    crowd_start(utest_result, W, 1, "twin", 15000, false);
    for (int64_t start = boot_ms();
         LOAD(W->sh->stats[1].failures_duplicate) == 0 && boot_ms() - start < GENEROUS_MS;)
        nap_ms(5);
    EXPECT_GT(LOAD(W->sh->stats[1].failures_duplicate), (uint64_t)0);
    EXPECT_TRUE(there_leads(W, 0));
    EXPECT_FALSE(there_leads(W, 1));
    int64_t killed = boot_ms();
    crowd_kill(W, 0);
    wait_until_there_leads(utest_result, W, 1);
    EXPECT_LT(boot_ms() - killed, 14000);
}
UTEST_F(crowd, many_on_an_empty_store_make_one_leader) {
    for (int round = 0; round < 15; round++) {
        enum { MANY = 8 };
        pid_t pids[MANY];
        store_remove_tree(W->s.dir);
        unlink(W->s.path);
        memset(W->sh, 0, sizeof *W->sh);
        fflush(stdout);
        for (int i = 0; i < MANY; i++) {
            pids[i] = fork();
            ASSERT_GE(pids[i], 0);
            if (pids[i] != 0) continue;
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            player p;
            leader_config c;
            char name[16];
            snprintf(name, sizeof name, "n%d", i);
            crowd_config(W, &c, &p, name, 15000);
            c.retry_ms = 10;
            if (leader_init(&p.l, &c) != LEADER_OK) _exit(1);
            ADD(W->sh->ready, 1);
            while (!LOAD(W->sh->go)) nap_ms(0);
            bool led = false;
            while (!LOAD(W->sh->quit)) {
                leader_tick(&p.l);
                if (ask(W->sh, &p.l) && !led) { led = true; ADD(W->sh->done, 1); }
                leader_sleep(&p.l, 5);
            }
            _exit(0);                                // without a release: those that come last sweep
        }
        for (int64_t start = boot_ms(); LOAD(W->sh->ready) < MANY && boot_ms() - start < GENEROUS_MS;)
            nap_ms(1);
        STORE(W->sh->go, 1);
        for (int64_t start = boot_ms(); !LOAD(W->sh->done) && boot_ms() - start < GENEROUS_MS;) nap_ms(1);
        nap_ms(30);
        EXPECT_EQ(1, LOAD(W->sh->done));             // with a lease of 15 s nobody can have followed
        STORE(W->sh->quit, 1);
        for (int i = 0; i < MANY; i++) {
            int status;
            EXPECT_EQ(pids[i], waitpid(pids[i], &status, 0));
            EXPECT_EQ(0, status);
        }
        EXPECT_EQ(0, LOAD(W->sh->late_truths) + LOAD(W->sh->unordered));
    }
    STORE(W->sh->quit, 0);
}
UTEST_F(crowd, three_killed_and_stopped_at_random_never_lead_together) {
    uint64_t random = 88172645463325252u;
    static const char *const who[] = {"a", "b", "c"};
    int overlaps = 0;
    bool stopped[3] = {false, false, false};
    for (int step = 0; step < 250; step++) {
        random ^= random << 13; random ^= random >> 7; random ^= random << 17;
        int i = (int)(random % 3), what = (int)(random >> 40 & 7);
        if (W->pids[i] == 0) crowd_start(utest_result, W, i, who[i], 300, false);
        else if (stopped[i]) { kill(W->pids[i], SIGCONT); stopped[i] = false; }
        else if (what < 2) crowd_kill(W, i);
        else if (what < 5) { kill(W->pids[i], SIGSTOP); stopped[i] = true; }
        for (int64_t until = boot_ms() + (int64_t)(random >> 50 & 31); boot_ms() < until;) {
            overlaps += two_lead(W->sh);
            nap_ms(1);
        }
    }
    EXPECT_EQ(0, overlaps);
    for (int i = 0; i < 3; i++) if (stopped[i]) kill(W->pids[i], SIGCONT);
    bool one = false;
    for (int64_t start = boot_ms(); !one && boot_ms() - start < GENEROUS_MS; nap_ms(2))
        one = there_leads(W, 0) || there_leads(W, 1) || there_leads(W, 2);
    EXPECT_TRUE(one);
}

UTEST_MAIN()
