/* Hand-over and crash as in life: the one that leads and the one that stands by are processes of their own,
   each with a plain poll loop. The least that does the same is played by two processes as well, so that both
   pay for the same wake-ups. The including file says what the store is, before this:

       actor_store                                  its struct
       actor_backend(actor_store *, election)       its backend
       actor_hears(const actor_store *)             will it be told of a release? */
#ifndef LEADER_BENCH_ACTORS_H
#define LEADER_BENCH_ACTORS_H

#include "tests/bench/bench.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

typedef struct actor {
    pid_t pid;
    int   to;
    int   from;
} actor;

/* What an actor tells, and when it was so by its own clock, which is everybody's. */
typedef struct actor_word {
    char   what;
    double at;
} actor_word;

enum {
    ACTOR_LEADS = 'L',
    ACTOR_HEARS = 'H',      // it knows the leader, and will be told when it goes
    ACTOR_SENDS = 'S',      // a renewal
    ACTOR_STOPS = 's',      // it gives the lease up, because it was told to
};

static const char *actor_election;          // what the next actor competes for
static int64_t actor_lease_ms;

static void actor_say(int out, char what, double at) {
    actor_word word;
    memset(&word, 0, sizeof word);
    word.what = what;
    word.at = at;
    if (write(out, &word, sizeof word) != (ssize_t)sizeof word) {
        _exit(1);
    }
}

static actor actor_start(void (*play)(int in, int out)) {
    int to[2];
    int from[2];
    actor made;
    if (pipe(to) != 0 || pipe(from) != 0) {
        abort();
    }
    fflush(stdout);
    made.pid = fork();
    if (made.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(to[1]);
        close(from[0]);
        play(to[0], from[1]);
        _exit(0);
    }
    close(to[0]);
    close(from[1]);
    made.to = to[1];
    made.from = from[0];
    return made;
}

/* When it said so; what it says besides is not asked for. */
static double actor_hear(const actor *who, char what) {
    enum { LIMIT_S = 60 };
    struct pollfd readable;
    memset(&readable, 0, sizeof readable);
    readable.fd = who->from;
    readable.events = POLLIN;
    for (double end = bench_now() + LIMIT_S; bench_now() < end;) {
        actor_word word;
        if (poll(&readable, 1, 1000) < 1) {
            continue;
        }
        if (read(who->from, &word, sizeof word) != (ssize_t)sizeof word) {
            break;
        }
        if (word.what == what) {
            return word.at;
        }
    }
    fprintf(stderr, "%san actor did not say %c\n", bench.store, what);
    exit(1);
}

/* The last of what it has said so far. */
static double actor_heard(const actor *who, char what) {
    struct pollfd readable;
    double last = 0;
    memset(&readable, 0, sizeof readable);
    readable.fd = who->from;
    readable.events = POLLIN;
    while (poll(&readable, 1, 0) == 1) {
        actor_word word;
        if (read(who->from, &word, sizeof word) != (ssize_t)sizeof word) {
            break;
        }
        if (word.what == what) {
            last = word.at;
        }
    }
    return last;
}

static void actor_tell(const actor *who) {
    if (write(who->to, "s", 1) != 1) {
        abort();
    }
}

static bool actor_is_told(int in, int wait_ms) {
    struct pollfd readable;
    memset(&readable, 0, sizeof readable);
    readable.fd = in;
    readable.events = POLLIN;
    return poll(&readable, 1, wait_ms) == 1;
}

static void actor_end(actor *who) {
    kill(who->pid, SIGKILL);
    waitpid(who->pid, NULL, 0);
    close(who->to);
    close(who->from);
}

/* ---- an election ---------------------------------------------------------------------------------- */

typedef struct actor_memory {
    bool led;
    bool heard;
    bool told;
    int  op;
} actor_memory;

static void actor_report(const leader_t *me, const actor_store *where, actor_memory *past, double before,
                         int out) {
    char who[LEADER_IDENTITY_MAX + 1];
    bool leads = leader_is_leader(me);
    bool sends = me->request.op == LEADER_OP_RENEW_ && past->op != LEADER_OP_RENEW_;
    past->op = me->request.op;
    if (sends) {
        actor_say(out, ACTOR_SENDS, before);
    }
    if (leads && !past->led) {
        actor_say(out, ACTOR_LEADS, bench_now());
    }
    past->led = leads;
    if (past->heard || leads) {
        return;
    }
    leader_get_leader(me, who, sizeof who);
    past->heard = who[0] && actor_hears(where);
    if (past->heard) {
        actor_say(out, ACTOR_HEARS, bench_now());
    }
}

static void actor_wait(leader_t *me, int wait_ms, int in, actor_memory *past, int out) {
    leader_fd fds[LEADER_FDS_MAX];
    struct pollfd set[LEADER_FDS_MAX + 1];
    int count = leader_fds(me, fds);
    memset(set, 0, sizeof set);
    for (int i = 0; i < count; i++) {
        set[i].fd = (int)fds[i].fd;
        set[i].events = leader_poll_events(fds[i].events);
    }
    set[count].fd = past->told ? -1 : in;
    set[count].events = POLLIN;
    poll(set, (nfds_t)count + 1, wait_ms);
    if (set[count].revents) {
        past->told = true;
        actor_say(out, ACTOR_STOPS, bench_now());
        leader_stop(me);
    }
}

static void actor_quiet(void *user, leader_level level, const char *text) {
    (void)user;
    (void)level;
    (void)text;
}

static void actor_elects(int in, int out) {
    static actor_store where;
    static leader_t me;
    char identity[LEADER_IDENTITY_MAX + 1];
    leader_config config;
    actor_memory past;
    memset(&past, 0, sizeof past);
    memset(&config, 0, sizeof config);
    config.identity = leader_make_identity(identity, sizeof identity, NULL);
    config.lease_ms = actor_lease_ms;
    config.on_log = actor_quiet;
    config.backend = actor_backend(&where, actor_election);
    if (leader_init(&me, &config) != LEADER_OK) {
        fprintf(stderr, "%s\n", leader_error(&me));
        _exit(1);
    }
    for (;;) {
        double before = bench_now();
        int wait_ms = leader_tick(&me);
        actor_report(&me, &where, &past, before, out);
        actor_wait(&me, wait_ms, in, &past, out);
    }
}

/* ---- what is measured ------------------------------------------------------------------------------ */

static void actor_next_election(int64_t lease_ms) {
    static char name[40];
    static int number;
    snprintf(name, sizeof name, "acted-%d", number);
    number++;
    actor_election = name;
    actor_lease_ms = lease_ms;
}

/* From the order to stop to the other's first yes, in ms. */
static double actor_hand_over(void (*first_plays)(int in, int out), void (*second_plays)(int in, int out)) {
    actor_next_election(15000);
    actor first = actor_start(first_plays);
    actor_hear(&first, ACTOR_LEADS);
    actor second = actor_start(second_plays);
    actor_hear(&second, ACTOR_HEARS);
    usleep(50000);
    actor_tell(&first);
    double stopped = actor_hear(&first, ACTOR_STOPS);
    double led = actor_hear(&second, ACTOR_LEADS);
    actor_end(&first);
    actor_end(&second);
    return (led - stopped) * 1e3;
}

/* The leader is killed; how long after the end of its lease the other leads, in ms. `left_s` is asked at the
   kill; NULL: the lease ends lease_ms after the leader's last renewal was sent. */
static double actor_crash(void (*first_plays)(int in, int out), void (*second_plays)(int in, int out),
                          double wait_s, double (*left_s)(void)) {
    actor_next_election(2000);
    actor first = actor_start(first_plays);
    double began = actor_hear(&first, ACTOR_LEADS);
    actor second = actor_start(second_plays);
    actor_hear(&second, ACTOR_HEARS);
    double rest = began + wait_s - bench_now();
    if (rest > 0) {
        usleep((useconds_t)(rest * 1e6));
    }
    double sent = actor_heard(&first, ACTOR_SENDS);
    double end = sent + (double)actor_lease_ms / 1e3;
    if (left_s) {
        end = bench_now() + left_s();
    }
    actor_end(&first);
    double led = actor_hear(&second, ACTOR_LEADS);
    actor_end(&second);
    return (led - end) * 1e3;
}

#endif
