/* leader_redis.h - leader election over Redis, for leader.h - licence: see leader.h

   The lease is a key with a time to live in a Redis server. Every operation is one run of one Lua script:
   one round trip, decided on the server, timed by the server's clock. One connection serves any number of
   elections (ten thousand is fine), pipelined. Nothing blocks, not even the lookup of a name. hiredis
   formats the commands and reads the replies.

   DO THIS
       #define LEADER_WITH_REDIS
       #define LEADER_IMPLEMENTATION                  // in one C file
       #include "leader.h"                            // cc app.c -lhiredis

       leader_redis redis;
       leader_redis_config config = {0};              // C++: = {}
       config.url  = "redis://user:secret@10.0.0.7:6379/0";      // or
       leader_redis_config_from_env(&config) config.name = "nightly-report";
       leader_config cfg = {0};
       cfg.identity = leader_make_identity(id, sizeof id, "worker");
       cfg.backend  = leader_redis_backend(&redis, &config);
       leader_redis_timing(&cfg);                     // optional: lease 30 s, renewal 10 s, retry 5 s
       leader_t me;
       if (leader_init(&me, &cfg) != LEADER_OK) return puts(leader_error(&me)), 1;
       while (running) { leader_tick(&me); if (leader_is_leader(&me)) work(); leader_sleep(&me, 1000); }
       leader_close(&me, 1000);

   Many elections over one connection: one leader_redis_client, and for each election
   leader_redis_shared_backend(&election, &client, name).

   WHAT IT PROMISES beyond leader.h's own rules
   - A server that forgets is not a release. DEL by hand, eviction, FLUSHALL, a restart without data:
     candidates that had seen the holder wait out a full lease, the longest that they have seen, before
     anybody leads. (A candidate that has seen nothing cannot tell an emptied server from a new one:
     cautious_start makes it wait as well. Nobody can wait for a longer lease than any that it has seen or
     heard of: give all candidates of an election one lease_ms.)
   - Tokens rise even then, unless the server's clock was set back: a new token is never below that clock
     in milliseconds.
   - A late, repeated or overtaken request can neither free nor extend a later term.
   - An answer counts only if it names our key, our nonce and the number of the request. A forked child
     never uses the connections of its parent.
   - A reply is hostile until parsed: what is malformed, oversized or unasked for ends the connection, not
     the process.
   - Programs that hold the key by a plain SET NX PX and candidates of leader.h exclude each other,
     whatever their leases: a value that is not ours keeps its own time to live. (If it has none, it gets
     that of a lease.)

   WHAT IT DOES NOT PROMISE, and what narrows it
   - Replication is asynchronous: a replica promoted before it had the last write may not know of the
     leader. Candidates that had seen the term notice and wait; a new one may lead too early. An isolated
     old master that still accepts writes can keep its leader while the other side elects another; with
     sentinels, a client asks them again every lease and moves to the master that they name. Narrow both
     with `min-replicas-to-write 1` and a `min-replicas-max-lag` below lease - renew deadline, or with
     wait_replicas (WAIT after each write: no answer from that many replicas, no success). Only fencing
     tokens close the gap for good.
   - The server's clock times the lease. A jump by more than lease - renew deadline can end it early
     (forward), never late: what stands beyond one lease from now is cut back to it.
   - A server that restarts from a snapshot older than the last term is a store restored from a backup:
     `appendonly yes` with `appendfsync always` leaves no such gap.

   IN THE SERVER, for people
     GET prefix:leader:name
         "token seq nonce lease_ms identity", or with a value "token seq nonce lease_ms/LENGTH VALUE
         identity", with the rest of the lease as its time to live
     HGETALL prefix:leader:name:witness:{prefix:leader:name}
         t (the last token), lease (its length in ms), born (its mark: when it was made, and by whom) and,
         after a release, rel; while a forgotten lease is waited for, till. It lives for one day or 100
         leases, whichever is longer, from the last renewal: names that are no longer used leave nothing
         behind. (A key with a hash tag of its own, {app}:leader:name, has its witness at
         {app}:leader:name:witness.)
     Releases are published on the channel prefix:leader:name@db.
     ACL SETUSER app on >secret ~prefix:* &prefix:* +eval +evalsha +get +set +pttl +pexpire +del
         +hget +hmget +hset +hdel +time +publish +subscribe +unsubscribe
         and +select with db, +role with sentinels, +wait with wait_replicas, +asking in a cluster. Redis
         6 has no need of & (channels). Without a prefix the patterns are ~leader:* and &leader:*.

   RESOLVING NAMES
     getaddrinfo() would block the tick, for ten seconds and more when name servers are down, and this
     library starts no threads; so a host name is looked up here: /etc/hosts first, then the name servers,
     search list and ndots of /etc/resolv.conf, over UDP, for IPv4 and IPv6. All addresses are tried in
     turn. What only getaddrinfo knows of (mDNS, LDAP) is not found here: resolve such a name yourself and
     give the address. A reconnect goes to the last good address first; the name is asked for again when
     that has failed, and if it cannot be resolved, the last good address still serves.

   CONNECTIONS AND LOOPS
     All elections of a client live on one thread. One of them carries the client's sockets (on_fd,
     leader_fds, leader_sleep); when an answer for another one comes, that one falls due (on_due,
     leader_due_ms). An election that is ticked while the carrier is not takes the sockets over. A second
     connection subscribes to release notices; without it (no_notice, or the ACL forbids it) standbys
     poll, which is always enough. While it works, a standby asks at the moment at which the lease can
     end, and of all standbys of a client only one asks in between, every retry_ms. A server that cannot
     be reached is tried again about every retry_ms, with jitter: one SYN for all elections of the client.
     A stopped server carries out later whatever was sent to it, also by those who gave up or are gone. So
     a standby asks after a sign of life only: the answer to a TIME, which goes before looks at a lease
     that is held. After a silence a connection is ready when it has given one. Renewals, releases and the
     attempt at the end of a lease are not held up.

   CLUSTER: MOVED and ASK are each followed once per request. Elections of one client must share a slot:
     give them a prefix with a hash tag such as "{app}", or one client each.
   SERVER: Redis 5 or newer (tested with 7.0).   HIREDIS: 0.14 or newer.   SYSTEMS: POSIX; not Windows.
   TLS: #define LEADER_REDIS_TLS and link with -lssl -lcrypto (OpenSSL 1.1 or newer; hiredis needs no TLS
     of its own). The server's certificate and name are always verified. */
#ifndef LEADER_REDIS_H_INCLUDED
#define LEADER_REDIS_H_INCLUDED

#ifndef LEADER_H_INCLUDED
#  error "include leader.h first, or define LEADER_WITH_REDIS and include leader.h alone"
#endif
#if defined(_WIN32)
#  error "backends/leader_redis.h needs POSIX sockets: on Windows use the file store, or Redis from WSL"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Of hiredis and OpenSSL: only the implementation needs their headers. */
struct redisReader;
struct ssl_st;
struct ssl_ctx_st;

/* ---- configuration.  C: leader_redis_config config = {0};   C++: = {}; -------------------------------- */
typedef struct leader_redis_config {    // copied by leader_redis_backend, strings too; 0 means the default
    const char *name;                   // of the election: its key is "prefix:leader:name". Or give key
    const char *key;                    // the whole key instead of prefix and name, such as "stargate:leader"
    const char *prefix;                 // none; without one the key is "leader:name"
    const char *url;                    // redis:// rediss:// unix://, with user, password and path
                                        // percent-encoded; "/3" or "?db=3" is the database. What is set
                                        // beside it wins
    const char *host;                   // 127.0.0.1; an address, or a name: see RESOLVING NAMES
    int         port;                   // 6379
    const char *path;                   // a unix socket instead of host and port
    const char *username;               // none
    const char *password;               // none; never logged, never in an error
    const char *password_file;          // none; its first line, read again for each connection
    int         db;                     // 0
    bool        tls;                    // false; true: to sentinels as well
    const char *ca_file;                // PEM; the system's store
    const char *cert_file;              // PEM chain of a client certificate; none
    const char *key_file;               // PEM key that goes with cert_file
    const char *server_name;            // host: the name or address that the server's certificate must bear
    const char *sentinels;              // "host:port,host,[::1]:port" instead of host: asked for the master
    int         sentinel_port;          // 26379: of those that name none
    const char *sentinel_name;          // required with sentinels: what they call the master
    const char *sentinel_username;      // none
    const char *sentinel_password;      // none
    int64_t     connect_timeout_ms;     // 1000: from connect to a server that is ready for requests. More
                                        // where round trips take longer than 300 ms
    int64_t     sentinel_timeout_ms;    // 300: for each sentinel
    int         wait_replicas;          // 0; more: a write succeeds only when so many replicas have it
    bool        no_notice;              // false; true: no second connection, releases are found by polling
    char        mistake[160];           // what leader_redis_config_from_env found; leader_init reports it
    char        service[256];           // a host that the environment named inside another value
} leader_redis_config;

/* All complete below: yours to place, not to read, copy or move. A client must outlive its elections. */
typedef struct leader_redis          leader_redis;
typedef struct leader_redis_client   leader_redis_client;
typedef struct leader_redis_election leader_redis_election;

/* Adds what the environment says: MUTEX_REDIS_x, else REDIS_x, where x is HOST PORT PREFIX SENTINEL_HOST
   (a list, as sentinels) SENTINEL_PORT SENTINEL_NAME USERNAME PASSWORD PASSWORD_FILE DB URL. MUTEX_ wins
   over all of REDIS_: MUTEX_REDIS_HOST sets REDIS_URL aside, MUTEX_REDIS_PORT replaces its port. Within a
   family the URL wins. Empty is unset; PORT may be tcp://host:port, as Kubernetes sets it.
   LEADER_E_CONFIG: a value makes no sense, config->mistake says which. */
LEADER_API leader_result leader_redis_config_from_env(leader_redis_config *config);

/* None of these does I/O or fails: leader_init reports what is wrong. NULL: all defaults. */
LEADER_API leader_backend leader_redis_backend(leader_redis *store, const leader_redis_config *config);
LEADER_API void leader_redis_client_init(leader_redis_client *client, const leader_redis_config *config);
LEADER_API leader_backend leader_redis_shared_backend(leader_redis_election *election,
                                                      leader_redis_client *client, const char *name);
LEADER_API leader_backend leader_redis_shared_key_backend(leader_redis_election *election,
                                                          leader_redis_client *client, const char *key);

/* Lease 30 s, renewal every 10 s, retry every 5 s up to 60 s, three retries of a renewal, after 500, 1000
   and 2000 ms. */
LEADER_API void leader_redis_timing(leader_config *cfg);

/* =======================================================================================================
   Stop here if you only want the API. The structs are complete so that you can place them; their insides
   are private. The implementation, in this order:

       script            decides on the server
       errors            what went wrong, in words
       resolver          host names to addresses, without waiting
       reply limits      what hiredis may build
       output, TLS       bytes to the socket, plain and encrypted
       commands          formatted, sent, their replies read
       connections       from closed to ready, and their deadlines
       request ends      how a request succeeds, fails or starts again
       answers           what the script's answers mean
       sending           the script's arguments
       greetings         AUTH, SELECT, ROLE, TIME, questions to sentinels
       notices           what the second connection is for
       client            the way to the server, and what runs on it
       elections         who carries the client's sockets; fork
       backend           the functions that leader.h calls
       configuration     fields, URL, checks
       environment       MUTEX_REDIS_x and REDIS_x
       makers            from configuration to leader_backend
   ======================================================================================================= */
typedef struct leader_redis_place_ {
    char host[256];
    int  port;
} leader_redis_place_;

enum { LEADER_REDIS_ADDRESSES_ = 8, LEADER_REDIS_ADDRESS_MAX_ = 64, LEADER_REDIS_TEXT_MAX_ = 239 };

typedef struct leader_redis_lookup_ {   // of one host name, by questions to name servers
    char    host[256];
    char    found[LEADER_REDIS_ADDRESSES_][LEADER_REDIS_ADDRESS_MAX_];
    int     count;                      // of addresses found
    int     fd;                         // of the question under way; -1: none
    int     form;                       // which form of the name is asked for: see leader_redis_form_
    int     server;                     // which name server is asked first: the one that answered last
    int     attempt;                    // how often this question has been sent
    bool    v6;                         // it asks for IPv6 addresses
    bool    trouble;                    // a server could not answer it
    unsigned char query[300];
    size_t  query_len;
    int64_t deadline_ms;                // of this attempt
} leader_redis_lookup_;

typedef struct leader_redis_due_ {      // a reply that is still to come
    leader_redis_election *election;    // NULL: nobody waits for it any more
    unsigned serial;                    // of the election's request that it answers
    int      kind;
} leader_redis_due_;

typedef struct leader_redis_conn_ {
    leader_redis_client *client;
    int     stage;                      // LEADER_REDIS_CLOSED_ and so on
    int     fd;                         // -1: none
    int     told_fd;                    // what the carrier's loop watches
    int     told;                       // for which events
    bool    doomed;                     // to be closed as soon as nobody stands on it
    leader_redis_place_  target;
    leader_redis_lookup_ lookup;        // the addresses of the target
    int     next_address;               // of the lookup; those before it have failed
    int     greetings;                  // replies still to come before it is ready
    struct redisReader *reader;
    void   *builtin;                    // hiredis' own way of building replies
    size_t  built;                      // memory of the reply that is being read
    struct ssl_st *ssl;                 // NULL: plain
    char   *out;                        // to be sent
    size_t  out_len, out_cap;
    leader_redis_due_ *due;             // replies to come, a ring
    size_t  due_first, due_count, due_cap;
    int64_t quiet_ms;                   // a reply is owed, and nothing was heard since then
    int64_t timeout_ms;                 // from connect to ready
    int64_t deadline_ms;                // to become ready
    int64_t address_deadline_ms;        // for the present address
} leader_redis_conn_;

enum { LEADER_REDIS_BUCKETS_ = 256 };

struct leader_redis_client {
    char    mistake[160];               // of the configuration; "": none
    leader_redis_place_ server;
    char    path[104];
    char    username[128];
    char    password[256];
    char    password_file[256];
    char    prefix[128];
    int     db;
    bool    tls;
    char    ca_file[256];
    char    cert_file[256];
    char    key_file[256];
    char    server_name[256];
    char    sentinels[1024];
    int     sentinel_count;
    int     sentinel_port;
    char    sentinel_name[128];
    char    sentinel_username[128];
    char    sentinel_password[256];
    int64_t connect_timeout_ms;
    int64_t sentinel_timeout_ms;
    int     wait_replicas;
    bool    no_notice;

    int32_t pid;                        // of the process whose connections these are
    int     stage;                      // of the way to the server: one switch, in leader_redis_advance_
    leader_redis_conn_ main;            // requests
    leader_redis_conn_ watch;           // release notices
    leader_redis_conn_ guide;           // to a sentinel
    leader_redis_place_ target;         // the server, once it is known
    leader_redis_place_ moved;          // the cluster said so; host "": it did not
    leader_redis_place_ named;          // a sentinel said so; host "": it did not
    char    good_host[256];             // the last name that led to a ready server, and where it led
    char    good_address[LEADER_REDIS_ADDRESS_MAX_];
    int     sentinel;                   // which one is asked
    int     sentinels_asked;            // since the question came up
    int     failures;                   // attempts to connect since the last reply
    bool    watch_wanted;
    bool    taught;                     // this connection has sent the script's text
    int64_t retry_at_ms;                // no attempt to connect before
    int64_t watch_retry_at_ms;
    int64_t check_at_ms;                // ask the sentinels again
    int64_t now_ms;
    int64_t pumped_ms;                  // when the sockets were last looked at
    int64_t heard_ms;                   // when the server last answered
    bool    sounding;                   // it was asked for a sign of life, and has not answered yet
    bool    silent;                     // given up on a request, and not heard since
    int64_t looked_ms;                  // when a standby last asked
    uint64_t dice;
    unsigned waiting;                   // requests that need a connection
    unsigned generation;                // of the watch connection
    unsigned carrier_polls;
    leader_result why_result;
    char    why[LEADER_REDIS_TEXT_MAX_ + 1];                  // the server could not be reached; "": it was
    bool    why_fresh;                  // since the present attempt began
    leader_redis_election *said_by;     // who logged the client's last error, and when: the others need not
    int64_t said_ms;
    char    said[LEADER_REDIS_TEXT_MAX_ + 1];
    struct ssl_ctx_st *ssl;
    leader_redis_election *first;       // of all that are open; it carries the sockets
    leader_redis_election *caller;      // whose function is running
    leader_redis_election *bucket[LEADER_REDIS_BUCKETS_];     // by channel, for notices
};

enum { LEADER_REDIS_MARK_MAX_ = 16 + 1 + 16 + 1 + 20 };       // "ms nonce seq"

/* "token seq nonce lease_ms[/length value] holder", as the key has it, but for the value. */
typedef struct leader_redis_record_ {
    uint64_t token, seq, nonce;
    int64_t  lease_ms;
    char     holder[LEADER_IDENTITY_MAX + 1];                 // "": none is known
} leader_redis_record_;

struct leader_redis_election {          // what every tick reads comes first, what is long comes last
    leader_redis_client *client;
    leader_redis_election *next, *prev, *bucket_next;
    int      op, phase;
    uint64_t seq;                       // of the request that phase speaks of
    uint64_t nonce;
    leader_host host;
    unsigned serial;                    // of the last request sent
    unsigned generation;                // of the watch connection that is subscribed for this
    unsigned carrier_polls;             // of the client, when this one was last polled
    leader_result result;
    uint64_t token;                     // as the store said
    int64_t  expires_in_ms;
    int64_t  held_until_ms;             // nobody can take the lease before, as far as the last look goes
    int64_t  longest_ms;                // longest lease seen
    uint64_t settled_seq;               // of the last request that was answered
    uint64_t term_seq, term_token;      // of the acquire that began the term; 0: none
    bool     by_text;                   // send the script's text: the server did not know its sum
    bool     moved, asked;              // MOVED, ASK have been followed for this request
    bool     asking;                    // the next server wants to hear ASKING first
    // leader_request.reclaim; and the record of our name that was found is to be taken, as it stands: a late
    // request of the process before us would take ours
    bool     may_reclaim, reclaims;
    bool     sent_acquire;              // so that there may be something to release
    bool     listens, noticed;          // wants to hear of releases; has heard of one
    bool     outdated;                  // there was a notice since the last request was sent
    bool     subscribed;                // the server has confirmed it
    bool     foreign_said;
    bool     shared_error;              // it is the client's, which says it once
    bool     changes_value;             // a request that writes `next_value` has not been answered yet
    char    *value;                     // in the record of our term; on the heap, NULL: ""
    char    *next_value;                // as value
    char    *error;                     // why the request failed, until that is told; as value
    const char *mistake;                // of the name; NULL: none
    char    *seen_value;                // of the record, as the store said; as value
    char     born[LEADER_REDIS_MARK_MAX_ + 1];                // the mark of the witness; "": not seen
    leader_redis_record_ record;        // as the store said
    char     key[256];
};

struct leader_redis {
    leader_redis_client   client;
    leader_redis_election election;
};

#ifdef __cplusplus
}
#endif
#endif /* LEADER_REDIS_H_INCLUDED */

/* ==================================================================================================== */
#if defined(LEADER_IMPLEMENTATION) && defined(LEADER_IMPLEMENTATION_DONE) \
    && !defined(LEADER_REDIS_IMPLEMENTATION_DONE)
#define LEADER_REDIS_IMPLEMENTATION_DONE

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <hiredis/hiredis.h>
#ifdef LEADER_REDIS_TLS
#  include <openssl/err.h>
#  include <openssl/ssl.h>
#  include <openssl/x509v3.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- script -------------------------------------------------------------------------------------------
   KEYS  1 the lease   2 the witness
   ARGV  1 what to do: acquire, renew, release, observe   2 identity   3 nonce   4 seq of this request
         5 lease_ms
         6 the record as the caller knows it: its own to renew, another's as its last look found it; or ""
         7 the length of that lease   8 settled_seq   9 term_token   10 min_token
         11 the longest lease that the caller has seen   12 '1': take the record of our name that 6 shows
         13 the channel
         14 acquire: "" or "/length value" for the record; renew: "" or the record with another value;
         release: "" or "ms heir", which the others let go first for that long
         15 the mark of the witness that the caller knows; "": none; "0": none, and it starts cautiously
   Answer: {word, token, ms until others may take it, length of the lease in ms, record, to know whose it is:
   key, nonce, seq, and the mark of the witness; "": it was not read}.

   The record changes within a term only if its value does, so one comparison settles what stood there before
   and still does. A new value is sent until that was answered, so that 6 or 14 is what stands there. A
   renewal then sets two times to live; a standby's look reads one, and the answer is SAME.

   The witness (t, lease, rel, heir, born, till, doubt) lives `life` from the last renewal or release. So its
   time to live also tells how long ago that was: a lease key that is gone although no full lease has passed
   was deleted or evicted, and WAIT is the answer.

   `born` is the witness's mark: when it was made, and by which request. A caller that knows another one has
   seen a server that has forgotten everything since, and of whose holder this witness knows nothing: it was
   made by a newcomer, or by a late request of one that has long given it up, perhaps for a shorter lease.
   What that holder had last was granted before the mark was made, so it leads no longer than until then and
   the longest lease that the caller has seen. Up to that moment (`till`; `doubt` is the length) nobody begins
   a term, whoever asks, and whatever else was taken, released or expired meanwhile. Every caller says so in
   its first request that reads the witness, and the forgotten holder itself by its renewal; then it knows the
   new mark. Who looked while the witness was gone knows none, and goes by the token that it saw; who starts
   cautiously takes every witness for a new one. (A holder that nobody else has seen, and whose renewal does
   not arrive, is waited for as long as a lease of those who ask.)

   A record of ours from before the last answer that we had (settled_seq), other than that of our last term
   (term_token), is a ghost: a request that was given up was carried out late, by a server that had forgotten
   everything in between, and the holder that it forgot may still lead. A ghost is not ours: it is waited out,
   neither adopted nor released.

   seq has 20 digits: compared as text it is exact to 2^64, where a Lua number is exact only to 2^53. For the
   same reason nothing at or above 2^53 is taken for a token. A script that wrote may go on writing when
   memory is full, so the first write is one that a full server allows (PEXPIRE, DEL) wherever there is a
   choice: a full server refuses new terms but not renewals. */
#if defined(__GNUC__)                   // C99 promises 4095 characters of a string; every compiler takes more
#  pragma GCC diagnostic push
#  pragma GCC diagnostic ignored "-Woverlength-strings"
#endif
static const char leader_redis_script_text_[] =
    "local lease, wit, call, op = KEYS[1], KEYS[2], redis.call, ARGV[1]\n"
    "local rec = call('GET', lease)\n"
    "local same = rec and rec ~= '' and (rec == ARGV[6] or (op == 'renew' and rec == ARGV[14]))\n"
    "if same and ARGV[12] ~= '1' then\n"
    " if op == 'renew' then\n"
    "  local life = math.max(86400000, 100 * ARGV[5])\n"
    "  call('PEXPIRE', lease, ARGV[5])\n"
    "  if ARGV[14] ~= '' and rec ~= ARGV[14] then\n"
    "   rec = ARGV[14]\n"
    "   call('SET', lease, rec, 'PX', ARGV[5])\n"
    "  end\n"
    "  if call('PEXPIRE', wit, life) == 0 then\n"
    "   call('HSET', wit, 't', ARGV[9], 'lease', ARGV[5], 'born', ARGV[15])\n"
    "   call('PEXPIRE', wit, life)\n"
    "  end\n"
    "  return {'OK', 0, ARGV[5] + 0, 0, rec, lease, ARGV[3], ARGV[4], ''}\n"
    " end\n"
    " local ttl = call('PTTL', lease)\n"
    " if ttl >= 0 and ttl <= ARGV[7] + 0 then\n"
    "  return {'SAME', 0, ttl + 1, 0, '', lease, ARGV[3], ARGV[4], ''}\n"
    " end\n"
    "end\n"

    "local me, nonce, seq, lease_ms, max = ARGV[2], ARGV[3], ARGV[4], ARGV[5] + 0, math.max\n"
    "local known = call('HMGET', wit, 't', 'lease', 'rel', 'heir', 'born', 'till', 'doubt')\n"
    "local born, till, doubt = known[5] or '', 0, 0\n"
    "local function say(word, ms, rec, token, len)\n"
    " return {word, token or 0, ms, max(len or 0, doubt), rec or '', lease, nonce, seq, born}\n"
    "end\n"
    "local function life(ms) return max(86400000, 100 * ms) end\n"
    "local function whole(s)\n"
    " local n = s and s:find('^%d+$') and tonumber(s)\n"
    " return n and n < 9007199254740992 and n or nil\n"
    "end\n"
    "local function text(n) return string.format('%.0f', n) end\n"
    "local function now()\n"
    " local time = call('TIME')\n"
    " return time[1] * 1000 + math.floor(time[2] / 1000)\n"
    "end\n"
    "local function mark(ms) return text(ms)..' '..nonce..' '..seq end\n"
    "local token, term, owner, len, value, name\n"
    "local ttl = 0\n"
    "if rec then\n"
    " token, term, owner, len, value, name = rec:match('^(%d+) (%d+) (%x+) (%d+)(/?%d*) (.+)$')\n"
    " if name and value ~= '' then name = name:sub((whole(value:sub(2)) or #name) + 2) end\n"
    " ttl = call('PTTL', lease)\n"
    "end\n"
    // a record of leader.h, of any candidate
    "local ours = name and name ~= '' and #term == 20 and #owner == 16\n"
    "local good = ours and whole(token) and whole(len)\n"
    "local named = good and owner == nonce and name == me\n"
    "local mine = named and (term > ARGV[8] or token == ARGV[9])\n"
    "token, len = whole(token), whole(len)\n"

    "local t, kept, rel = whole(known[1]), whole(known[2]), known[3]\n"
    "local seen, own, wait = ARGV[10] - 1, max(lease_ms, ARGV[11] + 0), 0\n"
    "till, doubt = whole(known[6]) or 0, whole(known[7]) or 0\n"
    "local at = t and whole(born:match('^%d+'))\n"
    "if at and born ~= ARGV[15] and (ARGV[15] ~= '' or (seen > 0 and seen < at)) then\n"
    " local ms = now()\n"
    " local ends = math.min(at, ms) + own\n"
    " if ends > max(ms, till) then\n"
    "  till, doubt = ends, max(doubt, own)\n"
    "  local try = op == 'acquire' and call or redis.pcall\n"
    "  local done = try('HSET', wit, 'till', text(till), 'doubt', text(doubt))\n"
    "  if type(done) == 'table' then born = '' end\n"  // it failed: the caller is to try again
    " end\n"
    "end\n"
    "if till > 0 then\n"
    " local ms = now()\n"
    " wait = max(0, till - ms)\n"
    " if wait > doubt then\n"  // the clock was set back
    "  wait = doubt\n"
    "  if op == 'acquire' then call('HSET', wit, 'till', text(ms + doubt)) end\n"
    " end\n"
    "end\n"

    "if op == 'renew' or (op == 'release' and not (mine and term <= seq)) then\n"
    " return say('LOST', rec and max(0, ttl + 1) or 0, good and rec)\n"
    "end\n"
    "if op == 'release' then\n"
    " if born == '' and ARGV[15] ~= '0' then born = ARGV[15] end\n"
    " call('DEL', lease)\n"
    " call('HSET', wit, 't', text(max(t or 0, token)), 'lease', text(len), 'born', born)\n"
    " call('HSET', wit, 'rel', nonce..' '..seq)\n"
    " if ARGV[14] ~= '' then call('HSET', wit, 'heir', ARGV[14]) end\n"
    " call('PEXPIRE', wit, life(len))\n"
    " redis.pcall('PUBLISH', ARGV[13], nonce)\n"  // only a hint, so it may fail
    " return say('OK', 0, nil, token, len)\n"
    "end\n"

    "local most = max(own, kept or 0)\n"
    "local left = 0\n"  // of a lease whose key is gone
    "if not rec and t and not rel then\n"
    " local full = kept or most\n"
    " local rest = call('PTTL', wit)\n"
    " if rest >= 0 and rest <= life(full) then\n"
    "  left = max(0, full + 1 - (life(full) - rest))\n"
    " else\n"  // persisted, or the clock was set back
    "  if op == 'acquire' then call('PEXPIRE', wit, life(full)) end\n"
    "  left = full\n"
    " end\n"
    "end\n"
    "if not rec and rel and known[4] then\n"  // released for somebody
    " local ms, heir = known[4]:match('^(%d+) (.+)$')\n"
    " if heir and heir ~= me then\n"
    "  left = max(0, math.min(whole(ms) or 0, most) - (life(kept or most) - call('PTTL', wit)))\n"
    "  left = math.min(left, most)\n"
    " end\n"
    "end\n"
    "left = max(left, wait)\n"
    "if rec and op == 'acquire' and (ttl < 0 or (good and ttl > len)) then\n"  // no lease lasts for ever
    " ttl = good and len or most\n"
    " call('PEXPIRE', lease, ttl)\n"
    "end\n"
    "if rec then\n"
    " ttl = max(0, ttl + 1)\n"
    " if not ours then return say('FOREIGN', ttl, #rec <= 255 and rec, t) end\n"
    " if not good then return say('CORRUPT', ttl) end\n"
    "end\n"

    "if op == 'observe' then\n"
    " if rec then return say('HELD', ttl, rec) end\n"
    " return say('FREE', left, nil, t, kept)\n"
    "end\n"

    "if known[1] and not t then return say('CORRUPT', most) end\n"
    "if rec then\n"
    " if named and not mine then return say('WAIT', ttl, nil, token, len) end\n"
    " if mine and term == seq then return say('OK', ttl, rec) end\n"  // carried out before
    " if mine and term > seq then return say('HELD', ttl, rec) end\n"  // overtaken by a later one
    " if not mine and name ~= me then return say('HELD', ttl, rec) end\n"
    " local reclaims = ARGV[12] == '1' and same\n"
    " if not mine and not reclaims then return say('DUPLICATE', ttl, rec) end\n"
    "else\n"
    " if seen > 0 and (not t or t < seen) then\n"  // the store forgot a term that the caller saw
    "  local ms = now()\n"
    "  if born == '' then born = mark(ms) end\n"
    "  t = max(seen, ms)\n"
    "  call('HSET', wit, 't', text(t), 'lease', text(most), 'born', born)\n"
    "  call('HDEL', wit, 'rel', 'heir')\n"
    "  call('PEXPIRE', wit, life(most))\n"
    "  return say('WAIT', most, nil, t, most)\n"
    " end\n"
    " if rel then\n"
    "  local by, at = rel:match('^(%x+) (%d+)$')\n"
    "  if by == nonce and at > seq then return say('WAIT', 0, nil, t) end\n"  // overtaken by our release
    " end\n"
    " if left > 0 then return say('WAIT', left, nil, t, kept) end\n"  // deleted or evicted
    "end\n"
    "if wait > 0 then return say('WAIT', wait, nil, max(t or 0, token or 0)) end\n"

    "local ms = now()\n"
    "local new = max((t or 0) + 1, (token or 0) + 1, ARGV[10] + 0, ms)\n"
    "if new >= 9007199254740992 then return say('CORRUPT', most) end\n"
    "if born == '' and rec and ARGV[15] ~= '0' then born = ARGV[15] end\n"
    "if born == '' then born = mark(ms) end\n"
    "rec = text(new)..' '..seq..' '..nonce..' '..ARGV[5]..ARGV[14]..' '..me\n"
    "call('SET', lease, rec, 'PX', ARGV[5])\n"
    "call('HSET', wit, 't', text(new), 'lease', ARGV[5], 'born', born)\n"
    "call('HDEL', wit, 'rel', 'heir', 'till', 'doubt')\n"
    "call('PEXPIRE', wit, life(lease_ms))\n"
    "return say('OK', lease_ms, rec)\n";
#if defined(__GNUC__)
#  pragma GCC diagnostic pop
#endif

/* A wrong sum costs a round trip, not an election: the server says NOSCRIPT and gets the text. The tests
   compare it with the server's own. */
static const char leader_redis_script_sha1_[] = "4fdd8bf5de5db1806f49c328419e4446d263898e";

/* The numbers of leader.h's operations; the words of the script; how far a request has come. */
enum { LEADER_REDIS_ACQUIRE_, LEADER_REDIS_RENEW_, LEADER_REDIS_RELEASE_, LEADER_REDIS_OBSERVE_ };
static const char *const leader_redis_ops_[] = {"acquire", "renew", "release", "observe"};

enum {
    LEADER_REDIS_IDLE_,
    LEADER_REDIS_WAITING_,              // for a connection
    LEADER_REDIS_SENT_,
    LEADER_REDIS_REPLICATING_,          // answered; WAIT is not
    LEADER_REDIS_DONE_
};

/* Stages of a connection, in this order. */
enum {
    LEADER_REDIS_CLOSED_,
    LEADER_REDIS_RESOLVING_,            // the name of its target
    LEADER_REDIS_CONNECTING_,
    LEADER_REDIS_SHAKING_,              // TLS
    LEADER_REDIS_GREETING_,             // AUTH, SELECT, ROLE, TIME, or the question to a sentinel
    LEADER_REDIS_READY_
};

/* Stages of the client's way to the server. */
enum { LEADER_REDIS_OFF_, LEADER_REDIS_ASKING_, LEADER_REDIS_GOING_, LEADER_REDIS_ON_ };

/* What a reply answers. */
enum {
    LEADER_REDIS_AUTH_,
    LEADER_REDIS_SELECT_,
    LEADER_REDIS_ROLE_,
    LEADER_REDIS_MASTER_,               // a sentinel's answer
    LEADER_REDIS_HELLO_,                // TIME, which any user may call that may run the script
    LEADER_REDIS_ASKED_,                // ASKING
    LEADER_REDIS_SOUNDED_,              // TIME, on a connection that is ready
    LEADER_REDIS_SCRIPT_,
    LEADER_REDIS_REPLICAS_              // WAIT
};

enum { LEADER_REDIS_ELEMENTS_MAX_ = 1024, LEADER_REDIS_REPLY_MAX_ = 65536 };
static const uint64_t leader_redis_token_end_ = (uint64_t)1 << 53;

/* ---- errors ---------------------------------------------------------------------------------------- */

/* What a server says goes into logs: one line of plain characters. */
static void leader_redis_plain_(char *out, size_t cap, const char *text) {
    size_t n = 0;
    for (; n + 1 < cap && text[n]; n++) {
        bool plain = text[n] >= ' ' && text[n] <= '~';
        out[n] = plain ? text[n] : '?';
    }
    out[n] = 0;
}

/* Servers before Redis 7 put the script's sum and line before the reason, which would be cut off. */
static const char *leader_redis_reason_(const char *text) {
    static const char wrapper[] = "ERR Error running script";
    static const char place[] = "@user_script";
    if (strncmp(text, wrapper, sizeof wrapper - 1) != 0) {
        return text;
    }
    const char *last = NULL;
    for (const char *at = strstr(text, place); at; at = strstr(at + 1, place)) {
        last = at + sizeof place - 1;
    }
    if (!last) {
        return text;
    }
    return last + strspn(last, ": 0123456789-");
}

typedef struct leader_redis_error_ {
    const char   *word;
    leader_result result;
    bool          drop;                 // another connection may do better
    const char   *advice;               // NULL: the server's words say it
} leader_redis_error_;

#define LEADER_REDIS_WANTS_PASSWORD_ \
    "the server wants a password: set password or password_file in leader_redis_config " \
    "(environment: REDIS_PASSWORD)"
#define LEADER_REDIS_WRONG_PASSWORD_ "the server refuses this username and password (WRONGPASS)"

static const leader_redis_error_ leader_redis_errors_[] = {
    {"NOAUTH",                 LEADER_E_AUTH,    true,  LEADER_REDIS_WANTS_PASSWORD_},
    {"unauthenticated",        LEADER_E_AUTH,    true,  LEADER_REDIS_WANTS_PASSWORD_},  // of Redis 7
    {"WRONGPASS",              LEADER_E_AUTH,    true,  LEADER_REDIS_WRONG_PASSWORD_},
    {"invalid password",       LEADER_E_AUTH,    true,  "the server refuses this password"},
    {"NOPERM",                 LEADER_E_AUTH,    false, NULL},
    {"can't run this command", LEADER_E_AUTH,    false, NULL},
    {"ACL failure",            LEADER_E_AUTH,    false, NULL},
    {"WRONGTYPE",              LEADER_E_CORRUPT, false, NULL},
    {"READONLY",               LEADER_E_STORE,   true,  NULL},
    {"MASTERDOWN",             LEADER_E_STORE,   true,  NULL},
};

/* Everything that is not in the list (LOADING, BUSY, CLUSTERDOWN, OOM, NOREPLICAS, ...) passes by itself.
   Old servers wrap the word that a command inside the script gave, so it is looked for anywhere. */
static leader_redis_error_ leader_redis_judge_(const char *text) {
    for (size_t i = 0; i < sizeof leader_redis_errors_ / sizeof leader_redis_errors_[0]; i++) {
        if (strstr(text, leader_redis_errors_[i].word)) {
            return leader_redis_errors_[i];
        }
    }
    leader_redis_error_ passing = {"", LEADER_E_STORE, false, NULL};
    return passing;
}

/* "Redis 10.0.0.7:6379": how every message begins. */
static void leader_redis_place_text_(const leader_redis_conn_ *c, char *out, size_t cap) {
    const leader_redis_client *r = c->client;
    if (c == &r->guide) {
        snprintf(out, cap, "Redis sentinel %.60s:%d", c->target.host, c->target.port);
    } else if (r->path[0]) {
        snprintf(out, cap, "Redis at %.60s", r->path);
    } else {
        const leader_redis_place_ *at = c->target.host[0] ? &c->target : &r->server;
        snprintf(out, cap, "Redis %.60s:%d", at->host, at->port);
    }
}

/* Notes why the server cannot be reached; the first reason is the one that counts. */
static void leader_redis_blame_(leader_redis_conn_ *c, leader_result result, const char *format, ...)
    LEADER_PRINTF_(3, 4);
static void leader_redis_blame_(leader_redis_conn_ *c, leader_result result, const char *format, ...) {
    leader_redis_client *r = c->client;
    bool checking = c == &r->guide && r->stage == LEADER_REDIS_ON_;
    if (c == &r->watch || checking || r->why_fresh) {
        return;
    }
    char place[100];
    leader_redis_place_text_(c, place, sizeof place);
    char what[160];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    int n = snprintf(r->why, sizeof r->why, "%s: %s", place, what);
    LEADER_ASSERT(n > 0);
    (void)n;
    r->why_result = result;
    r->why_fresh = true;
}

/* ---- resolver -------------------------------------------------------------------------------------- */

#ifndef LEADER_REDIS_RESOLV_CONF        // implementation only; the tests have files and a port of their own
#  define LEADER_REDIS_RESOLV_CONF "/etc/resolv.conf"
#endif
#ifndef LEADER_REDIS_HOSTS
#  define LEADER_REDIS_HOSTS "/etc/hosts"
#endif
#ifndef LEADER_REDIS_DNS_PORT
#  define LEADER_REDIS_DNS_PORT 53
#endif

typedef struct leader_redis_lines_ {
    int    fd;
    size_t at, end;
    char   buf[512];
} leader_redis_lines_;

static void leader_redis_open_lines_(leader_redis_lines_ *in, const char *path) {
    memset(in, 0, sizeof *in);
    in->fd = open(path, O_RDONLY | O_CLOEXEC);
}

static bool leader_redis_more_lines_(leader_redis_lines_ *in) {
    if (in->at < in->end) {
        return true;
    }
    ssize_t got = 0;
    if (in->fd >= 0) {
        got = read(in->fd, in->buf, sizeof in->buf);
    }
    in->at = 0;
    in->end = got > 0 ? (size_t)got : 0;
    return got > 0;
}

/* The next line, cut to cap, without its comment; false, and closed: no more. */
static bool leader_redis_line_(leader_redis_lines_ *in, char *out, size_t cap) {
    size_t n = 0;
    bool any = false;
    bool ended = false;
    while (!ended && leader_redis_more_lines_(in)) {
        char c = in->buf[in->at++];
        any = true;
        ended = c == '\n';
        if (!ended && n + 1 < cap) {
            out[n++] = c;
        }
    }
    out[n] = 0;
    out[strcspn(out, "#;")] = 0;
    if (!any && in->fd >= 0) {
        close(in->fd);
        in->fd = -1;
    }
    return any;
}

static bool leader_redis_is_numeric_(const char *host) {
    unsigned char raw[16];
    return inet_pton(AF_INET, host, raw) == 1 || inet_pton(AF_INET6, host, raw) == 1;
}

static void leader_redis_add_address_(leader_redis_lookup_ *l, const char *address) {
    if (l->count < LEADER_REDIS_ADDRESSES_ && strlen(address) < LEADER_REDIS_ADDRESS_MAX_) {
        memcpy(l->found[l->count], address, strlen(address) + 1);
        l->count++;
    }
}

/* The next word of a line; the first one when line is not NULL. */
static const char *leader_redis_word_of_(char *line, char **save) { return strtok_r(line, " \t\r", save); }

static bool leader_redis_word_is_(char **save, const char *wanted) {
    const char *word = leader_redis_word_of_(NULL, save);
    while (word && strcasecmp(word, wanted) != 0) {
        word = leader_redis_word_of_(NULL, save);
    }
    return word != NULL;
}

/* All addresses that the file has for this name: localhost is often both ::1 and 127.0.0.1. */
static void leader_redis_look_in_hosts_(leader_redis_lookup_ *l) {
    leader_redis_lines_ in;
    char line[512];
    leader_redis_open_lines_(&in, LEADER_REDIS_HOSTS);
    while (leader_redis_line_(&in, line, sizeof line)) {
        char *save = NULL;
        const char *address = leader_redis_word_of_(line, &save);
        if (address && leader_redis_is_numeric_(address) && leader_redis_word_is_(&save, l->host)) {
            leader_redis_add_address_(l, address);
        }
    }
}

enum { LEADER_REDIS_SERVERS_ = 3, LEADER_REDIS_SEARCHES_ = 6, LEADER_REDIS_SEARCH_MAX_ = 128 };

typedef struct leader_redis_resolv_ {
    char server[LEADER_REDIS_SERVERS_][LEADER_REDIS_ADDRESS_MAX_];
    char search[LEADER_REDIS_SEARCHES_][LEADER_REDIS_SEARCH_MAX_];
    int  servers, searches, ndots;
} leader_redis_resolv_;

static void leader_redis_resolv_word_(leader_redis_resolv_ *c, const char *key, const char *word) {
    if (strcmp(key, "nameserver") == 0) {
        if (c->servers < LEADER_REDIS_SERVERS_ && leader_redis_is_numeric_(word)) {
            memcpy(c->server[c->servers++], word, strlen(word) + 1);
        }
    } else if (strcmp(key, "options") == 0) {
        if (strncmp(word, "ndots:", 6) == 0) {
            c->ndots = atoi(word + 6);
        }
    } else if (c->searches < LEADER_REDIS_SEARCHES_ && strlen(word) < LEADER_REDIS_SEARCH_MAX_) {
        memcpy(c->search[c->searches++], word, strlen(word) + 1);
    }
}

static void leader_redis_resolv_line_(leader_redis_resolv_ *c, char *line) {
    char *save = NULL;
    const char *key = leader_redis_word_of_(line, &save);
    if (!key) {
        return;
    }
    bool search = strcmp(key, "search") == 0 || strcmp(key, "domain") == 0;
    bool known = search || strcmp(key, "nameserver") == 0 || strcmp(key, "options") == 0;
    if (!known) {
        return;
    }
    if (search) {
        c->searches = 0;                // the last one counts
    }
    const char *word = leader_redis_word_of_(NULL, &save);
    while (word) {
        leader_redis_resolv_word_(c, key, word);
        word = leader_redis_word_of_(NULL, &save);
    }
}

static void leader_redis_read_resolv_(leader_redis_resolv_ *c) {
    leader_redis_lines_ in;
    char line[512];
    memset(c, 0, sizeof *c);
    c->ndots = 1;
    leader_redis_open_lines_(&in, LEADER_REDIS_RESOLV_CONF);
    while (leader_redis_line_(&in, line, sizeof line)) {
        leader_redis_resolv_line_(c, line);
    }
    if (c->servers == 0) {
        memcpy(c->server[c->servers++], "127.0.0.1", sizeof "127.0.0.1");
    }
}

/* The forms of a name in the order in which they are asked for: with few dots the search list first, else
   the name as it is. */
static bool leader_redis_form_(const leader_redis_resolv_ *c, const char *host, int index, char *out,
                               size_t cap) {
    size_t len = strlen(host);
    int dots = 0;
    for (const char *p = host; *p; p++) {
        dots += *p == '.';
    }
    bool whole = len > 0 && host[len - 1] == '.';
    int forms = 1;
    int own = 0;                        // which form is the name as it is
    if (!whole) {
        forms += c->searches;
    }
    if (!whole && dots < c->ndots) {
        own = c->searches;
    }
    if (index >= forms) {
        return false;
    }
    int n = 0;
    if (index == own) {
        n = snprintf(out, cap, "%s", host);
    } else if (index < own) {
        n = snprintf(out, cap, "%s.%s", host, c->search[index]);
    } else {
        n = snprintf(out, cap, "%s.%s", host, c->search[index - 1]);
    }
    return n > 0 && (size_t)n < cap;
}

enum { LEADER_REDIS_DNS_A_ = 1, LEADER_REDIS_DNS_AAAA_ = 28 };      // types of records

/* One question in wire form; 0: not a name that can be asked for. */
static size_t leader_redis_question_(unsigned char out[300], unsigned id, const char *name, bool v6) {
    size_t n = 12;
    memset(out, 0, n);
    out[0] = (unsigned char)(id >> 8);
    out[1] = (unsigned char)id;
    out[2] = 1;                         // recursion, please
    out[5] = 1;                         // one question
    while (*name) {
        size_t len = strcspn(name, ".");
        if (len == 0 || len > 63 || n + len + 6 > 268) {
            return 0;
        }
        out[n++] = (unsigned char)len;
        memcpy(out + n, name, len);
        n += len;
        name += len;
        name += *name == '.';
    }
    out[n++] = 0;
    out[n++] = 0;
    out[n++] = v6 ? LEADER_REDIS_DNS_AAAA_ : LEADER_REDIS_DNS_A_;
    out[n++] = 0;
    out[n++] = 1;
    return n;
}

static int leader_redis_lower_(int c) {
    bool capital = c >= 'A' && c <= 'Z';
    return capital ? c + 32 : c;
}

/* Is this an answer to that question? Servers may change the case of letters. */
static bool leader_redis_answers_(const unsigned char *p, size_t n, const unsigned char *query,
                                  size_t query_len) {
    if (n < query_len || n < 12 || memcmp(p, query, 2) != 0) {
        return false;
    }
    bool one_question = p[4] == 0 && p[5] == 1;
    if ((p[2] & 0xf8) != 0x80 || !one_question) {
        return false;
    }
    for (size_t i = 12; i < query_len; i++) {
        if (leader_redis_lower_(p[i]) != leader_redis_lower_(query[i])) {
            return false;
        }
    }
    return true;
}

/* Past the name at `at`; 0: it does not end. Names are skipped, never followed, so nothing can go round
   in circles. */
static size_t leader_redis_skip_name_(const unsigned char *p, size_t n, size_t at) {
    while (at < n && p[at] != 0 && p[at] < 64) {
        at += (size_t)p[at] + 1;
    }
    if (at >= n) {
        return 0;
    }
    if (p[at] == 0) {
        return at + 1;
    }
    return p[at] >= 192 ? at + 2 : 0;
}

enum {
    LEADER_REDIS_DNS_STRANGER_,         // not an answer to our question
    LEADER_REDIS_DNS_TROUBLE_,          // the server cannot answer it
    LEADER_REDIS_DNS_NO_NAME_,
    LEADER_REDIS_DNS_TAKEN_
};

/* Adds the address of the record at `at`, if it is of the wanted type; answers where the next record begins,
   or 0: this one is cut off. */
static size_t leader_redis_read_dns_record_(leader_redis_lookup_ *l, const unsigned char *p, size_t n,
                                            size_t at) {
    at = leader_redis_skip_name_(p, n, at);
    if (at == 0 || at + 10 > n) {
        return 0;
    }
    int type = p[at] << 8 | p[at + 1];
    size_t len = (size_t)(p[at + 8] << 8 | p[at + 9]);
    at += 10;
    if (at + len > n) {
        return 0;
    }
    bool wanted = type == l->query[l->query_len - 3];
    bool v4 = type == LEADER_REDIS_DNS_A_ && len == 4;
    bool v6 = type == LEADER_REDIS_DNS_AAAA_ && len == 16;
    char address[LEADER_REDIS_ADDRESS_MAX_];
    if (wanted && (v4 || v6) && inet_ntop(v6 ? AF_INET6 : AF_INET, p + at, address, sizeof address)) {
        leader_redis_add_address_(l, address);
    }
    return at + len;
}

/* Adds the addresses of an answer to the lookup. */
static int leader_redis_read_dns_(leader_redis_lookup_ *l, const unsigned char *p, size_t n) {
    enum { NO_SUCH_NAME = 3 };
    if (!leader_redis_answers_(p, n, l->query, l->query_len)) {
        return LEADER_REDIS_DNS_STRANGER_;
    }
    int code = p[3] & 15;
    if (code == NO_SUCH_NAME) {
        return LEADER_REDIS_DNS_NO_NAME_;
    }
    if (code != 0) {
        return LEADER_REDIS_DNS_TROUBLE_;
    }
    int before = l->count;
    size_t at = l->query_len;
    for (int answers = p[6] << 8 | p[7]; answers > 0; answers--) {
        at = leader_redis_read_dns_record_(l, p, n, at);
        if (at == 0) {
            return LEADER_REDIS_DNS_TROUBLE_;
        }
    }
    bool cut_short = (p[2] & 2) != 0;
    if (cut_short && l->count == before) {
        return LEADER_REDIS_DNS_TROUBLE_;
    }
    return LEADER_REDIS_DNS_TAKEN_;
}

static bool leader_redis_set_flags_(int fd) {
    return fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

/* The address in the form that connect wants; 0: it is none. */
static socklen_t leader_redis_sockaddr_(struct sockaddr_storage *to, const char *address, int port) {
    memset(to, 0, sizeof *to);
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)to;
    if (inet_pton(AF_INET, address, &v4->sin_addr) == 1) {
        to->ss_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        return sizeof *v4;
    }
    memset(to, 0, sizeof *to);
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)to;
    if (inet_pton(AF_INET6, address, &v6->sin6_addr) == 1) {
        to->ss_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)port);
        return sizeof *v6;
    }
    return 0;
}

/* Closes the question's socket; the carrier's loop has been told before. */
static void leader_redis_lookup_end_(leader_redis_lookup_ *l) {
    if (l->fd >= 0) {
        close(l->fd);
    }
    l->fd = -1;
}

/* Sends the present question to one server, from a port of its own. */
static bool leader_redis_ask_dns_(leader_redis_lookup_ *l, const char *server) {
    struct sockaddr_storage to;
    socklen_t len = leader_redis_sockaddr_(&to, server, LEADER_REDIS_DNS_PORT);
    l->fd = socket(to.ss_family, SOCK_DGRAM, 0);
    if (l->fd < 0) {
        return false;
    }
    bool sent = leader_redis_set_flags_(l->fd);
    sent = sent && connect(l->fd, (struct sockaddr *)(void *)&to, len) == 0;
    sent = sent && send(l->fd, l->query, l->query_len, 0) == (ssize_t)l->query_len;
    if (!sent) {
        leader_redis_lookup_end_(l);
    }
    return sent;
}

/* The question is settled: the next kind of address, or the next form of the name. */
static void leader_redis_next_question_(leader_redis_lookup_ *l, bool no_such_name) {
    l->server += l->attempt;
    l->attempt = 0;
    l->trouble = false;
    if (!l->v6 && !no_such_name) {
        l->v6 = true;
        return;
    }
    l->v6 = false;
    l->form++;
}

/* Asks what is to be asked next. A server that fails or refuses is no reason to give up the other forms
   of the name, as glibc sees it too; one that says nothing at all, and the others neither, is. False:
   nothing is left to ask. */
static bool leader_redis_ask_next_(leader_redis_lookup_ *l, int64_t now_ms) {
    enum { TRY_MS = 400, ROUNDS = 2 };
    leader_redis_lookup_end_(l);
    leader_redis_resolv_ c;
    leader_redis_read_resolv_(&c);
    for (;;) {
        char name[400];
        bool form_found = l->count > 0 && !l->v6;
        if (form_found || !leader_redis_form_(&c, l->host, l->form, name, sizeof name)) {
            return false;
        }
        int tries = l->count > 0 ? 1 : c.servers * ROUNDS;
        bool used_up = l->attempt >= tries;
        if (used_up && (l->count > 0 || !l->trouble)) {
            return false;
        }
        l->query_len = leader_redis_question_(l->query, (unsigned)(LEADER_RANDOM64() & 0xffff), name, l->v6);
        if (used_up || l->query_len == 0) {
            leader_redis_next_question_(l, l->query_len == 0);
            continue;
        }
        l->deadline_ms = now_ms + TRY_MS;
        if (leader_redis_ask_dns_(l, c.server[(l->server + l->attempt) % c.servers])) {
            return true;
        }
        l->attempt++;
    }
}

/* True: it has come to its end; count says with how many addresses. */
static bool leader_redis_lookup_step_(leader_redis_lookup_ *l, int64_t now_ms) {
    enum { DATAGRAMS_MAX = 32 };
    for (int i = 0; i < DATAGRAMS_MAX; i++) {
        unsigned char reply[1500];
        ssize_t n = recv(l->fd, reply, sizeof reply, MSG_DONTWAIT);
        bool nothing_yet = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
        if (nothing_yet && now_ms < l->deadline_ms) {
            return false;
        }
        int said = LEADER_REDIS_DNS_TROUBLE_;
        if (n >= 0) {
            said = leader_redis_read_dns_(l, reply, (size_t)n);
        }
        if (said == LEADER_REDIS_DNS_STRANGER_) {
            continue;                   // not ours: go on waiting
        }
        if (said == LEADER_REDIS_DNS_TROUBLE_) {
            l->attempt++;
            l->trouble = l->trouble || n >= 0;
        } else {
            leader_redis_next_question_(l, said == LEADER_REDIS_DNS_NO_NAME_);
        }
        if (!leader_redis_ask_next_(l, now_ms)) {
            return true;
        }
    }
    return false;
}

/* Costs nothing for a number, the reading of a file for a local name. True: it has come to its end. */
static bool leader_redis_lookup_start_(leader_redis_lookup_ *l, const char *host, int64_t now_ms) {
    leader_redis_lookup_end_(l);
    memset(l, 0, sizeof *l);
    l->fd = -1;
    snprintf(l->host, sizeof l->host, "%s", host);
    if (leader_redis_is_numeric_(host)) {
        leader_redis_add_address_(l, host);
        return true;
    }
    leader_redis_look_in_hosts_(l);
    return l->count > 0 || !leader_redis_ask_next_(l, now_ms);
}

/* ---- reply limits -------------------------------------------------------------------------------------
   A reply is built in memory as it is read. These refuse one that is too large before it exists; the reader
   then says that there is no memory, and the connection ends. */
static bool leader_redis_allows_(const redisReadTask *task, size_t bytes) {
    leader_redis_conn_ *c = (leader_redis_conn_ *)task->privdata;
    if (!task->parent) {
        c->built = 0;
    }
    c->built += sizeof(redisReply) + bytes;
    return bytes <= LEADER_REDIS_REPLY_MAX_ && c->built <= LEADER_REDIS_REPLY_MAX_;
}

static const redisReplyObjectFunctions *leader_redis_builtin_(const redisReadTask *task) {
    return (const redisReplyObjectFunctions *)((leader_redis_conn_ *)task->privdata)->builtin;
}

static void *leader_redis_make_string_(const redisReadTask *task, char *text, size_t len) {
    if (!leader_redis_allows_(task, len)) {
        return NULL;
    }
    return leader_redis_builtin_(task)->createString(task, text, len);
}

#if HIREDIS_MAJOR >= 1
static void *leader_redis_make_array_(const redisReadTask *task, size_t elements) {
#else
static void *leader_redis_make_array_(const redisReadTask *task, int elements) {
#endif
    bool few = elements <= LEADER_REDIS_ELEMENTS_MAX_ && task->type == REDIS_REPLY_ARRAY;
    if (!few || !leader_redis_allows_(task, (size_t)elements * sizeof(void *))) {
        return NULL;
    }
    return leader_redis_builtin_(task)->createArray(task, elements);
}

static void *leader_redis_make_integer_(const redisReadTask *task, long long value) {
    if (!leader_redis_allows_(task, 0)) {
        return NULL;
    }
    return leader_redis_builtin_(task)->createInteger(task, value);
}

static void *leader_redis_make_nil_(const redisReadTask *task) {
    if (!leader_redis_allows_(task, 0)) {
        return NULL;
    }
    return leader_redis_builtin_(task)->createNil(task);
}

static void leader_redis_free_reply_(void *reply) { freeReplyObject(reply); }

#if HIREDIS_MAJOR >= 1
static void *leader_redis_make_double_(const redisReadTask *task, double value, char *text, size_t len) {
    (void)task;
    (void)value;
    (void)text;
    (void)len;
    return NULL;
}

static void *leader_redis_make_bool_(const redisReadTask *task, int value) {
    (void)task;
    (void)value;
    return NULL;
}
#endif

static redisReplyObjectFunctions leader_redis_reader_ = {
    leader_redis_make_string_, leader_redis_make_array_, leader_redis_make_integer_,
#if HIREDIS_MAJOR >= 1
    leader_redis_make_double_, leader_redis_make_nil_, leader_redis_make_bool_,
#else
    leader_redis_make_nil_,
#endif
    leader_redis_free_reply_
};

/* ---- output, TLS ----------------------------------------------------------------------------------- */

static void leader_redis_no_memory_(leader_redis_conn_ *c) {
    leader_redis_blame_(c, LEADER_E_IO, "out of memory");
    c->doomed = true;
}

/* Appends to what is to be sent. */
static void leader_redis_put_(leader_redis_conn_ *c, const char *bytes, size_t len) {
    if (c->out_len + len > c->out_cap) {
        size_t cap = 2 * (c->out_len + len) + 1024;
        char *more = (char *)realloc(c->out, cap);
        if (!more) {
            leader_redis_no_memory_(c);
            return;
        }
        c->out = more;
        c->out_cap = cap;
    }
    memcpy(c->out + c->out_len, bytes, len);
    c->out_len += len;
}

#ifdef LEADER_REDIS_TLS

/* OpenSSL sees memory, not the socket: what it wants to send goes the same way as everything else. */
static void leader_redis_tls_drain_(leader_redis_conn_ *c) {
    BIO *out = SSL_get_wbio(c->ssl);
    char bytes[4096];
    int n = BIO_read(out, bytes, sizeof bytes);
    while (n > 0) {
        leader_redis_put_(c, bytes, (size_t)n);
        n = BIO_read(out, bytes, sizeof bytes);
    }
}

static const char *leader_redis_tls_files_(const leader_redis_client *r, SSL_CTX *ctx) {
    int trusted = 0;
    if (r->ca_file[0]) {
        trusted = SSL_CTX_load_verify_locations(ctx, r->ca_file, NULL);
    } else {
        trusted = SSL_CTX_set_default_verify_paths(ctx);
    }
    if (trusted != 1) {
        return "ca_file cannot be read";
    }
    if (r->cert_file[0] && SSL_CTX_use_certificate_chain_file(ctx, r->cert_file) != 1) {
        return "cert_file cannot be read";
    }
    if (r->key_file[0] && SSL_CTX_use_PrivateKey_file(ctx, r->key_file, SSL_FILETYPE_PEM) != 1) {
        return "key_file cannot be read, or does not belong to cert_file";
    }
    return NULL;
}

/* Reads the files, unless they are read; what is wrong with them, or NULL. */
static const char *leader_redis_tls_prepare_(leader_redis_client *r) {
    if (r->ssl) {
        return NULL;
    }
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    if (!ctx) {
        return "tls: OpenSSL gave no context";
    }
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    const char *wrong = leader_redis_tls_files_(r, ctx);
    ERR_clear_error();
    if (wrong) {
        SSL_CTX_free(ctx);
    } else {
        r->ssl = ctx;
    }
    return wrong;
}

/* Read the files again before the next connection: certificates are renewed. */
static void leader_redis_tls_forget_(leader_redis_client *r) {
    if (r->ssl) {
        SSL_CTX_free(r->ssl);
    }
    r->ssl = NULL;
}

/* The certificate must be issued for this name or address. */
static bool leader_redis_tls_expect_(SSL *ssl, const char *name) {
    X509_VERIFY_PARAM *want = SSL_get0_param(ssl);
    X509_VERIFY_PARAM_set_hostflags(want, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (X509_VERIFY_PARAM_set1_ip_asc(want, name) == 1) {
        return true;
    }
    return X509_VERIFY_PARAM_set1_host(want, name, 0) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

static void leader_redis_tls_step_(leader_redis_conn_ *c);

static void leader_redis_tls_start_(leader_redis_conn_ *c) {
    leader_redis_client *r = c->client;
    const char *wrong = leader_redis_tls_prepare_(r);
    if (wrong) {
        leader_redis_blame_(c, LEADER_E_CONFIG, "%s", wrong);
        c->doomed = true;
        return;
    }
    c->ssl = SSL_new(r->ssl);
    BIO *in = BIO_new(BIO_s_mem());
    BIO *out = BIO_new(BIO_s_mem());
    if (!c->ssl || !in || !out) {
        BIO_free(in);
        BIO_free(out);
        leader_redis_no_memory_(c);
        return;
    }
    SSL_set_bio(c->ssl, in, out);
    SSL_set_connect_state(c->ssl);
    const char *name = r->server_name[0] ? r->server_name : c->target.host;
    if (!leader_redis_tls_expect_(c->ssl, name)) {
        leader_redis_no_memory_(c);
        return;
    }
    leader_redis_tls_step_(c);
}

static void leader_redis_tls_failed_(leader_redis_conn_ *c) {
    long verdict = SSL_get_verify_result(c->ssl);
    if (verdict != X509_V_OK) {
        const char *reason = X509_verify_cert_error_string(verdict);
        leader_redis_blame_(c, LEADER_E_AUTH, "TLS: its certificate is not accepted: %s", reason);
    } else {
        char reason[100];
        ERR_error_string_n(ERR_peek_error(), reason, sizeof reason);
        leader_redis_blame_(c, LEADER_E_IO, "TLS: %s", reason);
    }
    ERR_clear_error();
    leader_redis_tls_forget_(c->client);
    c->doomed = true;
}

static void leader_redis_greet_(leader_redis_conn_ *c);

static void leader_redis_tls_step_(leader_redis_conn_ *c) {
    ERR_clear_error();
    int error = SSL_ERROR_NONE;
    int done = SSL_do_handshake(c->ssl);
    if (done != 1) {
        error = SSL_get_error(c->ssl, done);
    }
    leader_redis_tls_drain_(c);
    if (error == SSL_ERROR_NONE) {
        c->stage = LEADER_REDIS_GREETING_;      // not a word before: the first is a password
        leader_redis_greet_(c);
    } else if (error != SSL_ERROR_WANT_READ) {
        leader_redis_tls_failed_(c);
    }
}

static void leader_redis_tls_write_(leader_redis_conn_ *c, const char *bytes, size_t len) {
    ERR_clear_error();
    if (SSL_write(c->ssl, bytes, (int)len) != (int)len) {
        leader_redis_tls_failed_(c);
        return;
    }
    leader_redis_tls_drain_(c);
}

static void leader_redis_feed_(leader_redis_conn_ *c, const char *bytes, size_t len);

/* Bytes from the network. */
static void leader_redis_tls_read_(leader_redis_conn_ *c, const char *bytes, size_t len) {
    char plain[4096];
    if (BIO_write(SSL_get_rbio(c->ssl), bytes, (int)len) != (int)len) {
        leader_redis_no_memory_(c);
        return;
    }
    if (c->stage == LEADER_REDIS_SHAKING_) {
        leader_redis_tls_step_(c);
    }
    while (!c->doomed && c->stage > LEADER_REDIS_SHAKING_) {
        ERR_clear_error();
        int n = SSL_read(c->ssl, plain, sizeof plain);
        if (n > 0) {
            leader_redis_feed_(c, plain, (size_t)n);
            continue;
        }
        if (SSL_get_error(c->ssl, n) != SSL_ERROR_WANT_READ) {
            leader_redis_tls_failed_(c);
        }
        break;
    }
    leader_redis_tls_drain_(c);
}

static void leader_redis_tls_end_(leader_redis_conn_ *c) {
    if (c->ssl) {
        SSL_free(c->ssl);
    }
    c->ssl = NULL;
}

#else

static const char *leader_redis_tls_prepare_(leader_redis_client *r) {
    (void)r;
    return NULL;
}
static void leader_redis_tls_forget_(leader_redis_client *r) { (void)r; }
static void leader_redis_tls_start_(leader_redis_conn_ *c) { c->doomed = true; }
static void leader_redis_tls_end_(leader_redis_conn_ *c) { (void)c; }
static void leader_redis_tls_write_(leader_redis_conn_ *c, const char *bytes, size_t len) {
    leader_redis_put_(c, bytes, len);
}
static void leader_redis_feed_(leader_redis_conn_ *c, const char *bytes, size_t len);
static void leader_redis_tls_read_(leader_redis_conn_ *c, const char *bytes, size_t len) {
    leader_redis_feed_(c, bytes, len);
}
static void leader_redis_greet_(leader_redis_conn_ *c);

#endif

/* ---- commands -------------------------------------------------------------------------------------- */

/* Room for one more reply to come; false: there is no memory. */
static bool leader_redis_grow_due_(leader_redis_conn_ *c) {
    if (c->due_count < c->due_cap) {
        return true;
    }
    size_t cap = 2 * c->due_cap + 16;
    leader_redis_due_ *more = (leader_redis_due_ *)malloc(cap * sizeof *more);
    if (!more) {
        return false;
    }
    for (size_t i = 0; i < c->due_count; i++) {
        more[i] = c->due[(c->due_first + i) % c->due_cap];
    }
    free(c->due);
    c->due = more;
    c->due_cap = cap;
    c->due_first = 0;
    return true;
}

static void leader_redis_expect_(leader_redis_conn_ *c, int kind, leader_redis_election *e) {
    if (!leader_redis_grow_due_(c)) {
        leader_redis_no_memory_(c);
        return;
    }
    LEADER_ASSERT(c->due_count < c->due_cap && c->due_first < c->due_cap);
    leader_redis_due_ *last = &c->due[(c->due_first + c->due_count) % c->due_cap];
    last->election = e;
    last->serial = e ? e->serial : 0;
    last->kind = kind;
    if (c->due_count == 0) {
        c->quiet_ms = c->client->now_ms;
    }
    c->due_count++;
}

/* Puts one command on the way. A connection that cannot take it is doomed. */
static void leader_redis_write_(leader_redis_conn_ *c, int argc, const char **argv) {
    if (c->doomed) {
        return;
    }
    char *command = NULL;
    int len = redisFormatCommandArgv(&command, argc, argv, NULL);
    if (len < 0) {
        leader_redis_no_memory_(c);
        return;
    }
    if (c->ssl) {
        leader_redis_tls_write_(c, command, (size_t)len);
    } else {
        leader_redis_put_(c, command, (size_t)len);
    }
    redisFreeCommand(command);
}

#if defined(MSG_NOSIGNAL)
#  define LEADER_REDIS_NOSIGNAL_ MSG_NOSIGNAL
#else
#  define LEADER_REDIS_NOSIGNAL_ 0      // there, the socket has SO_NOSIGPIPE
#endif

static void leader_redis_flush_(leader_redis_conn_ *c) {
    size_t sent = 0;
    while (c->fd >= 0 && !c->doomed && sent < c->out_len) {
        ssize_t n = send(c->fd, c->out + sent, c->out_len - sent, MSG_DONTWAIT | LEADER_REDIS_NOSIGNAL_);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            break;
        }
        if (n < 0) {
            leader_redis_blame_(c, LEADER_E_IO, "%s", strerror(errno));
            c->doomed = true;
            break;
        }
        sent += (size_t)n;
    }
    if (sent > 0) {
        memmove(c->out, c->out + sent, c->out_len - sent);
        c->out_len -= sent;
    }
}

static void leader_redis_take_reply_(leader_redis_conn_ *c, const redisReply *reply);

/* Bytes of replies. */
static void leader_redis_feed_(leader_redis_conn_ *c, const char *bytes, size_t len) {
    if (redisReaderFeed(c->reader, bytes, len) != REDIS_OK) {
        leader_redis_no_memory_(c);
        return;
    }
    void *reply = NULL;
    int read = redisReaderGetReply(c->reader, &reply);
    while (read == REDIS_OK && reply && !c->doomed) {
        leader_redis_take_reply_(c, (const redisReply *)reply);
        freeReplyObject(reply);
        reply = NULL;
        if (!c->doomed) {
            read = redisReaderGetReply(c->reader, &reply);
        }
    }
    if (read != REDIS_OK && c->reader->err == REDIS_ERR_PROTOCOL) {
        char said[80];
        leader_redis_plain_(said, sizeof said, c->reader->errstr);
        leader_redis_blame_(c, LEADER_E_IO, "%s (not a Redis server?)", said);
        c->doomed = true;
    } else if (read != REDIS_OK) {
        leader_redis_blame_(c, LEADER_E_IO, "a reply that is too large, or no memory for it");
        c->doomed = true;
    } else if (!c->doomed && c->reader->len - c->reader->pos > LEADER_REDIS_REPLY_MAX_) {
        leader_redis_blame_(c, LEADER_E_IO, "a reply longer than %d bytes", LEADER_REDIS_REPLY_MAX_);
        c->doomed = true;
    }
}

/* Reads what has come, but not for ever: a server that never stops talking must not keep the tick. */
static void leader_redis_receive_(leader_redis_conn_ *c) {
    enum { ROUNDS = 64 };
    char bytes[16384];
    for (int round = 0; round < ROUNDS && c->fd >= 0 && !c->doomed; round++) {
        ssize_t n = recv(c->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return;
        }
        if (n <= 0) {
            const char *reason = n == 0 ? "the server closed the connection" : strerror(errno);
            leader_redis_blame_(c, LEADER_E_IO, "%s", reason);
            c->doomed = true;
            return;
        }
        if (c->ssl) {
            leader_redis_tls_read_(c, bytes, (size_t)n);
        } else {
            leader_redis_feed_(c, bytes, (size_t)n);
        }
        if ((size_t)n < sizeof bytes) {
            return;
        }
    }
}

/* ---- connections ----------------------------------------------------------------------------------- */

/* Tells the carrier's loop what to watch: always before the descriptor is closed. */
static void leader_redis_tell_(leader_redis_conn_ *c, int fd, int events) {
    leader_redis_election *carrier = c->client->first;
    if (!carrier || (c->told_fd == fd && c->told == events)) {
        return;
    }
    if (c->told_fd >= 0 && (c->told_fd != fd || events == 0)) {
        carrier->host.fd(carrier->host.core, c->told_fd, 0);
        c->told_fd = -1;
        c->told = 0;
    }
    if (fd >= 0 && events != 0) {
        carrier->host.fd(carrier->host.core, fd, events);
        c->told_fd = fd;
        c->told = events;
    }
}

static void leader_redis_untell_(leader_redis_conn_ *c) { leader_redis_tell_(c, -1, 0); }

/* What the loop is to watch now. */
static void leader_redis_retell_(leader_redis_conn_ *c) {
    if (c->stage == LEADER_REDIS_CLOSED_) {
        leader_redis_untell_(c);
    } else if (c->stage == LEADER_REDIS_RESOLVING_) {
        leader_redis_tell_(c, c->lookup.fd, LEADER_READ);
    } else if (c->stage == LEADER_REDIS_CONNECTING_) {
        leader_redis_tell_(c, c->fd, LEADER_WRITE);
    } else {
        int more = c->out_len > 0 ? LEADER_WRITE : 0;
        leader_redis_tell_(c, c->fd, LEADER_READ | more);
    }
}

/* The buffers and the socket go; requests that wait for replies are left to the caller. */
static void leader_redis_free_conn_(leader_redis_conn_ *c) {
    leader_redis_lookup_end_(&c->lookup);
    if (c->fd >= 0) {
        close(c->fd);
    }
    if (c->reader) {
        redisReaderFree(c->reader);
    }
    leader_redis_tls_end_(c);
    free(c->out);
    free(c->due);
    c->fd = -1;
    c->reader = NULL;
    c->out = NULL;
    c->due = NULL;
    c->out_len = 0;
    c->out_cap = 0;
    c->due_first = 0;
    c->due_count = 0;
    c->due_cap = 0;
    c->greetings = 0;
    c->doomed = false;
    c->stage = LEADER_REDIS_CLOSED_;
}

static void leader_redis_set_options_(int fd) {
    int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
#if defined(SO_NOSIGPIPE)
    (void)setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
#if defined(TCP_KEEPIDLE) && defined(TCP_KEEPINTVL) && defined(TCP_KEEPCNT)
    int idle = 15;                      // a dead notice connection is found in 30 s
    int interval = 5;
    int count = 3;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
#endif
}

/* A socket that is on its way to this address; false, with errno: it is not. */
static bool leader_redis_dial_(leader_redis_conn_ *c, struct sockaddr *to, socklen_t len) {
    c->fd = socket(to->sa_family, SOCK_STREAM, 0);
    if (c->fd < 0) {
        return false;
    }
    leader_redis_set_options_(c->fd);
    bool started = leader_redis_set_flags_(c->fd) && connect(c->fd, to, len) == 0;
    if (started || errno == EINPROGRESS) {
        return true;
    }
    int error = errno;
    close(c->fd);
    c->fd = -1;
    errno = error;
    return false;
}

static bool leader_redis_dial_path_(leader_redis_conn_ *c, const char *path) {
    struct sockaddr_un to;
    memset(&to, 0, sizeof to);
    to.sun_family = AF_UNIX;
    memcpy(to.sun_path, path, strlen(path) + 1);
    return leader_redis_dial_(c, (struct sockaddr *)(void *)&to, sizeof to);
}

static bool leader_redis_dial_address_(leader_redis_conn_ *c, const char *address) {
    struct sockaddr_storage to;
    socklen_t len = leader_redis_sockaddr_(&to, address, c->target.port);
    return leader_redis_dial_(c, (struct sockaddr *)(void *)&to, len);
}

static bool leader_redis_goes_by_path_(const leader_redis_conn_ *c) {
    return c->client->path[0] && c != &c->client->guide;
}

/* Starts with the next address; if none is left, the connection is doomed. */
static void leader_redis_next_address_(leader_redis_conn_ *c) {
    leader_redis_client *r = c->client;
    bool by_path = leader_redis_goes_by_path_(c);
    leader_redis_untell_(c);
    if (c->fd >= 0) {
        close(c->fd);
        c->fd = -1;
    }
    c->stage = LEADER_REDIS_CONNECTING_;
    int count = by_path ? 1 : c->lookup.count;
    while (c->next_address < count) {
        int64_t left_ms = c->deadline_ms - r->now_ms;
        c->address_deadline_ms = r->now_ms + left_ms / (count - c->next_address);
        int index = c->next_address;
        c->next_address++;
        bool started = false;
        if (by_path) {
            started = leader_redis_dial_path_(c, r->path);
        } else {
            started = leader_redis_dial_address_(c, c->lookup.found[index]);
        }
        if (started) {
            return;
        }
        leader_redis_blame_(c, LEADER_E_IO, "%s", strerror(errno));
    }
    leader_redis_blame_(c, LEADER_E_IO, "no address is known for this name");
    c->doomed = true;
}

/* The last good address stands in for a name that cannot be resolved. */
static void leader_redis_resolved_(leader_redis_conn_ *c) {
    leader_redis_client *r = c->client;
    leader_redis_untell_(c);
    leader_redis_lookup_end_(&c->lookup);
    if (c->lookup.count == 0 && strcmp(c->target.host, r->good_host) == 0) {
        leader_redis_add_address_(&c->lookup, r->good_address);
    }
    c->next_address = 0;
    c->deadline_ms = r->now_ms + c->timeout_ms;
    leader_redis_next_address_(c);
}

static void leader_redis_start_(leader_redis_conn_ *c, const leader_redis_place_ *target,
                                int64_t timeout_ms) {
    enum { LOOKUP_MS = 2400 };          // two rounds over three name servers that say nothing
    leader_redis_client *r = c->client;
    c->target = *target;
    c->timeout_ms = timeout_ms;
    c->deadline_ms = r->now_ms + LOOKUP_MS + timeout_ms;
    c->stage = LEADER_REDIS_RESOLVING_;
    c->reader = redisReaderCreate();
    if (!c->reader) {
        leader_redis_no_memory_(c);
        return;
    }
    c->builtin = c->reader->fn;
    c->reader->fn = &leader_redis_reader_;
    c->reader->privdata = c;
    bool again = r->failures <= 1 && strcmp(target->host, r->good_host) == 0;
    const char *host = again ? r->good_address : target->host;
    if (leader_redis_goes_by_path_(c) || leader_redis_lookup_start_(&c->lookup, host, r->now_ms)) {
        leader_redis_resolved_(c);
    }
}

/* connect() has come to an end, good or bad. */
static void leader_redis_connected_(leader_redis_conn_ *c) {
    LEADER_ASSERT(c->fd >= 0);
    int error = 0;
    socklen_t len = sizeof error;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0) {
        error = errno;
    }
    if (error != 0) {
        leader_redis_blame_(c, LEADER_E_IO, "%s", strerror(error));
        leader_redis_next_address_(c);
        return;
    }
    if (c->client->tls) {
        c->stage = LEADER_REDIS_SHAKING_;
        leader_redis_tls_start_(c);
    } else {
        c->stage = LEADER_REDIS_GREETING_;
        leader_redis_greet_(c);
    }
}

/* A socket that was given up for dead must not deliver its leftovers when the network heals. */
static void leader_redis_abort_(leader_redis_conn_ *c) {
    struct linger now = {1, 0};
    if (c->fd >= 0) {
        (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    c->doomed = true;
}

static void leader_redis_check_deadlines_(leader_redis_conn_ *c) {
    int64_t now_ms = c->client->now_ms;
    if (c->stage == LEADER_REDIS_CLOSED_ || c->stage == LEADER_REDIS_READY_ || c->doomed) {
        return;
    }
    if (now_ms >= c->deadline_ms) {
        const char *reason = "no connection in time";
        if (c->stage > LEADER_REDIS_CONNECTING_) {
            reason = "no answer in time";
        }
        leader_redis_blame_(c, LEADER_E_TIMEOUT, "%s", reason);
        leader_redis_abort_(c);
        return;
    }
    bool late = c->stage == LEADER_REDIS_CONNECTING_ && now_ms >= c->address_deadline_ms;
    if (late && c->next_address < c->lookup.count) {
        leader_redis_next_address_(c);
    }
}

/* ---- request ends ---------------------------------------------------------------------------------- */

static void leader_redis_fall_due_(leader_redis_election *e) {
    if (e != e->client->caller) {
        e->host.due(e->host.core);
    }
}

static void leader_redis_set_phase_(leader_redis_election *e, int phase) {
    leader_redis_client *r = e->client;
    if (e->phase == LEADER_REDIS_WAITING_) {
        LEADER_ASSERT(r->waiting > 0);
        r->waiting--;
    }
    if (phase == LEADER_REDIS_WAITING_) {
        r->waiting++;
    }
    e->phase = phase;
}

static void leader_redis_drop_(char **kept) {
    free(*kept);
    *kept = NULL;
}

/* Puts a copy of the text in the place of the one before. Most elections never have one, so there is no
   room for it in the struct. False: there is no memory, and it is "" now. */
static bool leader_redis_keep_(char **kept, const char *text) {
    size_t len = strlen(text);
    if (*kept && strcmp(*kept, text) == 0) {
        return true;
    }
    leader_redis_drop_(kept);
    if (len == 0) {
        return true;
    }
    *kept = (char *)malloc(len + 1);
    if (*kept) {
        memcpy(*kept, text, len + 1);
    }
    return *kept != NULL;
}

static const char *leader_redis_kept_(const char *kept) {
    return kept ? kept : "";
}

static void leader_redis_finish_(leader_redis_election *e, leader_result result, const char *text) {
    leader_redis_set_phase_(e, LEADER_REDIS_DONE_);
    e->result = result;
    e->shared_error = false;
    leader_redis_keep_(&e->error, text);      // without memory leader.h says what it can
    leader_redis_fall_due_(e);
}

/* An error of the store says nothing about the lease. */
static void leader_redis_fail_(leader_redis_election *e, leader_result result, const char *text) {
    e->token = 0;
    e->expires_in_ms = 0;
    e->record.holder[0] = 0;
    leader_redis_finish_(e, result, text);
}

/* The server cannot be reached: the client's error, which is the same for all its elections. */
static void leader_redis_fail_shared_(leader_redis_election *e) {
    leader_redis_client *r = e->client;
    leader_redis_fail_(e, r->why_result, r->why);
    e->shared_error = true;
}

/* Back to the start, for another server or with the script's text: leader.h calls again with the same
   request. */
static void leader_redis_again_(leader_redis_election *e) {
    leader_redis_set_phase_(e, LEADER_REDIS_WAITING_);
    leader_redis_fall_due_(e);
}

static bool leader_redis_awaits_(const leader_redis_due_ *due) {
    const leader_redis_election *e = due->election;
    if (!e || e->serial != due->serial) {
        return false;                   // closed, or given up
    }
    if (due->kind == LEADER_REDIS_SCRIPT_) {
        return e->phase == LEADER_REDIS_SENT_;
    }
    return e->phase == LEADER_REDIS_REPLICATING_;
}

/* ---- answers --------------------------------------------------------------------------------------- */

static bool leader_redis_port_(const char *text, int *port) {
    size_t len = strlen(text);
    if (len == 0 || len > 5 || strspn(text, "0123456789") != len) {
        return false;
    }
    int n = atoi(text);
    if (n < 1 || n > 65535) {
        return false;
    }
    *port = n;
    return true;
}

/* "MOVED 3999 10.0.0.9:6381", "ASK 3999 10.0.0.9:6381"; no host: the same one. */
static bool leader_redis_read_redirection_(leader_redis_client *r, const char *text) {
    const char *slot = strchr(text, ' ');
    const char *at = slot ? strchr(slot + 1, ' ') : NULL;
    const char *colon = at ? strrchr(at, ':') : NULL;
    leader_redis_place_ to;
    if (!colon || (size_t)(colon - at) > sizeof to.host) {
        return false;
    }
    if (!leader_redis_port_(colon + 1, &to.port)) {
        return false;
    }
    snprintf(to.host, sizeof to.host, "%.*s", (int)(colon - at - 1), at + 1);
    if (!to.host[0]) {
        memcpy(to.host, r->target.host, sizeof to.host);
    }
    r->moved = to;
    return true;
}

/* Is this a redirection to follow? Each kind once per request: a cluster that cannot make up its mind
   must not keep us. */
static bool leader_redis_follow_(leader_redis_election *e, const char *text) {
    leader_redis_client *r = e->client;
    bool moved = strncmp(text, "MOVED ", 6) == 0 && !e->moved;
    bool ask = strncmp(text, "ASK ", 4) == 0 && !e->asked;
    if ((!moved && !ask) || r->path[0] || !leader_redis_read_redirection_(r, text)) {
        return false;
    }
    e->moved = e->moved || moved;
    e->asked = e->asked || ask;
    e->asking = ask;
    leader_redis_again_(e);
    leader_redis_blame_(&r->main, LEADER_E_IO, "the cluster sends us to %.60s:%d", r->moved.host,
                        r->moved.port);
    r->main.doomed = true;
    return true;
}

static void leader_redis_refused_(leader_redis_election *e, const redisReply *reply) {
    leader_redis_client *r = e->client;
    if (strncmp(reply->str, "NOSCRIPT", 8) == 0 && !e->by_text) {
        e->by_text = true;
        leader_redis_again_(e);
        return;
    }
    if (leader_redis_follow_(e, reply->str)) {
        return;
    }
    leader_redis_error_ error = leader_redis_judge_(reply->str);
    char place[80];
    leader_redis_place_text_(&r->main, place, sizeof place);
    char said[120];
    leader_redis_plain_(said, sizeof said, leader_redis_reason_(reply->str));
    const char *reason = error.advice ? error.advice : said;
    const char *says = error.advice ? "" : " says";
    char text[LEADER_REDIS_TEXT_MAX_ + 1];
    snprintf(text, sizeof text, "%s%s: %s", place, says, reason);
    leader_redis_fail_(e, error.result, text);
    if (error.drop) {
        leader_redis_blame_(&r->main, error.result, "%s", reason);
        r->main.doomed = true;
    }
}

static bool leader_redis_is_text_(const redisReply *reply, size_t most) {
    return reply->type == REDIS_REPLY_STRING && reply->len <= most && !memchr(reply->str, 0, reply->len);
}

static bool leader_redis_is_count_(const redisReply *reply) {
    if (reply->type != REDIS_REPLY_INTEGER || reply->integer < 0) {
        return false;
    }
    return (uint64_t)reply->integer < leader_redis_token_end_;
}

static bool leader_redis_is_utf8_(const char *text) {
    size_t len = strlen(text);
    size_t width = 1;
    for (size_t at = 0; at < len && width > 0; at += width) {
        width = leader_utf8_(text + at, len - at);
    }
    return width > 0;
}

/* Of a value that is not ours, what may be shown as a name. */
static bool leader_redis_is_showable_(const char *text) {
    for (const char *p = text; *p; p++) {
        if ((unsigned char)*p < ' ' || *p == 127) {
            return false;
        }
    }
    return text[0] && strlen(text) <= LEADER_IDENTITY_MAX && leader_redis_is_utf8_(text);
}

/* Reads a number of so many digits (0: any), and the space behind it. */
static bool leader_redis_read_number_(const char **at, int base, size_t digits, uint64_t *out) {
    size_t len = strspn(*at, base == 16 ? "0123456789abcdefABCDEF" : "0123456789");
    bool fits = len > 0 && len <= 20 && (digits == 0 || len == digits);
    if (!fits || (*at)[len] != ' ') {
        return false;
    }
    errno = 0;
    *out = strtoull(*at, NULL, base);
    *at += len + 1;
    return errno == 0;
}

/* "/length value " */
static bool leader_redis_read_value_(const char **at, char out[LEADER_VALUE_MAX + 1]) {
    uint64_t length = 0;
    *at += 1;
    if (!leader_redis_read_number_(at, 10, 0, &length) || length == 0 || length > LEADER_VALUE_MAX) {
        return false;
    }
    if (strlen(*at) <= length || (*at)[length] != ' ') {
        return false;
    }
    memcpy(out, *at, (size_t)length);
    out[length] = 0;
    *at += length + 1;
    return leader_redis_is_utf8_(out);
}

/* The length of a lease ends with a space, or with the slash before a value. */
static bool leader_redis_read_lease_(const char **at, uint64_t *out, char value[LEADER_VALUE_MAX + 1]) {
    size_t digits = strspn(*at, "0123456789");
    if (digits == 0 || digits > 20) {
        return false;
    }
    errno = 0;
    *out = strtoull(*at, NULL, 10);
    if (errno != 0) {
        return false;
    }
    *at += digits;
    if ((*at)[0] == ' ') {
        *at += 1;
        return true;
    }
    return (*at)[0] == '/' && leader_redis_read_value_(at, value);
}

static bool leader_redis_read_record_(const char *text, leader_redis_record_ *out,
                                      char value[LEADER_VALUE_MAX + 1]) {
    const char *at = text;
    uint64_t lease_ms = 0;
    memset(out, 0, sizeof *out);
    value[0] = 0;
    bool good = leader_redis_read_number_(&at, 10, 0, &out->token);
    good = good && leader_redis_read_number_(&at, 10, 20, &out->seq);
    good = good && leader_redis_read_number_(&at, 16, 16, &out->nonce);
    good = good && leader_redis_read_lease_(&at, &lease_ms, value);
    good = good && out->token < leader_redis_token_end_ && lease_ms < leader_redis_token_end_;
    good = good && at[0] && strlen(at) <= LEADER_IDENTITY_MAX && leader_redis_is_utf8_(at);
    if (!good) {
        memset(out, 0, sizeof *out);
        value[0] = 0;
        return false;
    }
    out->lease_ms = (int64_t)lease_ms;
    memcpy(out->holder, at, strlen(at) + 1);
    return true;
}

enum {
    LEADER_REDIS_VALUE_MAX_ = 1 + 3 + 1 + LEADER_VALUE_MAX,
    LEADER_REDIS_NUMBERS_MAX_ = 20 + 1 + 20 + 1 + 16 + 1 + 20,
    LEADER_REDIS_RECORD_MAX_ = LEADER_REDIS_NUMBERS_MAX_ + LEADER_REDIS_VALUE_MAX_ + 1 + LEADER_IDENTITY_MAX
};

/* The value as it stands in a record; "": none. */
static void leader_redis_write_value_(const char *value, char out[LEADER_REDIS_VALUE_MAX_ + 1]) {
    out[0] = 0;
    if (value && value[0]) {
        snprintf(out, LEADER_REDIS_VALUE_MAX_ + 1, "/%d %s", (int)strlen(value), value);
    }
}

/* As the script writes it. */
static void leader_redis_write_record_(const leader_redis_record_ *record, const char *value,
                                       char out[LEADER_REDIS_RECORD_MAX_ + 1]) {
    unsigned long long token = record->token;
    unsigned long long seq = record->seq;
    unsigned long long nonce = record->nonce;
    long long lease_ms = record->lease_ms;
    char written[LEADER_REDIS_VALUE_MAX_ + 1];
    leader_redis_write_value_(value, written);
    snprintf(out, LEADER_REDIS_RECORD_MAX_ + 1, "%llu %020llu %016llx %lld%s %s", token, seq, nonce, lease_ms,
             written, record->holder);
}

/* What a word means, after which requests it can come, and whether a record belongs to it. */
typedef struct leader_redis_word_ {
    const char   *word;
    leader_result result;
    unsigned      ops;                  // bits
} leader_redis_word_;

enum {
    LEADER_REDIS_TO_ACQUIRE_ = 1 << LEADER_REDIS_ACQUIRE_,
    LEADER_REDIS_TO_RENEW_ = 1 << LEADER_REDIS_RENEW_,
    LEADER_REDIS_TO_RELEASE_ = 1 << LEADER_REDIS_RELEASE_,
    LEADER_REDIS_TO_OBSERVE_ = 1 << LEADER_REDIS_OBSERVE_,
    LEADER_REDIS_TO_LOOK_ = LEADER_REDIS_TO_ACQUIRE_ | LEADER_REDIS_TO_OBSERVE_,
    LEADER_REDIS_TO_KEEP_ = LEADER_REDIS_TO_RENEW_ | LEADER_REDIS_TO_RELEASE_
};
static const leader_redis_word_ leader_redis_words_[] = {
    {"OK",        LEADER_OK,          LEADER_REDIS_TO_ACQUIRE_ | LEADER_REDIS_TO_KEEP_},
    {"HELD",      LEADER_HELD,        LEADER_REDIS_TO_LOOK_},
    {"SAME",      LEADER_HELD,        LEADER_REDIS_TO_LOOK_},
    {"FOREIGN",   LEADER_HELD,        LEADER_REDIS_TO_LOOK_},
    {"WAIT",      LEADER_HELD,        LEADER_REDIS_TO_ACQUIRE_},
    {"FREE",      LEADER_OK,          LEADER_REDIS_TO_OBSERVE_},
    {"LOST",      LEADER_LOST,        LEADER_REDIS_TO_KEEP_},
    {"DUPLICATE", LEADER_E_DUPLICATE, LEADER_REDIS_TO_ACQUIRE_},
    {"CORRUPT",   LEADER_E_CORRUPT,   LEADER_REDIS_TO_LOOK_},
};

static const leader_redis_word_ *leader_redis_find_word_(const char *text, int op) {
    for (size_t i = 0; i < sizeof leader_redis_words_ / sizeof leader_redis_words_[0]; i++) {
        const leader_redis_word_ *word = &leader_redis_words_[i];
        bool fits = (word->ops >> op & 1u) != 0;
        if (fits && strcmp(text, word->word) == 0) {
            return word;
        }
    }
    return NULL;
}

/* Is it the answer to this request? Another's must not count, however it came here. */
static bool leader_redis_names_us_(const leader_redis_election *e, redisReply **item) {
    char nonce[20];
    char seq[24];
    snprintf(nonce, sizeof nonce, "%016llx", (unsigned long long)e->nonce);
    snprintf(seq, sizeof seq, "%020llu", (unsigned long long)e->seq);
    bool same_key = strcmp(item[5]->str, e->key) == 0;
    bool same_nonce = strcmp(item[6]->str, nonce) == 0;
    bool same_seq = strcmp(item[7]->str, seq) == 0;
    return same_key && same_nonce && same_seq;
}

static bool leader_redis_is_answer_(const redisReply *reply) {
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 9) {
        return false;
    }
    static const size_t text_max[9] = {                       // 0: a number
        16, 0, 0, 0, LEADER_REDIS_REPLY_MAX_, 255, 16, 20, LEADER_REDIS_MARK_MAX_
    };
    for (size_t i = 0; i < 9; i++) {
        const redisReply *item = reply->element[i];
        bool good = text_max[i] > 0 ? leader_redis_is_text_(item, text_max[i]) : leader_redis_is_count_(item);
        if (!good) {
            return false;
        }
    }
    return true;
}

/* The record that a success speaks of must be the one that this request made or renewed. */
static bool leader_redis_is_our_term_(const leader_redis_election *e, const leader_redis_record_ *record) {
    if (record->nonce != e->nonce || strcmp(record->holder, e->host.config->identity) != 0) {
        return false;
    }
    if (e->op == LEADER_REDIS_ACQUIRE_) {
        return record->seq == e->seq && record->token > 0;
    }
    return record->seq == e->term_seq && record->token == e->term_token;
}

/* The nine elements of the script's answer, or nothing: false. */
static bool leader_redis_read_answer_(leader_redis_election *e, const redisReply *reply) {
    if (!leader_redis_is_answer_(reply) || !leader_redis_names_us_(e, reply->element)) {
        return false;
    }
    redisReply **item = reply->element;
    const leader_redis_word_ *word = leader_redis_find_word_(item[0]->str, e->op);
    if (!word) {
        return false;
    }
    e->result = word->result;
    e->token = (uint64_t)item[1]->integer;
    e->expires_in_ms = item[2]->integer;
    e->longest_ms = leader_max_(e->longest_ms, item[3]->integer);
    if (strcmp(word->word, "SAME") == 0) {
        e->token = e->record.token;
        return e->record.holder[0] != 0;
    }
    leader_redis_record_ record;
    char value[LEADER_VALUE_MAX + 1];
    bool readable = leader_redis_read_record_(item[4]->str, &record, value);
    bool success = e->result == LEADER_OK && (e->op == LEADER_REDIS_ACQUIRE_ || e->op == LEADER_REDIS_RENEW_);
    if (success && !(readable && leader_redis_is_our_term_(e, &record))) {
        return false;
    }
    e->record = record;
    if (item[8]->len > 0) {
        memcpy(e->born, item[8]->str, item[8]->len + 1);
    }
    leader_redis_keep_(&e->seen_value, value);    // without memory the next look is told all afresh
    if (readable) {
        e->token = record.token;
        e->longest_ms = leader_max_(e->longest_ms, record.lease_ms);
    } else if (item[4]->len > 0 && leader_redis_is_showable_(item[4]->str)) {
        memcpy(e->record.holder, item[4]->str, item[4]->len + 1);
    }
    return true;
}

/* A program that does not know leader.h holds the key: say so once. */
static void leader_redis_note_foreign_(leader_redis_election *e) {
    bool foreign = e->result == LEADER_HELD && e->record.seq == 0 && e->record.holder[0];
    if (foreign && !e->foreign_said) {
        char text[LEADER_REDIS_TEXT_MAX_ + 1];
        snprintf(text, sizeof text, "Redis key %.60s holds a value that is not a record of leader.h: "
                 "held by another program for %lld ms", e->key, (long long)e->expires_in_ms);
        e->host.log(e->host.core, LEADER_LOG_WARN, text);
    }
    e->foreign_said = foreign;
}

static void leader_redis_answered_(leader_redis_election *e, const redisReply *reply) {
    static const char strange[] = "the reply is not the script's answer to this request";
    leader_redis_client *r = e->client;
    if (reply->type == REDIS_REPLY_ERROR) {
        leader_redis_refused_(e, reply);
        return;
    }
    if (!leader_redis_read_answer_(e, reply)) {
        leader_redis_fail_(e, LEADER_E_CORRUPT, strange);
        leader_redis_blame_(&r->main, LEADER_E_IO, "%s", strange);
        r->main.doomed = true;
        return;
    }
    bool written = e->result == LEADER_OK && e->op <= LEADER_REDIS_RENEW_;
    if (written && r->wait_replicas > 0) {
        e->phase = LEADER_REDIS_REPLICATING_;
        return;
    }
    if (e->result == LEADER_E_DUPLICATE && e->may_reclaim && !e->reclaims) {
        e->reclaims = true;
        leader_redis_again_(e);
        return;
    }
    const char *text = "";
    if (e->result == LEADER_E_DUPLICATE) {
        text = "another process holds the lease under this identity";
    } else if (e->result == LEADER_E_CORRUPT) {
        text = "the lease or its witness in Redis cannot be read";
    }
    leader_redis_finish_(e, e->result, text);
}

static void leader_redis_replicated_(leader_redis_election *e, const redisReply *reply) {
    leader_redis_client *r = e->client;
    if (reply->type == REDIS_REPLY_INTEGER && reply->integer >= r->wait_replicas) {
        leader_redis_finish_(e, LEADER_OK, "");
        return;
    }
    char place[80];
    leader_redis_place_text_(&r->main, place, sizeof place);
    char text[LEADER_REDIS_TEXT_MAX_ + 1];
    if (reply->type == REDIS_REPLY_INTEGER) {
        snprintf(text, sizeof text, "%s: %lld of wait_replicas (%d) have the write", place, reply->integer,
                 r->wait_replicas);
    } else {
        const char *answer = reply->type == REDIS_REPLY_ERROR ? reply->str : "not a number";
        char said[60];
        leader_redis_plain_(said, sizeof said, answer);
        snprintf(text, sizeof text, "%s says to WAIT: %s", place, said);
    }
    leader_redis_fail_(e, LEADER_E_STORE, text);
}

/* ---- sending --------------------------------------------------------------------------------------- */

static bool leader_redis_has_tag_(const char *key) {
    const char *open = strchr(key, '{');
    const char *close = open ? strchr(open, '}') : NULL;
    return close && close > open + 1;
}

enum { LEADER_REDIS_KEY_MAX_ = 255, LEADER_REDIS_WITNESS_MAX_ = 2 * LEADER_REDIS_KEY_MAX_ + 16 };

/* In the slot of the key, and under every prefix that the key has: a key without a hash tag is the tag of
   its witness. */
static void leader_redis_witness_(const char *key, char out[LEADER_REDIS_WITNESS_MAX_ + 1]) {
    if (leader_redis_has_tag_(key)) {
        snprintf(out, LEADER_REDIS_WITNESS_MAX_ + 1, "%s:witness", key);
    } else {
        snprintf(out, LEADER_REDIS_WITNESS_MAX_ + 1, "%s:witness:{%s}", key, key);
    }
}

enum { LEADER_REDIS_CHANNEL_MAX_ = LEADER_REDIS_KEY_MAX_ + 16 };

/* Channels know no databases, so the name has the number. */
static void leader_redis_channel_(const leader_redis_election *e, char out[LEADER_REDIS_CHANNEL_MAX_ + 1]) {
    snprintf(out, LEADER_REDIS_CHANNEL_MAX_ + 1, "%s@%d", e->key, e->client->db);
}

/* The record of our term, with this value. */
static void leader_redis_own_(const leader_redis_election *e, const leader_request *request,
                              const char *value, char out[LEADER_REDIS_RECORD_MAX_ + 1]) {
    leader_redis_record_ own;
    memset(&own, 0, sizeof own);
    own.token = e->term_token;
    own.seq = e->term_seq;
    own.nonce = e->nonce;
    own.lease_ms = request->lease_ms;
    memcpy(own.holder, request->identity, strlen(request->identity) + 1);
    leader_redis_write_record_(&own, value, out);
}

/* The value that this request is to write, until it is answered. */
static void leader_redis_change_value_(leader_redis_election *e, const char *value) {
    e->changes_value = leader_redis_keep_(&e->next_value, value);
    if (!e->changes_value) {
        leader_redis_no_memory_(&e->client->main);
    }
}

/* What the script is to write: see ARGV 14. Only one change of the value is under way at a time. */
static void leader_redis_new_value_(leader_redis_election *e, const leader_request *request,
                                    char out[LEADER_REDIS_RECORD_MAX_ + 1]) {
    const char *value = request->value ? request->value : "";
    out[0] = 0;
    if (e->op == LEADER_REDIS_ACQUIRE_) {
        leader_redis_change_value_(e, value);
        leader_redis_write_value_(value, out);
    }
    bool names_heir = e->op == LEADER_REDIS_RELEASE_ && request->heir && request->heir[0];
    if (names_heir) {
        long long wait_ms = e->host.config->retry_ms;
        snprintf(out, LEADER_REDIS_RECORD_MAX_ + 1, "%lld %s", wait_ms, request->heir);
    }
    if (e->op != LEADER_REDIS_RENEW_) {
        return;
    }
    if (!e->changes_value && strcmp(value, leader_redis_kept_(e->value)) != 0) {
        leader_redis_change_value_(e, value);
    }
    if (e->changes_value) {
        leader_redis_own_(e, request, leader_redis_kept_(e->next_value), out);
    }
}

/* The record as we know it, to be compared in the server; "": none that settles anything. */
static void leader_redis_known_(const leader_redis_election *e, const leader_request *request,
                                char out[LEADER_REDIS_RECORD_MAX_ + 1]) {
    out[0] = 0;
    if (e->op == LEADER_REDIS_RENEW_) {
        leader_redis_own_(e, request, leader_redis_kept_(e->value), out);
        return;
    }
    bool others = e->record.seq != 0 && strcmp(e->record.holder, request->identity) != 0;
    if ((others || e->reclaims) && e->op != LEADER_REDIS_RELEASE_) {
        leader_redis_write_record_(&e->record, leader_redis_kept_(e->seen_value), out);
    }
}

/* Who starts cautiously takes every witness for one that was made because another was forgotten. */
static const char *leader_redis_mark_(const leader_redis_election *e) {
    bool cautious = e->host.config->cautious_start && !e->born[0];
    return cautious ? "0" : e->born;
}

static void leader_redis_send_script_(leader_redis_election *e, const leader_request *request) {
    leader_redis_client *r = e->client;
    bool by_text = e->by_text || !r->taught;        // the first request of a connection teaches the server
    r->taught = true;
    char witness[LEADER_REDIS_WITNESS_MAX_ + 1];
    leader_redis_witness_(e->key, witness);
    char channel[LEADER_REDIS_CHANNEL_MAX_ + 1];
    leader_redis_channel_(e, channel);
    char known[LEADER_REDIS_RECORD_MAX_ + 1];
    leader_redis_known_(e, request, known);
    char value[LEADER_REDIS_RECORD_MAX_ + 1];
    leader_redis_new_value_(e, request, value);
    char nonce[20], seq[24], lease[24], length[24], settled[24], term[24], min_token[24], longest[24];
    snprintf(nonce, sizeof nonce, "%016llx", (unsigned long long)request->nonce);
    snprintf(seq, sizeof seq, "%020llu", (unsigned long long)request->seq);
    snprintf(lease, sizeof lease, "%lld", (long long)request->lease_ms);
    snprintf(length, sizeof length, "%lld", (long long)e->record.lease_ms);
    snprintf(settled, sizeof settled, "%020llu", (unsigned long long)e->settled_seq);
    snprintf(term, sizeof term, "%llu", (unsigned long long)e->term_token);
    snprintf(min_token, sizeof min_token, "%llu", (unsigned long long)request->min_token);
    snprintf(longest, sizeof longest, "%lld", (long long)e->longest_ms);
    const char *command = by_text ? "EVAL" : "EVALSHA";
    const char *script = by_text ? leader_redis_script_text_ : leader_redis_script_sha1_;
    const char *reclaim = e->reclaims ? "1" : "0";
    const char *mark = leader_redis_mark_(e);
    const char *argv[] = {
        command, script, "2", e->key, witness, leader_redis_ops_[e->op], request->identity, nonce, seq, lease,
        known, length, settled, term, min_token, longest, reclaim, channel, value, mark
    };
    leader_redis_write_(&r->main, (int)(sizeof argv / sizeof argv[0]), argv);
    leader_redis_expect_(&r->main, LEADER_REDIS_SCRIPT_, e);
}

static void leader_redis_send_wait_(leader_redis_election *e, const leader_request *request) {
    char replicas[16];
    snprintf(replicas, sizeof replicas, "%d", e->client->wait_replicas);
    int64_t wait_ms = leader_max_(1, request->timeout_ms / 2);
    char ms[24];
    snprintf(ms, sizeof ms, "%lld", (long long)wait_ms);
    const char *argv[] = {"WAIT", replicas, ms};
    leader_redis_write_(&e->client->main, 3, argv);
    leader_redis_expect_(&e->client->main, LEADER_REDIS_REPLICAS_, e);
}

static void leader_redis_send_(leader_redis_election *e, const leader_request *request) {
    leader_redis_client *r = e->client;
    LEADER_ASSERT(r->main.stage == LEADER_REDIS_READY_ && e->phase == LEADER_REDIS_WAITING_);
    bool alone = r->main.due_count == 0;
    e->serial++;
    e->outdated = false;
    if (e->asking) {
        const char *argv[] = {"ASKING"};
        leader_redis_write_(&r->main, 1, argv);
        leader_redis_expect_(&r->main, LEADER_REDIS_ASKED_, NULL);
        e->asking = false;
    }
    leader_redis_send_script_(e, request);
    if (r->wait_replicas > 0 && e->op <= LEADER_REDIS_RENEW_) {
        leader_redis_send_wait_(e, request);
    }
    leader_redis_set_phase_(e, LEADER_REDIS_SENT_);
    if (e->op == LEADER_REDIS_ACQUIRE_) {
        e->sent_acquire = true;
    }
    if (e->op == LEADER_REDIS_ACQUIRE_ || e->op == LEADER_REDIS_OBSERVE_) {
        r->looked_ms = r->now_ms;
    }
    if (alone) {                        // behind others it leaves with the batch, at the carrier's next tick
        leader_redis_flush_(&r->main);
    }
}

/* A look at a lease that is held for a while can wait for a sign of life. One that may win it cannot, unless
   the server fell silent: it might carry it out much later, for a candidate that is gone. */
static bool leader_redis_must_sound_(const leader_redis_election *e) {
    const leader_redis_client *r = e->client;
    bool looks = e->op == LEADER_REDIS_ACQUIRE_ || e->op == LEADER_REDIS_OBSERVE_;
    int64_t while_ms = e->host.config->retry_ms / 2;
    bool held = e->held_until_ms - r->now_ms > while_ms;
    bool unheard = r->now_ms - r->heard_ms >= while_ms;
    return looks && (r->silent || r->sounding || (held && unheard));
}

static void leader_redis_sound_(leader_redis_client *r) {
    if (r->sounding) {
        return;
    }
    const char *argv[] = {"TIME"};
    leader_redis_write_(&r->main, 1, argv);
    leader_redis_expect_(&r->main, LEADER_REDIS_SOUNDED_, NULL);
    leader_redis_flush_(&r->main);
    r->sounding = true;
    r->looked_ms = r->now_ms;           // the look comes right after it: the other standbys need not
}

/* ---- greetings ------------------------------------------------------------------------------------- */

static void leader_redis_ready_(leader_redis_conn_ *c);

static void leader_redis_greet_with_(leader_redis_conn_ *c, int kind, int argc, const char **argv) {
    leader_redis_write_(c, argc, argv);
    leader_redis_expect_(c, kind, NULL);
    c->greetings++;
}

/* The first line of the file; false: it cannot be read. */
static bool leader_redis_read_password_(const char *path, char *out, size_t cap) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return false;
    }
    ssize_t n = read(fd, out, cap - 1);
    int error = errno;
    close(fd);
    errno = error;
    if (n < 0) {
        return false;
    }
    out[n] = 0;
    out[strcspn(out, "\r\n")] = 0;
    return true;
}

static void leader_redis_greet_auth_(leader_redis_conn_ *c) {
    leader_redis_client *r = c->client;
    bool sentinel = c == &r->guide;
    const char *user = sentinel ? r->sentinel_username : r->username;
    const char *secret = sentinel ? r->sentinel_password : r->password;
    char from_file[256];
    if (!sentinel && r->password_file[0]) {
        secret = from_file;
        if (!leader_redis_read_password_(r->password_file, from_file, sizeof from_file)) {
            const char *reason = strerror(errno);
            leader_redis_blame_(c, LEADER_E_AUTH, "password_file (%.60s): %s", r->password_file, reason);
            c->doomed = true;
            return;
        }
    }
    if (!secret[0]) {
        return;
    }
    if (user[0]) {
        const char *argv[] = {"AUTH", user, secret};
        leader_redis_greet_with_(c, LEADER_REDIS_AUTH_, 3, argv);
    } else {
        const char *argv[] = {"AUTH", secret};
        leader_redis_greet_with_(c, LEADER_REDIS_AUTH_, 2, argv);
    }
    memset(from_file, 0, sizeof from_file);
}

/* Does a renewal wait for the connection? It goes into the silence: the next moment may be its last. */
static bool leader_redis_renews_(const leader_redis_client *r) {
    const leader_redis_election *e = r->first;
    while (e && !(e->phase == LEADER_REDIS_WAITING_ && e->op == LEADER_REDIS_RENEW_)) {
        e = e->next;
    }
    return e != NULL;
}

/* AUTH, and then what the connection is for. */
static void leader_redis_greet_(leader_redis_conn_ *c) {
    leader_redis_client *r = c->client;
    leader_redis_greet_auth_(c);
    if (c == &r->guide) {
        const char *argv[] = {"SENTINEL", "get-master-addr-by-name", r->sentinel_name};
        leader_redis_greet_with_(c, LEADER_REDIS_MASTER_, 3, argv);
    }
    if (c == &r->main && r->db != 0) {
        char db[16];
        snprintf(db, sizeof db, "%d", r->db);
        const char *argv[] = {"SELECT", db};
        leader_redis_greet_with_(c, LEADER_REDIS_SELECT_, 2, argv);
    }
    if (c == &r->main && r->sentinel_count > 0) {
        const char *argv[] = {"ROLE"};
        leader_redis_greet_with_(c, LEADER_REDIS_ROLE_, 1, argv);
    }
    if (c == &r->main && r->silent && !leader_redis_renews_(r)) {
        const char *argv[] = {"TIME"};
        leader_redis_greet_with_(c, LEADER_REDIS_HELLO_, 1, argv);
    }
    if (!c->doomed && c->greetings == 0) {
        leader_redis_ready_(c);
    }
    leader_redis_flush_(c);
}

/* An ACL without SUBSCRIBE, say: not worth asking again soon, because polling is enough. */
static void leader_redis_no_notice_(leader_redis_client *r, const char *said) {
    r->watch_retry_at_ms = r->now_ms + 60000;
    r->watch.doomed = true;
    char plain[96];
    leader_redis_plain_(plain, sizeof plain, said);
    char text[LEADER_REDIS_TEXT_MAX_ + 1];
    snprintf(text, sizeof text, "no release notices, polling instead: Redis says: %s", plain);
    if (r->first) {
        r->first->host.log(r->first->host.core, LEADER_LOG_WARN, text);
    }
}

/* A server that does not know AUTH quotes its arguments: of what it says to that, only the code in
   capitals is repeated. */
static void leader_redis_greeting_refused_(leader_redis_conn_ *c, int kind, const redisReply *reply) {
    static const char *const steps[] = {"AUTH", "SELECT", "ROLE", "SENTINEL"};
    leader_redis_error_ error = leader_redis_judge_(reply->str);
    char said[96];
    leader_redis_plain_(said, sizeof said, reply->str);
    if (kind == LEADER_REDIS_AUTH_) {
        said[strspn(said, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")] = 0;
        bool loading = strcmp(said, "LOADING") == 0;
        error.result = loading ? LEADER_E_STORE : LEADER_E_AUTH;
    }
    if (c == &c->client->watch) {
        leader_redis_no_notice_(c->client, said);
    }
    if (error.advice) {
        leader_redis_blame_(c, error.result, "%s", error.advice);
    } else {
        leader_redis_blame_(c, error.result, "%s: it says: %s", steps[kind], said);
    }
    c->doomed = true;
}

static bool leader_redis_is_master_(const redisReply *reply) {
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0) {
        return false;
    }
    return leader_redis_is_text_(reply->element[0], 16) && strcmp(reply->element[0]->str, "master") == 0;
}

/* A sentinel's answer: host and port. */
static bool leader_redis_read_place_(const redisReply *reply, leader_redis_place_ *out) {
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2) {
        return false;
    }
    const redisReply *host = reply->element[0];
    const redisReply *port = reply->element[1];
    if (!leader_redis_is_text_(host, sizeof out->host - 1) || host->len == 0) {
        return false;
    }
    if (!leader_redis_is_text_(port, 5)) {
        return false;
    }
    memcpy(out->host, host->str, host->len + 1);
    return leader_redis_port_(port->str, &out->port);
}

static void leader_redis_greeted_(leader_redis_conn_ *c, int kind, const redisReply *reply) {
    leader_redis_client *r = c->client;
    c->greetings--;
    bool refused = reply->type == REDIS_REPLY_ERROR && kind != LEADER_REDIS_HELLO_;
    if (refused) {
        leader_redis_greeting_refused_(c, kind, reply);
    } else if (kind == LEADER_REDIS_ROLE_ && !leader_redis_is_master_(reply)) {
        leader_redis_blame_(c, LEADER_E_IO, "the sentinels name it, but it is not a master");
        c->doomed = true;
    } else if (kind == LEADER_REDIS_MASTER_) {
        leader_redis_place_ master;
        if (leader_redis_read_place_(reply, &master)) {
            r->named = master;
        } else {
            leader_redis_blame_(c, LEADER_E_IO, "it does not know sentinel_name (%.40s)", r->sentinel_name);
        }
        c->doomed = true;               // it has served its purpose
    } else if (c->greetings == 0) {
        leader_redis_ready_(c);
    }
}

/* ---- notices --------------------------------------------------------------------------------------- */

static unsigned leader_redis_hash_(const char *key, size_t len) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < len; i++) {
        h = (h ^ (unsigned char)key[i]) * 16777619u;
    }
    return (unsigned)((h ^ h >> 16) % LEADER_REDIS_BUCKETS_);
}

static leader_redis_election *leader_redis_same_(leader_redis_election *e, const char *key, size_t len) {
    while (e && (strlen(e->key) != len || memcmp(e->key, key, len) != 0)) {
        e = e->bucket_next;
    }
    return e;
}

static leader_redis_election *leader_redis_find_(leader_redis_client *r, const char *key, size_t len) {
    return leader_redis_same_(r->bucket[leader_redis_hash_(key, len)], key, len);
}

/* The length of the key in the name of a channel of this database; 0: it is none. */
static size_t leader_redis_key_of_(const leader_redis_client *r, const char *channel) {
    char db[16];
    snprintf(db, sizeof db, "@%d", r->db);
    const char *at = strrchr(channel, '@');
    if (!at || strcmp(at, db) != 0) {
        return 0;
    }
    return (size_t)(at - channel);
}

static void leader_redis_subscribe_(leader_redis_election *e) {
    leader_redis_client *r = e->client;
    e->listens = true;
    r->watch_wanted = !r->no_notice;
    if (r->watch.stage != LEADER_REDIS_READY_ || e->generation == r->generation) {
        return;
    }
    char channel[LEADER_REDIS_CHANNEL_MAX_ + 1];
    leader_redis_channel_(e, channel);
    const char *argv[] = {"SUBSCRIBE", channel};
    leader_redis_write_(&r->watch, 2, argv);
    e->generation = r->generation;
    e->subscribed = false;
}

static void leader_redis_unsubscribe_(leader_redis_election *e) {
    leader_redis_client *r = e->client;
    bool subscribed = r->watch.stage == LEADER_REDIS_READY_ && e->generation == r->generation;
    if (!subscribed || leader_redis_find_(r, e->key, strlen(e->key))) {
        return;
    }
    char channel[LEADER_REDIS_CHANNEL_MAX_ + 1];
    leader_redis_channel_(e, channel);
    const char *argv[] = {"UNSUBSCRIBE", channel};
    leader_redis_write_(&r->watch, 2, argv);
}

/* What was seen before counts no longer: look again. Our own release is no news. */
static void leader_redis_heard_(leader_redis_election *e, bool released, const char *by) {
    char nonce[20];
    snprintf(nonce, sizeof nonce, "%016llx", (unsigned long long)e->nonce);
    e->held_until_ms = 0;
    e->outdated = true;                 // nor does the answer to a look that is under way
    if (!released) {
        e->subscribed = true;
    } else if (strcmp(by, nonce) != 0) {
        e->noticed = true;
        leader_redis_fall_due_(e);
    }
}

static void leader_redis_take_notice_(leader_redis_client *r, const redisReply *reply) {
    if (reply->type == REDIS_REPLY_ERROR) {
        leader_redis_no_notice_(r, reply->str);
        return;
    }
    bool shaped = reply->type == REDIS_REPLY_ARRAY && reply->elements == 3;
    shaped = shaped && leader_redis_is_text_(reply->element[0], 16);
    shaped = shaped && leader_redis_is_text_(reply->element[1], LEADER_REDIS_REPLY_MAX_);
    if (!shaped) {
        r->watch.doomed = true;
        return;
    }
    const char *kind = reply->element[0]->str;
    const char *channel = reply->element[1]->str;
    bool released = strcmp(kind, "message") == 0;
    released = released && leader_redis_is_text_(reply->element[2], LEADER_REDIS_REPLY_MAX_);
    if (!released && strcmp(kind, "subscribe") != 0) {
        r->watch.doomed = strcmp(kind, "unsubscribe") != 0;
        return;
    }
    size_t len = leader_redis_key_of_(r, channel);
    const char *by = released ? reply->element[2]->str : "";
    leader_redis_election *e = leader_redis_find_(r, channel, len);
    while (e) {
        leader_redis_heard_(e, released, by);
        e = leader_redis_same_(e->bucket_next, channel, len);
    }
}

/* ---- client ---------------------------------------------------------------------------------------- */

static void leader_redis_wake_waiting_(leader_redis_client *r) {
    for (leader_redis_election *e = r->first; e; e = e->next) {
        if (e->phase == LEADER_REDIS_WAITING_) {
            leader_redis_fall_due_(e);
        }
    }
}

/* The server has answered, whatever it said. */
static void leader_redis_is_alive_(leader_redis_client *r) {
    bool awaited = r->sounding || r->silent;
    r->heard_ms = r->now_ms;
    r->sounding = false;
    r->silent = false;
    if (awaited) {
        leader_redis_wake_waiting_(r);
    }
}

/* Replies come in the order of the commands. */
static void leader_redis_take_reply_(leader_redis_conn_ *c, const redisReply *reply) {
    leader_redis_client *r = c->client;
    if (c->due_count == 0 && c == &r->watch) {
        leader_redis_take_notice_(r, reply);
        return;
    }
    if (c->due_count == 0) {
        leader_redis_blame_(c, LEADER_E_IO, "a reply that nobody asked for");
        c->doomed = true;
        return;
    }
    leader_redis_due_ due = c->due[c->due_first];
    c->due_first = (c->due_first + 1) % c->due_cap;
    c->due_count--;
    c->quiet_ms = r->now_ms;
    if (c == &r->main) {
        leader_redis_is_alive_(r);
    }
    if (due.kind <= LEADER_REDIS_HELLO_) {
        leader_redis_greeted_(c, due.kind, reply);
        return;
    }
    r->failures = 0;
    if (!leader_redis_awaits_(&due)) {
        return;
    }
    if (due.kind == LEADER_REDIS_SCRIPT_) {
        leader_redis_answered_(due.election, reply);
    } else {
        leader_redis_replicated_(due.election, reply);
    }
}

static int64_t leader_redis_roll_(leader_redis_client *r, int64_t sides) {
    r->dice = r->dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((r->dice >> 33) % (uint64_t)(sides + 1));
}

static void leader_redis_main_ready_(leader_redis_client *r) {
    LEADER_ASSERT(r->first && r->stage == LEADER_REDIS_GOING_);
    LEADER_ASSERT(r->path[0] || (r->main.next_address > 0 && r->main.next_address <= r->main.lookup.count));
    r->stage = LEADER_REDIS_ON_;
    r->why[0] = 0;
    r->said[0] = 0;
    r->heard_ms = r->now_ms;
    r->sounding = false;
    r->taught = false;
    r->check_at_ms = r->now_ms + r->first->host.config->lease_ms;
    if (r->failures > 0) {              // after an outage: notices can wait, and many clients come back
        r->watch_retry_at_ms = r->now_ms + leader_redis_roll_(r, r->first->host.config->retry_ms);
    }
    if (!r->path[0]) {
        memcpy(r->good_host, r->target.host, sizeof r->good_host);
        memcpy(r->good_address, r->main.lookup.found[r->main.next_address - 1], sizeof r->good_address);
    }
    leader_redis_wake_waiting_(r);
}

static void leader_redis_ready_(leader_redis_conn_ *c) {
    leader_redis_client *r = c->client;
    c->stage = LEADER_REDIS_READY_;
    if (c == &r->main) {
        leader_redis_main_ready_(r);
        return;
    }
    r->generation++;
    for (leader_redis_election *e = r->first; e; e = e->next) {
        if (e->listens) {
            leader_redis_subscribe_(e);
        }
    }
    leader_redis_flush_(c);
}

/* How long to leave a server alone that cannot be reached: one SYN does not hurt it, but many clients
   must not come back together. A renewal is in a hurry, and there is one leader only. */
static int64_t leader_redis_pause_(leader_redis_client *r, bool renewing) {
    enum { HURRY_MS = 200 };
    int64_t most_ms = HURRY_MS;
    if (r->first) {
        int64_t usual_ms = r->first->host.config->retry_ms / 2;
        if (!renewing || usual_ms < most_ms) {
            most_ms = usual_ms;
        }
    }
    return most_ms / 2 + leader_redis_roll_(r, most_ms / 2);
}

/* The server was not to be reached. Requests learn it at once; a renewal goes on trying as long as
   leader.h lets it. */
static void leader_redis_failed_(leader_redis_client *r) {
    bool passing = r->why_result == LEADER_E_IO || r->why_result == LEADER_E_TIMEOUT;
    bool renewing = false;
    r->stage = LEADER_REDIS_OFF_;
    r->moved.host[0] = 0;
    r->failures++;
    for (leader_redis_election *e = r->first; e; e = e->next) {
        if (e->phase != LEADER_REDIS_WAITING_) {
            continue;
        }
        if (e->op == LEADER_REDIS_RENEW_ && passing) {
            renewing = true;
        } else {
            leader_redis_fail_shared_(e);
        }
    }
    r->retry_at_ms = r->now_ms + leader_redis_pause_(r, renewing);
}

static void leader_redis_close_conn_(leader_redis_conn_ *c);

static void leader_redis_main_closed_(leader_redis_client *r) {
    if (r->stage == LEADER_REDIS_GOING_) {
        leader_redis_failed_(r);
    } else if (r->stage == LEADER_REDIS_ON_) {
        r->stage = LEADER_REDIS_OFF_;
        r->retry_at_ms = r->now_ms;
        r->watch_retry_at_ms = leader_max_(r->watch_retry_at_ms, r->now_ms);
        leader_redis_close_conn_(&r->watch);
    }
}

static void leader_redis_sentinel_at_(const leader_redis_client *r, int index, leader_redis_place_ *out);

static void leader_redis_ask_sentinel_(leader_redis_client *r) {
    leader_redis_place_ at;
    r->named.host[0] = 0;
    r->sentinels_asked++;
    leader_redis_sentinel_at_(r, r->sentinel, &at);
    leader_redis_start_(&r->guide, &at, r->sentinel_timeout_ms);
}

static void leader_redis_go_(leader_redis_client *r, const leader_redis_place_ *target) {
    r->target = *target;
    r->stage = LEADER_REDIS_GOING_;
    leader_redis_start_(&r->main, target, r->connect_timeout_ms);
}

/* A sentinel has named the master, or not: then the next one may know. */
static void leader_redis_guide_closed_(leader_redis_client *r) {
    bool named = r->named.host[0] != 0;
    bool same = strcmp(r->named.host, r->target.host) == 0 && r->named.port == r->target.port;
    if (!named) {
        r->sentinel = (r->sentinel + 1) % r->sentinel_count;
    }
    if (r->stage == LEADER_REDIS_ASKING_ && named) {
        leader_redis_go_(r, &r->named);
    } else if (r->stage == LEADER_REDIS_ON_ && named && !same) {
        leader_redis_blame_(&r->main, LEADER_E_IO, "the sentinels name another master, %.60s:%d",
                            r->named.host, r->named.port);
        leader_redis_abort_(&r->main);
    } else if (!named && r->sentinels_asked < r->sentinel_count) {
        leader_redis_ask_sentinel_(r);
    } else if (r->stage == LEADER_REDIS_ASKING_) {
        leader_redis_failed_(r);
    }
}

/* Those who wait for a reply on it learn that there will be none. */
static void leader_redis_close_conn_(leader_redis_conn_ *c) {
    leader_redis_client *r = c->client;
    if (c->stage == LEADER_REDIS_CLOSED_) {
        c->doomed = false;
        return;
    }
    leader_redis_due_ *due = c->due;
    size_t first = c->due_first;
    size_t count = c->due_count;
    size_t cap = c->due_cap;
    c->due = NULL;
    leader_redis_untell_(c);
    leader_redis_free_conn_(c);
    for (size_t i = 0; i < count; i++) {
        leader_redis_due_ *one = &due[(first + i) % cap];
        if (one->kind >= LEADER_REDIS_SCRIPT_ && leader_redis_awaits_(one)) {
            leader_redis_fail_shared_(one->election);
        }
    }
    free(due);
    if (c == &r->main) {
        leader_redis_main_closed_(r);
    } else if (c == &r->guide) {
        leader_redis_guide_closed_(r);
    } else {
        r->watch_retry_at_ms = leader_max_(r->watch_retry_at_ms, r->now_ms + 1000);
    }
}

static void leader_redis_settle_(leader_redis_client *r) {
    while (r->main.doomed || r->watch.doomed || r->guide.doomed) {
        leader_redis_conn_ *c = &r->guide;
        if (r->main.doomed) {
            c = &r->main;
        } else if (r->watch.doomed) {
            c = &r->watch;
        }
        leader_redis_close_conn_(c);
    }
}

/* Starts what is to be started: the way to the server, the second connection, a question to the
   sentinels. */
static void leader_redis_advance_(leader_redis_client *r) {
    if (r->stage == LEADER_REDIS_OFF_ && r->waiting > 0 && r->now_ms >= r->retry_at_ms) {
        r->why_fresh = false;
        r->sentinels_asked = 0;
        if (r->moved.host[0]) {
            leader_redis_go_(r, &r->moved);
        } else if (r->sentinel_count > 0) {
            r->stage = LEADER_REDIS_ASKING_;
            leader_redis_ask_sentinel_(r);
        } else {
            leader_redis_go_(r, &r->server);
        }
    }
    if (r->stage != LEADER_REDIS_ON_) {
        return;
    }
    if (r->watch_wanted && r->watch.stage == LEADER_REDIS_CLOSED_ && r->now_ms >= r->watch_retry_at_ms) {
        leader_redis_start_(&r->watch, &r->target, r->connect_timeout_ms);
    }
    bool may_ask = r->sentinel_count > 0 && r->guide.stage == LEADER_REDIS_CLOSED_;
    if (may_ask && r->now_ms >= r->check_at_ms) {       // an isolated old master does not know that it is one
        r->check_at_ms = r->now_ms + r->first->host.config->lease_ms;
        r->sentinels_asked = 0;
        leader_redis_ask_sentinel_(r);
    }
}

/* The lookup may close its socket, so the loop must not watch it. */
static void leader_redis_look_further_(leader_redis_conn_ *c) {
    leader_redis_untell_(c);
    if (leader_redis_lookup_step_(&c->lookup, c->client->now_ms)) {
        leader_redis_resolved_(c);
    }
}

/* Moves everything on as far as it goes without waiting. */
static void leader_redis_step_(leader_redis_client *r) {
    leader_redis_conn_ *conns[3] = {&r->main, &r->watch, &r->guide};
    for (int i = 0; i < 3; i++) {
        leader_redis_conn_ *c = conns[i];
        if (c->stage == LEADER_REDIS_RESOLVING_ && r->now_ms >= c->lookup.deadline_ms) {
            leader_redis_look_further_(c);
        }
        leader_redis_check_deadlines_(c);
    }
    leader_redis_settle_(r);
    leader_redis_advance_(r);
    leader_redis_settle_(r);
}

/* Its socket is ready. */
static void leader_redis_serve_(leader_redis_conn_ *c) {
    if (c->stage == LEADER_REDIS_RESOLVING_) {
        leader_redis_look_further_(c);
    } else if (c->stage == LEADER_REDIS_CONNECTING_) {
        leader_redis_connected_(c);
    } else if (c->stage != LEADER_REDIS_CLOSED_) {
        leader_redis_flush_(c);
        leader_redis_receive_(c);
    }
    leader_redis_flush_(c);
}

static short leader_redis_poll_events_(const leader_redis_conn_ *c) {
    if (c->stage == LEADER_REDIS_CONNECTING_) {
        return POLLOUT;
    }
    if (c->out_len > 0) {
        return POLLIN | POLLOUT;
    }
    return POLLIN;
}

/* Serves whichever of the sockets is ready; false: none is. */
static bool leader_redis_serve_ready_(leader_redis_client *r) {
    leader_redis_conn_ *conns[3] = {&r->main, &r->watch, &r->guide};
    struct pollfd set[3];
    for (int i = 0; i < 3; i++) {
        bool resolving = conns[i]->stage == LEADER_REDIS_RESOLVING_;
        set[i].fd = resolving ? conns[i]->lookup.fd : conns[i]->fd;
        set[i].events = leader_redis_poll_events_(conns[i]);
        set[i].revents = 0;
    }
    bool open = set[0].fd >= 0 || set[1].fd >= 0 || set[2].fd >= 0;
    if (!open || poll(set, 3, 0) <= 0) {
        return false;
    }
    for (int i = 0; i < 3; i++) {
        if (set[i].revents != 0 && !conns[i]->doomed) {
            leader_redis_serve_(conns[i]);
        }
    }
    return true;
}

/* Reads and writes what the sockets allow now; never waits. */
static void leader_redis_pump_(leader_redis_client *r) {
    enum { ROUNDS = 64 };
    r->pumped_ms = r->now_ms;
    bool answers_due = r->main.stage == LEADER_REDIS_READY_ && r->main.due_count > 0;
    if (answers_due) {                  // an answer is likely there: read without asking first
        leader_redis_serve_(&r->main);
        leader_redis_settle_(r);
    }
    bool quiet = answers_due && r->main.due_count == 0 && r->watch.stage == LEADER_REDIS_CLOSED_;
    for (int round = 0; round < ROUNDS && !quiet; round++) {
        quiet = !leader_redis_serve_ready_(r);
        leader_redis_step_(r);
        quiet = quiet || (r->stage == LEADER_REDIS_ON_ && r->watch.stage != LEADER_REDIS_GREETING_);
    }
    leader_redis_step_(r);
}

/* ---- elections ------------------------------------------------------------------------------------- */

static leader_redis_client *leader_redis_enter_(leader_redis_election *e) {
    leader_redis_client *r = e->client;
    r->caller = e;
    r->now_ms = e->host.now_ms(e->host.core);
    return r;
}

/* Nobody stands on a connection any more: those that were given up on the way can be closed. */
static void leader_redis_leave_(leader_redis_client *r) {
    leader_redis_settle_(r);
    LEADER_ASSERT((r->stage == LEADER_REDIS_ON_) == (r->main.stage == LEADER_REDIS_READY_));
    leader_redis_retell_(&r->main);
    leader_redis_retell_(&r->watch);
    leader_redis_retell_(&r->guide);
    r->caller = NULL;
}

static void leader_redis_unlink_(leader_redis_client *r, leader_redis_election *e) {
    if (e->prev) {
        e->prev->next = e->next;
    } else {
        r->first = e->next;
    }
    if (e->next) {
        e->next->prev = e->prev;
    }
    e->prev = NULL;
    e->next = NULL;
}

/* Takes the sockets from the loop of the one that carries them. */
static void leader_redis_unload_(leader_redis_client *r) {
    leader_redis_untell_(&r->main);
    leader_redis_untell_(&r->watch);
    leader_redis_untell_(&r->guide);
}

static void leader_redis_carry_(leader_redis_client *r, leader_redis_election *e) {
    leader_redis_unload_(r);
    leader_redis_unlink_(r, e);
    e->next = r->first;
    if (r->first) {
        r->first->prev = e;
    }
    r->first = e;
}

/* In a child of the process that opened them, the connections and the elections are the parent's: the
   descriptors are closed, and nothing is sent, shut down, or said to a loop that the two may share. */
static void leader_redis_forget_parent_(leader_redis_client *r) {
    leader_redis_conn_ *conns[3] = {&r->main, &r->watch, &r->guide};
    for (int i = 0; i < 3; i++) {
        leader_redis_free_conn_(conns[i]);
        conns[i]->told_fd = -1;
        conns[i]->told = 0;
    }
    memset(r->bucket, 0, sizeof r->bucket);
    r->first = NULL;
    r->said_by = NULL;
    r->stage = LEADER_REDIS_OFF_;
    r->silent = false;
    r->waiting = 0;
    r->watch_wanted = false;
    r->retry_at_ms = INT64_MIN / 2;
    r->watch_retry_at_ms = INT64_MIN / 2;
    r->pid = leader_pid_();
}

/* ---- backend --------------------------------------------------------------------------------------- */

/* Would it take the lease? A majority looks at its stores, and acquires only what it can have. */
static bool leader_redis_is_standby_(const leader_redis_election *e) {
    const leader_config *config = e->host.config;
    bool looks = e->op == LEADER_REDIS_OBSERVE_ && !config->observe_only && config->defer_ms == 0;
    return looks || e->op == LEADER_REDIS_ACQUIRE_;
}

static void leader_redis_note_outcome_(leader_redis_election *e) {
    leader_redis_client *r = e->client;
    if (e->op == LEADER_REDIS_ACQUIRE_ && e->result == LEADER_OK) {
        e->term_seq = e->seq;
        e->term_token = e->token;
    }
    bool written = e->op == LEADER_REDIS_ACQUIRE_ || e->op == LEADER_REDIS_RENEW_;
    if (written && e->result == LEADER_OK && e->changes_value) {
        free(e->value);
        e->value = e->next_value;
        e->next_value = NULL;
        e->changes_value = false;
    }
    if (e->result >= 0 || e->result == LEADER_E_DUPLICATE) {
        e->settled_seq = e->seq;
    }
    if (e->result >= 0) {
        leader_redis_note_foreign_(e);
    }
    bool held = e->result == LEADER_HELD && e->record.seq != 0 && !e->outdated;
    e->held_until_ms = held ? r->now_ms + e->expires_in_ms : 0;
    if (leader_redis_is_standby_(e) && e->result == LEADER_HELD) {
        leader_redis_subscribe_(e);
        leader_redis_step_(r);
    }
}

/* An error of the client is the same for all its elections: one of them logs it, as often as it fails. The
   others take over when that one has been silent for retry_max_ms, or when the text is another. */
static void leader_redis_say_shared_(leader_redis_election *e, const char *text) {
    leader_redis_client *r = e->client;
    bool news = strcmp(r->said, text) != 0;
    bool silence = !r->said_by || r->now_ms - r->said_ms >= e->host.config->retry_max_ms;
    if (!news && !silence && r->said_by != e && e->host.error) {
        e->host.error(e->host.core, text);
        return;
    }
    r->said_by = e;
    r->said_ms = r->now_ms;
    snprintf(r->said, sizeof r->said, "%s", text);
    e->host.log(e->host.core, LEADER_LOG_ERROR, text);
}

static leader_result leader_redis_deliver_(leader_redis_election *e, leader_record *seen) {
    leader_result result = e->result;
    e->phase = LEADER_REDIS_IDLE_;
    if (result < 0 && e->error && e->shared_error) {
        leader_redis_say_shared_(e, e->error);
    } else if (result < 0 && e->error) {
        e->host.log(e->host.core, LEADER_LOG_ERROR, e->error);
    }
    leader_redis_drop_(&e->error);
    seen->token = e->token;
    seen->expires_in_ms = e->expires_in_ms;
    memcpy(seen->holder, e->record.holder, sizeof seen->holder);
    const char *value = leader_redis_kept_(e->seen_value);
    memcpy(seen->value, value, strlen(value) + 1);
    leader_redis_note_outcome_(e);
    return result;
}

/* Of the standbys of a client one asks in every retry_ms. The others have seen who holds the lease, would
   hear of its release, and know when it can end at the earliest: until then what they saw last is good
   enough. It never makes a leader. */
static bool leader_redis_remembers_(const leader_redis_election *e) {
    const leader_redis_client *r = e->client;
    bool looks = e->op == LEADER_REDIS_ACQUIRE_ || e->op == LEADER_REDIS_OBSERVE_;
    bool connected = r->stage == LEADER_REDIS_ON_ && r->watch.stage == LEADER_REDIS_READY_;
    bool hears = connected && e->subscribed && e->generation == r->generation;
    bool asked_lately = r->now_ms - r->looked_ms < e->host.config->retry_ms;
    return looks && hears && asked_lately && r->now_ms < e->held_until_ms;
}

static void leader_redis_begin_(leader_redis_election *e, int op, const leader_request *request) {
    e->seq = request->seq;
    e->nonce = request->nonce;
    e->op = op;
    e->by_text = false;
    e->may_reclaim = request->reclaim;
    e->reclaims = false;
    e->moved = false;
    e->asked = false;
    e->asking = false;
    if (leader_redis_remembers_(e)) {
        e->expires_in_ms = e->held_until_ms - e->client->now_ms;
        e->token = e->record.token;
        e->result = LEADER_HELD;
        e->phase = LEADER_REDIS_DONE_;
        return;
    }
    leader_redis_set_phase_(e, LEADER_REDIS_WAITING_);
    if (request->min_token >= leader_redis_token_end_) {
        leader_redis_fail_(e, LEADER_E_CORRUPT,
                           "a token at or above 2^53 was seen: Redis cannot count on from there");
    } else if (op == LEADER_REDIS_RELEASE_ && !e->sent_acquire) {
        leader_redis_finish_(e, LEADER_LOST, "");       // nothing was ever asked for
    }
}

/* leader.h is about to give this one up: it cannot know which server did not answer. */
static void leader_redis_say_slow_(leader_redis_election *e, const leader_request *request) {
    leader_redis_client *r = e->client;
    bool waiting = e->phase == LEADER_REDIS_WAITING_ && !r->sounding;
    if (waiting && r->why[0]) {         // the reason is known
        leader_redis_say_shared_(e, r->why);
        return;
    }
    char place[80];
    leader_redis_place_text_(&r->main, place, sizeof place);
    const char *missing = waiting ? "connection" : "answer";
    char text[LEADER_REDIS_TEXT_MAX_ + 1];
    snprintf(text, sizeof text, "%s: no %s within %lld ms", place, missing, (long long)request->timeout_ms);
    leader_redis_say_shared_(e, text);
}

/* When something is to be done although no socket is ready. */
static int64_t leader_redis_again_at_(const leader_redis_conn_ *c) {
    if (c->stage == LEADER_REDIS_RESOLVING_) {
        return c->lookup.deadline_ms;
    }
    if (c->stage == LEADER_REDIS_CONNECTING_) {
        return c->address_deadline_ms;
    }
    return c->deadline_ms;
}

static int64_t leader_redis_again_ms_(const leader_redis_election *e) {
    enum { BLIND_MS = 20 };             // for one that does not carry the sockets
    const leader_redis_client *r = e->client;
    int64_t at = r->now_ms + BLIND_MS;
    if (r->stage == LEADER_REDIS_OFF_) {
        at = r->retry_at_ms;
    } else if (r->stage == LEADER_REDIS_ASKING_) {
        at = leader_redis_again_at_(&r->guide);
    } else if (r->stage == LEADER_REDIS_GOING_) {
        at = leader_redis_again_at_(&r->main);
    } else if (e == r->first) {
        return 0;
    }
    return leader_max_(1, at - r->now_ms);
}

static leader_result leader_redis_request_(void *self, int op, const leader_request *request,
                                           leader_record *seen) {
    leader_redis_election *e = (leader_redis_election *)self;
    leader_redis_client *r = leader_redis_enter_(e);
    leader_result result = LEADER_PENDING;
    if (e->phase != LEADER_REDIS_IDLE_ && e->seq != request->seq) {
        leader_redis_set_phase_(e, LEADER_REDIS_IDLE_);
    }
    if (e->phase == LEADER_REDIS_IDLE_) {
        leader_redis_begin_(e, op, request);
    }
    if (e->phase == LEADER_REDIS_WAITING_) {
        leader_redis_step_(r);
    }
    if (e->phase == LEADER_REDIS_WAITING_ && r->stage == LEADER_REDIS_ON_) {
        if (leader_redis_must_sound_(e)) {
            leader_redis_sound_(r);
        } else {
            leader_redis_send_(e, request);
        }
        leader_redis_settle_(r);
    }
    if (e->phase == LEADER_REDIS_DONE_) {
        result = leader_redis_deliver_(e, seen);
    } else if (r->now_ms - request->now_ms >= request->timeout_ms) {
        leader_redis_say_slow_(e, request);
    } else {
        seen->again_ms = leader_redis_again_ms_(e);
    }
    leader_redis_leave_(r);
    return result;
}

static leader_result leader_redis_acquire_(void *self, const leader_request *request, leader_record *seen) {
    return leader_redis_request_(self, LEADER_REDIS_ACQUIRE_, request, seen);
}
static leader_result leader_redis_renew_(void *self, const leader_request *request, leader_record *seen) {
    return leader_redis_request_(self, LEADER_REDIS_RENEW_, request, seen);
}
static leader_result leader_redis_release_(void *self, const leader_request *request, leader_record *seen) {
    return leader_redis_request_(self, LEADER_REDIS_RELEASE_, request, seen);
}
static leader_result leader_redis_observe_(void *self, const leader_request *request, leader_record *seen) {
    return leader_redis_request_(self, LEADER_REDIS_OBSERVE_, request, seen);
}

/* If the carrier was not polled since this one was, its loop watches sockets that nobody reads: take them
   over. */
static bool leader_redis_poll_(void *self) {
    leader_redis_election *e = (leader_redis_election *)self;
    leader_redis_client *r = leader_redis_enter_(e);
    if (e != r->first && e->carrier_polls == r->carrier_polls) {
        leader_redis_carry_(r, e);
    }
    if (e == r->first) {
        r->carrier_polls++;
    }
    e->carrier_polls = r->carrier_polls;
    if (e == r->first || r->pumped_ms != r->now_ms) {
        leader_redis_pump_(r);
    }
    bool noticed = e->noticed;
    e->noticed = false;
    leader_redis_leave_(r);
    return noticed;
}

/* A reply is owed, and nothing at all was heard for as long as one may take: the connection is dead, whatever
   TCP thinks. Requests whose time was cut short prove it together, none of them alone. */
static void leader_redis_cancel_(void *self) {
    leader_redis_election *e = (leader_redis_election *)self;
    leader_redis_client *r = leader_redis_enter_(e);
    bool owes = r->stage == LEADER_REDIS_ON_ && r->main.due_count > 0;
    int64_t silent_ms = r->now_ms - r->main.quiet_ms;
    leader_redis_set_phase_(e, LEADER_REDIS_IDLE_);
    e->held_until_ms = 0;               // what became of it is to be found out, not remembered
    e->record.holder[0] = 0;
    leader_redis_drop_(&e->seen_value);
    e->record.seq = 0;
    if (owes) {
        r->silent = true;
    }
    if (owes && silent_ms >= e->host.config->request_timeout_ms) {
        leader_redis_blame_(&r->main, LEADER_E_TIMEOUT, "no answer within %lld ms", (long long)silent_ms);
        leader_redis_abort_(&r->main);
        leader_redis_settle_(r);
    }
    leader_redis_leave_(r);
}

static void leader_redis_free_texts_(leader_redis_election *e) {
    leader_redis_drop_(&e->value);
    leader_redis_drop_(&e->next_value);
    leader_redis_drop_(&e->seen_value);
    leader_redis_drop_(&e->error);
}

static void leader_redis_reset_(leader_redis_election *e) {
    leader_redis_free_texts_(e);
    e->next = NULL;
    e->prev = NULL;
    e->phase = LEADER_REDIS_IDLE_;
    e->seq = 0;
    e->term_seq = 0;
    e->term_token = 0;
    e->changes_value = false;
    e->settled_seq = 0;
    e->longest_ms = 0;
    e->born[0] = 0;
    e->held_until_ms = 0;
    e->generation = 0;
    e->sent_acquire = false;
    e->listens = false;
    e->noticed = false;
    e->outdated = false;
    e->subscribed = false;
    e->foreign_said = false;
    memset(&e->record, 0, sizeof e->record);
}

/* The sockets, for one that waits without carrying them. */
static int leader_redis_fds_(void *self, leader_fd out[], int cap) {
    const leader_redis_election *e = (const leader_redis_election *)self;
    const leader_redis_client *r = e->client;
    const leader_redis_conn_ *conns[3] = {&r->main, &r->watch, &r->guide};
    int count = 0;
    for (int i = 0; i < 3 && e != r->first; i++) {
        if (conns[i]->told_fd >= 0 && count < cap) {
            out[count].fd = conns[i]->told_fd;
            out[count].events = conns[i]->told;
            count++;
        }
    }
    return count;
}

static const char *leader_redis_open_(void *self, const leader_host *host) {
    leader_redis_election *e = (leader_redis_election *)self;
    leader_redis_client *r = e->client;
    if (!r) {
        return "client (the second argument of leader_redis_shared_backend) is NULL";
    }
    if (r->mistake[0]) {
        return r->mistake;
    }
    if (e->mistake) {
        return e->mistake;
    }
    const char *wrong = r->tls ? leader_redis_tls_prepare_(r) : NULL;
    if (wrong) {
        return wrong;
    }
    if (r->pid != leader_pid_()) {
        leader_redis_forget_parent_(r);
    }
    leader_redis_reset_(e);
    e->host = *host;
    if (r->dice == 0) {
        r->dice = LEADER_RANDOM64();
    }
    if (!r->first) {
        r->first = e;
    } else {                            // second in the list: the carrier stays
        e->prev = r->first;
        e->next = r->first->next;
        if (e->next) {
            e->next->prev = e;
        }
        r->first->next = e;
    }
    e->carrier_polls = r->carrier_polls - 1;
    leader_redis_election **bucket = &r->bucket[leader_redis_hash_(e->key, strlen(e->key))];
    e->bucket_next = *bucket;
    *bucket = e;
    return NULL;
}

/* The last election is closed: so are the connections. */
static void leader_redis_shut_(leader_redis_client *r) {
    r->stage = LEADER_REDIS_OFF_;
    leader_redis_free_conn_(&r->main);
    leader_redis_free_conn_(&r->watch);
    leader_redis_free_conn_(&r->guide);
    leader_redis_tls_forget_(r);
    r->failures = 0;
    r->silent = false;
    r->moved.host[0] = 0;
    r->retry_at_ms = INT64_MIN / 2;
    r->watch_retry_at_ms = INT64_MIN / 2;
    r->watch_wanted = false;
}

/* The memory may go after this: replies that are still on their way lose their addressee. */
static void leader_redis_close_(void *self) {
    leader_redis_election *e = (leader_redis_election *)self;
    leader_redis_client *r = leader_redis_enter_(e);
    leader_redis_set_phase_(e, LEADER_REDIS_IDLE_);
    leader_redis_free_texts_(e);
    if (r->said_by == e) {
        r->said_by = NULL;
    }
    for (size_t i = 0; i < r->main.due_count; i++) {
        leader_redis_due_ *due = &r->main.due[(r->main.due_first + i) % r->main.due_cap];
        if (due->election == e) {
            due->election = NULL;
        }
    }
    leader_redis_election **at = &r->bucket[leader_redis_hash_(e->key, strlen(e->key))];
    while (*at != e) {
        at = &(*at)->bucket_next;
    }
    *at = e->bucket_next;
    leader_redis_unsubscribe_(e);
    if (e == r->first) {
        leader_redis_unload_(r);
    }
    leader_redis_unlink_(r, e);
    if (r->first) {
        leader_redis_settle_(r);
    } else {
        leader_redis_shut_(r);
    }
    leader_redis_leave_(r);
}

/* ---- configuration --------------------------------------------------------------------------------- */

static void leader_redis_wrong_(leader_redis_client *r, const char *format, ...) LEADER_PRINTF_(2, 3);
static void leader_redis_wrong_(leader_redis_client *r, const char *format, ...) {
    if (r->mistake[0]) {
        return;                         // the first is what leader_init tells
    }
    va_list args;
    va_start(args, format);
    vsnprintf(r->mistake, sizeof r->mistake, format, args);
    va_end(args);
}

static void leader_redis_copy_(leader_redis_client *r, const char *field, char *out, size_t cap,
                               const char *text) {
    if (!text) {
        return;
    }
    if (strlen(text) >= cap) {
        leader_redis_wrong_(r, "%s is longer than %d bytes", field, (int)cap - 1);
        return;
    }
    memcpy(out, text, strlen(text) + 1);
}

/* Splits "host", "host:port" or "[address]:port" in place; the port, or "" if there is none; NULL: it is
   nothing of that kind. */
static const char *leader_redis_split_(char *text, char **host) {
    *host = text;
    if (text[0] == '[') {
        *host = text + 1;
        char *bracket = strchr(text, ']');
        if (!bracket || (bracket[1] && bracket[1] != ':')) {
            return NULL;
        }
        *bracket = 0;
        return bracket[1] ? bracket + 2 : "";
    }
    char *colon = strchr(text, ':');
    if (!colon) {
        return "";
    }
    if (strchr(colon + 1, ':')) {       // a bare IPv6 address
        return leader_redis_is_numeric_(text) ? "" : NULL;
    }
    *colon = 0;
    return colon[1] ? colon + 1 : NULL;
}

static bool leader_redis_read_where_(const char *text, size_t len, int port, leader_redis_place_ *out) {
    char copy[280];
    if (len == 0 || len >= sizeof copy) {
        return false;
    }
    memcpy(copy, text, len);
    copy[len] = 0;
    bool no_port = copy[0] == '[' && copy[len - 1] == ':';
    char *host = NULL;
    const char *digits = leader_redis_split_(copy, &host);
    if (!digits || no_port) {
        return false;
    }
    if (!host[0] || strlen(host) >= sizeof out->host || strpbrk(host, " /@")) {
        return false;
    }
    out->port = port;
    if (digits[0] && !leader_redis_port_(digits, &out->port)) {
        return false;
    }
    memcpy(out->host, host, strlen(host) + 1);
    return true;
}

/* The index'th of the list; index < 0: how many. Blanks around names are fine, empty names are not: then
   -1 less its index. */
static int leader_redis_read_sentinels_(const leader_redis_client *r, int index, leader_redis_place_ *out) {
    int n = 0;
    for (const char *at = r->sentinels; ; n++) {
        size_t len = strcspn(at, ",");
        size_t begin = strspn(at, " ");
        size_t end = len;
        while (end > begin && at[end - 1] == ' ') {
            end--;
        }
        if (begin >= end || !leader_redis_read_where_(at + begin, end - begin, r->sentinel_port, out)) {
            return -1 - n;
        }
        if (n == index) {
            return n;
        }
        if (!at[len]) {
            return n + 1;
        }
        at += len + 1;
    }
}

static void leader_redis_sentinel_at_(const leader_redis_client *r, int index, leader_redis_place_ *out) {
    (void)leader_redis_read_sentinels_(r, index, out);
}

/* One byte of percent-encoded text; -1: what follows the percent sign is not two digits other than 00. */
static int leader_redis_decode_byte_(const char **at, const char *end) {
    int c = (unsigned char)**at;
    if (c != '%') {
        return c;
    }
    if (end - *at < 3) {
        return -1;
    }
    int high = leader_hex_((*at)[1]);
    int low = leader_hex_((*at)[2]);
    *at += 2;
    if (high < 0 || low < 0 || high + low == 0) {
        return -1;
    }
    return high * 16 + low;
}

/* Decodes [at, end) of the URL. Errors name a byte, not the text: it may be a password. */
static void leader_redis_decode_(leader_redis_client *r, const char *url, const char *at, const char *end,
                                 char *out, size_t cap) {
    size_t n = 0;
    for (const char *p = at; p < end; p++) {
        int where = (int)(p - url);
        int c = leader_redis_decode_byte_(&p, end);
        if (c < 0) {
            leader_redis_wrong_(r, "url: byte %d: %% must be followed by two hex digits other than 00",
                                where);
            return;
        }
        if (n + 1 >= cap) {
            leader_redis_wrong_(r, "url: byte %d: longer than %d bytes from byte %d on", where,
                                (int)cap - 1, (int)(at - url));
            return;
        }
        out[n++] = (char)c;
    }
    out[n] = 0;
}

static void leader_redis_url_db_(leader_redis_client *r, const char *url, const char *at, const char *end) {
    char digits[16];
    leader_redis_decode_(r, url, at, end, digits, sizeof digits);
    if (r->mistake[0]) {
        return;
    }
    if (!digits[0] || strlen(digits) > 9 || digits[strspn(digits, "0123456789")]) {
        leader_redis_wrong_(r, "url: byte %d: not a database number", (int)(at - url));
        return;
    }
    r->db = atoi(digits);
}

/* user:password@ before the host; answers where the host begins. */
static const char *leader_redis_url_user_(leader_redis_client *r, const char *url, const char *at,
                                          const char *end) {
    const char *user_end = NULL;
    for (const char *p = at; p < end; p++) {
        if (*p == '@') {
            user_end = p;
        }
    }
    if (!user_end) {
        return at;
    }
    const char *colon = (const char *)memchr(at, ':', (size_t)(user_end - at));
    leader_redis_decode_(r, url, at, colon ? colon : user_end, r->username, sizeof r->username);
    if (colon) {
        leader_redis_decode_(r, url, colon + 1, user_end, r->password, sizeof r->password);
    }
    return user_end + 1;
}

/* redis://user:password@host:port/db   rediss:// the same   unix://user:password@/path?db=n */
static void leader_redis_read_url_(leader_redis_client *r, const char *url) {
    bool local = strncmp(url, "unix://", 7) == 0;
    bool secure = strncmp(url, "rediss://", 9) == 0;
    if (!local && !secure && strncmp(url, "redis://", 8) != 0) {
        leader_redis_wrong_(r, "url: byte 0: it must start with redis://, rediss:// or unix://");
        return;
    }
    const char *fragment = strchr(url, '#');
    if (fragment) {
        leader_redis_wrong_(r, "url: byte %d: # must be written as %%23", (int)(fragment - url));
        return;
    }
    const char *start = strstr(url, "://") + 3;
    const char *end = start + strcspn(start, "/?");
    const char *query = strchr(end, '?');
    const char *path_end = query ? query : end + strlen(end);
    const char *at = leader_redis_url_user_(r, url, start, end);
    if (local) {
        leader_redis_decode_(r, url, end, path_end, r->path, sizeof r->path);
        if (at != end || !r->path[0]) {
            leader_redis_wrong_(r, "url: byte %d: unix:// is followed by an absolute path", (int)(at - url));
        }
    } else {
        if (at != end && !leader_redis_read_where_(at, (size_t)(end - at), 6379, &r->server)) {
            leader_redis_wrong_(r, "url: byte %d: not a host and port", (int)(at - url));
        }
        if (path_end - end > 1) {
            leader_redis_url_db_(r, url, end + 1, path_end);
        }
    }
    if (query && strncmp(query, "?db=", 4) == 0) {
        leader_redis_url_db_(r, url, query + 4, query + strlen(query));
    } else if (query) {
        leader_redis_wrong_(r, "url: byte %d: only ?db=number is known", (int)(query - url));
    }
    r->tls = r->tls || secure;
}

static void leader_redis_exclude_(leader_redis_client *r, const char *a, bool has_a, const char *b,
                                  bool has_b) {
    if (has_a && has_b) {
        leader_redis_wrong_(r, "%s and %s are both set: give one", a, b);
    }
}

static void leader_redis_need_(leader_redis_client *r, const char *a, bool has_a, const char *b, bool has_b) {
    if (has_a && !has_b) {
        leader_redis_wrong_(r, "%s is set without %s", a, b);
    }
}

static void leader_redis_check_range_(leader_redis_client *r, const char *field, int64_t value,
                                      int64_t most) {
    if (value < 0 && most == INT64_MAX) {
        leader_redis_wrong_(r, "%s (%lld) is negative", field, (long long)value);
    } else if (value < 0 || value > most) {
        leader_redis_wrong_(r, "%s (%lld) is not within 1..%lld", field, (long long)value, (long long)most);
    }
}

static void leader_redis_check_(leader_redis_client *r, const leader_redis_config *c) {
    leader_redis_check_range_(r, "port", c->port, 65535);
    leader_redis_check_range_(r, "db", c->db, INT64_MAX);
    leader_redis_check_range_(r, "sentinel_port", c->sentinel_port, 65535);
    leader_redis_check_range_(r, "connect_timeout_ms", c->connect_timeout_ms, INT64_MAX);
    leader_redis_check_range_(r, "sentinel_timeout_ms", c->sentinel_timeout_ms, INT64_MAX);
    leader_redis_check_range_(r, "wait_replicas", c->wait_replicas, INT64_MAX);
    leader_redis_exclude_(r, "path", r->path[0], "host", c->host != NULL);
    leader_redis_exclude_(r, "path", r->path[0], "port", c->port != 0);
    leader_redis_exclude_(r, "sentinels", c->sentinels != NULL, "url", c->url != NULL);
    leader_redis_exclude_(r, "sentinels", c->sentinels != NULL, "host", c->host != NULL);
    leader_redis_exclude_(r, "sentinels", c->sentinels != NULL, "path", c->path != NULL);
    leader_redis_exclude_(r, "sentinels", c->sentinels != NULL, "port", c->port != 0);
    leader_redis_exclude_(r, "tls", r->tls, "path, which is a unix socket,", r->path[0]);
    leader_redis_exclude_(r, "password", r->password[0], "password_file", r->password_file[0]);
    if (c->sentinels && !r->sentinel_name[0]) {
        leader_redis_wrong_(r, "sentinel_name is missing: what do the sentinels call the master?");
    }
    leader_redis_need_(r, "sentinel_name", c->sentinel_name != NULL, "sentinels", c->sentinels != NULL);
    leader_redis_need_(r, "username", r->username[0], "password", r->password[0] || r->password_file[0]);
    leader_redis_need_(r, "sentinel_username", r->sentinel_username[0],
                       "sentinel_password", r->sentinel_password[0]);
    leader_redis_need_(r, "cert_file", r->cert_file[0], "key_file", r->key_file[0]);
    leader_redis_need_(r, "key_file", r->key_file[0], "cert_file", r->cert_file[0]);
    leader_redis_need_(r, "ca_file", r->ca_file[0], "tls", r->tls);
    leader_redis_need_(r, "cert_file", r->cert_file[0], "tls", r->tls);
    leader_redis_need_(r, "server_name", r->server_name[0], "tls", r->tls);
#ifndef LEADER_REDIS_TLS
    if (r->tls) {
        const char *field = c->tls ? "tls" : "url: rediss://";
        leader_redis_wrong_(r, "%s needs LEADER_REDIS_TLS and OpenSSL, which this build is without", field);
    }
#endif
}

static void leader_redis_copy_all_(leader_redis_client *r, const leader_redis_config *c) {
    const struct { const char *field; char *out; size_t cap; const char *text; } texts[] = {
        {"host", r->server.host, sizeof r->server.host, c->host},
        {"path", r->path, sizeof r->path, c->path},
        {"username", r->username, sizeof r->username, c->username},
        {"password", r->password, sizeof r->password, c->password},
        {"password_file", r->password_file, sizeof r->password_file, c->password_file},
        {"ca_file", r->ca_file, sizeof r->ca_file, c->ca_file},
        {"cert_file", r->cert_file, sizeof r->cert_file, c->cert_file},
        {"key_file", r->key_file, sizeof r->key_file, c->key_file},
        {"server_name", r->server_name, sizeof r->server_name, c->server_name},
        {"prefix", r->prefix, sizeof r->prefix, c->prefix},
        {"sentinels", r->sentinels, sizeof r->sentinels, c->sentinels},
        {"sentinel_name", r->sentinel_name, sizeof r->sentinel_name, c->sentinel_name},
        {"sentinel_username", r->sentinel_username, sizeof r->sentinel_username, c->sentinel_username},
        {"sentinel_password", r->sentinel_password, sizeof r->sentinel_password, c->sentinel_password},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        leader_redis_copy_(r, texts[i].field, texts[i].out, texts[i].cap, texts[i].text);
    }
}

static void leader_redis_init_conn_(leader_redis_conn_ *c, leader_redis_client *client) {
    c->client = client;
    c->fd = -1;
    c->told_fd = -1;
    c->lookup.fd = -1;
}

static void leader_redis_count_sentinels_(leader_redis_client *r) {
    leader_redis_place_ unused;
    int count = leader_redis_read_sentinels_(r, -1, &unused);
    if (count < 0) {
        leader_redis_wrong_(r, "sentinels: entry %d is not host, host:port or [address]:port", -count);
        return;
    }
    r->sentinel_count = count;
}

LEADER_API void leader_redis_client_init(leader_redis_client *r, const leader_redis_config *config) {
    leader_redis_config none;
    memset(&none, 0, sizeof none);
    const leader_redis_config *c = config ? config : &none;
    memset(r, 0, sizeof *r);
    leader_redis_init_conn_(&r->main, r);
    leader_redis_init_conn_(&r->watch, r);
    leader_redis_init_conn_(&r->guide, r);
    r->retry_at_ms = INT64_MIN / 2;
    r->watch_retry_at_ms = INT64_MIN / 2;
    r->pumped_ms = INT64_MIN / 2;
    r->looked_ms = INT64_MIN / 2;
    memcpy(r->mistake, c->mistake, sizeof r->mistake);
    memcpy(r->server.host, "127.0.0.1", sizeof "127.0.0.1");
    r->server.port = 6379;
    r->tls = c->tls;
    r->no_notice = c->no_notice;
    r->wait_replicas = c->wait_replicas;
    r->connect_timeout_ms = c->connect_timeout_ms ? c->connect_timeout_ms : 1000;
    r->sentinel_timeout_ms = c->sentinel_timeout_ms ? c->sentinel_timeout_ms : 300;
    r->sentinel_port = c->sentinel_port ? c->sentinel_port : 26379;
    if (c->url) {
        leader_redis_read_url_(r, c->url);
    }
    leader_redis_copy_all_(r, c);
    if (c->port != 0) {
        r->server.port = c->port;
    }
    if (c->db != 0) {
        r->db = c->db;
    }
    leader_redis_check_(r, c);
    if (c->sentinels && !r->mistake[0]) {
        leader_redis_count_sentinels_(r);
    }
}

/* ---- environment ----------------------------------------------------------------------------------- */

static const char *leader_redis_variable_(const char *family, const char *name) {
    char full[64];
    snprintf(full, sizeof full, "%s_%s", family, name);
    const char *value = getenv(full);
    return value && value[0] ? value : NULL;
}

enum { LEADER_REDIS_NO_URL_, LEADER_REDIS_COMMON_URL_, LEADER_REDIS_OWN_URL_ };

/* MUTEX_REDIS_x counts beside the URL of the other family, REDIS_x beside none. */
static const char *leader_redis_either_(const char *name, int beside) {
    const char *own = beside == LEADER_REDIS_OWN_URL_ ? NULL : leader_redis_variable_("MUTEX_REDIS", name);
    if (own || beside != LEADER_REDIS_NO_URL_) {
        return own;
    }
    return leader_redis_variable_("REDIS", name);
}

static leader_result leader_redis_env_wrong_(leader_redis_config *config, const char *name,
                                             const char *what) {
    const char *family = leader_redis_variable_("MUTEX_REDIS", name) ? "MUTEX_REDIS" : "REDIS";
    snprintf(config->mistake, sizeof config->mistake, "%s_%s is not a %s", family, name, what);
    return LEADER_E_CONFIG;
}

/* A number, or what Kubernetes puts there for a Service: tcp://10.0.0.7:6379, whose address serves when
   no host is named. */
static bool leader_redis_env_port_(leader_redis_config *config, const char *value, int *port) {
    if (!value || leader_redis_port_(value, port)) {
        return true;
    }
    if (strncmp(value, "tcp://", 6) != 0) {
        return false;
    }
    leader_redis_place_ service;
    if (!leader_redis_read_where_(value + 6, strlen(value + 6), 6379, &service)) {
        return false;
    }
    *port = service.port;
    memcpy(config->service, service.host, sizeof config->service);
    if (!config->host) {
        config->host = config->service;
    }
    return true;
}

static void leader_redis_env_set_(const char **field, const char *value) {
    if (value) {
        *field = value;
    }
}

static leader_result leader_redis_env_sentinels_(leader_redis_config *config, const char *list) {
    config->sentinels = list;
    const char *name = leader_redis_either_("SENTINEL_NAME", LEADER_REDIS_NO_URL_);
    leader_redis_env_set_(&config->sentinel_name, name);
    const char *port = leader_redis_either_("SENTINEL_PORT", LEADER_REDIS_NO_URL_);
    if (port && !leader_redis_port_(port, &config->sentinel_port)) {
        return leader_redis_env_wrong_(config, "SENTINEL_PORT", "port");
    }
    return LEADER_OK;
}

LEADER_API leader_result leader_redis_config_from_env(leader_redis_config *config) {
    const char *own_host = leader_redis_variable_("MUTEX_REDIS", "HOST");
    const char *sentinels = leader_redis_variable_("MUTEX_REDIS", "SENTINEL_HOST");
    const char *own_url = leader_redis_variable_("MUTEX_REDIS", "URL");
    const char *common_url = own_host || sentinels ? NULL : leader_redis_variable_("REDIS", "URL");
    int beside = LEADER_REDIS_NO_URL_;
    if (own_url) {
        beside = LEADER_REDIS_OWN_URL_;
    } else if (common_url) {
        beside = LEADER_REDIS_COMMON_URL_;
    }
    leader_redis_env_set_(&config->prefix, leader_redis_either_("PREFIX", LEADER_REDIS_NO_URL_));
    leader_redis_env_set_(&config->url, own_url ? own_url : common_url);
    leader_redis_env_set_(&config->username, leader_redis_either_("USERNAME", beside));
    leader_redis_env_set_(&config->password, leader_redis_either_("PASSWORD", beside));
    leader_redis_env_set_(&config->password_file, leader_redis_either_("PASSWORD_FILE", beside));
    const char *db = leader_redis_either_("DB", beside);
    if (db && (strlen(db) > 9 || db[strspn(db, "0123456789")])) {
        return leader_redis_env_wrong_(config, "DB", "database number");
    }
    if (db) {
        config->db = atoi(db);
    }
    if (!own_host && !sentinels && beside == LEADER_REDIS_NO_URL_) {
        sentinels = leader_redis_variable_("REDIS", "SENTINEL_HOST");
    }
    if (sentinels && beside == LEADER_REDIS_NO_URL_) {
        return leader_redis_env_sentinels_(config, sentinels);
    }
    leader_redis_env_set_(&config->host, leader_redis_either_("HOST", beside));
    if (!leader_redis_env_port_(config, leader_redis_either_("PORT", beside), &config->port)) {
        return leader_redis_env_wrong_(config, "PORT", "port");
    }
    return LEADER_OK;
}

/* ---- makers ---------------------------------------------------------------------------------------- */

static leader_backend leader_redis_make_(leader_redis_election *e, leader_redis_client *client) {
    leader_backend b;
    memset(&b, 0, sizeof b);
    memset(e, 0, sizeof *e);
    e->client = client;
    b.self = e;
    b.acquire = leader_redis_acquire_;
    b.renew = leader_redis_renew_;
    b.release = leader_redis_release_;
    b.observe = leader_redis_observe_;
    b.poll = leader_redis_poll_;
    b.cancel = leader_redis_cancel_;
    b.open = leader_redis_open_;
    b.close = leader_redis_close_;
    b.fds = leader_redis_fds_;
    b.name = e->key;
    return b;
}

/* What can be wrong with a name or a whole key. */
typedef struct leader_redis_mistakes_ {
    const char *missing, *too_long, *half_a_tag;
} leader_redis_mistakes_;

/* len: of the whole key, as snprintf counts. */
static const char *leader_redis_check_key_(const char *key, int len, const leader_redis_mistakes_ *mistakes) {
    if (len <= 0) {
        return mistakes->missing;
    }
    if (len > LEADER_REDIS_KEY_MAX_) {
        return mistakes->too_long;
    }
    bool half_a_tag = strpbrk(key, "{}") && !leader_redis_has_tag_(key);
    return half_a_tag ? mistakes->half_a_tag : NULL;
}

LEADER_API leader_backend leader_redis_shared_backend(leader_redis_election *e, leader_redis_client *client,
                                                      const char *name) {
    leader_backend b = leader_redis_make_(e, client);
    int len = 0;
    if (client && name && name[0]) {
        const char *colon = client->prefix[0] ? ":" : "";
        len = snprintf(e->key, sizeof e->key, "%s%sleader:%s", client->prefix, colon, name);
    }
    static const leader_redis_mistakes_ mistakes = {
        "name of the election is missing",
        "name: the whole key is longer than 255 bytes",
        "name: braces in it or in prefix must enclose a hash tag, as in {app}"
    };
    e->mistake = leader_redis_check_key_(e->key, len, &mistakes);
    return b;
}

LEADER_API leader_backend leader_redis_shared_key_backend(leader_redis_election *e,
                                                          leader_redis_client *client, const char *key) {
    leader_backend b = leader_redis_make_(e, client);
    int len = key ? snprintf(e->key, sizeof e->key, "%s", key) : 0;
    static const leader_redis_mistakes_ mistakes = {
        "key of the election is missing",
        "key: the whole key is longer than 255 bytes",
        "key: braces in it must enclose a hash tag, as in {app}"
    };
    e->mistake = leader_redis_check_key_(e->key, len, &mistakes);
    return b;
}

LEADER_API leader_backend leader_redis_backend(leader_redis *store, const leader_redis_config *config) {
    leader_redis_client_init(&store->client, config);
    const char *key = config ? config->key : NULL;
    const char *name = config ? config->name : NULL;
    if (!key) {
        return leader_redis_shared_backend(&store->election, &store->client, name);
    }
    leader_redis_exclude_(&store->client, "key", true, "name", name != NULL);
    leader_redis_exclude_(&store->client, "key", true, "prefix", config->prefix != NULL);
    return leader_redis_shared_key_backend(&store->election, &store->client, key);
}

LEADER_API void leader_redis_timing(leader_config *cfg) {
    cfg->lease_ms = 30000;
    cfg->renew_ms = 10000;
    cfg->retry_ms = 5000;
    cfg->retry_max_ms = 60000;
    cfg->renew_retry_ms = 500;
    cfg->renew_retries = 3;
}

#ifdef __cplusplus
}
#endif
#endif /* LEADER_REDIS_IMPLEMENTATION_DONE */
