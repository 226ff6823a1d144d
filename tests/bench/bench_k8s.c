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

static CURL *put_easy;
static char put_body[2048];

/* Seconds for a PUT on a kept connection, and the CPU time that it took this process. */
static double bare_put(double *cpu) {
    char url[512], *version;
    static int number;
    struct curl_slist *headers = NULL;
    reply r = {0, 0, NULL};
    if (!put_easy) {
        put_easy = curl_easy_init();
        lease_create("bare", "\"holderIdentity\":\"x\",\"leaseDurationSeconds\":15,\"renewTime\":\"2026-11-"
                             "16T01:28:19.182794Z\"");
        reply made = lease_request("GET", "bare", NULL, NULL);
        snprintf(put_body, sizeof put_body, "%s", made.text);
        free(made.text);
    }
    snprintf(url, sizeof url, "%s/apis/coordination.k8s.io/v1/namespaces/default/leases/bare", W.url);
    headers = curl_slist_append(headers, "Authorization: Bearer admintoken");
    headers = curl_slist_append(headers, "Content-Type: application/json");
    headers = curl_slist_append(headers, "Expect:");
    char *stamp = strstr(put_body, "\"renewTime\":\"");
    if (!stamp) die("the bare Lease has no renewTime");
    // another microsecond
    for (int i = 38, n = ++number; i > 32; i--, n /= 10) stamp[i] = (char)('0' + n % 10);
    curl_easy_setopt(put_easy, CURLOPT_URL, url);
    curl_easy_setopt(put_easy, CURLOPT_PROXY, "");
    curl_easy_setopt(put_easy, CURLOPT_CAINFO, W.ca);
    curl_easy_setopt(put_easy, CURLOPT_USERAGENT, "bare");
    curl_easy_setopt(put_easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(put_easy, CURLOPT_CUSTOMREQUEST, "PUT");
    curl_easy_setopt(put_easy, CURLOPT_POSTFIELDS, put_body);
    curl_easy_setopt(put_easy, CURLOPT_WRITEFUNCTION, reply_take);
    curl_easy_setopt(put_easy, CURLOPT_WRITEDATA, &r);
    double start = bench_now(), used = bench_cpu();
    if (curl_easy_perform(put_easy) != CURLE_OK) die("the bare PUT fails");
    double took = bench_now() - start;
    if (cpu) *cpu = bench_cpu() - used;
    curl_easy_getinfo(put_easy, CURLINFO_RESPONSE_CODE, &r.status);
    version = r.text ? strstr(r.text, "\"resourceVersion\"") : NULL;
    if (r.status != 200 || !version) die(r.text ? r.text : "the bare PUT is refused");
    snprintf(put_body, sizeof put_body, "%s", r.text);
    free(r.text);
    curl_slist_free_all(headers);
    return took;
}

/* On a kept connection, after a moment of quiet, as a hand-over and a failover have it; the median of a
   few. */
static double bare_put_ms(void) {
    bench_series few = {0, {0}};
    bare_put(NULL);
    for (int i = 0; i < 5; i++) {
        pump_ms(20);
        settle();
        bench_add(&few, bare_put(NULL) * 1000);
    }
    return bench_quantile(&few, 0.5);
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

/* ---- hand-over and failover -------------------------------------------------------------------- */

static void hand_overs(bench_series *took, bench_series *bare) {
    int rounds = bench_rounds(40);
    for (int i = 0; i < rounds; i++) {
        pair(0, 0, true, true);
        bench_add(bare, bare_put_ms());
        pump_ms(50);
        settle();
        double start = bench_now();
        leader_stop(&a.me);
        WAIT(leads(&b));
        bench_add(took, (bench_now() - start) * 1000);
        part();
        bench_progress("hand-overs", i, rounds);
    }
}

/* The leader is never ticked again; its record runs out lease_ms after its last renewal was sent. */
static void failovers(bench_series *excess, bench_series *bare) {
    int rounds = bench_rounds(12);
    for (int i = 0; i < rounds; i++) {
        pair(2000, 900, true, true);
        bench_add(bare, bare_put_ms());
        pump_ms(700 + 97 * (i % 8));
        settle();
        a.frozen = true;
        int64_t end_ms = a.me.lease.until_ms - 900 + 2000;
        WAIT(leads(&b));
        bench_add(excess, (double)real_us() / 1000 - (double)(end_ms - skipped_ms));
        part();
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

int main(int argc, char **argv) {
    static bench_series took, bare, cpu, bare_cpu, hand, hand_bare, excess, excess_bare, ticks;
    bench_begin(argc, argv, "Lease: ");
    if (!world_start() || W.live)
        die("tests/k8s/k8s_server.py did not start (a live server is not measured)");

    bench_fact("requests a minute: leader", "", requests_a_minute(false, false), BENCH_AT_MOST, 13);
    bench_fact("requests a minute: standby with a watch", "", requests_a_minute(true, true), BENCH_AT_MOST,
               6);
    bench_fact("requests a minute: standby without", "", requests_a_minute(true, false), BENCH_AT_MOST, 31);

    renewals(&took, &bare, &cpu, &bare_cpu);
    bench_print((bench_row){"renewal", "ms", &took, "bare PUT", &bare, false, BENCH_NO_GOAL, 0});
    bench_print((bench_row){"renewal, CPU of this process", "us", &cpu, "bare PUT", &bare_cpu, false,
                            BENCH_NO_GOAL, 0});
    hand_overs(&hand, &hand_bare);
    bench_print(
        (bench_row){"hand-over with a watch", "ms", &hand, "bare PUT", &hand_bare, false, BENCH_AT_MOST, 5});
    failovers(&excess, &excess_bare);
    bench_print((bench_row){"crash failover, beyond the lease of 2 s", "ms", &excess, "bare PUT",
                            &excess_bare, true, BENCH_AT_MOST, 25});

    double led_ms = 0, worst = 0;
    for (int i = 0; i < bench_rounds(4); i++) {
        double ms = overlap(&led_ms);
        if (ms > worst) worst = ms;
    }
    bench_fact("two leaders while the leader is cut off", "ms", worst, BENCH_AT_MOST, 0);
    for (int i = 0; i < bench_rounds(4); i++)
        bench_add(&ticks, longest_tick_ms(i % 2 ? "refuse" : "blackhole"));
    bench_print((bench_row){"longest tick, server does not answer", "ms", &ticks, NULL, NULL, true,
                            BENCH_AT_MOST, 5});

    if (put_easy) curl_easy_cleanup(put_easy);
    ask(NULL, NULL, NULL, NULL, NULL);
    server_stop(&W);
    return bench_end();
}
