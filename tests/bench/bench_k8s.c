/* The Kubernetes backend's figures, on the test API server: requests, hand-over, failover, overlap, ticks.
   bench.h says how to read the table. Needs python3 and openssl; run from the repository's top. */
#define LEADER_IMPLEMENTATION
#define LEADER_WITH_K8S
#include "leader.h"
#include "tests/bench/bench.h"
#include "tests/k8s/k8s_world.h"

#include <sys/resource.h>

static void die(const char *what) {
    fprintf(stderr, "bench_k8s: %s\n", what);
    ask(NULL, NULL, NULL, NULL, NULL);
    server_stop(&W);
    exit(1);
}
#define WAIT(condition)                                                                                      \
    do {                                                                                                     \
        UNTIL(condition);                                                                                    \
        if (!(condition))                                                                                    \
            die("waited in vain for " #condition);                                                           \
    } while (0)

static candidate a, b;

/* A Lease of its own, a leader, and perhaps a standby that knows it. */
static void pair(int64_t lease_ms, int64_t deadline_ms, bool standby, bool watch) {
    static char lease[128];
    static int number;
    char who[LEADER_IDENTITY_MAX + 1];
    snprintf(lease, sizeof lease, "bench-%d", number++);
    candidate_make(&a, lease, "leader");
    candidate_make(&b, lease, "standby");
    a.cfg.lease_ms = b.cfg.lease_ms = lease_ms;
    a.cfg.renew_deadline_ms = b.cfg.renew_deadline_ms = deadline_ms;
    a.where.token = W.elector;                  // so that a fault can be for the leader alone
    a.where.no_watch = true;
    b.where.no_watch = !watch;
    if (!candidate_open(&a)) die(leader_error(&a.me));
    WAIT(leads(&a));
    if (!standby) return;
    if (!candidate_open(&b)) die(leader_error(&b.me));
    WAIT((leader_get_leader(&b.me, who, sizeof who), strcmp(who, "leader") == 0));
    if (watch) WAIT(b.store.watch_open);
    settle();
}

static void part(void) {
    candidate_close(&a, true);
    candidate_close(&b, true);
    control("DELETE", "/faults", "%s", "");
}

/* ---- requests ---------------------------------------------------------------------------------- */

/* Ten minutes of the default timing, on a clock that is turned on faster than the real one. */
static double requests_a_minute(bool standby, bool watch) {
    enum { MINUTES = 10, STEP_MS = 250 };
    pair(0, 0, standby, watch);
    settle();
    a.frozen = false;
    /* The clock is turned a hundred times faster than the server works: where there is a watch, wait until
       it has told. */
    for (int i = 0; watch && !b.store.watch_open && i < 5000; i++) pump_for(1);
    control("DELETE", "/requests", "%s", "");
    for (int i = 0; i < MINUTES * 60000 / STEP_MS; i++) {
        skip_ms(STEP_MS);
        pump_for(0);
        settle();
        for (int k = 0; watch && b.store.lease.entry.revision < a.store.lease.entry.revision && k < 1000; k++)
            pump_for(1);
    }
    if (!leads(&a) || a.started != 1) die("the leader changed");
    double all = counted("", -1), renewals = counted("update", -1);
    part();
    return (standby ? all - renewals : all) / MINUTES;
}

/* ---- a bare PUT: the least that a change of the Lease can cost --------------------------------- */

enum { BODY_MAX = 4096 };

typedef struct least {
    CURL              *easy;            // one kept connection
    struct curl_slist *headers;
    char               name[64];
    char               url[512];
    char               body[BODY_MAX];  // the Lease as it was stored last
} least;

static CURL *least_handle(const least *l) {
    CURL *easy = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_CAINFO, W.ca);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "bare");
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, l->headers);
    return easy;
}

static void least_open(least *l, const char *name) {
    memset(l, 0, sizeof *l);
    snprintf(l->name, sizeof l->name, "%s", name);
    snprintf(l->url, sizeof l->url, "%s/apis/coordination.k8s.io/v1/namespaces/default/leases/%s", W.url,
             name);
    l->headers = curl_slist_append(l->headers, "Authorization: Bearer admintoken");
    l->headers = curl_slist_append(l->headers, "Content-Type: application/json");
    l->headers = curl_slist_append(l->headers, "Expect:");
    l->easy = least_handle(l);
}

static void least_create(least *l) {
    lease_create(l->name, "\"holderIdentity\":\"x\",\"leaseDurationSeconds\":15,"
                          "\"renewTime\":\"2026-11-16T01:28:19.182794Z\"");
    reply made = lease_request("GET", l->name, NULL, NULL);
    snprintf(l->body, sizeof l->body, "%s", made.text);
    free(made.text);
}

/* The request, and the Lease as the answer has it. */
static void least_perform(least *l, const char *method) {
    reply r = {0, 0, NULL};
    curl_easy_setopt(l->easy, CURLOPT_URL, l->url);
    curl_easy_setopt(l->easy, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(l->easy, CURLOPT_WRITEFUNCTION, reply_take);
    curl_easy_setopt(l->easy, CURLOPT_WRITEDATA, &r);
    if (curl_easy_perform(l->easy) != CURLE_OK) {
        die("the bare request fails");
    }
    curl_easy_getinfo(l->easy, CURLINFO_RESPONSE_CODE, &r.status);
    bool stored = r.status == 200 && r.text && strstr(r.text, "\"resourceVersion\"");
    if (!stored) {
        die(r.text ? r.text : "the bare request is refused");
    }
    snprintf(l->body, sizeof l->body, "%s", r.text);
    free(r.text);
}

static void least_put(least *l) {
    enum { MICROSECONDS_AT = 33, DIGITS = 6 };
    static int number;
    char *stamp = strstr(l->body, "\"renewTime\":\"");
    if (!stamp) {
        die("the bare Lease has no renewTime");
    }
    number++;
    char digits[DIGITS + 8];
    snprintf(digits, sizeof digits, "%06d", number % 1000000);
    memcpy(stamp + MICROSECONDS_AT, digits, DIGITS);    // another microsecond
    curl_easy_setopt(l->easy, CURLOPT_POSTFIELDS, l->body);
    least_perform(l, "PUT");
}

static least kept;

/* Seconds for a PUT on a kept connection, and the CPU time that it took this process. */
static double bare_put(double *cpu) {
    if (!kept.easy) {
        least_open(&kept, "bare");
        least_create(&kept);
    }
    double start = bench_now();
    double used = bench_cpu();
    least_put(&kept);
    double took = bench_now() - start;
    if (cpu) {
        *cpu = bench_cpu() - used;
    }
    return took;
}

/* ---- a renewal --------------------------------------------------------------------------------- */

static void renewals(bench_series *took, bench_series *bare, bench_series *cpu, bench_series *bare_cpu) {
    int rounds = bench_rounds(100);
    pair(0, 0, false, false);
    for (int i = 0; i < rounds; i++) {
        double used_bare;
        bare_put(NULL);
        bench_add(bare, bare_put(&used_bare) * 1000);
        bench_add(bare_cpu, used_bare * 1e6);
        uint64_t before = leader_get_stats(&a.me).renewals;
        skip_ms(5001);
        double start = bench_now(), used = bench_cpu();
        WAIT(leader_get_stats(&a.me).renewals > before);
        bench_add(took, (bench_now() - start) * 1000);
        bench_add(cpu, (bench_cpu() - used) * 1e6);
        bench_progress("renewals", i, rounds);
    }
    part();
}

/* ---- hand-over and failover: two processes, beside the least that does the same ---------------- */

typedef leader_k8s actor_store;

static leader_backend actor_backend(leader_k8s *store, const char *election) {
    leader_k8s_config where;
    memset(&where, 0, sizeof where);
    where.server = W.url;
    where.ca_file = W.ca;
    where.token = W.watcher;
    where.lease_name = election;
    where.lease_namespace = "default";
    where.leader_h_only = true;         // a lease of 2 s leaves client-go no margin
    return leader_k8s_backend(store, &where);
}

static bool actor_hears(const leader_k8s *store) {
    return store->watch_open;
}

#include "tests/bench/actors.h"

/* Renews by bare PUTs, and takes its name off when it is told to. */
static void least_leads(int in, int out) {
    least l;
    least_open(&l, actor_election);
    least_create(&l);
    least_put(&l);
    actor_say(out, ACTOR_LEADS, bench_now());
    while (!actor_is_told(in, (int)actor_lease_ms / 3)) {
        actor_say(out, ACTOR_SENDS, bench_now());
        least_put(&l);
    }
    char *holder = strstr(l.body, "\"holderIdentity\":\"x\"");
    if (!holder) {
        die("the bare Lease has lost its holder");
    }
    actor_say(out, ACTOR_STOPS, bench_now());
    memcpy(holder, "\"holderIdentity\":\"\" ", strlen("\"holderIdentity\":\"x\""));
    least_put(&l);
    pause();
}

typedef struct watched {
    char   line[BODY_MAX];
    size_t len;
    int    events;
    bool   released;
    double seen;
    char   object[BODY_MAX];
} watched;

static size_t watched_take(char *data, size_t size, size_t count, void *user) {
    static const char before[] = "\"object\":";
    watched *w = (watched *)user;
    size_t n = size * count;
    if (w->len + n >= sizeof w->line) {
        die("an event is too long");
    }
    memcpy(w->line + w->len, data, n);
    w->len += n;
    w->line[w->len] = 0;
    const char *object = strstr(w->line, before);
    bool whole = object && w->line[w->len - 1] == '\n';
    if (!whole) {
        return n;
    }
    snprintf(w->object, sizeof w->object, "%s", object + strlen(before));
    *strrchr(w->object, '}') = 0;       // the event's own
    w->released = !strstr(w->object, "\"holderIdentity\":\"x\"");
    w->seen = bench_now();
    w->events++;
    w->len = 0;
    return n;
}

/* Waits for news, or for the end of what it saw last. True: it may take the Lease. */
static bool watched_wait(CURLM *multi, const watched *w) {
    int running = 0;
    double rest = 1;
    if (w->events > 0) {
        rest = w->seen + (double)actor_lease_ms / 1e3 - bench_now();
    }
    if (rest <= 0) {
        return true;
    }
    if (rest < 0.001) {
        usleep((useconds_t)(rest * 1e6));
        return false;
    }
    curl_multi_poll(multi, NULL, 0, (int)(rest * 1e3), NULL);
    curl_multi_perform(multi, &running);
    return w->released;
}

/* Watches the Lease, and takes it by a bare PUT when it is released or has run out. */
static void least_stands_by(int in, int out) {
    static watched w;
    least l;
    char url[700];
    int running = 0;
    (void)in;
    least_open(&l, actor_election);
    least_perform(&l, "GET");           // its connection is there
    CURL *watch = least_handle(&l);
    snprintf(url, sizeof url,
             "%s/apis/coordination.k8s.io/v1/namespaces/default/leases"
             "?watch=1&fieldSelector=metadata.name=%s",
             W.url, actor_election);
    curl_easy_setopt(watch, CURLOPT_URL, url);
    curl_easy_setopt(watch, CURLOPT_WRITEFUNCTION, watched_take);
    curl_easy_setopt(watch, CURLOPT_WRITEDATA, &w);
    CURLM *multi = curl_multi_init();
    curl_multi_add_handle(multi, watch);
    curl_multi_perform(multi, &running);
    while (w.events == 0) {
        watched_wait(multi, &w);
    }
    actor_say(out, ACTOR_HEARS, bench_now());
    while (!watched_wait(multi, &w)) {
    }
    snprintf(l.body, sizeof l.body, "%s", w.object);
    least_put(&l);
    actor_say(out, ACTOR_LEADS, bench_now());
    pause();
}

static void hand_overs(bench_series *ours, bench_series *bare) {
    int rounds = bench_rounds(40);
    for (int i = 0; i < rounds; i++) {
        bench_add(bare, actor_hand_over(least_leads, least_stands_by));
        bench_add(ours, actor_hand_over(actor_elects, actor_elects));
        bench_progress("hand-overs", i, rounds);
    }
}

/* The leader is killed; its record runs out lease_ms after its last renewal was sent. */
static void failovers(bench_series *ours, bench_series *bare) {
    int rounds = bench_rounds(12);
    for (int i = 0; i < rounds; i++) {
        double wait_s = 0.9 + 0.097 * (i % 8);
        bench_add(bare, actor_crash(least_leads, least_stands_by, wait_s, NULL));
        bench_add(ours, actor_crash(actor_elects, actor_elects, wait_s, NULL));
        bench_progress("failovers", i, rounds);
    }
}

/* ---- a server that does not answer ------------------------------------------------------------- */

/* Milliseconds in which both said that they lead, while the leader's requests hang; how long until the
   other leads. */
static double overlap(double *until_led) {
    double both = 0, last = bench_now(), start = last;
    pair(2000, 900, true, true);
    control("POST", "/faults", "{\"do\":\"hang\",\"match\":{\"user\":\"elector\"},\"times\":0}");
    for (double led = 0; (led == 0 || bench_now() - led < 1.0) && bench_now() - start < LIMIT_MS / 1000.0;) {
        tick_all();
        double now = bench_now();
        if (leads(&a) && leads(&b)) both += now - last;
        if (led == 0 && leads(&b)) { led = now; *until_led = (led - start) * 1000; }
        last = now;
        wait_all(1);
    }
    part();
    return both * 1000;
}

static double longest_tick_ms(const char *mode) {
    pair(3000, 1850, true, true);
    control("POST", "/listen", "{\"mode\":\"%s\",\"drop\":true}", mode);
    a.slowest_tick_us = b.slowest_tick_us = 0;
    pump_ms(4500);
    double worst =
        (double)(a.slowest_tick_us > b.slowest_tick_us ? a.slowest_tick_us : b.slowest_tick_us) / 1000;
    control("POST", "/listen", "{\"mode\":\"open\"}");
    part();
    return worst;
}

static void bench_requests(void) {
    double leader = requests_a_minute(false, false);
    double watching = requests_a_minute(true, true);
    double polling = requests_a_minute(true, false);
    bench_fact("requests a minute: leader", "", leader, BENCH_AT_MOST, 13);
    bench_fact("requests a minute: standby with a watch", "", watching, BENCH_AT_MOST, 6);
    bench_fact("requests a minute: standby without", "", polling, BENCH_AT_MOST, 31);
}

static void bench_renewals(void) {
    static bench_series took, bare, cpu, bare_cpu;
    renewals(&took, &bare, &cpu, &bare_cpu);
    bench_print((bench_row){"renewal", "ms", &took, "bare PUT", &bare, false, BENCH_NO_GOAL, 0});
    bench_print((bench_row){"renewal, CPU of this process", "us", &cpu, "bare PUT", &bare_cpu, false,
                            BENCH_NO_GOAL, 0});
}

static void bench_changes(void) {
    static bench_series hand, hand_bare, excess, excess_bare;
    hand_overs(&hand, &hand_bare);
    bench_print((bench_row){"hand-over with a watch", "ms", &hand, "PUT, watch, PUT, two processes",
                            &hand_bare, false, BENCH_AT_MOST, 3});
    failovers(&excess, &excess_bare);
    bench_print((bench_row){"crash failover, beyond the lease of 2 s", "ms", &excess,
                            "watch, PUT, two processes", &excess_bare, false, BENCH_AT_MOST, 3});
}

static void bench_silence(void) {
    static bench_series ticks;
    double led_ms = 0;
    double worst = 0;
    for (int i = 0; i < bench_rounds(4); i++) {
        double ms = overlap(&led_ms);
        worst = ms > worst ? ms : worst;
    }
    bench_fact("two leaders while the leader is cut off", "ms", worst, BENCH_AT_MOST, 0);
    for (int i = 0; i < bench_rounds(4); i++) {
        bench_add(&ticks, longest_tick_ms(i % 2 ? "refuse" : "blackhole"));
    }
    bench_print((bench_row){"longest tick, server does not answer", "ms", &ticks, NULL, NULL, true,
                            BENCH_AT_MOST, 5});
}

int main(int argc, char **argv) {
    bench_begin(argc, argv, "Lease: ");
    if (!world_start() || W.live) {
        die("tests/k8s/k8s_server.py did not start (a live server is not measured)");
    }
    bench_requests();
    bench_renewals();
    bench_changes();
    bench_silence();
    curl_easy_cleanup(kept.easy);
    curl_slist_free_all(kept.headers);
    ask(NULL, NULL, NULL, NULL, NULL);
    server_stop(&W);
    return bench_end();
}
