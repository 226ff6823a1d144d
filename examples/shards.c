/* Shards spread evenly over the processes that are there, with nobody in charge of it.

       shards --id NAME --redis URL --name NAME | --file PATH | --store URL ...  [--shards 256] [--members
       16] [--lease 1500ms]

   Each shard is an election, and so is each of a few places for members. A process takes one place;
   its holder is counted, and everybody works out the same fair share from that. A process below its
   share does not defer on as many free shards as it lacks; on all others it lets those go first who lack
   some. A process above its share resigns the excess, to the one that lacks most. At the fair share
   nobody has a reason to do anything.

   A line for each change: the time in milliseconds, the name, how many shards it leads, its share, how
   many members; and how many shards it has given away so far. */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "options.h"
#include "family.h"
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MEMBERS_MAX = 64, SHARDS_MAX = 4096, BALANCE_MS = 50, LATE_LEASES = 4, CLOSE_MS = 3000 };

typedef struct race {
    leader_t election;
    family_member where;
    leader_view seen;  // when the shares were worked out last
} race;

typedef struct member {
    char name[LEADER_IDENTITY_MAX + 1];
    int share;
    int held;
} member;

static struct {
    const char *id;
    race *races;  // the places first, then the shards
    int places, shards;
    int64_t lease_ms;
    member members[MEMBERS_MAX];
    int member_count;
    int mine;         // which of the members we are; -1: none
    int given;        // shards resigned so far, for somebody else
    int64_t said_ms;  // when something was last complained about
    struct pollfd *fds;
    int *whose;  // the race of each descriptor
} all;

static volatile sig_atomic_t ending;

static void on_signal(int number) {
    (void)number;
    ending = 1;
}

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- who is there, and what is a fair share ------------------------------------------------------ */

static int find_member(const char *name) {
    for (int i = 0; i < all.member_count; i++) {
        if (strcmp(all.members[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

static void count_members(void) {
    all.member_count = 0;
    for (int i = 0; i < all.places; i++) {
        const leader_view *seen = &all.races[i].seen;
        if (seen->leader[0] && find_member(seen->leader) < 0) {
            member *m = &all.members[all.member_count++];
            memset(m, 0, sizeof *m);
            memcpy(m->name, seen->leader, sizeof m->name);
        }
    }
    all.mine = find_member(all.id);
}

static void share_out(void) {
    for (int i = 0; i < all.member_count; i++) {
        bool one_more = i < all.shards % all.member_count;
        all.members[i].share = all.shards / all.member_count + (one_more ? 1 : 0);
    }
    for (int i = all.places; i < all.places + all.shards; i++) {
        int m = find_member(all.races[i].seen.leader);
        if (m >= 0) {
            all.members[m].held++;
        }
    }
}

static void look_around(void) {
    for (int i = 0; i < all.places + all.shards; i++) {
        all.races[i].seen = leader_get_view(&all.races[i].election);
    }
    count_members();
    share_out();
}

/* ---- what to take, what to give ------------------------------------------------------------------ */

static bool is_free(const race *r) {
    return r->seen.leader[0] == 0 && r->seen.age_ms >= 0;
}

/* Goes for so many of the free ones, from a place of its own on, so that two do not meet; lets others go
   first on the rest. */
static void go_for(race *races, int count, int wanted, int from) {
    for (int k = 0; k < count; k++) {
        race *r = &races[(from + k) % count];
        bool go = wanted > 0 && is_free(r);
        wanted -= go ? 1 : 0;
        leader_set_defer(&r->election, go ? 0 : LATE_LEASES * all.lease_ms);
    }
}

/* The member that lacks most; -1: nobody does. */
static int neediest(void) {
    int found = -1;
    int lacks_most = 0;
    for (int i = 0; i < all.member_count; i++) {
        int lacks = all.members[i].share - all.members[i].held;
        if (lacks > lacks_most) {
            lacks_most = lacks;
            found = i;
        }
    }
    return found;
}

static void give_away(race *races, int count, int excess) {
    for (int i = 0; i < count && excess > 0; i++) {
        int heir = neediest();
        if (heir < 0) {
            return;
        }
        if (races[i].seen.leading) {
            leader_resign_to(&races[i].election, all.members[heir].name, all.lease_ms);
            all.members[heir].held++;
            all.given++;
            excess--;
        }
    }
}

static int count_led(const race *races, int count) {
    int led = 0;
    for (int i = 0; i < count; i++) {
        led += races[i].seen.leading ? 1 : 0;
    }
    return led;
}

/* One place for each process. Two may be had by chance; then one is given back. */
static void keep_one_place(int from) {
    int led = count_led(all.races, all.places);
    go_for(all.races, all.places, 1 - led, from % all.places);
    for (int i = 0; i < all.places && led > 1; i++) {
        if (all.races[i].seen.leading) {
            leader_resign(&all.races[i].election, all.lease_ms);
            led--;
        }
    }
}

static void balance(void) {
    static int told_led = -1;
    static int told_members = -1;
    race *shards = all.races + all.places;
    look_around();
    keep_one_place((int)(getpid() % MEMBERS_MAX));
    int led = count_led(shards, all.shards);
    int share = all.mine >= 0 ? all.members[all.mine].share : 0;
    int from = all.mine >= 0 ? all.mine * all.shards / all.member_count : 0;
    go_for(shards, all.shards, share - led, from);
    if (all.mine >= 0) {
        give_away(shards, all.shards, led - share);
    }
    if (led != told_led || all.member_count != told_members) {
        printf("%lld %s %d %d %d %d\n", (long long)now_ms(), all.id, led, share, all.member_count, all.given);
        told_led = led;
        told_members = all.member_count;
    }
}

/* ---- one loop for all ------------------------------------------------------------------------------ */

/* Ticks what is due and says how long all of them can be left alone. */
static int tick_due(int wait_ms) {
    for (int i = 0; i < all.places + all.shards; i++) {
        leader_t *e = &all.races[i].election;
        int due_ms = leader_due_ms(e);
        if (due_ms == 0) {
            due_ms = leader_tick(e);
        }
        wait_ms = due_ms < wait_ms ? due_ms : wait_ms;
    }
    return wait_ms;
}

static void wait_for_stores(int wait_ms) {
    int n = 0;
    for (int i = 0; i < all.places + all.shards; i++) {
        leader_fd fds[LEADER_FDS_MAX];
        int count = leader_fds(&all.races[i].election, fds);
        for (int k = 0; k < count; k++) {
            all.fds[n].fd = (int)fds[k].fd;
            all.fds[n].events = leader_poll_events(fds[k].events);
            all.fds[n].revents = 0;
            all.whose[n] = i;
            n++;
        }
    }
    if (poll(all.fds, (nfds_t)n, wait_ms) <= 0) {
        return;
    }
    for (int i = 0; i < n; i++) {
        if (all.fds[i].revents) {
            leader_tick(&all.races[all.whose[i]].election);
        }
    }
}

static void run(void) {
    int64_t balance_at_ms = 0;
    while (!ending) {
        if (now_ms() >= balance_at_ms) {
            balance();
            balance_at_ms = now_ms() + BALANCE_MS;
        }
        wait_for_stores(tick_due(BALANCE_MS));
    }
}

/* ---- set-up ---------------------------------------------------------------------------------------- */

/* What goes wrong goes wrong for all of them: a line a second is enough. */
static void on_log(void *user, leader_level level, const char *text) {
    int64_t at_ms = now_ms();
    if (level <= LEADER_LOG_WARN && at_ms - all.said_ms >= 1000) {
        fprintf(stderr, "%s: %s\n", leader_name(&((const race *)user)->election), text);
        all.said_ms = at_ms;
    }
}

static const char *open_all(family *f) {
    for (int i = 0; i < all.places + all.shards; i++) {
        race *r = &all.races[i];
        leader_config cfg = {0};
        cfg.identity = all.id;
        cfg.lease_ms = all.lease_ms;
        cfg.defer_ms = LATE_LEASES * all.lease_ms;
        cfg.retry_ms = i < all.places ? all.lease_ms / 6 : all.lease_ms / 2;  // nobody is told who joins
        cfg.request_timeout_ms = all.lease_ms / 3;                            // all of them wait in one line
        cfg.on_log = on_log;
        cfg.user = r;
        cfg.backend = family_backend(f, &r->where, i);
        if (leader_init(&r->election, &cfg) != LEADER_OK) {
            return leader_error(&r->election);
        }
    }
    return NULL;
}

static void close_all(void) {
    int count = all.places + all.shards;
    leader_t **elections = (leader_t **)calloc((size_t)count, sizeof *elections);
    for (int i = 0; elections && i < count; i++) {
        elections[i] = &all.races[i].election;
    }
    if (elections) {
        leader_close_all(elections, count, CLOSE_MS);
    }
    free(elections);
}

static int mistake(const char *what, const char *about) {
    fprintf(stderr, "shards: %s%s%s\n", about, about[0] ? ": " : "", what);
    return 2;
}

int main(int argc, char **argv) {
    static store where;
    static family together;
    char name[LEADER_IDENTITY_MAX + 1];
    all.shards = 256;
    all.places = 16;
    all.lease_ms = 1500;
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i];
        const char *value = NULL;
        bool good = true;
        if (option_is(argv, &i, "--id", &value)) {
            all.id = value;
        } else if (option_is(argv, &i, "--shards", &value)) {
            all.shards = value ? atoi(value) : 0;
        } else if (option_is(argv, &i, "--members", &value)) {
            all.places = value ? atoi(value) : 0;
        } else if (option_is(argv, &i, "--lease", &value)) {
            good = option_duration(value, &all.lease_ms);
        } else {
            good = store_option(&where, argv, &i, &value);
        }
        if (!good || !value) {
            return mistake("unknown, or its value is missing or wrong", option);
        }
    }
    if (all.shards < 1 || all.shards > SHARDS_MAX || all.places < 1 || all.places > MEMBERS_MAX) {
        return mistake("1 to 4096 shards, 1 to 64 members", "");
    }
    const char *wrong = store_mistake(&where);
    if (wrong) {
        return mistake(wrong, "");
    }
    if (!all.id) {
        all.id = store_identity(&where, name);
    }
    struct rlimit files;  // a few descriptors for each shard
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    size_t count = (size_t)all.places + (size_t)all.shards;
    all.races = (race *)calloc(count, sizeof *all.races);
    all.fds = (struct pollfd *)calloc(count * LEADER_FDS_MAX, sizeof *all.fds);
    all.whose = (int *)calloc(count * LEADER_FDS_MAX, sizeof *all.whose);
    if (!all.races || !all.fds || !all.whose) {
        return mistake("not enough memory", "");
    }
    family_init(&together, &where);
    wrong = open_all(&together);
    if (wrong) {
        return mistake(wrong, "");
    }
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    setvbuf(stdout, NULL, _IOLBF, 0);
    run();
    close_all();
    printf("%lld %s 0 0 0 %d\n", (long long)now_ms(), all.id, all.given);
    free(all.races);
    free(all.fds);
    free(all.whose);
    store_free(&where);
    return 0;
}
