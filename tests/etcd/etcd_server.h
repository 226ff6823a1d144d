/* Real etcd members for tests: data in a temporary directory, free ports on loopback, ended with their
   parent. */
#ifndef ETCD_SERVER_H_INCLUDED
#define ETCD_SERVER_H_INCLUDED

#include "tests/tools/patience.h"
#include <arpa/inet.h>
#include <curl/curl.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ETCD_MEMBERS_MAX = 3 };

typedef struct etcd_member {
    pid_t pid;
    int client_port, peer_port;
    bool stopped;
} etcd_member;

typedef struct etcd_cluster {
    char directory[64];
    char endpoints[200];
    char peers[300];
    char token[32];
    int count;
    bool tls;
    etcd_member members[ETCD_MEMBERS_MAX];
} etcd_cluster;

static inline int etcd_free_port(void) {
    struct sockaddr_in at;
    socklen_t len = sizeof at;
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool bound = bind(fd, (struct sockaddr *)&at, sizeof at) == 0;
    if (!bound || getsockname(fd, (struct sockaddr *)&at, &len) != 0) {
        abort();
    }
    close(fd);
    return ntohs(at.sin_port);
}

static inline size_t etcd_collect(char *data, size_t size, size_t count, void *to) {
    size_t used = strlen((char *)to);
    size_t n = size * count < 4000 - used ? size * count : 4000 - used;
    memcpy((char *)to + used, data, n);
    ((char *)to)[used + n] = 0;
    return size * count;
}

/* One request to one member, and its reply; "" if there was none. */
static inline const char *etcd_post(const etcd_cluster *c, int member, const char *path, const char *body) {
    static char reply[4100];
    char url[200];
    char ca[100];
    reply[0] = 0;
    snprintf(url, sizeof url, "%s://127.0.0.1:%d%s", c->tls ? "https" : "http",
             c->members[member].client_port, path);
    snprintf(ca, sizeof ca, "%s/ca.pem", c->directory);
    CURL *easy = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, etcd_collect);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, (void *)reply);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT, 10L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    if (c->tls) {
        char cert[100];
        char key[100];
        snprintf(cert, sizeof cert, "%s/client.pem", c->directory);
        snprintf(key, sizeof key, "%s/client.key", c->directory);
        curl_easy_setopt(easy, CURLOPT_CAINFO, ca);
        curl_easy_setopt(easy, CURLOPT_SSLCERT, cert);
        curl_easy_setopt(easy, CURLOPT_SSLKEY, key);
    }
    if (curl_easy_perform(easy) != CURLE_OK) {
        reply[0] = 0;
    }
    curl_easy_cleanup(easy);
    return reply;
}

static inline void etcd_run(etcd_cluster *c, int i) {
    etcd_member *m = &c->members[i];
    char line[1600];
    char security[400] = "";
    if (c->tls) {
        snprintf(security, sizeof security,
                 "--cert-file=%s/server.pem --key-file=%s/server.key --client-cert-auth "
                 "--trusted-ca-file=%s/ca.pem",
                 c->directory, c->directory, c->directory);
    }
    const char *scheme = c->tls ? "https" : "http";
    snprintf(
        line, sizeof line,
        "exec etcd --name m%d --data-dir %s/m%d --listen-client-urls %s://127.0.0.1:%d"
        " --advertise-client-urls %s://127.0.0.1:%d --listen-peer-urls http://127.0.0.1:%d"
        " --initial-advertise-peer-urls http://127.0.0.1:%d --initial-cluster %s --initial-cluster-token %s"
        " --heartbeat-interval 50 --election-timeout 500 %s >>%s/m%d.log 2>&1",
        i, c->directory, i, scheme, m->client_port, scheme, m->client_port, m->peer_port, m->peer_port,
        c->peers, c->token, security, c->directory, i);
    m->pid = fork();
    if (m->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(127);
    }
}

static inline bool etcd_answers(const etcd_cluster *c, int i) {
    return strstr(etcd_post(c, i, "/v3/kv/range", "{\"key\":\"AA==\"}"), "\"header\"") != NULL;
}

static inline bool etcd_wait(const etcd_cluster *c, int i) {
    patience limit = patience_ms(30000);
    while (!etcd_answers(c, i)) {
        if (!patience_left(&limit)) {
            printf("etcd does not start: see %s\n", c->directory);
            return false;
        }
        usleep(20000);
    }
    return true;
}

static inline bool etcd_start(etcd_cluster *c, int count, bool tls) {
    memset(c, 0, sizeof *c);
    c->count = count;
    c->tls = tls;
    snprintf(c->directory, sizeof c->directory, "/tmp/leader-etcd-XXXXXX");
    if (!mkdtemp(c->directory)) {
        return false;
    }
    snprintf(c->token, sizeof c->token, "t%ld", (long)getpid());
    if (tls) {
        char line[1200];
        snprintf(line, sizeof line,
                 "cd %s && openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key "
                 "-out ca.pem 2>log &&"
                 " for n in server client; do openssl req -newkey rsa:2048 -nodes -subj /CN=$n -keyout "
                 "$n.key -out $n.csr"
                 " 2>>log && printf "
                 "'subjectAltName=IP:127.0.0.1\\nextendedKeyUsage=serverAuth,clientAuth\\n' >ext &&"
                 " openssl x509 -req -in $n.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile "
                 "ext -out $n.pem"
                 " 2>>log; done",
                 c->directory);
        if (system(line) != 0) {
            return false;
        }
    }
    for (int i = 0; i < count; i++) {
        etcd_member *m = &c->members[i];
        m->client_port = etcd_free_port();
        m->peer_port = etcd_free_port();
        size_t n = strlen(c->endpoints);
        snprintf(c->endpoints + n, sizeof c->endpoints - n, "%s%s://127.0.0.1:%d", i > 0 ? "," : "",
                 tls ? "https" : "http", m->client_port);
        n = strlen(c->peers);
        snprintf(c->peers + n, sizeof c->peers - n, "%sm%d=http://127.0.0.1:%d", i > 0 ? "," : "", i,
                 m->peer_port);
    }
    for (int i = 0; i < count; i++) {
        etcd_run(c, i);
    }
    bool ready = true;
    for (int i = 0; i < count && ready; i++) {
        ready = etcd_wait(c, i);
    }
    return ready;
}

static inline void etcd_signal(etcd_cluster *c, int i, int number) {
    etcd_member *m = &c->members[i];
    if (m->pid <= 0) {
        return;
    }
    kill(m->pid, number);
    m->stopped = number == SIGSTOP;
    if (number == SIGKILL) {
        waitpid(m->pid, NULL, 0);
        m->pid = 0;
    }
}

static inline void etcd_stop(etcd_cluster *c) {
    char line[100];
    for (int i = 0; i < c->count; i++) {
        etcd_signal(c, i, SIGKILL);
    }
    snprintf(line, sizeof line, "rm -rf '%s'", c->directory);
    if (c->directory[0] && system(line) != 0) {
        printf("%s is left behind\n", c->directory);
    }
}

/* The member that leads the cluster, or -1. */
static inline int etcd_leader(const etcd_cluster *c) {
    for (int i = 0; i < c->count; i++) {
        if (c->members[i].pid <= 0 || c->members[i].stopped) {
            continue;
        }
        const char *reply = etcd_post(c, i, "/v3/maintenance/status", "{}");
        const char *member = strstr(reply, "\"member_id\":\"");
        const char *leader = strstr(reply, "\"leader\":\"");
        if (member && leader && strtoull(member + 13, NULL, 10) == strtoull(leader + 10, NULL, 10)) {
            return i;
        }
    }
    return -1;
}

#endif
