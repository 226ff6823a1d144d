/* Where the Kubernetes backend finds its server: kubeconfig files, the environment, kubectl proxy, client
   certificates; Events, and the label of the pod.
     kubeconfig  the file alone, no server
     places      elections on the test server, found in each of these ways
     kubectl     through the real kubectl proxy */
#define LEADER_IMPLEMENTATION
#define LEADER_WITH_K8S
#define LEADER_K8S_SERVICE_ACCOUNT "/nonexistent"
#include "leader.h"
#include "tests/tools/utest.h"
#include "tests/k8s/k8s_world.h"
#include <sys/stat.h>

UTEST_STATE();

#define WAIT(condition) do { UNTIL(condition); ASSERT_TRUE(condition); } while (0)

/* ---- kubeconfig: the text ---------------------------------------------------------------------- */

static leader_k8s read_from;

static const char *import_text(const char *text) {
    leader_k8s_free_texts_(&read_from);
    memset(&read_from, 0, sizeof read_from);
    snprintf(read_from.kubeconfig, sizeof read_from.kubeconfig, "dir/config");
    bool good = leader_k8s_import_kube_(&read_from, text, strlen(text));
    return good ? "" : read_from.problem;
}

#define YAML(cluster, context, user)                                                               \
    "apiVersion: v1\nkind: Config\npreferences: {}\ncurrent-context: dev\n"                        \
    "clusters:\n- name: other\n  cluster:\n    server: https://other:1\n"                          \
    "- cluster:\n    server: https://127.0.0.1:6443\n" cluster "  name: c1\n"                      \
    "contexts:\n- name: dev\n  context:\n    user: u1\n    cluster: c1\n" context                  \
    "- name: prod\n  context: # which\n    user: u2\n    cluster: other\n"                         \
    "users:\n- name: u1\n  user:\n" user "- name: u2\n  user:\n    token: 'it''s-two'\n"

UTEST(kubeconfig, the_current_context) {
    EXPECT_STREQ("", import_text(YAML("", "    namespace: team\n", "    token: \"secret\" # not yours\n")));
    EXPECT_STREQ("https://127.0.0.1:6443", read_from.server);
    EXPECT_STREQ("secret", read_from.token);
    EXPECT_STREQ("team", read_from.name_space);
    EXPECT_STREQ("dev", read_from.context);
}

UTEST(kubeconfig, another_context_and_quotes) {
    static const char text[] = YAML("", "", "    token: secret\n");
    memset(&read_from, 0, sizeof read_from);
    snprintf(read_from.kubeconfig, sizeof read_from.kubeconfig, "config");
    snprintf(read_from.context, sizeof read_from.context, "prod");
    ASSERT_TRUE(leader_k8s_import_kube_(&read_from, text, sizeof text - 1));
    EXPECT_STREQ("https://other:1", read_from.server);
    EXPECT_STREQ("it's-two", read_from.token);
    EXPECT_STREQ("default", read_from.name_space);
}

UTEST(kubeconfig, what_the_settings_say_wins) {
    static const char text[] = YAML("", "    namespace: team\n", "    exec:\n      command: aws\n");
    memset(&read_from, 0, sizeof read_from);
    snprintf(read_from.kubeconfig, sizeof read_from.kubeconfig, "config");
    snprintf(read_from.server, sizeof read_from.server, "https://mine");
    snprintf(read_from.token, sizeof read_from.token, "my-token");
    snprintf(read_from.name_space, sizeof read_from.name_space, "mine");
    ASSERT_TRUE(leader_k8s_import_kube_(&read_from, text, sizeof text - 1));
    EXPECT_STREQ("https://mine", read_from.server);
    EXPECT_STREQ("my-token", read_from.token);
    EXPECT_STREQ("mine", read_from.name_space);
}

UTEST(kubeconfig, files_are_relative_to_it) {
    EXPECT_STREQ(
        "", import_text(
                YAML("    certificate-authority: pki/ca.crt\n", "",
                     "    client-certificate: /abs/cert.pem\n    client-key: key.pem\n    tokenFile: t\n")));
    EXPECT_STREQ("dir/pki/ca.crt", read_from.ca_file);
    EXPECT_STREQ("/abs/cert.pem", read_from.cert_file);
    EXPECT_STREQ("dir/key.pem", read_from.key_file);
    EXPECT_STREQ("dir/t", read_from.token_file);
}

UTEST(kubeconfig, data_is_decoded) {
    EXPECT_STREQ("",
                 import_text(YAML("    certificate-authority-data: LS0tLS1CRUdJTg==\n", "",
                                  "    client-certificate-data: Y2VydA==\n    client-key-data: \"a2V5\"\n")));
    EXPECT_STREQ("-----BEGIN", read_from.ca_text.at);
    EXPECT_STREQ("cert", read_from.cert_text.at);
    EXPECT_STREQ("key", read_from.key_text.at);
}

UTEST(kubeconfig, json_is_as_good) {
    EXPECT_STREQ("", import_text("\n "
                                 "{\"current-context\":\"a\",\"clusters\":[{\"name\":\"x\"},{\"name\":\"c\","
                                 "\"cluster\":{\"server\":"
                                 "\"https://"
                                 "h\",\"insecure-skip-tls-verify\":false}}],\"contexts\":[{\"name\":\"a\","
                                 "\"context\":{\"cluster\":\"c\",\"user\":"
                                 "\"u\"}}],\"users\":[{\"name\":\"u\",\"user\":{\"token\":\"t\"}}]}"));
    EXPECT_STREQ("https://h", read_from.server);
    EXPECT_STREQ("t", read_from.token);
}

#define EXPECT_SAYS(part, text)                                                                              \
    do {                                                                                                     \
        const char *said_ = (text);                                                                          \
        EXPECT_TRUE_MSG(strstr(said_, part) != NULL, said_);                                                 \
    } while (0)

UTEST(kubeconfig, what_is_not_followed_is_refused) {
    EXPECT_SAYS("user.exec runs a program",
                import_text(YAML("", "", "    exec:\n      command: aws\n      args:\n      - a\n")));
    EXPECT_SAYS("kubectl create token", read_from.problem);
    EXPECT_SAYS("user.auth-provider", import_text(YAML("", "", "    auth-provider:\n      name: gcp\n")));
    EXPECT_SAYS("passwords", import_text(YAML("", "", "    username: me\n    password: x\n")));
    EXPECT_SAYS("always verified",
                import_text(YAML("    insecure-skip-tls-verify: true\n", "", "    token: t\n")));
    EXPECT_STREQ("", import_text(YAML("    insecure-skip-tls-verify: false\n", "", "    token: t\n")));
    EXPECT_SAYS("proxies are not used", import_text(YAML("    proxy-url: http://p\n", "", "    token: t\n")));
    EXPECT_SAYS("tls-server-name", import_text(YAML("    tls-server-name: x\n", "", "    token: t\n")));
}

UTEST(kubeconfig, what_cannot_be_understood_is_refused) {
    EXPECT_SAYS("no current-context", import_text(""));
    EXPECT_SAYS("no current-context", import_text("kind: Config\n"));
    EXPECT_SAYS("there is no context \"a\"", import_text("current-context: a\n"));
    EXPECT_SAYS("names no cluster", import_text("current-context: a\ncontexts:\n- name: a\n"));
    EXPECT_SAYS("there is no cluster \"c\"",
                import_text("current-context: a\ncontexts:\n- name: a\n  context:\n    cluster: c\n"));
    EXPECT_SAYS("user.token", import_text(YAML("", "", "    token: |\n      secret\n")));
    EXPECT_SAYS("user.token", import_text(YAML("", "", "    token: *anchor\n")));
    EXPECT_SAYS("user.token", import_text(YAML("", "", "    token: 'open\n")));
    EXPECT_SAYS("not base64",
                import_text(YAML("    certificate-authority-data: \"?\"\n", "", "    token: t\n")));
    EXPECT_SAYS("not base64",
                import_text(YAML("    certificate-authority-data: AAAA\n", "", "    token: t\n")));
    EXPECT_SAYS("a tab", import_text("current-context:\ta\n"));
    EXPECT_SAYS("not JSON", import_text("{\"current-context\": }"));
    EXPECT_SAYS("kubeconfig dir/config: ", read_from.problem);
    leader_k8s_free_texts_(&read_from);
}

/* A list deeper down is no list of the section: item numbers do not shift. */
UTEST(kubeconfig, lists_inside_an_item) {
    EXPECT_STREQ(
        "", import_text("current-context: a\nclusters:\n  - name: c\n    cluster:\n      server: https://h\n"
                        "      extensions:\n      - name: c\n        extension: {}\n  - name: d\n    "
                        "cluster: {}\ncontexts:\n  - name: a\n"
                        "    context:\n      cluster: c\n      user: u\nusers:\n  - name: x\n    user:\n     "
                        " exec:\n        args:\n        - name: u\n"
                        "  - name: u\n    user:\n      token: t\n"));
    EXPECT_STREQ("https://h", read_from.server);
    EXPECT_STREQ("t", read_from.token);
    leader_k8s_free_texts_(&read_from);
}

/* ---- places: elections found in each of these ways --------------------------------------------- */

struct places { candidate a; char dir[64], file[128], lease[64]; };

UTEST_F_SETUP(places) {
    static int number;
    control("POST", "/reset", "{}");
    snprintf(utest_fixture->dir, sizeof utest_fixture->dir, "build/k8s-places-XXXXXX");
    ASSERT_TRUE(mkdtemp(utest_fixture->dir) != NULL);
    snprintf(utest_fixture->file, sizeof utest_fixture->file, "%s/config", utest_fixture->dir);
    snprintf(utest_fixture->lease, sizeof utest_fixture->lease, "places-%d", number++);
    candidate_make(&utest_fixture->a, utest_fixture->lease, "node-a");
}

UTEST_F_TEARDOWN(places) {
    candidate_close(&utest_fixture->a, false);
    lease_delete(utest_fixture->lease);
    unlink(utest_fixture->file);
    ASSERT_EQ(0, rmdir(utest_fixture->dir));
}

static bool write_text(const char *path, const char *format, ...) LEADER_PRINTF_(2, 3);
static bool write_text(const char *path, const char *format, ...) {
    FILE *file = fopen(path, "w");
    va_list args;
    if (!file) return false;
    va_start(args, format);
    vfprintf(file, format, args);
    va_end(args);
    return fclose(file) == 0;
}

/* base64 of a file, on one line */
static const char *encoded(const char *path) {
    static char text[3][16384];
    static int turn;
    char command[600], *buf = text[turn++ % 3];
    snprintf(command, sizeof command, "base64 -w0 '%s'", path);
    FILE *pipe = popen(command, "r");
    size_t len = pipe ? fread(buf, 1, sizeof text[0] - 1, pipe) : 0;
    if (pipe) pclose(pipe);
    buf[len] = 0;
    return buf;
}

#define CONFIG_HEAD "current-context: here\nclusters:\n- name: c\n  cluster:\n    server: %s\n"
#define CONFIG_TAIL                                                                                          \
    "contexts:\n- name: here\n  context:\n    cluster: c\n    user: u\nusers:\n- name: u\n  user:\n"

UTEST_F(places, a_kubeconfig_with_a_token) {
    candidate *a = &utest_fixture->a;
    ASSERT_TRUE(write_text(utest_fixture->file,
                           CONFIG_HEAD "    certificate-authority: %s\n" CONFIG_TAIL "    token: %s\n", W.url,
                           W.ca, W.watcher));
    memset(&a->where, 0, sizeof a->where);
    a->where.lease_name = utest_fixture->lease;
    a->where.kubeconfig = utest_fixture->file;
    ASSERT_TRUE_MSG(candidate_open(a), leader_error(&a->me));
    WAIT(leads(a));
    EXPECT_STREQ("node-a", stored(utest_fixture->lease, "spec/holderIdentity"));
}

UTEST_F(places, a_kubeconfig_with_all_certificates_inside) {
    candidate *a = &utest_fixture->a;
    ASSERT_TRUE(write_text(utest_fixture->file,
                           CONFIG_HEAD "    certificate-authority-data: %s\n" CONFIG_TAIL
                                       "    client-certificate-data: %s\n    client-key-data: %s\n",
                           W.url, encoded(W.ca), encoded(W.cert), encoded(W.key)));
    memset(&a->where, 0, sizeof a->where);
    a->where.lease_name = utest_fixture->lease;
    a->where.kubeconfig = utest_fixture->file;
    ASSERT_TRUE_MSG(candidate_open(a), leader_error(&a->me));
    WAIT(leads(a));
}

UTEST_F(places, a_certificate_that_another_authority_signed_is_refused) {
    candidate *a = &utest_fixture->a;
    ASSERT_TRUE(write_text(utest_fixture->file,
                           CONFIG_HEAD "    certificate-authority-data: %s\n" CONFIG_TAIL "    token: x\n",
                           W.url, encoded(W.other_ca)));
    memset(&a->where, 0, sizeof a->where);
    a->where.lease_name = utest_fixture->lease;
    a->where.kubeconfig = utest_fixture->file;
    ASSERT_TRUE(candidate_open(a));
    WAIT(leader_get_stats(&a->me).failures > 0);
    EXPECT_EQ(LEADER_E_AUTH, leader_get_stats(&a->me).last_error);
    EXPECT_EQ(0, counted("", -1));
}

UTEST_F(places, the_environment_names_a_kubeconfig) {
    candidate *a = &utest_fixture->a;
    leader_k8s_config k;
    ASSERT_TRUE(write_text(utest_fixture->file,
                           CONFIG_HEAD "    certificate-authority: %s\n" CONFIG_TAIL "    token: %s\n", W.url,
                           W.ca, W.watcher));
    setenv("KUBECONFIG", utest_fixture->file, 1);
    setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1);
    ASSERT_EQ(LEADER_OK, leader_k8s_config_from_env(&k, utest_fixture->lease));
    EXPECT_STREQ("", k.env_server);
    a->where = k;
    unsetenv("KUBERNETES_SERVICE_HOST");
    unsetenv("KUBECONFIG");
    ASSERT_TRUE_MSG(candidate_open(a), leader_error(&a->me));
    WAIT(leads(a));
}

UTEST_F(places, what_is_wrong_with_a_kubeconfig_is_said_by_init) {
    candidate *a = &utest_fixture->a;
    memset(&a->where, 0, sizeof a->where);
    a->where.lease_name = utest_fixture->lease;
    a->where.kubeconfig = "/nonexistent/config";
    ASSERT_FALSE(candidate_open(a));
    EXPECT_STREQ("kubeconfig /nonexistent/config: No such file or directory", leader_error(&a->me));
    a->where.kubeconfig = "/a:/b";
    ASSERT_FALSE(candidate_open(a));
    EXPECT_SAYS("a list of files is not supported", leader_error(&a->me));
    ASSERT_TRUE(
        write_text(utest_fixture->file, CONFIG_HEAD CONFIG_TAIL "    exec:\n      command: gcloud\n", W.url));
    a->where.kubeconfig = utest_fixture->file;
    ASSERT_FALSE(candidate_open(a));
    EXPECT_SAYS("user.exec runs a program", leader_error(&a->me));
    a->where.context = "nowhere";
    ASSERT_FALSE(candidate_open(a));
    EXPECT_SAYS("there is no context \"nowhere\"", leader_error(&a->me));
}

static int events_that_say(const char *words) {
    char url[256];
    int count = 0;
    snprintf(url, sizeof url, "%s/events", W.control);
    reply r = ask("GET", url, NULL, NULL, NULL);
    for (const char *p = r.text; p && (p = strstr(p, words)) != NULL; p++) count++;
    free(r.text);
    return count;
}

UTEST_F(places, events_are_recorded_when_asked_for) {
    candidate *a = &utest_fixture->a;
    control("POST", "/users",
            "{\"user\":\"watcher\",\"verbs\":[\"get\",\"create\",\"update\",\"watch\",\"events\"],"
            "\"namespaces\":[\"default\"]}");
    a->where.events = true;
    ASSERT_TRUE(candidate_open(a));
    WAIT(leads(a));
    WAIT(events_that_say("node-a became leader") == 1);
    EXPECT_EQ(1, events_that_say("\"LeaderElection\""));
    EXPECT_EQ(1, events_that_say(utest_fixture->lease));
    leader_resign(&a->me, 60000);
    WAIT(events_that_say("node-a stopped leading") == 1);
}

UTEST_F(places, events_that_are_not_allowed_cost_nothing) {
    candidate *a = &utest_fixture->a;
    a->where.events = true;
    ASSERT_TRUE(candidate_open(a));
    WAIT(leads(a));
    settle();
    skip_ms(5100);
    WAIT(leader_get_stats(&a->me).renewals > 0);
    WAIT(strstr(a->log, "the Event was not recorded (403)") != NULL);
    EXPECT_EQ(0u, leader_get_stats(&a->me).failures);
    EXPECT_TRUE(leads(a));
}

UTEST_F(places, no_events_unless_asked_for) {
    candidate *a = &utest_fixture->a;
    control("POST", "/users",
            "{\"user\":\"watcher\",\"verbs\":[\"get\",\"create\",\"update\",\"watch\",\"events\"],"
            "\"namespaces\":[\"default\"]}");
    ASSERT_TRUE(candidate_open(a));
    WAIT(leads(a));
    settle();
    EXPECT_EQ(0, counted("post", -1));
    EXPECT_EQ(0, events_that_say("leader"));
}

/* ---- the pod's label ----------------------------------------------------------------------------- */

/* The label that the pod has; "(none)" without one. */
static const char *role_of(const char *pod) {
    static char text[64];
    char url[256];
    char path[128];
    leader_json_ root;
    size_t bad;
    snprintf(url, sizeof url, "%s/pods", W.control);
    snprintf(path, sizeof path, "pods/default|%s/leader-h|role", pod);
    reply r = ask("GET", url, NULL, NULL, NULL);
    snprintf(text, sizeof text, "(none)");
    if (r.status == 200 && leader_json_parse_(r.text, r.len, &root, &bad)) {
        leader_json_ value = json_find(root, path);
        if (value.len > 0) leader_json_string_(value, text, sizeof text);
    }
    free(r.text);
    return text;
}

static bool has_role(const char *pod, const char *role) { return strcmp(role_of(pod), role) == 0; }

/* A pod of that name, and the right to label it. */
static void allow_labels(candidate *c, const char *pod, const char *labels) {
    char path[128];
    snprintf(path, sizeof path, "/pods/default/%s", pod);
    control("PUT", path, "%s", labels);
    control("POST", "/users",
            "{\"user\":\"watcher\",\"verbs\":[\"get\",\"create\",\"update\",\"watch\",\"pods\"],"
            "\"namespaces\":[\"default\"]}");
    c->where.label_pod = true;
    c->where.pod_name = pod;
}

static int times_said(const candidate *c, const char *words) {
    int count = 0;
    for (const char *p = c->log; (p = strstr(p, words)) != NULL; p++) count++;
    return count;
}

UTEST_F(places, the_leaders_pod_has_the_label) {
    candidate *a = &utest_fixture->a;
    allow_labels(a, "pod-a", "{\"app\":\"x\"}");
    ASSERT_TRUE(candidate_open(a));
    WAIT(leads(a));
    WAIT(has_role("pod-a", "leader"));
    int patches = counted("patch", 200);
    settle();
    skip_ms(5100);
    WAIT(leader_get_stats(&a->me).renewals > 0);
    settle();
    EXPECT_EQ(patches, counted("patch", 200));          // a renewal changes nothing
    leader_resign(&a->me, 60000);
    WAIT(has_role("pod-a", "standby"));
    EXPECT_EQ(0u, leader_get_stats(&a->me).failures);
    EXPECT_STREQ("", a->store.label.x.error);
}

UTEST_F(places, the_label_is_taken_off_at_the_close) {
    candidate *a = &utest_fixture->a;
    allow_labels(a, "pod-a", "{}");
    ASSERT_TRUE(candidate_open(a));
    WAIT(leads(a));
    WAIT(has_role("pod-a", "leader"));
    settle();
    candidate_close(a, false);
    WAIT(has_role("pod-a", "standby"));
}

/* The container was killed while it led, and the pod kept its label. */
UTEST_F(places, the_label_of_an_earlier_life_is_taken_off) {
    candidate *a = &utest_fixture->a;
    allow_labels(a, "pod-a", "{\"leader-h/role\":\"leader\"}");
    ASSERT_TRUE(lease_create(utest_fixture->lease,
                             "\"holderIdentity\":\"node-b\",\"leaseDurationSeconds\":3600,"
                             "\"renewTime\":\"2026-01-01T00:00:00.000000Z\",\"leaseTransitions\":1"));
    ASSERT_TRUE(candidate_open(a));
    WAIT(has_role("pod-a", "standby"));
    EXPECT_FALSE(leads(a));
}

UTEST_F(places, the_label_goes_when_the_lease_is_taken_away) {
    candidate *a = &utest_fixture->a;
    allow_labels(a, "pod-a", "{}");
    ASSERT_TRUE(candidate_open(a));
    WAIT(leads(a));
    WAIT(has_role("pod-a", "leader"));
    ASSERT_TRUE(lease_patch(utest_fixture->lease, "{\"spec\":{\"holderIdentity\":\"node-b\","
                            "\"renewTime\":\"2026-01-01T00:00:00.000000Z\"}}"));
    WAIT(has_role("pod-a", "standby"));
    settle();
    skip_ms(5100);
    WAIT(!leads(a));
}

UTEST_F(places, a_label_that_is_not_allowed_is_said_once) {
    candidate *a = &utest_fixture->a;
    a->where.label_pod = true;
    a->where.pod_name = "pod-a";
    control("PUT", "/pods/default/pod-a", "{}");
    ASSERT_TRUE(candidate_open(a));
    WAIT(leads(a));
    for (int asked = 0; asked < 3; asked++) {           // it asks again: a right granted later is noticed
        WAIT(counted("patch", 403) > asked);
        settle();
        skip_ms(5100);
    }
    WAIT(leader_get_stats(&a->me).renewals > 0);
    EXPECT_EQ(1, times_said(a, "no right to patch pods in namespace default (403); its label stays as it is: "
                            "User \"watcher\" cannot patch resource \"pods\""));
    EXPECT_EQ(1, times_said(a, "no right"));
    EXPECT_EQ(0u, leader_get_stats(&a->me).failures);
    EXPECT_TRUE(leads(a));
    allow_labels(a, "pod-a", "{}");
    settle();
    skip_ms(9100);
    WAIT(has_role("pod-a", "leader"));
}

UTEST_F(places, a_label_for_a_pod_that_is_not_there) {
    candidate *a = &utest_fixture->a;
    allow_labels(a, "pod-a", "{}");
    a->where.pod_name = "pod-b";
    ASSERT_TRUE(candidate_open(a));
    WAIT(leads(a));
    WAIT(times_said(a, "the label of pod default/pod-b was not changed (404): "
                    "pods \"pod-b\" not found") == 1);
    EXPECT_TRUE(leads(a));
}

/* A request without an answer holds nothing up, and is given up after a minute. */
UTEST_F(places, a_label_without_an_answer_disturbs_nothing) {
    candidate *a = &utest_fixture->a;
    allow_labels(a, "pod-a", "{}");
    ASSERT_TRUE(FAULT("{\"do\":\"hang\",\"match\":{\"verb\":\"patch\"},\"times\":1}"));
    ASSERT_TRUE(candidate_open(a));
    WAIT(leads(a));
    WAIT(counted("patch", 0) == 1);
    for (int i = 0; i < 13; i++) {
        uint64_t renewals = leader_get_stats(&a->me).renewals;
        settle();
        skip_ms(5100);
        WAIT(leader_get_stats(&a->me).renewals > renewals);
    }
    WAIT(has_role("pod-a", "leader"));
    EXPECT_EQ(1, times_said(a, "the label of pod default/pod-a was not changed (0): "
                            "no answer within a minute"));
    EXPECT_EQ(0u, leader_get_stats(&a->me).failures);
    EXPECT_EQ(1u, leader_get_stats(&a->me).terms);
}

UTEST_F(places, no_label_unless_asked_for) {
    candidate *a = &utest_fixture->a;
    allow_labels(a, "pod-a", "{}");
    a->where.label_pod = false;
    ASSERT_TRUE(candidate_open(a));
    WAIT(leads(a));
    settle();
    EXPECT_EQ(0, counted("patch", -1));
    EXPECT_STREQ("(none)", role_of("pod-a"));
}

UTEST_F(places, the_environment_names_the_pod) {
    candidate *a = &utest_fixture->a;
    allow_labels(a, "pod-of-env", "{}");
    a->where.pod_name = NULL;
    setenv("POD_NAME", "pod-of-env", 1);
    ASSERT_TRUE(candidate_open(a));
    unsetenv("POD_NAME");
    WAIT(has_role("pod-of-env", "leader"));
    candidate_close(a, false);
    a->where.pod_name = "Not_a_pod";
    ASSERT_FALSE(candidate_open(a));
    EXPECT_SAYS("pod_name: must be a DNS-1123 subdomain", leader_error(&a->me));
}

/* ---- kubectl ------------------------------------------------------------------------------------ */

/* The real one, on a free port; it has the admin's token, we have none. */
UTEST(kubectl, proxy_serves_an_election) {
    static candidate proxied;
    candidate *a = &proxied;
    char config[600], line[200] = "", url[200];
    int out[2];
    snprintf(config, sizeof config, "%.*s/kubeconfig", (int)(strrchr(W.ca, '/') - W.ca), W.ca);
    ASSERT_EQ(0, pipe(out));
    pid_t proxy = fork();
    if (proxy == 0) {
        dup2(out[1], 1);
        for (int fd = 3; fd < 256; fd++) close(fd);
        execlp("kubectl", "kubectl", "proxy", "--port=0", "--kubeconfig", config, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    for (size_t len = 0; len < sizeof line - 1 && !strchr(line, '\n'); len++)
        if (read(out[0], line + len, 1) != 1) break;
    const char *at = strstr(line, "127.0.0.1:");
    ASSERT_TRUE_MSG(at != NULL, line);
    snprintf(url, sizeof url, "http://%.*s", (int)strcspn(at, " \r\n"), at);
    candidate_make(a, "proxied", "node-a");
    a->where.server = url;
    a->where.token = NULL;
    a->where.ca_file = NULL;
    ASSERT_TRUE_MSG(candidate_open(a), leader_error(&a->me));
    WAIT(leads(a));
    EXPECT_STREQ("node-a", stored("proxied", "spec/holderIdentity"));
    candidate_close(a, false);
    EXPECT_STREQ("", stored("proxied", "spec/holderIdentity"));
    lease_delete("proxied");
    kill(proxy, SIGTERM);
    waitpid(proxy, NULL, 0);
    close(out[0]);
}

int main(int argc, const char *const argv[]) {
    mkdir("build", 0777);
    unsetenv("KUBE_URL");
    if (!world_start()) {
        fprintf(stderr, "no API server: tests/k8s/k8s_server.py did not start\n");
        return 1;
    }
    int failed = utest_main(argc, argv);
    leader_k8s_free_texts_(&read_from);
    ask(NULL, NULL, NULL, NULL, NULL);
    server_stop(&W);
    return failed;
}
