/* leader_redis.h - v1.0.0 - leader election over Redis, for leader.h - licence: see leader.h

   The lease is a key with a time to live in a Redis server; hiredis carries the requests. One client object holds the
   connection and serves any number of elections (ten thousand is fine), pipelined; every operation is one Lua script
   and one round trip. Nothing blocks, not even the lookup of a name.

   DO THIS
       #define LEADER_WITH_REDIS
       #define LEADER_IMPLEMENTATION                  // in one C file
       #include "leader.h"                            // cc app.c -lhiredis

       leader_redis redis;  leader_redis_election job;
       leader_redis_settings how = {0};               // C++: = {}
       how.url = "redis://user:secret@10.0.0.7:6379/0";
       leader_redis_init(&redis, &how);               // or leader_redis_from_env(&redis)
       leader_config cfg = {0};
       cfg.identity = leader_make_identity(id, sizeof id, "worker");
       cfg.backend  = leader_redis_backend(&job, &redis, "nightly-report");
       leader_redis_timing(&cfg);                     // optional: lease 30 s, renewal 10 s, retry 5 s
       leader_t me;
       if (leader_init(&me, &cfg) != LEADER_OK) return puts(leader_error(&me)), 1;
       while (running) { leader_tick(&me); if (leader_is_leader(&me)) work(); leader_sleep(&me, 1000); }
       leader_close(&me, 1000);

   WHAT IT PROMISES beyond leader.h's own rules
   - A server that forgets is not a release. DEL by hand, eviction, FLUSHALL, a restart without data: candidates that had
     seen the holder wait out a full lease before one of them leads. (One that has seen nothing cannot tell an emptied
     server from a new one: cautious_start makes it wait as well.)
   - Tokens rise even then: a new one is never below the server's clock in milliseconds.
   - A late, repeated or overtaken request can neither free nor extend a later term.
   - A reply is hostile until parsed: what is malformed, oversized or unasked for ends the connection, not the process.

   WHAT IT DOES NOT PROMISE, and what narrows it
   - Replication is asynchronous: a replica promoted before it had the last write may not know of the leader. Candidates that
     had seen the term notice and wait; a new one may lead too early. An isolated old master that still accepts writes can
     keep its leader while the other side elects another. Narrow both with `min-replicas-to-write 1` and a
     `min-replicas-max-lag` below lease - renew deadline, or with settings.wait_replicas (WAIT after each write: no
     answer from that many replicas, no success). Only fencing tokens close the gap for good.
   - The server's clock times the lease. A jump by more than lease - renew deadline can end it early (forward), never late:
     what stands beyond one lease from now is cut back to it.
   - A server that restarts from a snapshot older than the last term is a store restored from a backup: `appendonly yes` with
     `appendfsync always` leaves no such gap.

   RESOLVING NAMES
     Numeric addresses and unix sockets are used as they are. A host name is looked up without waiting for it: /etc/hosts first, then
     the name servers, search list and ndots of /etc/resolv.conf, over UDP, for IPv4 and then IPv6 addresses. getaddrinfo()
     would block the tick, for ten seconds and more when name servers are down. What only that knows of (mDNS, LDAP and the
     like) is not found here: resolve such a name yourself and give the address. A reconnect goes to the last good address
     first; the name is asked for again when that has failed, and if it cannot be resolved, the last good address still serves.

   CONNECTIONS AND LOOPS
     All elections of a client live on one thread. The first open election carries the client's sockets (on_fd,
     leader_fds, leader_sleep); when an answer for another one comes, that one falls due (on_due, leader_due_ms).
     Requests made while others are unanswered leave together at the carrier's next tick. A second connection
     subscribes to release notices; without it (no_notice, or the ACL forbids it) standbys poll, which is always enough.

   CLUSTER: a MOVED answer is followed once per request. Elections of one client must share a slot: give them a prefix with
     a hash tag such as "{app}", or one client each.   SERVER: Redis 4 or newer (tested with 7.0).   ACL: +eval +evalsha +get
     +set +pttl +pexpire +del +hmget +hset +hdel +time +publish +subscribe, +select with db, +role with sentinels, +wait with wait_replicas.
   MEMORY: a failed allocation costs a request or the connection. hiredis 0.14 itself ends the process with some of them (it calls abort(), or uses what it
     did not get, when it connects, subscribes, reads a notice or has written); 1.0 and newer report them.
   TLS: #define LEADER_REDIS_TLS, hiredis 1.x built with SSL, -lhiredis_ssl -lssl -lcrypto. Peer and name are verified.

   IN THE SERVER, for people: `GET prefix:leader:name` shows "token seq nonce lease_ms identity"; the hash {prefix:leader:name}:witness
   has t (the last token), until (server time in ms), lease (its length) and, after a release, rel.                          */
#ifndef LEADER_REDIS_H_INCLUDED
#define LEADER_REDIS_H_INCLUDED

#ifndef LEADER_H_INCLUDED
#  error "include leader.h before backends/leader_redis.h, or define LEADER_WITH_REDIS and include leader.h alone"
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct redisAsyncContext;           /* hiredis' own; its headers are needed only by the implementation            */
struct ssl_ctx_st;

/* ---- settings.  C: leader_redis_settings how = {0};   C++: = {}; -------------------------------------------------- */
typedef struct leader_redis_settings {   /* leader_redis_init copies it, strings too; 0 means the default             */
    const char *url;                /* redis:// rediss:// unix://, instead of the next seven. User, password and path
                                       percent-encoded; "/3" or "?db=3" chooses the database                          */
    const char *host;               /* 127.0.0.1; an address, or a name: see RESOLVING NAMES                          */
    int         port;               /* 6379                                                                           */
    const char *path;               /* a unix socket instead of host and port                                         */
    const char *username;           /* none                                                                           */
    const char *password;           /* none; never logged, never in an error                                          */
    int         db;                 /* 0                                                                              */
    bool        tls;                /* false; true: to sentinels as well                                              */
    const char *ca_file;            /* PEM; the system's store                                                        */
    const char *cert_file;          /* PEM chain of a client certificate; none                                        */
    const char *key_file;           /* PEM key that goes with cert_file                                               */
    const char *server_name;        /* host: the name or address that the server's certificate must bear              */
    const char *prefix;             /* none; keys are "prefix:leader:name", or "leader:name" without one              */
    const char *sentinels;          /* "host:port,host,[::1]:port", asked in turn for the master, instead of host     */
    int         sentinel_port;      /* 26379: of those that name none                                                 */
    const char *sentinel_name;      /* required with sentinels: what they call the master                             */
    const char *sentinel_username;  /* none                                                                           */
    const char *sentinel_password;  /* none                                                                           */
    int64_t     connect_timeout_ms; /* 1000: from connect to a server that is ready for requests                      */
    int64_t     sentinel_timeout_ms;/* 300: for each sentinel                                                         */
    int         wait_replicas;      /* 0; more: an acquire or renew succeeds only when so many replicas have it       */
    bool        no_notice;          /* false; true: no second connection, releases are found by polling               */
} leader_redis_settings;

typedef struct leader_redis          leader_redis;           /* both complete below: yours to place, not to read,     */
typedef struct leader_redis_election leader_redis_election;  /* copy or move. A client must outlive its elections     */

/* No function here does I/O or fails: what is wrong with the settings is what leader_init reports.                       */
LEADER_API void leader_redis_init(leader_redis *, const leader_redis_settings *);    /* NULL: all defaults            */
LEADER_API void leader_redis_from_env(leader_redis *);       /* MUTEX_REDIS_x, else REDIS_x, where x is HOST PORT PREFIX
                                       SENTINEL_HOST (a list, as settings.sentinels) SENTINEL_PORT SENTINEL_NAME USERNAME
                                       PASSWORD DB URL. A URL wins over the host and the sentinels of its own family,
                                       MUTEX_ over all of REDIS_; empty is unset; PORT may be tcp://host:port         */
LEADER_API leader_backend leader_redis_backend(leader_redis_election *, leader_redis *, const char *name);
LEADER_API void leader_redis_timing(leader_config *);        /* lease 30 s, renewal every 10 s, retry every 5 s       */

/* ---- stop here if you only want the API ------------------------------------------------------------------------- */
typedef struct leader_redis_conn_ {
    leader_redis             *client;
    struct redisAsyncContext *ac;   /* NULL: no connection                                                            */
    void   *builtin;                /* hiredis' own way of building replies                                           */
    int     events;                 /* what hiredis wants to hear of                                                  */
    int     told;                   /* what the carrier's loop has been told                                          */
    int     greeting;               /* replies still to come before it is ready                                       */
    bool    connected;              /* the socket is, and nothing was said on it yet                                  */
    bool    ready, doomed;
    size_t  built;                  /* memory of the reply that is being read                                         */
    int64_t deadline_ms;            /* to become ready                                                                */
} leader_redis_conn_;

typedef struct leader_redis_where_ { char host[256]; int port; } leader_redis_where_;

enum { LEADER_REDIS_BUCKETS_ = 256 };

struct leader_redis {
    char    error[160];             /* of the settings; "": none                                                      */
    leader_redis_where_ fixed;      /* the server of the settings                                                     */
    char    path[104], username[128], password[256];
    char    sentinels[1024], sentinel_name[128], sentinel_username[128], sentinel_password[256];
    char    prefix[128], ca_file[256], cert_file[256], key_file[256], server_name[256];
    int     db, sentinel_port, sentinel_count, wait_replicas;
    bool    tls, no_notice;
    int64_t connect_timeout_ms, sentinel_timeout_ms;

    int     stage;                  /* of the main connection: one switch, in leader_redis_advance_                   */
    leader_redis_where_ target;     /* where it goes or stands                                                        */
    leader_redis_where_ moved;      /* MOVED said so; host "": it did not                                             */
    char    address[64];            /* of the target, numeric                                                         */
    char    good_name[256], good_address[64];    /* the last name that led to a ready server, and where it led        */
    int     dns_fd, dns_told;       /* the question under way; -1: none                                               */
    int     dns_candidate, dns_try; /* which form of the name; how often without an answer                            */
    bool    dns_v6;
    unsigned char dns_query[300];
    size_t  dns_len;
    int64_t dns_deadline_ms;
    leader_redis_conn_ main, watch; /* requests; release notices                                                      */
    int     sentinel, asked;        /* which one; how many of them in this attempt                                    */
    bool    asking, found;          /* main goes to a sentinel; it has named the master                               */
    bool    watch_wanted;
    int     failures;               /* ends of connections without one reply in between                               */
    int64_t retry_at_ms, watch_retry_at_ms;      /* no attempt before                                                 */
    int64_t now_ms, pumped_ms, carried_ms, heard_ms;
    uint64_t dice;
    unsigned unanswered;            /* commands on the wire                                                           */
    unsigned waiting;               /* requests that need a connection                                                */
    unsigned generation;            /* of the watch connection                                                        */
    unsigned taught;                /* scripts sent as text on this connection, a bit for each operation              */
    leader_result why_result;
    char    why[160];               /* it ended or was refused; "": not known yet                                     */
    struct ssl_ctx_st *ssl;
    leader_redis_election *first;   /* all that are open; the first carries the sockets                               */
    leader_redis_election *caller;  /* whose function is running                                                      */
    leader_redis_election *bucket[LEADER_REDIS_BUCKETS_];    /* by key, for notices                                   */
};

struct leader_redis_election {
    leader_redis *client;
    leader_redis_election *next, *prev, *bucket_next;
    leader_host host;
    char     key[256];
    char     error[96];             /* of the name; "": none                                                          */
    int      op, phase, attempt, hops;
    uint64_t seq;                   /* of the request that phase speaks of                                            */
    uint64_t term_seq, term_token;  /* of the acquire that began the term; 0: none                                    */
    uint64_t settled_seq;           /* of the last request that was answered                                          */
    uint64_t noticed_token;         /* of the last release heard of                                                   */
    int64_t  longest_ms;            /* longest lease seen                                                             */
    int64_t  sent_ms;
    unsigned generation;            /* of the watch connection that is subscribed for this                            */
    unsigned stale;                 /* replies to requests that were given up: they come first and are dropped        */
    unsigned expected;              /* replies to the present one                                                     */
    bool     listens, noticed;      /* wants to hear of releases; has heard of one                                    */
    leader_result result;
    leader_record answer;
    char     text[160];
};

#ifdef __cplusplus
}
#endif
#endif /* LEADER_REDIS_H_INCLUDED */

/* ================================================================================================================= */
#if defined(LEADER_IMPLEMENTATION) && defined(LEADER_IMPLEMENTATION_DONE) && !defined(LEADER_REDIS_IMPLEMENTATION_DONE)
#define LEADER_REDIS_IMPLEMENTATION_DONE

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <hiredis/hiredis.h>
#include <hiredis/async.h>
#ifdef LEADER_REDIS_TLS
#  include <hiredis/hiredis_ssl.h>
#  include <openssl/err.h>
#  include <openssl/ssl.h>
#  include <openssl/x509v3.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the scripts ------------------------------------------------------------------------------------------------------
   KEYS: the lease, the witness. ARGV: identity, nonce, seq, lease_ms, settled_seq, term_token, then what the operation needs.
   Each answers {word, token, ms until others may take it, length of the lease in ms, holder}.
   A record of ours from before the last answer that we had (settled_seq), other than that of our last term (term_token),
   is a ghost: a request that was given up was carried out late, by a server that had forgotten everything in
   between, and whoever it forgot may still lead. It is not ours: it is waited out, neither adopted nor released.
   The record is "token seq nonce lease_ms identity" with seq as 20 digits: compared as text it is exact to 2^64, where a Lua
   number is exact only to 2^53. For the same reason nothing at or above 2^53 is taken for a token. The length of the lease stands
   in both, so that nobody with a shorter one cuts it, whichever of the two is lost.
   A script that wrote may go on writing when memory is full, so the first write is one that a full server allows
   (PEXPIRE, DEL) wherever there is a choice: a full server refuses new terms but not renewals.                           */
#define LEADER_REDIS_LUA_HEAD_ \
    "if redis.replicate_commands then redis.replicate_commands() end\n" \
    "local lease, witness, call = KEYS[1], KEYS[2], redis.call\n" \
    "local me, nonce, seq, lease_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])\n" \
    "local time = call('TIME')\n" \
    "local now = time[1] * 1000 + math.floor(time[2] / 1000)\n" \
    "local function whole(s)\n" \
    "  local n = s and s:find('^%d+$') and tonumber(s)\n" \
    "  return n and n < 9007199254740992 and n or nil\n" \
    "end\n" \
    "local function text(n) return string.format('%.0f', n) end\n" \
    "local record = call('GET', lease)\n" \
    "local known = call('HMGET', witness, 't', 'until', 'rel', 'lease')\n" \
    "local t, rel = whole(known[1]), known[3]\n" \
    "local token, term, owner, length, holder\n" \
    "if record then\n" \
    "  token, term, owner, length, holder = record:match('^(%d+) (%d+) (%x+) (%d+) (.+)$')\n" \
    "  token, length = whole(token), whole(length)\n" \
    "end\n" \
    "local readable = token and length and #term == 20\n" \
    "local named = readable and owner == nonce and holder == me\n" \
    "local mine = named and (term > ARGV[5] or text(token) == ARGV[6])\n" \
    "local kept = math.max(length or 0, whole(known[4]) or 0)\n" \
    "local function answer(word, ms)\n" \
    "  return {word, token or t or 0, ms, kept, readable and holder or ''}\n" \
    "end\n"

/* ARGV[7] min_token, ARGV[8] the longest lease that the caller has seen, ARGV[9] '1': reclaim                             */
static const char leader_redis_acquire_lua_[] = LEADER_REDIS_LUA_HEAD_
    "local min_token = tonumber(ARGV[7])\n"
    "local longest = math.max(lease_ms, tonumber(ARGV[8]), kept)\n"
    "if known[1] and not t then return answer('CORRUPT', longest) end\n"
    "if record then\n"
    "  local ttl = call('PTTL', lease)\n"
    "  if ttl < 0 or ttl > longest then\n"               /* by hand, or the clock was set back: no lease lasts for ever */
    "    call('PEXPIRE', lease, text(longest))\n"
    "    ttl = longest\n"
    "  end\n"
    "  if not readable then return answer('CORRUPT', ttl + 1) end\n"
    "  if named and not mine then return {'WAIT', token, ttl + 1, kept, ''} end\n"
    "  if mine and term == seq then return answer('OK', ttl) end\n"        /* this very request was carried out before */
    "  if mine and term > seq then return answer('HELD', ttl + 1) end\n"   /* overtaken by a later request of ours     */
    "  if not mine and holder == me and ARGV[9] ~= '1' then return answer('DUPLICATE', ttl + 1) end\n"
    "  if not mine and holder ~= me then return answer('HELD', ttl + 1) end\n"
    "else\n"
    "  local seen = min_token - 1\n"
    "  if seen > 0 and (not t or t < seen) then\n"       /* the store forgot a term that the caller knows of             */
    "    t = math.max(seen, now)\n"
    "    call('HSET', witness, 't', text(t), 'until', text(now + longest), 'lease', text(longest))\n"
    "    call('HDEL', witness, 'rel')\n"
    "    return answer('WAIT', longest)\n"
    "  end\n"
    "  if rel then\n"
    "    local by, at = rel:match('^(%x+) (%d+)$')\n"
    "    if by == nonce and at > seq then return answer('WAIT', 0) end\n"  /* overtaken by our own release              */
    "  elseif t then\n"
    "    local till = whole(known[2])\n"
    "    if not till or till > now + longest then\n"
    "      till = now + longest\n"
    "      call('HSET', witness, 'until', text(till))\n"
    "    end\n"
    "    if till > now then return answer('WAIT', till - now) end\n"       /* the key was deleted or evicted             */
    "  end\n"
    "end\n"
    "local new = math.max((t or 0) + 1, (token or 0) + 1, min_token, now)\n"
    "if new >= 9007199254740992 then return answer('CORRUPT', longest) end\n"
    "call('SET', lease, text(new)..' '..seq..' '..nonce..' '..text(lease_ms)..' '..me, 'PX', text(lease_ms))\n"
    "call('HSET', witness, 't', text(new), 'until', text(now + lease_ms), 'lease', text(lease_ms))\n"
    "call('HDEL', witness, 'rel')\n"
    "return {'OK', new, lease_ms, lease_ms, me}\n";

/* seq is that of the acquire that began the term: any other term is not this one                                          */
static const char leader_redis_renew_lua_[] = LEADER_REDIS_LUA_HEAD_
    "if not (mine and term == seq) then return answer('LOST', record and math.max(0, call('PTTL', lease) + 1) or 0) end\n"
    "call('PEXPIRE', lease, text(lease_ms))\n"
    "call('HSET', witness, 't', text(math.max(t or 0, token)), 'until', text(now + lease_ms), 'lease', text(lease_ms))\n"
    "return {'OK', token, lease_ms, lease_ms, me}\n";

/* seq is the release's own: a term that began later is not to be freed. The notice is only a hint, so it may fail          */
static const char leader_redis_release_lua_[] = LEADER_REDIS_LUA_HEAD_
    "if not (mine and term <= seq) then return answer('LOST', record and math.max(0, call('PTTL', lease) + 1) or 0) end\n"
    "call('DEL', lease)\n"
    "call('HSET', witness, 't', text(math.max(t or 0, token)), 'until', text(now), 'rel', nonce..' '..seq)\n"
    "redis.pcall('PUBLISH', lease, text(token))\n"
    "return answer('OK', 0)\n";

static const char leader_redis_observe_lua_[] = LEADER_REDIS_LUA_HEAD_
    "if record then return answer(readable and 'HELD' or 'CORRUPT', math.max(0, call('PTTL', lease) + 1)) end\n"
    "return answer('FREE', rel and 0 or math.max(0, (whole(known[2]) or 0) - now))\n";

enum { LEADER_REDIS_ACQUIRE_, LEADER_REDIS_RENEW_, LEADER_REDIS_RELEASE_, LEADER_REDIS_OBSERVE_, LEADER_REDIS_OPS_ };

/* A wrong sum costs a round trip, not an election: the server says NOSCRIPT and gets the text. The tests compare them
   with the server's own.                                                                                               */
static const struct { const char *lua, *sha1; } leader_redis_script_[LEADER_REDIS_OPS_] = {
    { leader_redis_acquire_lua_, "44df3b72f0402ea9c0baec2d285d0a61476f2d1d" },
    { leader_redis_renew_lua_,   "a2ec4eb939fcca9c8588abda8135283a60b89ec1" },
    { leader_redis_release_lua_, "8023a187576036dc889cc3ccc06dd730e1c65f92" },
    { leader_redis_observe_lua_, "101df629fd193c5857ce6413e5266d88b565c9f4" },
};


enum { LEADER_REDIS_IDLE_, LEADER_REDIS_WAITING_, LEADER_REDIS_SENT_, LEADER_REDIS_DONE_ };          /* election.phase */
enum { LEADER_REDIS_OFF_, LEADER_REDIS_ASK_, LEADER_REDIS_GO_, LEADER_REDIS_RESOLVING_, LEADER_REDIS_CONNECTING_, LEADER_REDIS_READY_ };   /* client.stage */

static const uint64_t leader_redis_token_end_ = (uint64_t)1 << 53;

/* What a server says goes into logs: one line of plain characters.                                                       */
static void leader_redis_plain_(char *out, size_t cap, const char *text) {
    size_t n = 0;
    for (; n + 1 < cap && text[n]; n++) out[n] = text[n] >= ' ' && text[n] <= '~' ? text[n] : '?';
    out[n] = 0;
}

/* ---- requests and their answers --------------------------------------------------------------------------------------- */

static void leader_redis_finish_(leader_redis_election *e, leader_result result, const char *text) {
    leader_redis *r = e->client;
    if (e->phase == LEADER_REDIS_WAITING_) r->waiting--;
    e->stale += e->expected;        /* what still comes belongs to nothing any more                                  */
    e->expected = 0;
    e->phase = LEADER_REDIS_DONE_;
    e->result = result;
    snprintf(e->text, sizeof e->text, "%s", text);
    if (e != r->caller) e->host.due(e->host.core);
}

/* Back to the start, for another server or with the script's text: leader.h calls again with the same request.            */
static void leader_redis_again_(leader_redis_election *e) {
    e->stale += e->expected;
    e->expected = 0;
    e->phase = LEADER_REDIS_WAITING_;
    e->client->waiting++;
    if (e != e->client->caller) e->host.due(e->host.core);
}

static void leader_redis_forget_(leader_redis_election *e) {
    if (e->phase == LEADER_REDIS_WAITING_) e->client->waiting--;
    e->stale += e->expected;
    e->expected = 0;
    e->phase = LEADER_REDIS_IDLE_;
}

/* Ends a connection from our side. Inside one of its callbacks hiredis defers that, so what follows from the end is always
   done in leader_redis_closed_, when the context is gone.                                                                */
static void leader_redis_drop_(leader_redis_conn_ *c, leader_result result, const char *format, ...) {
    leader_redis *r = c->client;
    if (c == &r->main && !r->why[0]) {
        va_list args;
        va_start(args, format);
        vsnprintf(r->why, sizeof r->why, format, args);
        va_end(args);
        r->why_result = result;
    }
    c->doomed = true;
    c->ready = false;
    if (c->ac) redisAsyncFree(c->ac);
}

static const char *leader_redis_whom_(const leader_redis *r) { return r->path[0] && !r->asking ? r->path : r->target.host; }

static void leader_redis_note_why_(leader_redis_conn_ *c, const redisAsyncContext *ac) {
    leader_redis *r = c->client;
    char text[72];
    if (c != &r->main || r->why[0]) return;
    leader_redis_plain_(text, sizeof text, ac->c.err == REDIS_ERR_OOM ? "a reply that nobody asked for, or no memory for it" :
                                           ac->c.err && ac->c.errstr[0] ? ac->c.errstr : "connection closed");
    snprintf(r->why, sizeof r->why, "%.60s: %s%s", leader_redis_whom_(r), text,
             ac->c.err == REDIS_ERR_PROTOCOL ? " (not a Redis server?)" : "");
    r->why_result = LEADER_E_IO;
}

static const struct { const char *word; leader_result result; bool drop; } leader_redis_errors_[] = {
    { "NOAUTH",                 LEADER_E_AUTH,    true  }, { "WRONGPASS",  LEADER_E_AUTH,    true  },
    { "NOPERM",                 LEADER_E_AUTH,    false }, { "WRONGTYPE",  LEADER_E_CORRUPT, false },
    { "can't run this command", LEADER_E_AUTH,    false }, { "ACL failure", LEADER_E_AUTH,   false },
    { "unauthenticated",        LEADER_E_AUTH,    true  },      /* Redis 7 counts the words before it says NOAUTH             */
    { "READONLY",               LEADER_E_IO,      true  }, { "MASTERDOWN", LEADER_E_IO,      true  },
};

/* Everything that is not in the list (LOADING, BUSY, CLUSTERDOWN, OOM, NOREPLICAS, ...) passes by itself. Old servers wrap
   the word that a command inside the script gave, so it is looked for anywhere.                                           */
static leader_result leader_redis_judge_(const char *text, bool *drop) {
    *drop = false;
    for (size_t i = 0; i < sizeof leader_redis_errors_ / sizeof leader_redis_errors_[0]; i++) {
        if (!strstr(text, leader_redis_errors_[i].word)) continue;
        *drop = leader_redis_errors_[i].drop;
        return leader_redis_errors_[i].result;
    }
    return LEADER_E_IO;
}

static bool leader_redis_port_(const char *text, int *port) {
    char *end;
    errno = 0;
    long n = text[0] >= '0' && text[0] <= '9' ? strtol(text, &end, 10) : -1;
    if (n < 1 || n > 65535 || *end || errno) return false;
    *port = (int)n;
    return true;
}

/* "MOVED 3999 10.0.0.9:6381"; no host: the same one                                                                       */
static bool leader_redis_moved_(leader_redis *r, const char *text) {
    const char *at = strchr(text, ' ');
    at = at ? strchr(at + 1, ' ') : NULL;
    const char *colon = at ? strrchr(at, ':') : NULL;
    leader_redis_where_ to;
    if (!colon || (size_t)(colon - at) > sizeof to.host || !leader_redis_port_(colon + 1, &to.port)) return false;
    snprintf(to.host, sizeof to.host, "%.*s", (int)(colon - at - 1), at + 1);
    if (!to.host[0]) memcpy(to.host, r->target.host, sizeof to.host);
    r->moved = to;
    return true;
}

static void leader_redis_refused_(leader_redis_election *e, const redisReply *reply) {
    leader_redis *r = e->client;
    char said[120], text[160];
    bool drop;
    if (!strncmp(reply->str, "NOSCRIPT", 8) && e->attempt < 2) {
        e->attempt++;
        leader_redis_again_(e);
        return;
    }
    leader_redis_plain_(said, sizeof said, reply->str);
    if (!strncmp(reply->str, "MOVED ", 6) && e->hops == 0 && !r->path[0] && leader_redis_moved_(r, reply->str)) {
        e->hops = 1;
        leader_redis_again_(e);
        leader_redis_drop_(&r->main, LEADER_E_IO, "Redis says: %s", said);
        return;
    }
    leader_result result = leader_redis_judge_(reply->str, &drop);
    snprintf(text, sizeof text, "Redis says: %s", said);
    leader_redis_finish_(e, result, text);
    if (drop) leader_redis_drop_(&r->main, result, "%s", text);
}

static bool leader_redis_is_text_(const redisReply *reply, size_t most) {
    return reply->type == REDIS_REPLY_STRING && reply->len <= most && !memchr(reply->str, 0, reply->len);
}

static bool leader_redis_is_count_(const redisReply *reply) {
    return reply->type == REDIS_REPLY_INTEGER && reply->integer >= 0 && (uint64_t)reply->integer < leader_redis_token_end_;
}

static bool leader_redis_is_utf8_(const char *text, size_t len) {
    size_t width = 1;
    for (size_t at = 0; at < len && width > 0; at += width) width = leader_utf8_(text + at, len - at);
    return width > 0;
}

static const struct { const char *word; leader_result result; unsigned ops; } leader_redis_words_[] = {
    { "OK",        LEADER_OK,          1u << LEADER_REDIS_ACQUIRE_ | 1u << LEADER_REDIS_RENEW_ | 1u << LEADER_REDIS_RELEASE_ },
    { "HELD",      LEADER_HELD,        1u << LEADER_REDIS_ACQUIRE_ | 1u << LEADER_REDIS_OBSERVE_ },
    { "WAIT",      LEADER_HELD,        1u << LEADER_REDIS_ACQUIRE_ },
    { "FREE",      LEADER_OK,          1u << LEADER_REDIS_OBSERVE_ },
    { "LOST",      LEADER_LOST,        1u << LEADER_REDIS_RENEW_ | 1u << LEADER_REDIS_RELEASE_ },
    { "DUPLICATE", LEADER_E_DUPLICATE, 1u << LEADER_REDIS_ACQUIRE_ },
    { "CORRUPT",   LEADER_E_CORRUPT,   1u << LEADER_REDIS_ACQUIRE_ | 1u << LEADER_REDIS_OBSERVE_ },
};

/* The five elements that every script answers, or nothing: false.                                                         */
static bool leader_redis_read_answer_(leader_redis_election *e, const redisReply *reply) {
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 5) return false;
    redisReply **item = reply->element;
    if (!leader_redis_is_text_(item[0], 16) || !leader_redis_is_count_(item[1]) || !leader_redis_is_count_(item[2])
        || !leader_redis_is_count_(item[3]) || !leader_redis_is_text_(item[4], LEADER_IDENTITY_MAX)) return false;
    for (size_t i = 0; i < sizeof leader_redis_words_ / sizeof leader_redis_words_[0]; i++) {
        if (strcmp(item[0]->str, leader_redis_words_[i].word) || !(leader_redis_words_[i].ops >> e->op & 1u)) continue;
        e->result = leader_redis_words_[i].result;
        e->answer.token = (uint64_t)item[1]->integer;
        e->answer.expires_in_ms = item[2]->integer;
        if (item[3]->integer > e->longest_ms) e->longest_ms = item[3]->integer;
        if (leader_redis_is_utf8_(item[4]->str, item[4]->len)) memcpy(e->answer.holder, item[4]->str, item[4]->len + 1);
        else e->result = LEADER_E_CORRUPT;               /* no candidate has such a name                                   */
        return !(e->op == LEADER_REDIS_RENEW_ && e->result == LEADER_OK && e->answer.token != e->term_token);
    }
    return false;
}

static void leader_redis_answered_(leader_redis_election *e, const redisReply *reply) {
    leader_redis *r = e->client;
    if (reply->type == REDIS_REPLY_ERROR) { leader_redis_refused_(e, reply); return; }
    if (!leader_redis_read_answer_(e, reply)) {
        memset(&e->answer, 0, sizeof e->answer);
        leader_redis_finish_(e, LEADER_E_CORRUPT, "the server's reply is not what the script answers");
        leader_redis_drop_(&r->main, LEADER_E_IO, "the server's reply is not what the script answers");
        return;
    }
    if (e->result == LEADER_OK && e->expected > 0) return;               /* and now the replicas                          */
    leader_redis_finish_(e, e->result,
        e->result == LEADER_E_DUPLICATE ? "another process holds the lease under this identity" :
        e->result == LEADER_E_CORRUPT   ? "the lease or its witness in the server cannot be read" : "");
}

static void leader_redis_replicated_(leader_redis_election *e, const redisReply *reply) {
    char text[96];
    if (reply->type == REDIS_REPLY_INTEGER && reply->integer >= e->client->wait_replicas) { leader_redis_finish_(e, LEADER_OK, ""); return; }
    if (reply->type == REDIS_REPLY_INTEGER)
        snprintf(text, sizeof text, "%lld of wait_replicas (%d) have the write", reply->integer, e->client->wait_replicas);
    else {
        char said[60];
        leader_redis_plain_(said, sizeof said, reply->type == REDIS_REPLY_ERROR ? reply->str : "something else than a number");
        snprintf(text, sizeof text, "WAIT: Redis says: %s", said);
    }
    memset(&e->answer, 0, sizeof e->answer);
    leader_redis_finish_(e, LEADER_E_IO, text);
}

/* Replies come in the order of the requests, so those to requests that were given up come before that to the present one. */
static void leader_redis_on_reply_(redisAsyncContext *ac, void *reply, void *privdata) {
    leader_redis_election *e = (leader_redis_election *)privdata;
    leader_redis *r = e->client;
    r->unanswered--;
    if (reply) {
        r->heard_ms = r->now_ms;
        r->failures = 0;
    } else {
        leader_redis_note_why_(&r->main, ac);
    }
    if (e->stale > 0) { e->stale--; return; }
    bool first = e->phase == LEADER_REDIS_SENT_ && e->expected == (e->client->wait_replicas && e->op <= LEADER_REDIS_RENEW_ ? 2u : 1u);
    if (e->phase != LEADER_REDIS_SENT_ || e->expected == 0) return;
    e->expected--;
    if (!reply) leader_redis_finish_(e, r->why_result, r->why);
    else if (first) leader_redis_answered_(e, (const redisReply *)reply);
    else leader_redis_replicated_(e, (const redisReply *)reply);
}

/* ---- sending ------------------------------------------------------------------------------------------------------------ */

/* A key with a hash tag keeps it; any other is the tag of its witness: both land in one slot.                              */
static bool leader_redis_has_tag_(const char *key) {
    const char *open = strchr(key, '{');
    const char *close = open ? strchr(open, '}') : NULL;
    return close && close > open + 1;
}

static bool leader_redis_command_(leader_redis_election *e, const leader_request *q) {
    char witness[280], nonce[20], seq[24], lease[24], settled_seq[24], term_token[24], min_token[24], longest[24];
    /* One text per connection teaches all who wait behind it; who still meets NOSCRIPT after that sends its own.           */
    unsigned bit = 1u << e->op;
    bool by_text = e->attempt == 2 || (e->attempt == 1 && !(e->client->taught & bit)), tag = leader_redis_has_tag_(e->key);
    if (by_text) e->client->taught |= bit;
    snprintf(witness, sizeof witness, tag ? "%s:witness" : "{%s}:witness", e->key);
    snprintf(nonce, sizeof nonce, "%016llx", (unsigned long long)q->nonce);
    snprintf(seq, sizeof seq, "%020llu", (unsigned long long)(e->op == LEADER_REDIS_RENEW_ ? e->term_seq : q->seq));
    snprintf(lease, sizeof lease, "%lld", (long long)q->lease_ms);
    snprintf(settled_seq, sizeof settled_seq, "%020llu", (unsigned long long)e->settled_seq);
    snprintf(term_token, sizeof term_token, "%llu", (unsigned long long)e->term_token);
    snprintf(min_token, sizeof min_token, "%llu", (unsigned long long)q->min_token);
    snprintf(longest, sizeof longest, "%lld", (long long)e->longest_ms);
    const char *argv[14] = { by_text ? "EVAL" : "EVALSHA", by_text ? leader_redis_script_[e->op].lua : leader_redis_script_[e->op].sha1,
        "2", e->key, witness, q->identity, nonce, seq, lease, settled_seq, term_token, min_token, longest, q->reclaim ? "1" : "0" };
    return redisAsyncCommandArgv(e->client->main.ac, leader_redis_on_reply_, e, e->op == LEADER_REDIS_ACQUIRE_ ? 14 : 11, argv, NULL) == REDIS_OK;
}

static void leader_redis_serve_(leader_redis_conn_ *c, bool readable, bool writable);
static void leader_redis_closed_(leader_redis_conn_ *c);

/* hiredis 0.14 says OK even when it had no memory to note who waits for the reply: then one request would get another's. It shows: the
   last of those who wait is the same as before.                                                                            */
static bool leader_redis_expect_(leader_redis_election *e, bool said, const redisCallback *last) {
    bool noted = e->client->main.ac->replies.tail != last;
    if (noted) { e->expected++; e->client->unanswered++; }
    return said && noted;
}

static void leader_redis_send_(leader_redis_election *e, const leader_request *q) {
    leader_redis *r = e->client;
    const redisCallback *last = r->main.ac->replies.tail;
    e->expected = 0;
    bool sent = leader_redis_expect_(e, leader_redis_command_(e, q), last);
    if (sent && r->wait_replicas && e->op <= LEADER_REDIS_RENEW_) {
        int64_t wait_ms = q->timeout_ms / 2 > 0 ? q->timeout_ms / 2 : 1;
        last = r->main.ac->replies.tail;
        sent = leader_redis_expect_(e, redisAsyncCommand(r->main.ac, leader_redis_on_reply_, e, "WAIT %d %lld", r->wait_replicas, (long long)wait_ms) == REDIS_OK, last);
    }
    if (!sent) {
        leader_redis_finish_(e, LEADER_E_IO, "hiredis took no command: out of memory");
        leader_redis_drop_(&r->main, LEADER_E_IO, "hiredis took no command: out of memory");
        leader_redis_closed_(&r->main);
        return;
    }
    e->phase = LEADER_REDIS_SENT_;
    r->waiting--;
    e->sent_ms = r->now_ms;
    /* Alone on the wire: go. Behind others: leave with the rest of the batch, at the carrier's next tick.                  */
    if (r->unanswered == e->expected) leader_redis_serve_(&r->main, false, true);
}

/* ---- what hiredis may build ------------------------------------------------------------------------------------------------
   hiredis' asynchronous side asserts that replies make sense: one that nobody asked for, or a notice of the wrong shape, would
   end the process. So the reader builds replies through these, which refuse such a reply before it exists; hiredis
   then takes the connection down as it does when memory runs out.                                                         */
enum { LEADER_REDIS_ELEMENTS_MAX_ = 1024, LEADER_REDIS_REPLY_MAX_ = 65536 };

static leader_redis_election *leader_redis_find_(leader_redis *r, const char *key, size_t len);

/* What hiredis would have built it with. */
static const redisReplyObjectFunctions *leader_redis_builtin_(const redisReadTask *task) { return (const redisReplyObjectFunctions *)((leader_redis_conn_ *)task->privdata)->builtin; }

/* len: bytes of a string, elements of an array. What is read leaves hiredis' buffer, so that a reply is measured here.     */
static bool leader_redis_allows_(const redisReadTask *task, int type, const char *text, size_t len) {
    leader_redis_conn_ *c = (leader_redis_conn_ *)task->privdata;
    if (len > (size_t)(type == REDIS_REPLY_ARRAY ? LEADER_REDIS_ELEMENTS_MAX_ : LEADER_REDIS_REPLY_MAX_)) return false;
    c->built = (task->parent ? c->built : 0) + sizeof(redisReply) + (type == REDIS_REPLY_ARRAY ? len * sizeof(void *) : len);
    if (c->built > LEADER_REDIS_REPLY_MAX_) return false;
    if (c->ac->replies.head) return true;
    if (!task->parent) return type == REDIS_REPLY_ERROR || (type == REDIS_REPLY_ARRAY && len == 3 && (c->ac->c.flags & REDIS_SUBSCRIBED));
    const redisReply *notice = (const redisReply *)task->parent->obj;
    const char *kind = task->idx > 0 ? notice->element[0]->str : "";
    char word[16] = "";
    switch (task->idx) {
    case 0:
        if (type == REDIS_REPLY_STRING && len < sizeof word) memcpy(word, text, len);
        return !strcmp(word, "message") || !strcmp(word, "subscribe") || !strcmp(word, "unsubscribe");
    case 1:  return type == REDIS_REPLY_STRING && (strcmp(kind, "subscribe") || leader_redis_find_(c->client, text, len));
    default: return type == (strcmp(kind, "message") ? REDIS_REPLY_INTEGER : REDIS_REPLY_STRING);
    }
}

static void *leader_redis_make_string_(const redisReadTask *task, char *text, size_t len) {
    return leader_redis_allows_(task, task->type, text, len) ? leader_redis_builtin_(task)->createString(task, text, len) : NULL;
}

#if HIREDIS_MAJOR >= 1
static void *leader_redis_make_array_(const redisReadTask *task, size_t elements) {
#else
static void *leader_redis_make_array_(const redisReadTask *task, int elements) {
#endif
    if (task->type != REDIS_REPLY_ARRAY || !leader_redis_allows_(task, REDIS_REPLY_ARRAY, "", (size_t)elements)) return NULL;
    return leader_redis_builtin_(task)->createArray(task, elements);
}

static void *leader_redis_make_integer_(const redisReadTask *task, long long value) {
    return leader_redis_allows_(task, REDIS_REPLY_INTEGER, "", 0) ? leader_redis_builtin_(task)->createInteger(task, value) : NULL;
}

static void *leader_redis_make_nil_(const redisReadTask *task) {
    return leader_redis_allows_(task, REDIS_REPLY_NIL, "", 0) ? leader_redis_builtin_(task)->createNil(task) : NULL;
}

static void leader_redis_free_reply_(void *reply) { freeReplyObject(reply); }

#if HIREDIS_MAJOR >= 1
static void *leader_redis_make_double_(const redisReadTask *task, double value, char *text, size_t len) { (void)task; (void)value; (void)text; (void)len; return NULL; }
static void *leader_redis_make_bool_(const redisReadTask *task, int value) { (void)task; (void)value; return NULL; }
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

/* ---- connections ------------------------------------------------------------------------------------------------------------ */

static void leader_redis_add_read_ (void *c) { ((leader_redis_conn_ *)c)->events |= LEADER_READ; }
static void leader_redis_del_read_ (void *c) { ((leader_redis_conn_ *)c)->events &= ~LEADER_READ; }
static void leader_redis_add_write_(void *c) { ((leader_redis_conn_ *)c)->events |= LEADER_WRITE; }
static void leader_redis_del_write_(void *c) { ((leader_redis_conn_ *)c)->events &= ~LEADER_WRITE; }

static void leader_redis_tell_(leader_redis_conn_ *c, int events) {
    leader_redis_election *carrier = c->client->first;
    if (!c->ac || c->told == events || !carrier) return;
    c->told = events;
    carrier->host.fd(carrier->host.core, c->ac->c.fd, events);
}

/* An ACL without SUBSCRIBE, say: not worth asking again soon, because polling is enough.                                   */
static void leader_redis_no_notice_(leader_redis_conn_ *c, const char *said) {
    leader_redis *r = c->client;
    char plain[96], text[160];
    r->watch_retry_at_ms = r->now_ms + 60000;
    leader_redis_plain_(plain, sizeof plain, said);
    snprintf(text, sizeof text, "no release notices, polling instead: Redis says: %s", plain);
    if (r->first) r->first->host.log(r->first->host.core, LEADER_LOG_WARN, text);
}

/* hiredis calls this before it closes the socket, and perhaps twice.                                                       */
static void leader_redis_cleanup_(void *privdata) {
    leader_redis_conn_ *c = (leader_redis_conn_ *)privdata;
    if (!c->ac) return;
    leader_redis_note_why_(c, c->ac);
    if (c == &c->client->watch && c->ac->c.err == REDIS_ERR_OTHER) leader_redis_no_notice_(c, c->ac->c.errstr);
    leader_redis_tell_(c, 0);
    c->ac = NULL;
    c->ready = false;
}

/* A socket that was given up for dead must not deliver its leftovers when the network heals.                               */
static void leader_redis_abort_(leader_redis_conn_ *c, const char *why) {
    struct linger now = { 1, 0 };
    if (!c->ac) return;
    (void)setsockopt(c->ac->c.fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    leader_redis_drop_(c, LEADER_E_IO, "%s", why);
}

static void leader_redis_on_connect_(const redisAsyncContext *ac, int status);
static void leader_redis_failed_(leader_redis *r);

/* ---- names: a resolver that does not wait ----------------------------------------------------------------------------------------- */

#ifndef LEADER_REDIS_RESOLV_CONF    /* implementation only; the tests have files and a port of their own                        */
#  define LEADER_REDIS_RESOLV_CONF "/etc/resolv.conf"
#endif
#ifndef LEADER_REDIS_HOSTS
#  define LEADER_REDIS_HOSTS "/etc/hosts"
#endif
#ifndef LEADER_REDIS_DNS_PORT
#  define LEADER_REDIS_DNS_PORT 53
#endif

typedef struct leader_redis_lines_ { int fd; size_t at, end; char buf[512]; } leader_redis_lines_;

/* The next line, cut to cap, without its comment; false: no more.                                                            */
static bool leader_redis_line_(leader_redis_lines_ *in, char *out, size_t cap) {
    size_t n = 0;
    for (;;) {
        if (in->at == in->end) {
            ssize_t got = in->fd < 0 ? 0 : read(in->fd, in->buf, sizeof in->buf);
            if (got <= 0) { out[n] = 0; return n > 0; }
            in->at = 0;
            in->end = (size_t)got;
        }
        char c = in->buf[in->at++];
        if (c == '\n') break;
        if (n + 1 < cap) out[n++] = c;
    }
    out[n] = 0;
    out[strcspn(out, "#;")] = 0;
    return true;
}

static bool leader_redis_is_numeric_(const char *host) {
    unsigned char raw[16];
    return inet_pton(AF_INET, host, raw) == 1 || inet_pton(AF_INET6, host, raw) == 1;
}

static bool leader_redis_in_hosts_(const char *host, char address[64]) {
    leader_redis_lines_ in = { open(LEADER_REDIS_HOSTS, O_RDONLY | O_CLOEXEC), 0, 0, "" };
    char line[512], *save = NULL;
    bool found = false;
    while (!found && leader_redis_line_(&in, line, sizeof line)) {
        const char *first = strtok_r(line, " \t\r", &save), *name;
        if (!first || !leader_redis_is_numeric_(first)) continue;
        while (!found && (name = strtok_r(NULL, " \t\r", &save)) != NULL) found = !strcasecmp(name, host);
        if (found) snprintf(address, 64, "%.63s", first);
    }
    if (in.fd >= 0) close(in.fd);
    return found;
}

typedef struct leader_redis_resolver_ { char server[3][64], search[6][128]; int servers, searches, ndots; } leader_redis_resolver_;

static void leader_redis_read_resolver_(leader_redis_resolver_ *c) {
    leader_redis_lines_ in = { open(LEADER_REDIS_RESOLV_CONF, O_RDONLY | O_CLOEXEC), 0, 0, "" };
    char line[512], *save = NULL;
    memset(c, 0, sizeof *c);
    c->ndots = 1;
    while (leader_redis_line_(&in, line, sizeof line)) {
        const char *key = strtok_r(line, " \t\r", &save), *word;
        bool search = key && (!strcmp(key, "search") || !strcmp(key, "domain"));
        if (!key) continue;
        if (search) c->searches = 0;
        while ((word = strtok_r(NULL, " \t\r", &save)) != NULL) {
            if (!strcmp(key, "nameserver") && c->servers < 3 && leader_redis_is_numeric_(word)) snprintf(c->server[c->servers++], 64, "%.63s", word);
            else if (search && c->searches < 6 && strlen(word) < 128) snprintf(c->search[c->searches++], 128, "%.127s", word);
            else if (!strcmp(key, "options") && !strncmp(word, "ndots:", 6)) c->ndots = atoi(word + 6);
        }
    }
    if (in.fd >= 0) close(in.fd);
    if (c->servers == 0) snprintf(c->server[c->servers++], 64, "127.0.0.1");
}

/* The forms of a name in the order in which they are asked for: with few dots the search list first, else the name as it is.       */
static bool leader_redis_candidate_(const leader_redis_resolver_ *c, const char *host, int index, char *out, size_t cap) {
    size_t len = strlen(host);
    int dots = 0, own = 0;
    for (const char *p = host; *p; p++) dots += *p == '.';
    bool whole = len > 0 && host[len - 1] == '.';
    if (!whole && dots < c->ndots) own = c->searches;
    if (index > (whole ? 0 : c->searches)) return false;
    int n = index == own ? snprintf(out, cap, "%s", host) : snprintf(out, cap, "%s.%s", host, c->search[index < own ? index : index - 1]);
    return n > 0 && (size_t)n < cap;
}

/* One question in wire form; 0: not a name that can be asked for.                                                                   */
static size_t leader_redis_question_(unsigned char out[300], unsigned id, const char *name, bool v6) {
    size_t n = 12;
    memset(out, 0, n);
    out[0] = (unsigned char)(id >> 8);
    out[1] = (unsigned char)id;
    out[2] = out[5] = 1;            /* recursion, please; one question                                                           */
    while (*name) {
        size_t len = strcspn(name, ".");
        if (len == 0 || len > 63 || n + len + 6 > 268) return 0;
        out[n++] = (unsigned char)len;
        memcpy(out + n, name, len);
        n += len;
        name += len + (name[len] == '.');
    }
    out[n++] = 0;
    out[n++] = 0;
    out[n++] = v6 ? 28 : 1;
    out[n++] = 0;
    out[n++] = 1;
    return n;
}

/* 1: an address; 0: there is none of this kind; -1: not an answer to this question, or none that helps. Names are skipped, never
   followed, so nothing in here can go round in circles.                                                                             */
static int leader_redis_read_dns_(const unsigned char *p, size_t n, const unsigned char *query, size_t query_len, char address[64]) {
    if (n < query_len || n < 12 || memcmp(p, query, 2) != 0 || (p[2] & 0xf8) != 0x80 || p[4] != 0 || p[5] != 1) return -1;
    for (size_t i = 12; i < query_len; i++) if ((p[i] | (p[i] >= 'A' && p[i] <= 'Z' ? 32 : 0)) != (query[i] | (query[i] >= 'A' && query[i] <= 'Z' ? 32 : 0))) return -1;
    int code = p[3] & 15, answers = p[6] << 8 | p[7];
    bool v6 = query[query_len - 3] == 28;
    if (code != 0) return code == 3 ? 0 : -1;
    for (size_t at = query_len; answers > 0; answers--) {
        while (at < n && p[at] != 0 && p[at] < 64) at += (size_t)p[at] + 1;
        if (at >= n || (p[at] != 0 && p[at] < 192)) return -1;
        at += p[at] ? 2 : 1;
        if (at + 10 > n) return -1;
        size_t len = (size_t)(p[at + 8] << 8 | p[at + 9]);
        bool wanted = p[at] == 0 && p[at + 1] == (v6 ? 28 : 1) && len == (v6 ? 16u : 4u);
        at += 10;
        if (at + len > n) return -1;
        if (wanted) return inet_ntop(v6 ? AF_INET6 : AF_INET, p + at, address, 64) ? 1 : -1;
        at += len;
    }
    return p[2] & 2 ? -1 : 0;       /* cut short: somebody else may say more                                                     */
}

static void leader_redis_dns_tell_(leader_redis *r, int events) {
    if (r->dns_fd < 0 || r->dns_told == events || !r->first) return;
    r->dns_told = events;
    r->first->host.fd(r->first->host.core, r->dns_fd, events);
}

static void leader_redis_dns_end_(leader_redis *r) {
    if (r->dns_fd < 0) return;
    leader_redis_dns_tell_(r, 0);
    close(r->dns_fd);
    r->dns_fd = -1;
}

/* Sends the present question to the present server from a port of its own; false: nobody is left to ask.                               */
static bool leader_redis_dns_ask_(leader_redis *r) {
    enum { TRY_MS = 400, ROUNDS = 2 };
    leader_redis_resolver_ c;
    char name[400];
    leader_redis_dns_end_(r);
    leader_redis_read_resolver_(&c);
    for (; r->dns_try < c.servers * ROUNDS; r->dns_try++) {
        if (!leader_redis_candidate_(&c, r->target.host, r->dns_candidate, name, sizeof name)) return false;
        r->dns_len = leader_redis_question_(r->dns_query, (unsigned)(LEADER_RANDOM64() & 0xffff), name, r->dns_v6);
        if (r->dns_len == 0) { r->dns_candidate++; r->dns_try = -1; continue; }
        struct sockaddr_storage to;
        const char *server = c.server[r->dns_try % c.servers];
        struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&to;
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)&to;
        bool is_v4 = inet_pton(AF_INET, server, &v4->sin_addr) == 1;
        memset(&to, 0, sizeof to);
        to.ss_family = is_v4 ? AF_INET : AF_INET6;
        if (is_v4) { v4->sin_port = htons((uint16_t)(LEADER_REDIS_DNS_PORT)); (void)inet_pton(AF_INET, server, &v4->sin_addr); }
        else       { v6->sin6_port = htons((uint16_t)(LEADER_REDIS_DNS_PORT)); (void)inet_pton(AF_INET6, server, &v6->sin6_addr); }
        r->dns_fd = socket(to.ss_family, SOCK_DGRAM, 0);
        if (r->dns_fd < 0) continue;
        r->dns_told = 0;
        (void)fcntl(r->dns_fd, F_SETFD, FD_CLOEXEC);
        (void)fcntl(r->dns_fd, F_SETFL, O_NONBLOCK);
        r->dns_deadline_ms = r->now_ms + TRY_MS;
        if (connect(r->dns_fd, (struct sockaddr *)(void *)&to, is_v4 ? sizeof *v4 : sizeof *v6) == 0 && send(r->dns_fd, r->dns_query, r->dns_len, 0) == (ssize_t)r->dns_len) {
            leader_redis_dns_tell_(r, LEADER_READ);
            return true;
        }
        leader_redis_dns_end_(r);
    }
    return false;
}

/* 1: address is known; 0: not yet; -1: never                                                                                        */
static int leader_redis_dns_step_(leader_redis *r) {
    enum { STRANGERS_MAX = 32 };
    for (int strangers = 0; ; ) {
        unsigned char reply[1500];
        ssize_t n = recv(r->dns_fd, reply, sizeof reply, 0);
        bool waiting = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
        if (waiting && r->now_ms < r->dns_deadline_ms) return 0;
        int said = n < 0 ? -1 : leader_redis_read_dns_(reply, (size_t)n, r->dns_query, r->dns_len, r->address);
        if (said > 0) break;
        if (n >= 0 && (n < 2 || memcmp(reply, r->dns_query, 2) != 0)) {       /* not ours: go on waiting, but not in here for ever */
            if (++strangers < STRANGERS_MAX) continue;
            return 0;
        }
        if (said < 0) r->dns_try++;
        else {
            r->dns_try = 0;
            if (r->dns_v6) r->dns_candidate++;
            r->dns_v6 = !r->dns_v6;
        }
        if (!leader_redis_dns_ask_(r)) break;
    }
    bool found = r->dns_fd >= 0;
    leader_redis_dns_end_(r);
    if (!found && !strcmp(r->target.host, r->good_name)) { memcpy(r->address, r->good_address, sizeof r->address); found = true; }
    if (found) return 1;
    snprintf(r->why, sizeof r->why, "%.60s: no address is known for this name", r->target.host);
    r->why_result = LEADER_E_IO;
    return -1;
}

/* As dns_step. Costs nothing for a number, a line of a file for a local name.                                                         */
static int leader_redis_resolve_(leader_redis *r) {
    const char *host = r->target.host;
    if (leader_redis_is_numeric_(host)) { snprintf(r->address, sizeof r->address, "%.63s", host); return 1; }
    if (r->failures <= 1 && !strcmp(host, r->good_name)) { memcpy(r->address, r->good_address, sizeof r->address); return 1; }
    if (leader_redis_in_hosts_(host, r->address)) return 1;
    r->dns_candidate = r->dns_try = 0;
    r->dns_v6 = false;
    return leader_redis_dns_ask_(r) ? 0 : leader_redis_dns_step_(r);
}

static void leader_redis_set_options_(int fd) {
    int on = 1;
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
#if defined(TCP_KEEPIDLE) && defined(TCP_KEEPINTVL) && defined(TCP_KEEPCNT)    /* a dead notice connection is found within 30 s  */
    int idle = 15, interval = 5, count = 3;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
#endif
}

static bool leader_redis_connect_(leader_redis_conn_ *c, int64_t timeout_ms) {
    leader_redis *r = c->client;
    bool by_path = r->path[0] && !r->asking;
    redisAsyncContext *ac = by_path ? redisAsyncConnectUnix(r->path) : redisAsyncConnect(r->address, r->target.port);
    if (!ac || ac->err) {
        if (ac) leader_redis_note_why_(c, ac);
        else leader_redis_drop_(c, LEADER_E_IO, "out of memory");
        if (ac) redisAsyncFree(ac);
        return false;
    }
    leader_redis_set_options_(ac->c.fd);
    c->builtin = ac->c.reader->fn;
    ac->c.reader->fn = &leader_redis_reader_;
    ac->c.reader->privdata = c;
    ac->data = c;
    ac->ev.data = c;
    ac->ev.addRead = leader_redis_add_read_;
    ac->ev.delRead = leader_redis_del_read_;
    ac->ev.addWrite = leader_redis_add_write_;
    ac->ev.delWrite = leader_redis_del_write_;
    ac->ev.cleanup = leader_redis_cleanup_;
    c->ac = ac;
    c->events = c->told = c->greeting = 0;
    c->connected = c->ready = c->doomed = false;
    c->deadline_ms = r->now_ms + timeout_ms;
    (void)redisAsyncSetConnectCallback(ac, leader_redis_on_connect_);    /* asks for WRITE: that is how connect ends           */
    return true;
}

/* ---- TLS ----------------------------------------------------------------------------------------------------------------------- */

#ifdef LEADER_REDIS_TLS
static const char *leader_redis_tls_open_(leader_redis *r) {
    if (r->ssl) return NULL;
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    const char *wrong = NULL;
    if (!ctx) return "tls: OpenSSL gave no context";
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    if (!(r->ca_file[0] ? SSL_CTX_load_verify_locations(ctx, r->ca_file, NULL) : SSL_CTX_set_default_verify_paths(ctx))) wrong = "ca_file cannot be read";
    else if (r->cert_file[0] && SSL_CTX_use_certificate_chain_file(ctx, r->cert_file) != 1) wrong = "cert_file cannot be read";
    else if (r->key_file[0] && SSL_CTX_use_PrivateKey_file(ctx, r->key_file, SSL_FILETYPE_PEM) != 1) wrong = "key_file cannot be read, or does not belong to cert_file";
    if (wrong) SSL_CTX_free(ctx);
    else r->ssl = ctx;
    return wrong;
}

static void leader_redis_tls_close_(leader_redis *r) {
    if (r->ssl) SSL_CTX_free(r->ssl);
    r->ssl = NULL;
}

/* OpenSSL keeps errors until somebody asks: another connection's must not pass for this one's.                              */
static void leader_redis_tls_forget_(void) { ERR_clear_error(); }

/* hiredis_ssl does the I/O; the name is checked here because hiredis before 1.5 does not.                                   */
static bool leader_redis_tls_start_(leader_redis_conn_ *c, redisAsyncContext *ac) {
    leader_redis *r = c->client;
    const char *name = r->server_name[0] ? r->server_name : r->target.host;
    SSL *ssl = SSL_new(r->ssl);
    if (!ssl) return false;
    X509_VERIFY_PARAM *want = SSL_get0_param(ssl);
    X509_VERIFY_PARAM_set_hostflags(want, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    bool numeric = X509_VERIFY_PARAM_set1_ip_asc(want, name) == 1;
    if ((numeric || (X509_VERIFY_PARAM_set1_host(want, name, 0) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1))
        && redisInitiateSSL(&ac->c, ssl) == REDIS_OK) return true;
    SSL_free(ssl);
    return false;
}
#else
static const char *leader_redis_tls_open_(leader_redis *r) { (void)r; return NULL; }
static void leader_redis_tls_close_(leader_redis *r) { (void)r; }
static void leader_redis_tls_forget_(void) { }
static bool leader_redis_tls_start_(leader_redis_conn_ *c, redisAsyncContext *ac) { (void)c; (void)ac; return false; }
#endif

/* ---- from connected to ready: AUTH, SELECT, ROLE, or the question to a sentinel ------------------------------------------------ */

static const char leader_redis_auth_[] = "AUTH", leader_redis_select_[] = "SELECT", leader_redis_role_[] = "ROLE", leader_redis_ask_[] = "SENTINEL";

static void leader_redis_ready_(leader_redis_conn_ *c);

/* A server that does not know AUTH quotes its arguments: of what it says to that, only the code in capitals before it is repeated. */
static void leader_redis_greeting_refused_(leader_redis_conn_ *c, const char *step, const redisReply *reply) {
    leader_redis *r = c->client;
    char said[96];
    bool drop;
    leader_result result = leader_redis_judge_(reply->str, &drop);
    leader_redis_plain_(said, sizeof said, reply->str);
    if (step == leader_redis_auth_) {
        said[strspn(said, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")] = 0;
        if (!strcmp(said, "ERR")) result = LEADER_E_AUTH;
    }
    if (c == &r->watch) leader_redis_no_notice_(c, said);
    leader_redis_drop_(c, result, "%.60s: %s: Redis says: %s", r->target.host, step, said);
}

static bool leader_redis_is_master_(const redisReply *reply) {
    return reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 && leader_redis_is_text_(reply->element[0], 16) && !strcmp(reply->element[0]->str, "master");
}

static bool leader_redis_named_(leader_redis *r, const redisReply *reply) {
    leader_redis_where_ to;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || !leader_redis_is_text_(reply->element[0], sizeof to.host - 1)
        || !leader_redis_is_text_(reply->element[1], 5) || !reply->element[0]->len || !leader_redis_port_(reply->element[1]->str, &to.port)) return false;
    memcpy(to.host, reply->element[0]->str, reply->element[0]->len + 1);
    r->target = to;
    return true;
}

static void leader_redis_on_greeting_(redisAsyncContext *ac, void *privdata_reply, void *privdata) {
    leader_redis_conn_ *c = (leader_redis_conn_ *)ac->data;
    leader_redis *r = c->client;
    const redisReply *reply = (const redisReply *)privdata_reply;
    const char *step = (const char *)privdata;
    if (!reply) { leader_redis_note_why_(c, ac); return; }
    if (c->doomed || c->greeting == 0) return;
    if (reply->type == REDIS_REPLY_ERROR) { leader_redis_greeting_refused_(c, step, reply); return; }
    if (step == leader_redis_role_ && !leader_redis_is_master_(reply)) {
        leader_redis_drop_(c, LEADER_E_IO, "%.60s:%d, which the sentinel named, is not a master", r->target.host, r->target.port);
        return;
    }
    if (step == leader_redis_ask_) {
        r->found = leader_redis_named_(r, reply);
        if (r->found) r->why[0] = 0;
        leader_redis_drop_(c, LEADER_E_IO, "sentinel %.60s does not know sentinel_name (%.40s)", r->target.host, r->sentinel_name);
        return;
    }
    if (--c->greeting == 0) leader_redis_ready_(c);
}

static void leader_redis_greet_(leader_redis_conn_ *c, redisAsyncContext *ac, const char *step, int argc, const char *a, const char *b, const char *d) {
    const char *argv[4] = { step, a, b, d };
    const redisCallback *last = ac->replies.tail;
    if (redisAsyncCommandArgv(ac, leader_redis_on_greeting_, (void *)(uintptr_t)step, argc, argv, NULL) == REDIS_OK && ac->replies.tail != last) c->greeting++;
    else c->doomed = true;
}

static void leader_redis_greet_all_(leader_redis_conn_ *c, redisAsyncContext *ac) {
    leader_redis *r = c->client;
    bool sentinel = c == &r->main && r->asking;
    const char *user = sentinel ? r->sentinel_username : r->username, *secret = sentinel ? r->sentinel_password : r->password;
    char db[16];
    if (secret[0] && user[0]) leader_redis_greet_(c, ac, leader_redis_auth_, 3, user, secret, NULL);
    else if (secret[0])       leader_redis_greet_(c, ac, leader_redis_auth_, 2, secret, NULL, NULL);
    if (sentinel) { leader_redis_greet_(c, ac, leader_redis_ask_, 3, "get-master-addr-by-name", r->sentinel_name, NULL); return; }
    if (c == &r->watch) return;
    snprintf(db, sizeof db, "%d", r->db);
    if (r->db) leader_redis_greet_(c, ac, leader_redis_select_, 2, db, NULL, NULL);
    if (r->sentinel_count) leader_redis_greet_(c, ac, leader_redis_role_, 1, NULL, NULL, NULL);
}

/* hiredis goes on with the context after this, so that nothing may be started or freed in here.                             */
static void leader_redis_on_connect_(const redisAsyncContext *ac, int status) {
    leader_redis_conn_ *c = (leader_redis_conn_ *)ac->data;
    if (status == REDIS_OK) c->connected = true;
    else leader_redis_note_why_(c, ac);
}

/* No word leaves before TLS stands: the first is a password.                                                                   */
static void leader_redis_begin_(leader_redis_conn_ *c) {
    c->connected = false;           /* once is enough                                                                     */
    if (c->client->tls && !leader_redis_tls_start_(c, c->ac)) { leader_redis_note_why_(c, c->ac); c->doomed = true; return; }
    leader_redis_greet_all_(c, c->ac);
    if (!c->doomed && c->greeting == 0) leader_redis_ready_(c);
}

/* ---- notices: what the second connection is for ---------------------------------------------------------------------------------- */

static unsigned leader_redis_hash_(const char *key, size_t len) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < len; i++) h = (h ^ (unsigned char)key[i]) * 16777619u;
    return (unsigned)((h ^ h >> 16) % LEADER_REDIS_BUCKETS_);
}

static leader_redis_election *leader_redis_same_(leader_redis_election *e, const char *key, size_t len) {
    while (e && (strlen(e->key) != len || memcmp(e->key, key, len) != 0)) e = e->bucket_next;
    return e;
}

static leader_redis_election *leader_redis_find_(leader_redis *r, const char *key, size_t len) {
    return leader_redis_same_(r->bucket[leader_redis_hash_(key, len)], key, len);
}

/* The message is the token of the term that was released: each counts once.                                                 */
static void leader_redis_on_notice_(redisAsyncContext *ac, void *privdata_reply, void *privdata) {
    leader_redis *r = ((leader_redis_conn_ *)ac->data)->client;
    const redisReply *reply = (const redisReply *)privdata_reply;
    (void)privdata;
    if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 || reply->element[2]->type != REDIS_REPLY_STRING || reply->element[2]->len > 16) return;
    uint64_t token = strtoull(reply->element[2]->str, NULL, 10);
    const char *key = reply->element[1]->str;
    size_t len = reply->element[1]->len;
    for (leader_redis_election *e = leader_redis_find_(r, key, len); e; e = leader_redis_same_(e->bucket_next, key, len)) {
        if (token <= e->noticed_token) continue;
        e->noticed_token = token;
        e->noticed = true;
        if (e != r->caller) e->host.due(e->host.core);
    }
}

static void leader_redis_subscribe_(leader_redis_election *e) {
    leader_redis *r = e->client;
    e->listens = true;
    r->watch_wanted = !r->no_notice;
    if (!r->watch.ready || e->generation == r->generation) return;
    const char *argv[2] = { "SUBSCRIBE", e->key };
    if (redisAsyncCommandArgv(r->watch.ac, leader_redis_on_notice_, NULL, 2, argv, NULL) == REDIS_OK) e->generation = r->generation;
}

static void leader_redis_unsubscribe_(leader_redis_election *e) {
    leader_redis *r = e->client;
    const char *argv[2] = { "UNSUBSCRIBE", e->key };
    if (!r->watch.ready || e->generation != r->generation || leader_redis_find_(r, e->key, strlen(e->key))) return;
    (void)redisAsyncCommandArgv(r->watch.ac, NULL, NULL, 2, argv, NULL);
}

/* ---- the life of the connections ------------------------------------------------------------------------------------------------- */

static void leader_redis_ready_(leader_redis_conn_ *c) {
    leader_redis *r = c->client;
    c->ready = true;
    if (c == &r->watch) {
        r->generation++;
        for (leader_redis_election *e = r->first; e; e = e->next)
            if (e->listens) leader_redis_subscribe_(e);
        return;
    }
    r->stage = LEADER_REDIS_READY_;
    r->heard_ms = r->now_ms;
    r->taught = 0;
    memcpy(r->good_name, r->target.host, sizeof r->good_name);
    memcpy(r->good_address, r->address, sizeof r->good_address);
    for (leader_redis_election *e = r->first; e; e = e->next)
        if (e->phase == LEADER_REDIS_WAITING_ && e != r->caller) e->host.due(e->host.core);
}

/* 0 at first, then doubling to 2 s, with jitter so that many clients do not come back together.                             */
static int64_t leader_redis_back_off_(leader_redis *r) {
    int64_t most = r->failures == 0 ? 0 : r->failures > 5 ? 2000 : 50 << r->failures;
    r->failures++;
    r->dice = r->dice * 6364136223846793005u + 1442695040888963407u;
    return most - (int64_t)((r->dice >> 33) % (uint64_t)(most / 2 + 1));
}

/* The attempt came to nothing with this server: the next sentinel may know better; if none does, say so to all who wait.      */
static void leader_redis_failed_(leader_redis *r) {
    if (r->sentinel_count && !r->moved.host[0]) {
        r->sentinel = (r->sentinel + 1) % r->sentinel_count;
        if (r->asked < r->sentinel_count) { r->stage = LEADER_REDIS_ASK_; return; }
    }
    r->moved.host[0] = 0;
    r->stage = LEADER_REDIS_OFF_;
    if (r->failures == 0) r->failures = 1;
    r->retry_at_ms = r->now_ms + leader_redis_back_off_(r);
    for (leader_redis_election *e = r->first; e; e = e->next)
        if (e->phase == LEADER_REDIS_WAITING_) leader_redis_finish_(e, r->why_result, r->why);
}

/* The context is gone. */
static void leader_redis_closed_(leader_redis_conn_ *c) {
    leader_redis *r = c->client;
    if (c == &r->watch) {
        if (r->watch_retry_at_ms <= r->now_ms) r->watch_retry_at_ms = r->now_ms + 1000;
        return;
    }
    if (r->stage == LEADER_REDIS_READY_) {
        r->stage = LEADER_REDIS_OFF_;
        r->retry_at_ms = r->now_ms + leader_redis_back_off_(r);
        if (r->watch.ac) leader_redis_drop_(&r->watch, LEADER_E_IO, "the main connection ended");
        r->watch_retry_at_ms = r->now_ms;
    } else if (r->stage == LEADER_REDIS_CONNECTING_ && r->found) {
        r->found = false;
        r->stage = LEADER_REDIS_GO_;
    } else if (r->stage == LEADER_REDIS_CONNECTING_) {
        leader_redis_failed_(r);
    }
}

/* A write to a connection that the server has closed raises SIGPIPE, and hiredis does not prevent it. It is held back for the
   time of the call and taken away if it came; one that the program blocks itself is left alone.                             */
static void leader_redis_serve_(leader_redis_conn_ *c, bool readable, bool writable) {
    sigset_t pipe, before, came;
    int number;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    bool held = (writable || c->client->tls) && pthread_sigmask(SIG_BLOCK, &pipe, &before) == 0 && !sigismember(&before, SIGPIPE);
    if (c->client->tls) leader_redis_tls_forget_();
    if (writable && c->ac && (c->events & LEADER_WRITE)) redisAsyncHandleWrite(c->ac);
    if (readable && c->ac && (c->events & LEADER_READ)) redisAsyncHandleRead(c->ac);
    if (c->ac && c->connected) leader_redis_begin_(c);
    if (c->ac && !c->doomed && c->ac->c.reader->len - c->ac->c.reader->pos > LEADER_REDIS_REPLY_MAX_)
        leader_redis_drop_(c, LEADER_E_IO, "the server's reply is longer than %d bytes", LEADER_REDIS_REPLY_MAX_);
    if (c->ac && c->doomed) redisAsyncFree(c->ac);
    if (held) {
        if (!c->ac && sigpending(&came) == 0 && sigismember(&came, SIGPIPE)) (void)sigwait(&pipe, &number);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (!c->ac) leader_redis_closed_(c);
}

static void leader_redis_sentinel_at_(leader_redis *r, int index, leader_redis_where_ *out);

/* The name is resolved (1), will be (0), or cannot be (-1).                                                                          */
static void leader_redis_set_out_(leader_redis *r, int found) {
    r->stage = found == 0 ? LEADER_REDIS_RESOLVING_ : LEADER_REDIS_CONNECTING_;
    if (found > 0) r->why[0] = 0;
    if (found < 0 || (found > 0 && !leader_redis_connect_(&r->main, r->asking ? r->sentinel_timeout_ms : r->connect_timeout_ms))) leader_redis_failed_(r);
}

/* Moves the main connection on as far as it goes without waiting. */
static void leader_redis_advance_(leader_redis *r) {
    char text[64];
    for (;;) switch (r->stage) {
    case LEADER_REDIS_OFF_:
        if (!r->waiting || r->now_ms < r->retry_at_ms) return;
        r->asked = 0;
        r->found = r->asking = false;
        r->target = r->moved.host[0] ? r->moved : r->fixed;
        r->stage = r->sentinel_count && !r->moved.host[0] ? LEADER_REDIS_ASK_ : LEADER_REDIS_GO_;
        break;
    case LEADER_REDIS_ASK_:
        r->asked++;
        r->asking = true;
        leader_redis_sentinel_at_(r, r->sentinel, &r->target);
        leader_redis_set_out_(r, leader_redis_resolve_(r));
        break;
    case LEADER_REDIS_GO_:
        r->asking = false;
        leader_redis_set_out_(r, r->path[0] ? 1 : leader_redis_resolve_(r));
        break;
    case LEADER_REDIS_RESOLVING_: {
        int found = leader_redis_dns_step_(r);
        if (found == 0) return;
        leader_redis_set_out_(r, found);
        break;
    }
    case LEADER_REDIS_CONNECTING_:
        if (!r->main.ac || r->now_ms < r->main.deadline_ms) return;
        snprintf(text, sizeof text, "%.40s: no answer in time", leader_redis_whom_(r));
        leader_redis_abort_(&r->main, text);
        leader_redis_closed_(&r->main);
        break;
    default:
        if (r->watch.ac && !r->watch.ready && r->now_ms >= r->watch.deadline_ms) {
            leader_redis_abort_(&r->watch, "");
            leader_redis_closed_(&r->watch);
        }
        if (r->watch_wanted && !r->watch.ac && r->now_ms >= r->watch_retry_at_ms && !leader_redis_connect_(&r->watch, r->connect_timeout_ms))
            leader_redis_closed_(&r->watch);
        return;
    }
}

/* Reads and writes what the sockets allow now; never waits.                                                                  */
static void leader_redis_pump_(leader_redis *r) {
    enum { ROUNDS = 64 };           /* a server that never stops talking must not keep the tick                          */
    r->pumped_ms = r->now_ms;
    if (r->unanswered && r->main.ready) {        /* an answer is likely there: read without asking first                    */
        leader_redis_serve_(&r->main, true, false);
        if (!r->unanswered && !r->watch.ac && r->main.ready && r->main.events == LEADER_READ) return;
    }
    for (int round = 0; round < ROUNDS; round++) {
        struct pollfd set[2];
        leader_redis_conn_ *conns[2] = { &r->main, &r->watch };
        for (int i = 0; i < 2; i++) {
            set[i].fd = conns[i]->ac ? conns[i]->ac->c.fd : -1;
            set[i].events = (short)((conns[i]->events & LEADER_READ ? POLLIN : 0) | (conns[i]->events & LEADER_WRITE ? POLLOUT : 0));
            set[i].revents = 0;
        }
        if ((set[0].fd < 0 && set[1].fd < 0) || poll(set, 2, 0) <= 0) break;
        for (int i = 0; i < 2; i++) {
            bool over = (set[i].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0;
            if (set[i].revents && conns[i]->ac && conns[i]->ac->c.fd == set[i].fd)
                leader_redis_serve_(conns[i], over || (set[i].revents & POLLIN), over || (set[i].revents & POLLOUT));
        }
        leader_redis_advance_(r);
        if (!r->unanswered && r->stage == LEADER_REDIS_READY_ && r->main.events == LEADER_READ && !set[1].revents) break;
    }
    leader_redis_advance_(r);
}

static leader_redis *leader_redis_enter_(leader_redis_election *e) {
    leader_redis *r = e->client;
    r->caller = e;
    r->now_ms = e->host.now_ms(e->host.core);
    return r;
}

static void leader_redis_leave_(leader_redis *r) {
    leader_redis_tell_(&r->main, r->main.events);
    leader_redis_tell_(&r->watch, r->watch.events);
    leader_redis_dns_tell_(r, LEADER_READ);
    r->caller = NULL;
}

static void leader_redis_carry_(leader_redis *r, leader_redis_election *e) {
    leader_redis_tell_(&r->main, 0);
    leader_redis_tell_(&r->watch, 0);
    leader_redis_dns_tell_(r, 0);
    if (e == r->first) return;
    if (e->prev) e->prev->next = e->next;
    if (e->next) e->next->prev = e->prev;
    e->prev = NULL;
    e->next = r->first;
    if (r->first) r->first->prev = e;
    r->first = e;
}

/* ---- the backend functions -------------------------------------------------------------------------------------------------------- */

static leader_result leader_redis_deliver_(leader_redis_election *e, leader_record *seen) {
    leader_result result = e->result;
    e->phase = LEADER_REDIS_IDLE_;
    if (result < 0) e->host.log(e->host.core, LEADER_LOG_ERROR, e->text);
    *seen = e->answer;
    if (e->op == LEADER_REDIS_ACQUIRE_ && result == LEADER_OK) {
        e->term_seq = e->seq;
        e->term_token = e->answer.token;
    }
    if (result >= 0 || result == LEADER_E_DUPLICATE) e->settled_seq = e->seq;
    if (e->op == LEADER_REDIS_RELEASE_ && result == LEADER_OK && e->answer.token > e->noticed_token) e->noticed_token = e->answer.token;
    if (e->op == LEADER_REDIS_ACQUIRE_ && result == LEADER_HELD) {
        leader_redis_subscribe_(e);
        leader_redis_advance_(e->client);
    }
    return result;
}

/* leader.h is about to give this one up: it cannot know of whom there was no answer.                                           */
static void leader_redis_say_slow_(leader_redis_election *e, const leader_request *q) {
    char text[120];
    snprintf(text, sizeof text, "%.60s: no %s within %lld ms", leader_redis_whom_(e->client), e->phase == LEADER_REDIS_SENT_ ? "answer" : "connection", (long long)q->timeout_ms);
    e->host.log(e->host.core, LEADER_LOG_ERROR, text);
}

static leader_result leader_redis_request_(leader_redis_election *e, int op, const leader_request *q, leader_record *seen) {
    leader_redis *r = leader_redis_enter_(e);
    leader_result result = LEADER_PENDING;
    if (e->phase != LEADER_REDIS_IDLE_ && e->seq != q->seq) leader_redis_forget_(e);
    if (e->phase == LEADER_REDIS_IDLE_) {
        memset(&e->answer, 0, sizeof e->answer);
        e->seq = q->seq;
        e->op = op;
        e->attempt = e->hops = 0;
        e->phase = LEADER_REDIS_WAITING_;
        r->waiting++;
        if (q->min_token >= leader_redis_token_end_) leader_redis_finish_(e, LEADER_E_CORRUPT, "a token at or above 2^53 was seen: Redis cannot count on from there");
    }
    if (e->phase == LEADER_REDIS_WAITING_) {
        leader_redis_advance_(r);
        if (e->phase == LEADER_REDIS_WAITING_ && r->main.ready) leader_redis_send_(e, q);
    }
    if (e->phase == LEADER_REDIS_DONE_) result = leader_redis_deliver_(e, seen);
    else if (r->now_ms - q->now_ms >= q->timeout_ms) leader_redis_say_slow_(e, q);
    else if (r->stage == LEADER_REDIS_OFF_) seen->again_ms = r->retry_at_ms > r->now_ms ? r->retry_at_ms - r->now_ms : 1;
    else if (r->stage == LEADER_REDIS_RESOLVING_) seen->again_ms = r->dns_deadline_ms > r->now_ms ? r->dns_deadline_ms - r->now_ms : 1;
    else if (r->stage == LEADER_REDIS_CONNECTING_) seen->again_ms = r->main.deadline_ms > r->now_ms ? r->main.deadline_ms - r->now_ms : 1;
    leader_redis_leave_(r);
    return result;
}

static leader_result leader_redis_acquire_(void *self, const leader_request *q, leader_record *seen) { return leader_redis_request_((leader_redis_election *)self, LEADER_REDIS_ACQUIRE_, q, seen); }
static leader_result leader_redis_renew_  (void *self, const leader_request *q, leader_record *seen) { return leader_redis_request_((leader_redis_election *)self, LEADER_REDIS_RENEW_,   q, seen); }
static leader_result leader_redis_release_(void *self, const leader_request *q, leader_record *seen) { return leader_redis_request_((leader_redis_election *)self, LEADER_REDIS_RELEASE_, q, seen); }
static leader_result leader_redis_observe_(void *self, const leader_request *q, leader_record *seen) { return leader_redis_request_((leader_redis_election *)self, LEADER_REDIS_OBSERVE_, q, seen); }

static bool leader_redis_poll_(void *self) {
    leader_redis_election *e = (leader_redis_election *)self;
    leader_redis *r = leader_redis_enter_(e);
    enum { IDLE_CARRIER_MS = 1000 };
    if (e != r->first && r->now_ms - r->carried_ms > IDLE_CARRIER_MS) leader_redis_carry_(r, e);    /* stopped, or not ticked any more */
    if (e == r->first) r->carried_ms = r->now_ms;
    if (e == r->first || r->pumped_ms != r->now_ms) leader_redis_pump_(r);
    bool noticed = e->noticed;
    e->noticed = false;
    leader_redis_leave_(r);
    return noticed;
}

/* Nothing at all heard since that request left, for as long as one may take: the connection is dead, whatever TCP thinks. A request
   whose time was cut short by a deadline proves nothing of the kind.                                                            */
static void leader_redis_cancel_(void *self) {
    leader_redis_election *e = (leader_redis_election *)self;
    leader_redis *r = leader_redis_enter_(e);
    bool dead = e->phase == LEADER_REDIS_SENT_ && r->now_ms - e->sent_ms >= e->host.config->request_timeout_ms && r->heard_ms <= e->sent_ms;
    leader_redis_forget_(e);
    if (dead && r->main.ac) {
        char text[80];
        snprintf(text, sizeof text, "%.40s: no answer within %lld ms", leader_redis_whom_(r), (long long)(r->now_ms - e->sent_ms));
        leader_redis_abort_(&r->main, text);
        leader_redis_closed_(&r->main);
    }
    leader_redis_leave_(r);
}

static const char *leader_redis_open_(void *self, const leader_host *host) {
    leader_redis_election *e = (leader_redis_election *)self;
    leader_redis *r = e->client;
    if (!r) return "client (leader_redis_backend's second argument) is NULL";
    if (r->error[0]) return r->error;
    if (e->error[0]) return e->error;
    const char *wrong = r->tls ? leader_redis_tls_open_(r) : NULL;
    if (wrong) return wrong;
    e->host = *host;
    e->seq = e->term_seq = e->term_token = e->settled_seq = e->noticed_token = 0;
    e->longest_ms = 0;
    e->generation = e->stale = e->expected = 0;
    e->phase = LEADER_REDIS_IDLE_;
    e->listens = e->noticed = false;
    e->prev = NULL;
    e->next = NULL;
    if (!r->dice) r->dice = (uint64_t)(uintptr_t)e ^ (uint64_t)host->now_ms(host->core) << 20;
    if (!r->first) r->first = e;
    else {                          /* second in the list: the carrier stays                                              */
        e->prev = r->first;
        e->next = r->first->next;
        if (e->next) e->next->prev = e;
        r->first->next = e;
    }
    unsigned h = leader_redis_hash_(e->key, strlen(e->key));
    e->bucket_next = r->bucket[h];
    r->bucket[h] = e;
    return NULL;
}

/* The memory may go after this: replies that are still on their way lose their addressee.                                      */
static void leader_redis_close_(void *self) {
    leader_redis_election *e = (leader_redis_election *)self;
    leader_redis *r = leader_redis_enter_(e);
    leader_redis_election **at = &r->bucket[leader_redis_hash_(e->key, strlen(e->key))];
    leader_redis_forget_(e);
    if (e->stale && r->main.ac)
        for (redisCallback *cb = r->main.ac->replies.head; cb; cb = cb->next)
            if (cb->privdata == e) { cb->fn = NULL; r->unanswered--; }
    while (*at != e) at = &(*at)->bucket_next;
    *at = e->bucket_next;
    leader_redis_unsubscribe_(e);
    if (e == r->first) {
        leader_redis_carry_(r, e);
        if (!e->next) {
            r->stage = LEADER_REDIS_OFF_;
            leader_redis_drop_(&r->main, LEADER_E_IO, "closed");
            leader_redis_drop_(&r->watch, LEADER_E_IO, "closed");
            leader_redis_dns_end_(r);
            leader_redis_tls_close_(r);
            r->failures = 0;
            r->retry_at_ms = r->watch_retry_at_ms = r->carried_ms = INT64_MIN / 2;
            r->watch_wanted = false;
        }
        r->first = e->next;
    }
    if (e->prev) e->prev->next = e->next;
    if (e->next) e->next->prev = e->prev;
    leader_redis_leave_(r);
}

/* ---- settings --------------------------------------------------------------------------------------------------------------------- */

static void leader_redis_wrong_(leader_redis *r, const char *format, ...) {
    if (r->error[0]) return;        /* the first is what leader_init tells                                                */
    va_list args;
    va_start(args, format);
    vsnprintf(r->error, sizeof r->error, format, args);
    va_end(args);
}

static void leader_redis_copy_(leader_redis *r, const char *field, char *out, size_t cap, const char *text) {
    if (!text) return;
    if (strlen(text) >= cap) leader_redis_wrong_(r, "%s is longer than %d bytes", field, (int)cap - 1);
    else memcpy(out, text, strlen(text) + 1);
}

/* "host", "host:port" or "[address]:port", len bytes of it                                                                     */
static bool leader_redis_where_from_(const char *text, size_t len, int port, leader_redis_where_ *out) {
    char copy[280], *host = copy, *tail;
    unsigned char raw[16];
    if (len == 0 || len >= sizeof copy) return false;
    memcpy(copy, text, len);
    copy[len] = 0;
    if (copy[0] == '[') {
        host = copy + 1;
        tail = strchr(host, ']');
        if (!tail) return false;
        *tail++ = 0;
        if (*tail && *tail != ':') return false;
    } else {
        tail = strchr(copy, ':');
        if (tail && strchr(tail + 1, ':')) {                     /* a bare IPv6 address                                   */
            if (inet_pton(AF_INET6, copy, raw) != 1) return false;
            tail = NULL;
        }
        if (!tail) tail = copy + len;
    }
    bool has_port = *tail == ':';
    *tail = 0;
    out->port = port;
    if (!host[0] || strlen(host) >= sizeof out->host || strpbrk(host, " /@") || (has_port && !leader_redis_port_(tail + 1, &out->port))) return false;
    memcpy(out->host, host, strlen(host) + 1);
    return true;
}

/* The index'th of the list; index < 0: how many. Blanks around names are fine, empty names are not.                             */
static int leader_redis_sentinels_(leader_redis *r, int index, leader_redis_where_ *out) {
    int n = 0;
    for (const char *at = r->sentinels; ; n++) {
        size_t len = strcspn(at, ","), skip = strspn(at, " ");
        size_t end = len;
        while (end > skip && at[end - 1] == ' ') end--;
        if (skip > len || !leader_redis_where_from_(at + skip, end > skip ? end - skip : 0, r->sentinel_port, out)) return -1 - n;
        if (n == index) return n;
        if (!at[len]) return n + 1;
        at += len + 1;
    }
}

static void leader_redis_sentinel_at_(leader_redis *r, int index, leader_redis_where_ *out) { (void)leader_redis_sentinels_(r, index, out); }

/* Percent-decodes [at, end) of the URL. Errors name a byte, not the text: it may be a password.                                 */
static void leader_redis_decode_(leader_redis *r, const char *url, const char *at, const char *end, char *out, size_t cap) {
    size_t n = 0;
    for (const char *p = at; p < end; p++) {
        int c = (unsigned char)*p;
        if (c == '%') {
            int hi = end - p > 2 ? leader_hex_(p[1]) : -1, lo = end - p > 2 ? leader_hex_(p[2]) : -1;
            c = hi < 0 || lo < 0 ? 0 : hi * 16 + lo;
            if (c == 0) { leader_redis_wrong_(r, "url: byte %d: %% must be followed by two hex digits other than 00", (int)(p - url)); return; }
            p += 2;
        }
        if (n + 1 >= cap) { leader_redis_wrong_(r, "url: byte %d: longer than %d bytes from byte %d on", (int)(p - url), (int)cap - 1, (int)(at - url)); return; }
        out[n++] = (char)c;
    }
    out[n] = 0;
}

static void leader_redis_url_db_(leader_redis *r, const char *url, const char *at) {
    char *end;
    errno = 0;
    long n = *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : -1;
    if (n < 0 || n > INT_MAX || *end || errno) leader_redis_wrong_(r, "url: byte %d: not a database number", (int)(at - url));
    else r->db = (int)n;
}

/* redis://user:password@host:port/db   rediss:// the same   unix://user:password@/path?db=n                                      */
static void leader_redis_from_url_(leader_redis *r, const char *url) {
    bool local = !strncmp(url, "unix://", 7), tls = !strncmp(url, "rediss://", 9);
    if (!local && !tls && strncmp(url, "redis://", 8)) { leader_redis_wrong_(r, "url: byte 0: it must start with redis://, rediss:// or unix://"); return; }
    const char *fragment = strchr(url, '#'), *at = strstr(url, "://") + 3, *end = at + strcspn(at, "/?"), *user_end = NULL;
    if (fragment) { leader_redis_wrong_(r, "url: byte %d: # must be written as %%23", (int)(fragment - url)); return; }
    const char *query = strchr(end, '?');
    const char *path_end = query ? query : end + strlen(end);
    for (const char *p = at; p < end; p++) if (*p == '@') user_end = p;
    if (user_end) {
        const char *colon = (const char *)memchr(at, ':', (size_t)(user_end - at));
        leader_redis_decode_(r, url, at, colon ? colon : user_end, r->username, sizeof r->username);
        if (colon) leader_redis_decode_(r, url, colon + 1, user_end, r->password, sizeof r->password);
        at = user_end + 1;
    }
    if (local) {
        leader_redis_decode_(r, url, end, path_end, r->path, sizeof r->path);
        if (at != end || !r->path[0]) leader_redis_wrong_(r, "url: byte %d: unix:// is followed by an absolute path", (int)(at - url));
    } else {
        if (at != end && !leader_redis_where_from_(at, (size_t)(end - at), 6379, &r->fixed)) leader_redis_wrong_(r, "url: byte %d: not a host and port", (int)(at - url));
        if (end < path_end && path_end - end > 1) {
            char digits[16];
            leader_redis_decode_(r, url, end + 1, path_end, digits, sizeof digits);
            if (!r->error[0] && digits[strspn(digits, "0123456789")]) leader_redis_wrong_(r, "url: byte %d: not a database number", (int)(end + 1 - url));
            else if (!r->error[0]) r->db = (int)leader_min_(strtoll(digits, NULL, 10), INT_MAX);
        }
    }
    if (query && !strncmp(query, "?db=", 4)) leader_redis_url_db_(r, url, query + 4);
    else if (query) leader_redis_wrong_(r, "url: byte %d: only ?db=number is known", (int)(query - url));
    r->tls = tls;
}

static void leader_redis_check_(leader_redis *r, const leader_redis_settings *s) {
    if (s->url && (s->host || s->path || s->username || s->password || s->port || s->db))
        leader_redis_wrong_(r, "url and %s are both set: give one", s->host ? "host" : s->path ? "path" : s->username ? "username" : s->password ? "password" : s->port ? "port" : "db");
    if (s->path && (s->host || s->port)) leader_redis_wrong_(r, "path and %s are both set: give one", s->host ? "host" : "port");
    if (s->sentinels && (s->url || s->host || s->path || s->port)) leader_redis_wrong_(r, "sentinels and %s are both set: give one", s->url ? "url" : s->host ? "host" : s->path ? "path" : "port");
    if (s->port < 0 || s->port > 65535) leader_redis_wrong_(r, "port (%d) is not within 1..65535", s->port);
    if (s->db < 0) leader_redis_wrong_(r, "db (%d) is negative", s->db);
    if (s->sentinels && (!s->sentinel_name || !s->sentinel_name[0])) leader_redis_wrong_(r, "sentinel_name is missing: what do the sentinels call the master?");
    if (!s->sentinels && s->sentinel_name) leader_redis_wrong_(r, "sentinel_name is set without sentinels");
    if (s->sentinel_port < 0 || s->sentinel_port > 65535) leader_redis_wrong_(r, "sentinel_port (%d) is not within 1..65535", s->sentinel_port);
    if (s->connect_timeout_ms < 0)  leader_redis_wrong_(r, "connect_timeout_ms (%lld) is negative", (long long)s->connect_timeout_ms);
    if (s->sentinel_timeout_ms < 0) leader_redis_wrong_(r, "sentinel_timeout_ms (%lld) is negative", (long long)s->sentinel_timeout_ms);
    if (s->wait_replicas < 0) leader_redis_wrong_(r, "wait_replicas (%d) is negative", s->wait_replicas);
    if (!s->cert_file != !s->key_file) leader_redis_wrong_(r, "%s is missing: cert_file and key_file go together", s->cert_file ? "key_file" : "cert_file");
    if (r->username[0] && !r->password[0]) leader_redis_wrong_(r, "username is set without password");
    if (r->sentinel_username[0] && !r->sentinel_password[0]) leader_redis_wrong_(r, "sentinel_username is set without sentinel_password");
    if (r->tls && r->path[0]) leader_redis_wrong_(r, "tls and path are both set: a unix socket has no TLS");
    if (!r->tls && (s->ca_file || s->cert_file || s->server_name)) leader_redis_wrong_(r, "%s is set without tls", s->ca_file ? "ca_file" : s->cert_file ? "cert_file" : "server_name");
#ifndef LEADER_REDIS_TLS
    if (r->tls) leader_redis_wrong_(r, "%s needs LEADER_REDIS_TLS and hiredis_ssl, which this build is without", s->url ? "url: rediss://" : "tls");
#endif
}

LEADER_API void leader_redis_init(leader_redis *r, const leader_redis_settings *settings) {
    leader_redis_settings none;
    memset(&none, 0, sizeof none);
    const leader_redis_settings *s = settings ? settings : &none;
    memset(r, 0, sizeof *r);
    r->main.client = r->watch.client = r;
    r->dns_fd = -1;
    r->retry_at_ms = r->watch_retry_at_ms = r->carried_ms = r->pumped_ms = INT64_MIN / 2;
    memcpy(r->fixed.host, "127.0.0.1", sizeof "127.0.0.1");
    r->fixed.port = s->port ? s->port : 6379;
    r->db = s->db;
    r->tls = s->tls;
    r->no_notice = s->no_notice;
    r->wait_replicas = s->wait_replicas;
    r->connect_timeout_ms = s->connect_timeout_ms ? s->connect_timeout_ms : 1000;
    r->sentinel_timeout_ms = s->sentinel_timeout_ms ? s->sentinel_timeout_ms : 300;
    r->sentinel_port = s->sentinel_port ? s->sentinel_port : 26379;
    leader_redis_copy_(r, "host", r->fixed.host, sizeof r->fixed.host, s->host);
    leader_redis_copy_(r, "path", r->path, sizeof r->path, s->path);
    leader_redis_copy_(r, "username", r->username, sizeof r->username, s->username);
    leader_redis_copy_(r, "password", r->password, sizeof r->password, s->password);
    leader_redis_copy_(r, "ca_file", r->ca_file, sizeof r->ca_file, s->ca_file);
    leader_redis_copy_(r, "cert_file", r->cert_file, sizeof r->cert_file, s->cert_file);
    leader_redis_copy_(r, "key_file", r->key_file, sizeof r->key_file, s->key_file);
    leader_redis_copy_(r, "server_name", r->server_name, sizeof r->server_name, s->server_name);
    leader_redis_copy_(r, "prefix", r->prefix, sizeof r->prefix, s->prefix);
    leader_redis_copy_(r, "sentinels", r->sentinels, sizeof r->sentinels, s->sentinels);
    leader_redis_copy_(r, "sentinel_name", r->sentinel_name, sizeof r->sentinel_name, s->sentinel_name);
    leader_redis_copy_(r, "sentinel_username", r->sentinel_username, sizeof r->sentinel_username, s->sentinel_username);
    leader_redis_copy_(r, "sentinel_password", r->sentinel_password, sizeof r->sentinel_password, s->sentinel_password);
    if (s->url) leader_redis_from_url_(r, s->url);
    leader_redis_check_(r, s);
    leader_redis_where_ unused;
    int count = s->sentinels && !r->error[0] ? leader_redis_sentinels_(r, -1, &unused) : 0;
    if (count < 0) leader_redis_wrong_(r, "sentinels: entry %d is not host, host:port or [address]:port", -count);
    else r->sentinel_count = count;
}

/* ---- the environment ------------------------------------------------------------------------------------------------------------------ */

static const char *leader_redis_variable_(const char *family, const char *name) {
    char full[64];
    snprintf(full, sizeof full, "%s_%s", family, name);
    const char *value = getenv(full);
    return value && value[0] ? value : NULL;
}

static const char *leader_redis_either_(const char *name) {
    const char *value = leader_redis_variable_("MUTEX_REDIS", name);
    return value ? value : leader_redis_variable_("REDIS", name);
}

/* A number, or what Kubernetes puts there for a Service: tcp://10.0.0.7:6379, whose address serves when no host is named.               */
static bool leader_redis_env_port_(const char *name, int *port, leader_redis_where_ *service) {
    const char *value = leader_redis_either_(name);
    if (!value || leader_redis_port_(value, port)) return true;
    if (strncmp(value, "tcp://", 6) || !leader_redis_where_from_(value + 6, strlen(value + 6), 6379, service)) return false;
    *port = service->port;
    return true;
}

LEADER_API void leader_redis_from_env(leader_redis *r) {
    leader_redis_settings s;
    leader_redis_where_ service;
    const char *wrong = NULL, *db = leader_redis_either_("DB");
    bool own = leader_redis_variable_("MUTEX_REDIS", "HOST") || leader_redis_variable_("MUTEX_REDIS", "SENTINEL_HOST");
    memset(&s, 0, sizeof s);
    service.host[0] = 0;
    s.prefix = leader_redis_either_("PREFIX");
    s.url = leader_redis_variable_("MUTEX_REDIS", "URL");
    if (!s.url && !own) s.url = leader_redis_variable_("REDIS", "URL");
    if (!s.url) {
        s.username = leader_redis_either_("USERNAME");
        s.password = leader_redis_either_("PASSWORD");
        s.sentinels = leader_redis_variable_("MUTEX_REDIS", "SENTINEL_HOST");
        if (!s.sentinels && !own) s.sentinels = leader_redis_variable_("REDIS", "SENTINEL_HOST");
        if (db && (strlen(db) > 9 || db[strspn(db, "0123456789")])) wrong = "DB";
        else if (db) s.db = (int)strtol(db, NULL, 10);
        if (s.sentinels) {
            s.sentinel_name = leader_redis_either_("SENTINEL_NAME");
            if (!leader_redis_env_port_("SENTINEL_PORT", &s.sentinel_port, &service)) wrong = "SENTINEL_PORT";
        } else {
            s.host = leader_redis_either_("HOST");
            if (!leader_redis_env_port_("PORT", &s.port, &service)) wrong = "PORT";
            if (!s.host && service.host[0]) s.host = service.host;
        }
    }
    leader_redis_init(r, &s);
    if (!wrong) return;
    r->error[0] = 0;
    leader_redis_wrong_(r, "%s_%s is not a %s", leader_redis_variable_("MUTEX_REDIS", wrong) ? "MUTEX_REDIS" : "REDIS", wrong, strcmp(wrong, "DB") ? "port" : "database number");
}

LEADER_API leader_backend leader_redis_backend(leader_redis_election *e, leader_redis *client, const char *name) {
    leader_backend b;
    memset(&b, 0, sizeof b);
    memset(e, 0, sizeof *e);
    e->client = client;
    int n = !client || !name ? 0 : snprintf(e->key, sizeof e->key, "%s%sleader:%s", client->prefix, client->prefix[0] ? ":" : "", name);
    if (!name || !name[0]) snprintf(e->error, sizeof e->error, "name (of the election) is missing");
    else if (n >= (int)sizeof e->key) snprintf(e->error, sizeof e->error, "name: with its prefix it is longer than %d bytes", (int)sizeof e->key - 1);
    else if (strpbrk(e->key, "{}") && !leader_redis_has_tag_(e->key)) snprintf(e->error, sizeof e->error, "name: braces in it or in prefix must enclose a hash tag, as in {app}");
    b.self = e;
    b.acquire = leader_redis_acquire_;
    b.renew = leader_redis_renew_;
    b.release = leader_redis_release_;
    b.observe = leader_redis_observe_;
    b.poll = leader_redis_poll_;
    b.cancel = leader_redis_cancel_;
    b.open = leader_redis_open_;
    b.close = leader_redis_close_;
    return b;
}

LEADER_API void leader_redis_timing(leader_config *cfg) {
    cfg->lease_ms = 30000;
    cfg->renew_ms = 10000;
    cfg->retry_ms = 5000;
}

#ifdef __cplusplus
}
#endif
#endif /* LEADER_REDIS_IMPLEMENTATION_DONE */
