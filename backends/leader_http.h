/* leader_http.h - HTTP for the stores of leader.h, through libcurl - MIT licence, see leader.h

   Included by leader_k8s.h and leader_etcd.h; programs use those. It knows servers, requests and
   replies, and nothing of leases. No call blocks; nothing here decides anything.

   WHAT IT DOES
     - Elections that are ticked by one thread may share connections: point all of them at one zeroed
       leader_http_client that outlives them.
     - HTTPS, TLS 1.2 or later, always verified, with a CA file and a client certificate where given.
       A file that was replaced is read again: the next request makes a new handle and a new
       connection. Plain HTTP only to this machine, unless plain_anywhere says otherwise.
     - HTTP/2 where the server offers it. Redirects are not followed, no proxy is used, whatever the
       environment says.
     - A connection on which a request got no answer is not used again.
     - A reply that streams (a watch) is handed out line by line while it comes.
     - Sockets are close-on-exec. A child that opens an inherited client drops its connections without
       a word to the server: they are the parent's.

   NEEDS libcurl 7.87 or later, when compiled and when run. Earlier ones write to a closed connection
   with SIGPIPE on as soon as signals are left alone (which a library must do), and wait for the name
   server when a lookup is given up: both are out of reach from outside libcurl.

   THE SEAM
     The eight functions listed under LEADER_HTTP_IMPLEMENTATION_DONE are all that stores use. Define
     LEADER_HTTP_OTHER and supply your own to run a store on a simulated server. */

#ifndef LEADER_H_INCLUDED
#  error "leader_http.h: include leader.h first"
#endif

#ifndef LEADER_HTTP_H_INCLUDED
#define LEADER_HTTP_H_INCLUDED

#ifdef __cplusplus
extern "C" {
#endif

enum {
    LEADER_HTTP_REPLY_MAX_ = 1 << 20,       // bytes of a reply, or of one line of a stream
    LEADER_HTTP_SERVER_MAX_ = 255,
    LEADER_HTTP_PATH_MAX_ = 511             // of a file
};

typedef struct leader_http_ leader_http_;
typedef struct leader_http_exchange_ leader_http_exchange_;

/* Connections, shared by elections of one thread. Zero it; it must outlive them. */
typedef struct leader_http_client {
    void         *multi;            // CURLM *
    leader_http_ *members;
    intptr_t     *sockets;          // all that are open, for a forked child
    size_t        socket_count;
    size_t        socket_cap;
    uint64_t      opened;           // connections ever made
    int32_t       pid;              // of the process that they belong to
} leader_http_client;

/* ---- stop here unless you write a store ------------------------------------------------------- */

typedef struct leader_http_text_ {  /* a growing text; always ends with a 0 that len does not count */
    char  *at;
    size_t len;
    size_t cap;
} leader_http_text_;

typedef struct leader_http_settings_ {
    const char *server;             // required: "https://host:port", a path may follow
    const char *ca_file;            // PEM; 0: the certificate authorities of this machine
    const char *cert_file;          // client certificate, PEM, and
    const char *key_file;           // its key
    const char *ca_text;            // the same three as PEM texts instead of files; not copied:
    const char *cert_text;          // they must stay until leader_http_close_
    const char *key_text;
    bool        plain_anywhere;     // false: http:// only to 127.0.0.0/8, [::1] and localhost
    leader_http_client *client;     // 0: its own
} leader_http_settings_;

typedef struct leader_http_request_ {
    const char *method;             // "GET", "PUT", ...
    const char *path;               // appended to the server: "/apis/...?watch=1"
    const char *authorization;      // "Bearer ..."; 0 or "": none
    const char *body;               // JSON; 0: none. Not copied: it must stay until the exchange ends
    size_t      body_len;
    const char *content_type;       // of the body; 0: "Content-Type: application/json"
    bool        streams;            // read line by line; must connect within ten seconds. All else
                                    // is timed by the caller, who gives up with leader_http_drop_
} leader_http_request_;

struct leader_http_exchange_ {      /* one request at a time and its reply */
    /* For the store to read. */
    bool          running;
    bool          done;             // it has ended; the store sets it to false when it has looked
    leader_result result;           // LEADER_OK: answered, whatever the status. Otherwise: error
    long          status;           // 0: no header yet
    int64_t       retry_after_ms;   // 0: the server did not say
    leader_http_text_ reply;
    char          error[320];       // begins with host and port
    /* Private. */
    leader_http_ *owner;
    leader_http_exchange_ *next;
    void         *easy;             // CURL *
    void         *headers;          // struct curl_slist *
    uint64_t      files;            // what the files were when `easy` was made
    bool          streams;
    size_t        used;             // bytes of `reply` already handed out as lines
    char          said[256];        // libcurl's own words
};

struct leader_http_ {               /* one election and its server; zeroed before the first open */
    leader_host         host;
    leader_http_client  own;
    leader_http_client *client;
    leader_http_       *next;       // in client->members
    leader_http_exchange_ *exchanges;
    leader_fd           sockets[LEADER_FDS_MAX];    // events 0: free
    char                server[LEADER_HTTP_SERVER_MAX_ + 1];
    char                place[LEADER_HTTP_SERVER_MAX_ + 1];     // host:port, for error texts
    char                ca_file[LEADER_HTTP_PATH_MAX_ + 1];
    char                cert_file[LEADER_HTTP_PATH_MAX_ + 1];
    char                key_file[LEADER_HTTP_PATH_MAX_ + 1];
    const char         *ca_text;
    const char         *cert_text;
    const char         *key_text;
    char                refusal[320];
    bool                stirred;    // something arrived while another member drove the connections
    bool                fresh;      // the connection in hand did not answer: do not use it again
    bool                http2;
};

#ifdef __cplusplus
}
#endif
#endif /* LEADER_HTTP_H_INCLUDED */

#if defined(LEADER_IMPLEMENTATION) && defined(LEADER_IMPLEMENTATION_DONE) && \
    !defined(LEADER_HTTP_IMPLEMENTATION_DONE)
#define LEADER_HTTP_IMPLEMENTATION_DONE

#ifdef __cplusplus
extern "C" {
#endif

/* What is wrong with the settings, naming the field, or NULL. No I/O. The struct is zeroed before the
   first open, and all exchanges before every open. */
LEADER_UNUSED_ static const char *leader_http_open_(leader_http_ *, const leader_http_settings_ *,
                                                    const leader_host *);
/* Frees everything, exchanges included. Once for each open that answered NULL. */
LEADER_UNUSED_ static void leader_http_close_(leader_http_ *);

/* Sends a request; what the exchange did before is forgotten. False: no memory. */
LEADER_UNUSED_ static bool leader_http_start_(leader_http_ *, leader_http_exchange_ *,
                                              const leader_http_request_ *);
/* Gives up. The connection of a request is not used again: it did not answer. A stream just ends. */
LEADER_UNUSED_ static void leader_http_drop_(leader_http_exchange_ *);

/* Moves all exchanges of the client as far as they go without waiting, and host.due()s the owners of
   those that got somewhere. */
LEADER_UNUSED_ static void leader_http_drive_(leader_http_ *);
/* Drive again by then, or when a descriptor told to host.fd is ready; 0: no limit. */
LEADER_UNUSED_ static int64_t leader_http_wait_ms_(const leader_http_ *);

/* The next complete line of a stream, without its end. False: there is none yet. The line is valid
   until the next call about this exchange. */
LEADER_UNUSED_ static bool leader_http_line_(leader_http_exchange_ *, const char **line, size_t *len);

/* Replaces `cut` bytes at `at` by these. False: no memory, or larger than any reply may be. */
LEADER_UNUSED_ static bool leader_http_splice_(leader_http_text_ *, size_t at, size_t cut, const char *piece,
                                               size_t len);

/* ---- texts: the same for every transport ------------------------------------------------------ */

#include <stdlib.h>
#include <string.h>

static bool leader_http_reserve_(leader_http_text_ *text, size_t len) {
    if (len < text->cap) {
        return true;
    }
    if (len > (size_t)LEADER_HTTP_REPLY_MAX_ * 2) {     // a record at the limit, and our own fields
        return false;
    }
    size_t cap = text->cap > 0 ? text->cap : 1024;
    while (cap <= len) {
        cap *= 2;
    }
    char *grown = (char *)realloc(text->at, cap);
    if (!grown) {
        return false;
    }
    text->at = grown;
    text->cap = cap;
    return true;
}

static bool leader_http_splice_(leader_http_text_ *text, size_t at, size_t cut, const char *piece,
                                size_t len) {
    size_t rest = text->len - at - cut;
    if (!leader_http_reserve_(text, text->len - cut + len)) {
        return false;
    }
    memmove(text->at + at + len, text->at + at + cut, rest);
    memcpy(text->at + at, piece, len);
    text->len = at + len + rest;
    text->at[text->len] = 0;
    return true;
}

LEADER_UNUSED_ static bool leader_http_copy_(leader_http_text_ *text, const char *from, size_t len) {
    text->len = 0;
    return leader_http_splice_(text, 0, 0, from, len);
}

LEADER_UNUSED_ static void leader_http_free_(leader_http_text_ *text) {
    free(text->at);
    memset(text, 0, sizeof *text);
}

/* Lines that were handed out are removed when the buffer holds no complete one any more. */
static bool leader_http_line_(leader_http_exchange_ *x, const char **line, size_t *len) {
    if (x->used >= x->reply.len) {
        x->reply.len = 0;
        x->used = 0;
        return false;
    }
    const char *start = x->reply.at + x->used;
    const char *end = (const char *)memchr(start, '\n', x->reply.len - x->used);
    if (!end) {
        leader_http_splice_(&x->reply, 0, x->used, "", 0);      // never larger: cannot fail
        x->used = 0;
        return false;
    }
    *line = start;
    *len = (size_t)(end - start);
    x->used += *len + 1;
    return true;
}

#ifndef LEADER_HTTP_OTHER

#include <curl/curl.h>
#include <stdio.h>
#include <sys/stat.h>
#ifndef _WIN32
#  include <fcntl.h>
#  include <poll.h>
#  include <sys/socket.h>
#  include <unistd.h>
#endif

#if LIBCURL_VERSION_NUM < 0x075700
#  error "leader_http.h needs libcurl 7.87 or later: earlier ones raise SIGPIPE and block on DNS"
#endif

enum { LEADER_HTTP_CONNECT_S_ = 10, LEADER_HTTP_ROUNDS_MAX_ = 8 };

/* ---- the sockets of a client ------------------------------------------------------------------ */

static curl_socket_t leader_http_on_open_(void *user, curlsocktype purpose, struct curl_sockaddr *address) {
    leader_http_client *client = (leader_http_client *)user;
    (void)purpose;
    if (client->socket_count == client->socket_cap) {
        size_t cap = client->socket_cap * 2 + 8;
        intptr_t *grown = (intptr_t *)realloc(client->sockets, cap * sizeof *grown);
        if (!grown) {
            return CURL_SOCKET_BAD;
        }
        client->sockets = grown;
        client->socket_cap = cap;
    }
    curl_socket_t fd = socket(address->family, address->socktype, address->protocol);
    if (fd == CURL_SOCKET_BAD) {
        return fd;
    }
#ifndef _WIN32
    fcntl(fd, F_SETFD, FD_CLOEXEC);
#endif
    client->sockets[client->socket_count] = (intptr_t)fd;
    client->socket_count++;
    client->opened++;
    return fd;
}

static int leader_http_close_fd_(curl_socket_t fd) {
#ifdef _WIN32
    return closesocket(fd);
#else
    return close(fd);
#endif
}

static int leader_http_on_close_(void *user, curl_socket_t fd) {
    leader_http_client *client = (leader_http_client *)user;
    for (size_t i = 0; i < client->socket_count; i++) {
        if (client->sockets[i] == (intptr_t)fd) {
            client->socket_count--;
            client->sockets[i] = client->sockets[client->socket_count];
            break;
        }
    }
    return leader_http_close_fd_(fd);
}

/* In a child after fork(): the connections, and the elections that used them, are the parent's. Our
   copies of the descriptors are closed and nothing is sent. What libcurl knows about them is left
   alone, because freeing it would say goodbye to the server. */
static void leader_http_leave_to_parent_(leader_http_client *client) {
    int32_t pid = leader_pid_();
    if (client->pid == pid) {
        return;
    }
    if (client->pid != 0) {
        for (size_t i = 0; i < client->socket_count; i++) {
            leader_http_close_fd_((curl_socket_t)client->sockets[i]);
        }
        client->socket_count = 0;
        client->multi = NULL;
        client->members = NULL;
    }
    client->pid = pid;
}

static leader_fd *leader_http_slot_(leader_http_ *self, intptr_t fd, bool make) {
    leader_fd *unused = NULL;
    for (int i = 0; i < LEADER_FDS_MAX; i++) {
        leader_fd *slot = &self->sockets[i];
        if (slot->events == 0) {
            unused = slot;
        } else if (slot->fd == fd) {
            return slot;
        }
    }
    return make ? unused : NULL;
}

static void leader_http_watch_fd_(leader_http_ *self, intptr_t fd, int events) {
    leader_fd *slot = leader_http_slot_(self, fd, events != 0);
    if (!slot) {
        return;                     // more than the core can watch: ticks read it
    }
    slot->fd = fd;
    slot->events = events;
    self->host.fd(self->host.core, fd, events);
}

static int leader_http_events_(int what) {
    int events = 0;
    if (what == CURL_POLL_IN || what == CURL_POLL_INOUT) {
        events |= LEADER_READ;
    }
    if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT) {
        events |= LEADER_WRITE;
    }
    return events;
}

static leader_http_exchange_ *leader_http_exchange_of_(CURL *easy) {
    char *owner = NULL;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, &owner);
    return (leader_http_exchange_ *)(void *)owner;
}

/* Each socket is watched by the election on whose behalf it was first used; that keeps every election
   within LEADER_FDS_MAX. */
static int leader_http_on_socket_(CURL *easy, curl_socket_t fd, int what, void *user, void *assigned) {
    leader_http_client *client = (leader_http_client *)user;
    leader_http_ *member = (leader_http_ *)assigned;
    int events = leader_http_events_(what);
    if (!member && events != 0) {
        leader_http_exchange_ *x = leader_http_exchange_of_(easy);
        member = x ? x->owner : NULL;
    }
    if (!member) {
        return 0;                   // a connection that libcurl is closing by itself
    }
    curl_multi_assign((CURLM *)client->multi, fd, events != 0 ? member : NULL);
    leader_http_watch_fd_(member, (intptr_t)fd, events);
    return 0;
}

static bool leader_http_is_busy_(const leader_http_ *self) {
    for (const leader_http_exchange_ *x = self->exchanges; x; x = x->next) {
        if (x->running) {
            return true;
        }
    }
    return false;
}

/* A connection can outlive the exchanges of the election that watches it: one that still needs it
   takes over the watching. */
static void leader_http_rehome_(leader_http_ *self) {
    if (leader_http_is_busy_(self)) {
        return;
    }
    leader_http_ *heir = self->client->members;
    while (heir && (heir == self || !leader_http_is_busy_(heir))) {
        heir = heir->next;
    }
    if (!heir) {
        return;
    }
    for (int i = 0; i < LEADER_FDS_MAX; i++) {
        leader_fd watched = self->sockets[i];
        if (watched.events == 0) {
            continue;
        }
        leader_http_watch_fd_(self, watched.fd, 0);
        curl_multi_assign((CURLM *)self->client->multi, (curl_socket_t)watched.fd, heir);
        leader_http_watch_fd_(heir, watched.fd, watched.events);
    }
}

static void leader_http_unwatch_(leader_http_ *self) {
    for (int i = 0; i < LEADER_FDS_MAX; i++) {
        if (self->sockets[i].events != 0) {
            leader_http_watch_fd_(self, self->sockets[i].fd, 0);
        }
    }
}

static void leader_http_unassign_(leader_http_ *self) {
    for (int i = 0; i < LEADER_FDS_MAX && self->client->multi; i++) {
        if (self->sockets[i].events != 0) {
            curl_multi_assign((CURLM *)self->client->multi, (curl_socket_t)self->sockets[i].fd, NULL);
        }
    }
}

static bool leader_http_connect_(leader_http_client *client) {
    if (client->multi) {
        return true;
    }
    CURLM *multi = curl_multi_init();
    if (!multi) {
        return false;
    }
    client->multi = multi;
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, leader_http_on_socket_);
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, client);
    return true;
}

/* ---- a handle for one exchange ---------------------------------------------------------------- */

static size_t leader_http_on_data_(char *data, size_t size, size_t count, void *user) {
    leader_http_exchange_ *x = (leader_http_exchange_ *)user;
    size_t len = size * count;
    bool fits = len <= (size_t)LEADER_HTTP_REPLY_MAX_ - x->reply.len;
    x->owner->stirred = true;
    if (!fits || !leader_http_splice_(&x->reply, x->reply.len, 0, data, len)) {
        return 0;
    }
    return len;
}

typedef struct leader_http_setup_ {
    CURL *easy;
    bool  ok;                       // false: libcurl lacks something that safety depends on
} leader_http_setup_;

static void leader_http_number_(leader_http_setup_ *setup, CURLoption option, long value) {
    if (curl_easy_setopt(setup->easy, option, value) != CURLE_OK) {
        setup->ok = false;
    }
}

static void leader_http_pointer_(leader_http_setup_ *setup, CURLoption option, const void *value) {
    if (curl_easy_setopt(setup->easy, option, value) != CURLE_OK) {
        setup->ok = false;
    }
}

/* From a text where there is one, else from a file where there is one. */
static void leader_http_pem_(leader_http_setup_ *setup, CURLoption of_text, const char *text,
                             CURLoption of_file, const char *file) {
    if (text) {
        struct curl_blob blob;
        blob.data = (void *)(uintptr_t)text;
        blob.len = strlen(text);
        blob.flags = CURL_BLOB_COPY;
        leader_http_pointer_(setup, of_text, &blob);
    } else if (file[0] != 0) {
        leader_http_pointer_(setup, of_file, file);
    }
}

static void leader_http_set_tls_(leader_http_setup_ *setup, const leader_http_ *self) {
    leader_http_number_(setup, CURLOPT_SSL_VERIFYPEER, 1);
    leader_http_number_(setup, CURLOPT_SSL_VERIFYHOST, 2);
    leader_http_number_(setup, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    leader_http_number_(setup, CURLOPT_SSL_SESSIONID_CACHE, 0);    // a resumed session shows no certificate
    leader_http_pem_(setup, CURLOPT_CAINFO_BLOB, self->ca_text, CURLOPT_CAINFO, self->ca_file);
    leader_http_pem_(setup, CURLOPT_SSLCERT_BLOB, self->cert_text, CURLOPT_SSLCERT, self->cert_file);
    leader_http_pem_(setup, CURLOPT_SSLKEY_BLOB, self->key_text, CURLOPT_SSLKEY, self->key_file);
    if (self->ca_text || self->ca_file[0] != 0) {
        curl_easy_setopt(setup->easy, CURLOPT_CAPATH, NULL);    // this authority, none of the machine's
    }
    curl_easy_setopt(setup->easy, CURLOPT_CA_CACHE_TIMEOUT, 0L);    // the file may be replaced
}

static bool leader_http_prepare_(leader_http_ *self, leader_http_exchange_ *x) {
    leader_http_setup_ setup;
    setup.easy = curl_easy_init();
    setup.ok = true;
    if (!setup.easy) {
        return false;
    }
    leader_http_pointer_(&setup, CURLOPT_PRIVATE, x);
    curl_easy_setopt(setup.easy, CURLOPT_WRITEFUNCTION, leader_http_on_data_);
    leader_http_pointer_(&setup, CURLOPT_WRITEDATA, x);
    leader_http_pointer_(&setup, CURLOPT_ERRORBUFFER, x->said);
    curl_easy_setopt(setup.easy, CURLOPT_OPENSOCKETFUNCTION, leader_http_on_open_);
    leader_http_pointer_(&setup, CURLOPT_OPENSOCKETDATA, self->client);
    curl_easy_setopt(setup.easy, CURLOPT_CLOSESOCKETFUNCTION, leader_http_on_close_);
    leader_http_pointer_(&setup, CURLOPT_CLOSESOCKETDATA, self->client);
    leader_http_number_(&setup, CURLOPT_NOSIGNAL, 1);
    leader_http_number_(&setup, CURLOPT_FOLLOWLOCATION, 0);
    leader_http_pointer_(&setup, CURLOPT_PROXY, "");
    leader_http_pointer_(&setup, CURLOPT_USERAGENT, "leader.h");
    leader_http_number_(&setup, CURLOPT_TCP_KEEPALIVE, 1);
    leader_http_set_tls_(&setup, self);
    curl_easy_setopt(setup.easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    curl_easy_setopt(setup.easy, CURLOPT_TCP_KEEPIDLE, 10L);
    curl_easy_setopt(setup.easy, CURLOPT_TCP_KEEPINTVL, 5L);
    curl_easy_setopt(setup.easy, CURLOPT_QUICK_EXIT, 1L);   // giving up must not wait for a name server
    if (!setup.ok) {
        curl_easy_cleanup(setup.easy);
        return false;
    }
    x->easy = setup.easy;
    return true;
}

static uint64_t leader_http_file_stamp_(const char *path, uint64_t stamp) {
    struct stat file;
    if (path[0] == 0 || stat(path, &file) != 0) {
        return stamp;
    }
    uint64_t facts[4];
    memset(facts, 0, sizeof facts);
    facts[0] = (uint64_t)file.st_ino;
    facts[1] = (uint64_t)file.st_size;
    facts[2] = (uint64_t)file.st_mtime;
#ifdef __linux__
    facts[3] = (uint64_t)file.st_mtim.tv_nsec;
#endif
    return stamp * 31 + leader_hash_((const char *)facts, sizeof facts);
}

static uint64_t leader_http_files_(const leader_http_ *self) {
    uint64_t stamp = leader_http_file_stamp_(self->ca_file, 0);
    stamp = leader_http_file_stamp_(self->cert_file, stamp);
    return leader_http_file_stamp_(self->key_file, stamp);
}

static void leader_http_discard_(leader_http_exchange_ *x) {
    if (x->easy) {
        curl_easy_cleanup((CURL *)x->easy);
    }
    x->easy = NULL;
}

/* A handle that has read the certificates as they now are. */
static bool leader_http_ready_handle_(leader_http_ *self, leader_http_exchange_ *x) {
    uint64_t files = leader_http_files_(self);
    if (x->easy && x->files == files) {
        return true;
    }
    if (x->easy) {
        self->fresh = true;
    }
    leader_http_discard_(x);
    x->files = files;
    return leader_http_prepare_(self, x);
}

static bool leader_http_set_headers_(leader_http_exchange_ *x, const leader_http_request_ *request) {
    const char *lines[5];
    size_t count = 0;
    leader_http_text_ authorization;
    memset(&authorization, 0, sizeof authorization);
    lines[count++] = "Accept: application/json";
    if (request->body) {
        lines[count++] = request->content_type ? request->content_type : "Content-Type: application/json";
        lines[count++] = "Expect:";     // no waiting for 100 Continue
    }
    if (request->authorization && request->authorization[0] != 0) {
        const char *value = request->authorization;
        bool made = leader_http_copy_(&authorization, "Authorization: ", 15) &&
                    leader_http_splice_(&authorization, 15, 0, value, strlen(value));
        if (!made) {
            leader_http_free_(&authorization);
            return false;
        }
        lines[count++] = authorization.at;
    }
    struct curl_slist *list = NULL;
    bool ok = true;
    for (size_t i = 0; i < count && ok; i++) {
        struct curl_slist *longer = curl_slist_append(list, lines[i]);
        ok = longer != NULL;
        list = ok ? longer : list;
    }
    leader_http_free_(&authorization);
    if (!ok) {
        curl_slist_free_all(list);
        return false;
    }
    curl_easy_setopt((CURL *)x->easy, CURLOPT_HTTPHEADER, list);
    curl_slist_free_all((struct curl_slist *)x->headers);
    x->headers = list;
    return true;
}

/* ---- one exchange ----------------------------------------------------------------------------- */

static leader_result leader_http_meaning_(CURLcode code) {
    switch (code) {
    case CURLE_OK:
        return LEADER_OK;
    case CURLE_WRITE_ERROR:
        return LEADER_E_CORRUPT;
    case CURLE_OPERATION_TIMEDOUT:
        return LEADER_E_TIMEOUT;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
        return LEADER_E_AUTH;
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
        return LEADER_E_CONFIG;
    default:
        return LEADER_E_IO;
    }
}

static void leader_http_explain_(leader_http_exchange_ *x, CURLcode code) {
    const char *words = x->said[0] != 0 ? x->said : curl_easy_strerror(code);
    if (code == CURLE_WRITE_ERROR) {
        words = "the reply is larger than 1 MiB, or than the memory left";
    }
    snprintf(x->error, sizeof x->error, "%.60s: %.255s", x->owner->place, words);
}

static void leader_http_ended_(leader_http_exchange_ *x, CURLcode code) {
    curl_off_t retry_s = 0;
    long version = 0;
    x->running = false;
    x->done = true;
    x->owner->stirred = true;
    x->result = leader_http_meaning_(code);
    curl_easy_getinfo((CURL *)x->easy, CURLINFO_RESPONSE_CODE, &x->status);
    curl_easy_getinfo((CURL *)x->easy, CURLINFO_RETRY_AFTER, &retry_s);
    if (retry_s > 0) {
        x->retry_after_ms = 1000 * (int64_t)(retry_s < 3600 ? retry_s : 3600);
    }
    if (code != CURLE_OK) {
        leader_http_explain_(x, code);
    }
    if (x->streams) {
        return;
    }
    x->owner->fresh = code != CURLE_OK;
    if (code == CURLE_OK) {
        curl_easy_getinfo((CURL *)x->easy, CURLINFO_HTTP_VERSION, &version);
        x->owner->http2 = version >= (long)CURL_HTTP_VERSION_2_0;
    }
}

/* A connection on which a request got no answer is dead for all we know, and with HTTP/2 it may carry
   the streams of all elections. libcurl closes it when the last user has left: so they end as well. */
static void leader_http_end_streams_(const leader_http_ *owner) {
    for (leader_http_ *m = owner->client->members; m; m = m->next) {
        bool shares = m->http2 && strcmp(m->server, owner->server) == 0;
        for (leader_http_exchange_ *x = m->exchanges; x; x = x->next) {
            if (shares && x->running && x->streams) {
                curl_multi_remove_handle((CURLM *)owner->client->multi, (CURL *)x->easy);
                leader_http_ended_(x, CURLE_RECV_ERROR);
            }
        }
    }
}

static void leader_http_drop_(leader_http_exchange_ *x) {
    x->done = false;
    if (!x->running) {
        return;
    }
    x->running = false;
    if (!x->streams) {
        leader_http_end_streams_(x->owner);
        x->owner->fresh = true;
        curl_easy_setopt((CURL *)x->easy, CURLOPT_FORBID_REUSE, 1L);    // HTTP/2 would keep it
    }
    curl_multi_remove_handle((CURLM *)x->owner->client->multi, (CURL *)x->easy);
}

static void leader_http_adopt_(leader_http_ *self, leader_http_exchange_ *x) {
    if (x->owner == self) {
        return;
    }
    x->owner = self;
    x->next = self->exchanges;
    self->exchanges = x;
}

static bool leader_http_set_request_(leader_http_ *self, leader_http_exchange_ *x,
                                     const leader_http_request_ *request) {
    leader_http_setup_ setup;
    leader_http_text_ url;
    memset(&url, 0, sizeof url);
    setup.easy = (CURL *)x->easy;
    setup.ok = leader_http_copy_(&url, self->server, strlen(self->server)) &&
               leader_http_splice_(&url, url.len, 0, request->path, strlen(request->path));
    if (setup.ok) {
        leader_http_pointer_(&setup, CURLOPT_URL, url.at);
    }
    leader_http_free_(&url);
    leader_http_number_(&setup, CURLOPT_HTTPGET, 1);
    if (request->body) {
        leader_http_pointer_(&setup, CURLOPT_POSTFIELDS, request->body);
        leader_http_number_(&setup, CURLOPT_POSTFIELDSIZE, (long)request->body_len);
    }
    leader_http_pointer_(&setup, CURLOPT_CUSTOMREQUEST, request->method);
    /* Without HTTP/2 a stream occupies its connection: it gets its own, and the warm one stays free. */
    bool fresh = self->fresh || (request->streams && !self->http2);
    leader_http_number_(&setup, CURLOPT_FORBID_REUSE, 0);
    leader_http_number_(&setup, CURLOPT_FRESH_CONNECT, fresh ? 1 : 0);
    leader_http_number_(&setup, CURLOPT_CONNECTTIMEOUT, request->streams ? LEADER_HTTP_CONNECT_S_ : 0);
    return setup.ok;
}

static bool leader_http_start_(leader_http_ *self, leader_http_exchange_ *x,
                               const leader_http_request_ *request) {
    leader_http_adopt_(self, x);
    leader_http_drop_(x);
    x->result = LEADER_PENDING;
    x->status = 0;
    x->retry_after_ms = 0;
    x->reply.len = 0;
    x->used = 0;
    x->error[0] = 0;
    x->said[0] = 0;
    x->streams = request->streams;
    if (!leader_http_ready_handle_(self, x) || !leader_http_set_request_(self, x, request)) {
        return false;
    }
    if (!leader_http_set_headers_(x, request) || !leader_http_connect_(self->client)) {
        return false;
    }
    x->running = curl_multi_add_handle((CURLM *)self->client->multi, (CURL *)x->easy) == CURLM_OK;
    return x->running;
}

/* ---- moving them all -------------------------------------------------------------------------- */

static int leader_http_mask_(short ready) {
    int mask = 0;
    if (ready & (POLLIN | POLLHUP)) {
        mask |= CURL_CSELECT_IN;
    }
    if (ready & POLLOUT) {
        mask |= CURL_CSELECT_OUT;
    }
    if (ready & (POLLERR | POLLNVAL)) {
        mask |= CURL_CSELECT_ERR;
    }
    return mask;
}

/* False: libcurl has run out of memory. */
static bool leader_http_act_(leader_http_client *client, struct pollfd *fds, unsigned count) {
#ifdef _WIN32
    int ready = count > 0 ? WSAPoll(fds, count, 0) : 0;
#else
    int ready = count > 0 ? poll(fds, count, 0) : 0;
#endif
    for (unsigned i = 0; i < count && ready > 0; i++) {
        int mask = leader_http_mask_(fds[i].revents);
        curl_socket_t fd = (curl_socket_t)fds[i].fd;
        int running;
        if (mask != 0 && curl_multi_socket_action((CURLM *)client->multi, fd, mask, &running) != CURLM_OK) {
            return false;
        }
    }
    return true;
}

static struct pollfd leader_http_pollfd_(const leader_fd *watched) {
    struct pollfd fd;
    memset(&fd, 0, sizeof fd);
    fd.fd = (curl_socket_t)watched->fd;
    if (watched->events & LEADER_READ) {
        fd.events |= POLLIN;
    }
    if (watched->events & LEADER_WRITE) {
        fd.events |= POLLOUT;
    }
    return fd;
}

static bool leader_http_ready_sockets_(leader_http_client *client) {
    enum { BATCH = 32 };
    struct pollfd fds[BATCH];
    unsigned count = 0;
    for (leader_http_ *m = client->members; m; m = m->next) {
        for (int i = 0; i < LEADER_FDS_MAX; i++) {
            if (m->sockets[i].events == 0) {
                continue;
            }
            fds[count] = leader_http_pollfd_(&m->sockets[i]);
            count++;
            if (count < BATCH) {
                continue;
            }
            if (!leader_http_act_(client, fds, count)) {
                return false;
            }
            count = 0;
        }
    }
    return leader_http_act_(client, fds, count);
}

/* One round. False: libcurl has run out of memory. */
static bool leader_http_round_(leader_http_client *client, long *wait_ms) {
    CURLM *multi = (CURLM *)client->multi;
    int running;
    if (curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running) != CURLM_OK) {
        return false;
    }
    if (!leader_http_ready_sockets_(client)) {
        return false;
    }
    return curl_multi_timeout(multi, wait_ms) == CURLM_OK;
}

static void leader_http_collect_(leader_http_client *client) {
    CURLM *multi = (CURLM *)client->multi;
    int left;
    for (;;) {
        CURLMsg *message = curl_multi_info_read(multi, &left);
        if (!message) {
            return;
        }
        if (message->msg == CURLMSG_DONE) {
            CURL *easy = message->easy_handle;
            CURLcode code = message->data.result;
            leader_http_ended_(leader_http_exchange_of_(easy), code);
            curl_multi_remove_handle(multi, easy);
        }
    }
}

/* libcurl ran out of memory: all that is under way ends, connections too. One that once could not note
   a socket would divide by zero when it next looked at it (7.88, and the same code in others). */
static void leader_http_start_over_(leader_http_client *client) {
    for (leader_http_ *m = client->members; m; m = m->next) {
        leader_http_unwatch_(m);
        for (leader_http_exchange_ *x = m->exchanges; x; x = x->next) {
            if (x->running) {
                leader_http_drop_(x);
                leader_http_ended_(x, CURLE_OUT_OF_MEMORY);
            }
        }
    }
    curl_multi_cleanup((CURLM *)client->multi);
    client->multi = NULL;           // the next request makes a new one
}

static void leader_http_spread_(leader_http_client *client, const leader_http_ *driver) {
    for (leader_http_ *m = client->members; m; m = m->next) {
        for (leader_http_exchange_ *x = m->exchanges; x; x = x->next) {
            if (x->running && x->streams) {
                curl_easy_getinfo((CURL *)x->easy, CURLINFO_RESPONSE_CODE, &x->status);
            }
        }
        if (m->stirred && m != driver) {
            m->host.due(m->host.core);
        }
        m->stirred = false;
        leader_http_rehome_(m);
    }
}

static void leader_http_drive_(leader_http_ *driver) {
    leader_http_client *client = driver->client;
    long wait_ms = 0;
    bool ok = true;
    if (!client->multi) {
        return;
    }
    for (int i = 0; i < LEADER_HTTP_ROUNDS_MAX_ && ok && wait_ms == 0; i++) {  // 0: it has more to do at once
        ok = leader_http_round_(client, &wait_ms);
    }
    leader_http_collect_(client);
    if (!ok) {
        leader_http_start_over_(client);
    }
    leader_http_spread_(client, driver);
}

static int64_t leader_http_wait_ms_(const leader_http_ *self) {
    long wait_ms = -1;
    if (self->client->multi) {
        curl_multi_timeout((CURLM *)self->client->multi, &wait_ms);
    }
    if (wait_ms < 0) {
        return 0;
    }
    return wait_ms < 1 ? 1 : wait_ms;
}

/* ---- settings --------------------------------------------------------------------------------- */

static void leader_http_keep_(leader_http_ *self, char *to, size_t cap, const char *from, const char *field) {
    size_t len = from ? strlen(from) : 0;
    if (len >= cap) {
        snprintf(self->refusal, sizeof self->refusal, "%s: longer than %d bytes", field, (int)cap - 1);
    } else if (from) {
        memcpy(to, from, len + 1);
    }
}

static bool leader_http_is_loopback_(const char *host) {
    bool v4 = strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == strlen(host);
    return v4 || strcmp(host, "[::1]") == 0 || strcmp(host, "localhost") == 0;
}

/* `place` becomes host:port. */
static bool leader_http_split_(leader_http_ *self, char **host) {
    CURLU *url = curl_url();
    char *port = NULL;
    *host = NULL;
    if (!url) {
        return false;
    }
    bool good = curl_url_set(url, CURLUPART_URL, self->server, 0) == CURLUE_OK;
    good = good && curl_url_get(url, CURLUPART_HOST, host, 0) == CURLUE_OK;
    good = good && curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK;
    if (good) {
        snprintf(self->place, sizeof self->place, "%.248s:%.6s", *host, port);
    }
    curl_free(port);
    curl_url_cleanup(url);
    return good;
}

/* libcurl would take a third slash for none, and not tell of an empty fragment, behind which the rest
   of the URL would vanish. */
static const char *leader_http_check_server_(leader_http_ *self, bool plain_anywhere) {
    size_t len = strlen(self->server);
    bool https = strncmp(self->server, "https://", 8) == 0;
    bool plain = strncmp(self->server, "http://", 7) == 0;
    const char *rest = self->server + (https ? 8 : 7);
    char *host = NULL;
    if ((!https && !plain) || rest[0] == '/') {
        return "server: must be https://host:port";
    }
    if (strpbrk(self->server, "@?#")) {
        return "server: must not hold a user, a query or a fragment";
    }
    bool good = leader_http_split_(self, &host);
    bool allowed = good && (https || plain_anywhere || leader_http_is_loopback_(host));
    curl_free(host);
    if (!good) {
        return "server: must be https://host:port";
    }
    if (!allowed) {
        return "server: http:// is for this machine only (127.0.0.1, [::1], localhost); use https://";
    }
    while (self->server[len - 1] == '/') {
        len--;
        self->server[len] = 0;
    }
    return NULL;
}

static const char *leader_http_check_(leader_http_ *self, const leader_http_settings_ *settings) {
    leader_http_keep_(self, self->server, sizeof self->server, settings->server, "server");
    leader_http_keep_(self, self->ca_file, sizeof self->ca_file, settings->ca_file, "ca_file");
    leader_http_keep_(self, self->cert_file, sizeof self->cert_file, settings->cert_file, "cert_file");
    leader_http_keep_(self, self->key_file, sizeof self->key_file, settings->key_file, "key_file");
    if (self->refusal[0] != 0) {
        return self->refusal;
    }
    bool has_cert = self->cert_file[0] != 0 || settings->cert_text;
    bool has_key = self->key_file[0] != 0 || settings->key_text;
    if (has_cert != has_key) {
        return "cert_file, key_file: give both or none";
    }
    return leader_http_check_server_(self, settings->plain_anywhere);
}

/* The library at run time may be another than the one compiled against. */
static const char *leader_http_check_libcurl_(leader_http_ *self) {
    const curl_version_info_data *version = curl_version_info(CURLVERSION_NOW);
    if (version->version_num < 0x075700) {
        snprintf(self->refusal, sizeof self->refusal, "libcurl %.20s is too old: 7.87 or later is needed, "
                 "because earlier ones raise SIGPIPE and block on DNS", version->version);
        return self->refusal;
    }
    if (!(version->features & CURL_VERSION_ASYNCHDNS)) {
        return "this libcurl blocks on DNS: use one built with the threaded resolver or c-ares";
    }
    if (!(version->features & CURL_VERSION_SSL)) {
        return "this libcurl was built without TLS";
    }
    return NULL;
}

static const char *leader_http_open_(leader_http_ *self, const leader_http_settings_ *settings,
                                     const leader_host *host) {
    leader_http_client own = self->own;     // a forked child finds its parent's connections there
    memset(self, 0, sizeof *self);
    self->own = own;
    self->host = *host;
    self->client = settings->client ? settings->client : &self->own;
    self->ca_text = settings->ca_text;
    self->cert_text = settings->cert_text;
    self->key_text = settings->key_text;
    const char *problem = leader_http_check_(self, settings);
    if (!problem) {
        problem = leader_http_check_libcurl_(self);
    }
    if (problem) {
        return problem;
    }
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        return "libcurl does not start";
    }
    leader_http_leave_to_parent_(self->client);
    self->next = self->client->members;
    self->client->members = self;
    leader_http_exchange_ trial;
    memset(&trial, 0, sizeof trial);
    bool usable = leader_http_connect_(self->client) && leader_http_prepare_(self, &trial);
    leader_http_discard_(&trial);
    if (usable) {
        return NULL;
    }
    leader_http_close_(self);
    return "libcurl: no memory, or built without TLS 1.2";
}

static void leader_http_free_exchanges_(leader_http_ *self) {
    while (self->exchanges) {
        leader_http_exchange_ *x = self->exchanges;
        self->exchanges = x->next;
        leader_http_drop_(x);
        leader_http_discard_(x);
        curl_slist_free_all((struct curl_slist *)x->headers);
        leader_http_free_(&x->reply);
        memset(x, 0, sizeof *x);
    }
}

static void leader_http_close_(leader_http_ *self) {
    leader_http_client *client = self->client;
    leader_http_free_exchanges_(self);
    leader_http_rehome_(self);
    leader_http_unassign_(self);
    leader_http_unwatch_(self);
    leader_http_ **link = &client->members;
    while (*link && *link != self) {
        link = &(*link)->next;
    }
    if (*link) {
        *link = self->next;
    }
    if (!client->members && client->multi) {
        curl_multi_cleanup((CURLM *)client->multi);
        client->multi = NULL;
    }
    if (!client->members) {
        free(client->sockets);
        client->sockets = NULL;
        client->socket_count = 0;
        client->socket_cap = 0;
    }
    curl_global_cleanup();
}

#endif /* LEADER_HTTP_OTHER */

#ifdef __cplusplus
}
#endif
#endif /* LEADER_HTTP_IMPLEMENTATION_DONE */
