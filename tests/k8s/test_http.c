/* leader_http.h: what a connection may and may not do, seen through elections on a Lease.
     libcurl   versions that are refused
     http      connections: shared, given up, inherited by a child, certificates that are replaced, proxies
     http2     the same server behind nghttpx, which speaks HTTP/2 */
#define LEADER_IMPLEMENTATION
#define LEADER_WITH_K8S
#define curl_version_info fake_curl_version_info    // the tests say which libcurl this is
#include "leader.h"
#include "tests/tools/utest.h"
#include "tests/k8s/k8s_world.h"
#include <arpa/inet.h>
#include <sys/stat.h>

UTEST_STATE();

static unsigned fake_version = LIBCURL_VERSION_NUM;
static int      fake_features = CURL_VERSION_ASYNCHDNS | CURL_VERSION_SSL;

curl_version_info_data *fake_curl_version_info(CURLversion age) {
    static curl_version_info_data data;
    (void)age;
    data.version = "7.86.0";
    data.version_num = fake_version;
    data.features = fake_features;
    return &data;
}

#define WAIT(condition) do { UNTIL(condition); ASSERT_TRUE(condition); } while (0)
#define OPEN(x) ASSERT_TRUE_MSG(candidate_open(x), leader_error(&(x)->me))
#define EXPECT_SAYS(part, text)                                                                              \
    do {                                                                                                     \
        const char *said_ = (text);                                                                          \
        EXPECT_TRUE_MSG(strstr(said_, part) != NULL, said_);                                                 \
    } while (0)

static leader_stats stats(const candidate *x) { return leader_get_stats(&x->me); }

/* ---- libcurl: versions that are refused -------------------------------------------------------- */

static const char *refusal(unsigned version, int features) {
    static candidate c;
    static char text[400];
    fake_version = version;
    fake_features = features;
    candidate_make(&c, "demo", "me");
    text[0] = 0;
    if (candidate_open(&c)) candidate_close(&c, true);
    else snprintf(text, sizeof text, "%s", leader_error(&c.me));
    fake_version = LIBCURL_VERSION_NUM;
    fake_features = CURL_VERSION_ASYNCHDNS | CURL_VERSION_SSL;
    return text;
}

UTEST(libcurl, one_that_raises_sigpipe_is_refused_at_run_time) {
    EXPECT_SAYS("libcurl 7.86.0 is too old: 7.87 or later is needed", refusal(0x075600, fake_features));
    EXPECT_STREQ("", refusal(0x075700, fake_features));
}

UTEST(libcurl, one_that_blocks_on_dns_is_refused) {
    EXPECT_SAYS("blocks on DNS", refusal(LIBCURL_VERSION_NUM, CURL_VERSION_SSL));
}

UTEST(libcurl, one_without_tls_is_refused) {
    EXPECT_SAYS("without TLS", refusal(LIBCURL_VERSION_NUM, CURL_VERSION_ASYNCHDNS));
}

/* ---- http ---------------------------------------------------------------------------------------- */

struct http { candidate a, b; leader_http_client shared; char lease[2][64]; };

UTEST_F_SETUP(http) {
    static int number;
    control("POST", "/reset", "{}");
    skipped_ms = 0;
    two_leaders = 0;
    for (int i = 0; i < 2; i++)
        snprintf(utest_fixture->lease[i], sizeof utest_fixture->lease[i], "http-%d-%d", number, i);
    number++;
    candidate_make(&utest_fixture->a, utest_fixture->lease[0], "node-a");
    candidate_make(&utest_fixture->b, utest_fixture->lease[1], "node-b");
    ASSERT_TRUE(true);
}

UTEST_F_TEARDOWN(http) {
    control("DELETE", "/faults", "%s", "");
    control("POST", "/certificate", "{\"signer\":\"ca\"}");
    candidate_close(&utest_fixture->a, true);
    candidate_close(&utest_fixture->b, true);
    for (int i = 0; i < 2; i++) lease_delete(utest_fixture->lease[i]);
    EXPECT_EQ(0, two_leaders);
}

UTEST_F(http, proxies_of_the_environment_are_not_used) {
    static const char *const names[] = {"https_proxy", "HTTPS_PROXY", "http_proxy", "all_proxy", "ALL_PROXY"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) setenv(names[i], "http://127.0.0.1:9", 1);
    setenv("no_proxy", "", 1);
    OPEN(&utest_fixture->a);
    UNTIL(leads(&utest_fixture->a));
    EXPECT_TRUE(leads(&utest_fixture->a));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) unsetenv(names[i]);
    unsetenv("no_proxy");
}

/* Two idle connections; a request on one of them gets no answer. The other one is of the same dead
   network. */
UTEST_F(http, after_a_time_out_no_old_connection_is_used) {
    candidate *a = &utest_fixture->a, *b = &utest_fixture->b;
    a->where.client = b->where.client = &utest_fixture->shared;
    a->where.no_watch = b->where.no_watch = true;
    OPEN(a);
    WAIT(leads(a));
    ASSERT_TRUE(FAULT("{\"do\":\"late\",\"match\":{\"verb\":\"update\",\"name\":\"%s\"},\"times\":1}",
                      utest_fixture->lease[0]));
    skip_ms(5100);
    WAIT(!idle(a));
    pump_ms(30);
    OPEN(b);
    WAIT(leads(b));                             // while a's request is under way: on a second connection
    ASSERT_TRUE(control("POST", "/release", "{}"));
    WAIT(stats(a).renewals == 1);
    settle();
    ASSERT_EQ(2u, utest_fixture->shared.opened);
    ASSERT_TRUE(FAULT("{\"do\":\"hang\",\"match\":{\"verb\":\"update\",\"name\":\"%s\"},\"times\":1}",
                      utest_fixture->lease[0]));
    b->frozen = true;
    skip_ms(5100);
    WAIT(!idle(a));
    pump_ms(30);
    skip_ms(2600);
    WAIT(stats(a).failures_timeout == 1);
    skip_ms(600);
    WAIT(stats(a).renewals == 2);
    EXPECT_EQ(3u, utest_fixture->shared.opened);
    EXPECT_TRUE(leads(a));
}

/* The CA file is replaced while we run, as a kubelet does it; the server gets a certificate of the new
   authority. */
UTEST_F(http, a_replaced_ca_file_is_read_again) {
    candidate *a = &utest_fixture->a;
    char command[1200], file[64] = "build/k8s-ca-XXXXXX";
    int fd = mkstemp(file);
    ASSERT_TRUE(fd >= 0);
    close(fd);
    snprintf(command, sizeof command, "cp '%s' %s.new && mv %s.new %s", W.ca, file, file, file);
    ASSERT_EQ(0, system(command));
    a->where.ca_file = file;
    OPEN(a);
    WAIT(leads(a));
    settle();
    ASSERT_TRUE(control("POST", "/certificate", "{\"signer\":\"other-ca\"}"));
    ASSERT_TRUE(control("POST", "/watches", "{\"do\":\"reset\"}"));
    ASSERT_TRUE(control("POST", "/listen", "{\"mode\":\"refuse\",\"drop\":true}"));
    ASSERT_TRUE(control("POST", "/listen", "{\"mode\":\"open\"}"));
    skip_ms(5100);
    WAIT(stats(a).failures_auth > 0);           // the new certificate is not trusted yet
    EXPECT_SAYS("127.0.0.1:", a->log);          // and the text says whose it is
    snprintf(command, sizeof command, "cp '%s' %s.new && mv %s.new %s", W.other_ca, file, file, file);
    ASSERT_EQ(0, system(command));
    uint64_t renewals = stats(a).renewals;
    for (int i = 0; i < 100 && stats(a).renewals == renewals && leads(a); i++) {
        settle();
        skip_ms(200);
        pump_ms(10);
    }
    EXPECT_GT(stats(a).renewals, renewals);
    EXPECT_EQ(1, a->started);
    unlink(file);
}

/* A child that joins an election with the inherited client must not touch the parent's connections. */
static int child_elects(candidate *mine, const char *lease, leader_http_client *client) {
    memset(candidates, 0, sizeof candidates);
    candidate_make(mine, lease, "child");
    mine->where.client = client;
    if (!candidate_open(mine)) return 2;
    UNTIL(leads(mine));
    int64_t end = real_us() + 300000;
    while (real_us() < end) pump();
    bool led = leads(mine);
    candidate_close(mine, false);
    return led ? 0 : 3;
}

static void forked(int *utest_result, candidate *a, candidate *b, leader_http_client *client,
                   const char *lease) {
    int status = -1;
    OPEN(a);
    WAIT(leads(a));
    WAIT(a->store.watch_open);
    settle();
    uint64_t opened = a->store.http.client->opened;
    pid_t child = fork();
    if (child == 0) _exit(child_elects(b, lease, client));
    while (waitpid(child, &status, WNOHANG) == 0) {
        pump();
        settle();
        if (stats(a).renewals == 0) skip_ms(100);   // the parent renews meanwhile, on its own connection
    }
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_EQ(0, WEXITSTATUS(status));
    for (int i = 0; i < 3; i++) {
        uint64_t renewals = stats(a).renewals;
        settle();
        skip_ms(5100);
        WAIT(stats(a).renewals > renewals && a->store.watch_version >= a->store.lease.entry.revision);
    }
    EXPECT_EQ(0u, stats(a).failures);
    EXPECT_EQ(1, a->started);
    EXPECT_TRUE(leads(a));
    EXPECT_EQ(opened, a->store.http.client->opened);    // and the watch goes on as well
    EXPECT_TRUE(a->store.watch_open);
}

UTEST_F(http, a_forked_child_leaves_the_shared_client_alone) {
    utest_fixture->a.where.client = &utest_fixture->shared;
    forked(utest_result, &utest_fixture->a, &utest_fixture->b, &utest_fixture->shared,
           utest_fixture->lease[1]);
}

/* The same with the very store of the parent: leader_init once more, on the inherited struct. */
static int child_reuses(candidate *a) {
    leader_t again;
    a->cfg.identity = "child";
    if (leader_init(&again, &a->cfg) != LEADER_OK) return 2;
    char who[LEADER_IDENTITY_MAX + 1] = "";
    for (int64_t end = real_us() + 10000000; real_us() < end && strcmp(who, "node-a") != 0;) {
        leader_tick(&again);
        leader_sleep(&again, 5);
        leader_get_leader(&again, who, sizeof who);
    }
    leader_close(&again, 0);
    return strcmp(who, "node-a") == 0 ? 0 : 3;
}

UTEST_F(http, a_forked_child_leaves_its_parent_s_store_alone) {
    candidate *a = &utest_fixture->a;
    int status = -1;
    OPEN(a);
    WAIT(leads(a));
    WAIT(a->store.watch_open);
    settle();
    uint64_t opened = a->store.http.client->opened;
    pid_t child = fork();
    if (child == 0) _exit(child_reuses(a));
    while (waitpid(child, &status, WNOHANG) == 0) pump();
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_EQ(0, WEXITSTATUS(status));
    settle();
    skip_ms(5100);
    WAIT(stats(a).renewals > 0);
    EXPECT_EQ(0u, stats(a).failures);
    EXPECT_EQ(opened, a->store.http.client->opened);
    EXPECT_TRUE(a->store.watch_open && leads(a));
}

UTEST_F(http, sockets_are_not_left_to_programs_that_we_run) {
    OPEN(&utest_fixture->a);
    WAIT(leads(&utest_fixture->a));
    WAIT(utest_fixture->a.store.watch_open);
    leader_http_client *client = utest_fixture->a.store.http.client;
    ASSERT_EQ(2u, client->socket_count);
    for (size_t i = 0; i < client->socket_count; i++)
        EXPECT_TRUE((fcntl((int)client->sockets[i], F_GETFD) & FD_CLOEXEC) != 0);
}

/* ---- http2: nghttpx in front of the test server -------------------------------------------------- */

static struct { pid_t pid; char url[64]; } front;

static int free_port(void) {
    struct sockaddr_in at;
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0), port = 0;
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) == 0
        && getsockname(fd, (struct sockaddr *)&at, &len) == 0)
        port = ntohs(at.sin_port);
    close(fd);
    return port;
}

static bool answers(const char *url) {
    char path[128];
    snprintf(path, sizeof path, "%s/version", url);
    for (int i = 0; i < 200; i++) {
        reply r = ask("GET", path, W.admin, NULL, NULL);
        free(r.text);
        if (r.status == 200) return true;
        usleep(50000);
    }
    return false;
}

/* It has the server's own certificate; the server behind it is asked over TLS as well. */
static bool front_start(void) {
    char frontend[64], backend[64], key[600], cert[600], ca[600];
    int port = free_port(), dir = (int)(strrchr(W.ca, '/') - W.ca);
    snprintf(frontend, sizeof frontend, "-f127.0.0.1,%d", port);
    snprintf(backend, sizeof backend, "-b127.0.0.1,%s;;tls;sni=localhost", strrchr(W.url, ':') + 1);
    snprintf(key, sizeof key, "%.*s/server.key", dir, W.ca);
    snprintf(cert, sizeof cert, "%.*s/server.crt", dir, W.ca);
    snprintf(ca, sizeof ca, "--cacert=%s", W.ca);
    snprintf(front.url, sizeof front.url, "https://127.0.0.1:%d", port);
    front.pid = fork();
    if (front.pid == 0) {
        for (int fd = 3; fd < 256; fd++) close(fd);
        execlp("nghttpx", "nghttpx", frontend, backend, ca, "--conf=/dev/null", "--no-ocsp", "--workers=1",
               "--single-process", "--log-level=ERROR", "--accesslog-file=/dev/null",
               "--errorlog-file=/dev/null", key, cert, (char *)NULL);
        _exit(127);
    }
    return front.pid > 0 && answers(front.url);
}

static void front_stop(void) {
    if (front.pid <= 0) return;
    kill(front.pid, SIGTERM);
    waitpid(front.pid, NULL, 0);
    front.pid = 0;
}

struct http2 { candidate a, b, c; leader_http_client shared; char lease[64]; };

UTEST_F_SETUP(http2) {
    static int number;
    control("POST", "/reset", "{}");
    skipped_ms = 0;
    two_leaders = 0;
    if (front.pid == 0) ASSERT_TRUE(front_start());
    snprintf(utest_fixture->lease, sizeof utest_fixture->lease, "http2-%d", number++);
    candidate *all[3] = {&utest_fixture->a, &utest_fixture->b, &utest_fixture->c};
    static const char *const names[] = {"node-a", "node-b", "node-c"};
    for (int i = 0; i < 3; i++) {
        candidate_make(all[i], utest_fixture->lease, names[i]);
        all[i]->where.server = front.url;
    }
}

UTEST_F_TEARDOWN(http2) {
    control("DELETE", "/faults", "%s", "");
    candidate_close(&utest_fixture->a, true);
    candidate_close(&utest_fixture->b, true);
    candidate_close(&utest_fixture->c, true);
    lease_delete(utest_fixture->lease);
    EXPECT_EQ(0, two_leaders);
}

UTEST_F(http2, is_spoken_and_a_release_hands_over) {
    candidate *a = &utest_fixture->a, *b = &utest_fixture->b;
    OPEN(a);
    WAIT(leads(a));
    EXPECT_TRUE(a->store.http.http2);
    OPEN(b);
    WAIT(b->store.watch_open && a->store.watch_open);
    EXPECT_EQ(1u, a->store.http.client->opened);        // the watch goes along with the requests
    EXPECT_EQ(1u, b->store.http.client->opened);
    settle();
    leader_stop(&a->me);
    WAIT(leads(b));                                     // no time is skipped: the watch told
    EXPECT_GT(b->token, a->token);
}

UTEST_F(http2, elections_and_watches_share_one_connection) {
    static candidate many[10];
    char lease[10][80], name[32];
    (void)utest_fixture;
    for (int i = 0; i < 10; i++) {
        snprintf(lease[i], sizeof lease[i], "%s-%d", utest_fixture->lease, i);
        snprintf(name, sizeof name, "member-%d", i);
        candidate_make(&many[i], lease[i], name);
        many[i].where.server = front.url;
        many[i].where.client = &utest_fixture->shared;
        OPEN(&many[i]);
        WAIT(leads(&many[i]) && many[i].store.watch_open);
    }
    EXPECT_EQ(1u, utest_fixture->shared.opened);
    for (int i = 0; i < 10; i += 2) candidate_close(&many[i], false);
    for (int i = 0; i < 3; i++) {
        settle();
        skip_ms(5100);
        pump();
    }
    settle();
    for (int i = 1; i < 10; i += 2) {
        EXPECT_TRUE(leads(&many[i]));
        EXPECT_EQ(1, many[i].started);
        candidate_close(&many[i], false);
    }
    EXPECT_EQ(1u, utest_fixture->shared.opened);
    for (int i = 0; i < 10; i++) lease_delete(lease[i]);
}

/* A stream that is reset leaves an HTTP/2 connection as it was: alive for libcurl, dead for all we know. */
UTEST_F(http2, a_connection_that_did_not_answer_is_not_used_again) {
    candidate *a = &utest_fixture->a;
    OPEN(a);
    WAIT(leads(a) && a->store.watch_open);
    settle();
    ASSERT_EQ(1u, a->store.http.client->opened);
    ASSERT_TRUE(FAULT("{\"do\":\"hang\",\"match\":{\"verb\":\"update\"},\"times\":1}"));
    skip_ms(5100);
    WAIT(!idle(a));
    pump_ms(30);
    skip_ms(2600);
    WAIT(stats(a).failures_timeout == 1);
    skip_ms(600);
    WAIT(stats(a).renewals == 1);
    EXPECT_EQ(2u, a->store.http.client->opened);
    WAIT(a->store.watch_open);
    EXPECT_EQ(2u, a->store.http.client->opened);
    EXPECT_EQ(1u, a->store.http.client->socket_count);  // and the old one is closed
    EXPECT_EQ(1, a->started);
}

/* b only watches on that connection: it must not keep it alive. */
UTEST_F(http2, a_dead_connection_is_not_kept_by_another_s_watch) {
    candidate *a = &utest_fixture->a, *b = &utest_fixture->b;
    a->where.client = b->where.client = &utest_fixture->shared;
    OPEN(a);
    WAIT(leads(a) && a->store.watch_open);
    OPEN(b);
    WAIT(b->store.watch_open);
    settle();
    ASSERT_EQ(1u, utest_fixture->shared.opened);
    ASSERT_TRUE(FAULT("{\"do\":\"hang\",\"match\":{\"verb\":\"update\"},\"times\":1}"));
    skip_ms(5100);
    WAIT(!idle(a));
    pump_ms(30);
    skip_ms(2600);
    WAIT(stats(a).failures_timeout == 1);
    skip_ms(600);
    WAIT(stats(a).renewals == 1);
    // the dead one is closed
    EXPECT_EQ(utest_fixture->shared.opened, utest_fixture->shared.socket_count + 1);
    for (int i = 0; i < 50 && !b->store.watch_open; i++) { settle(); skip_ms(200); pump_ms(5); }
    EXPECT_TRUE(b->store.watch_open);
    EXPECT_EQ(1, a->started);
}

UTEST_F(http2, the_front_dies_and_comes_back) {
    candidate *a = &utest_fixture->a;
    OPEN(a);
    WAIT(leads(a));
    settle();
    front_stop();
    skip_ms(5100);
    WAIT(stats(a).failures > 0);
    ASSERT_TRUE(front_start());
    candidate_close(a, true);
    candidate_make(a, utest_fixture->lease, "node-a");
    a->where.server = front.url;
    a->cfg.reclaim_identity = true;
    OPEN(a);
    WAIT(leads(a));
}

int main(int argc, const char *const argv[]) {
    mkdir("build", 0777);
    unsetenv("KUBE_URL");
    if (!world_start()) {
        fprintf(stderr, "no API server: tests/k8s/k8s_server.py did not start\n");
        return 1;
    }
    int failed = utest_main(argc, argv);
    front_stop();
    ask(NULL, NULL, NULL, NULL, NULL);
    server_stop(&W);
    return failed;
}
