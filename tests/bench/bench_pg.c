/* The PostgreSQL store's figures on a real server, and beside them a session's advisory lock, which has no
   lease at all. bench.h says how to read the table. */
#define LEADER_IMPLEMENTATION
#define LEADER_WITH_PG
#include "leader.h"
#include "tests/pg/pg_server.h"
#include <arpa/inet.h>

static pg_server server;
static int through; // the port of the relay; 0: straight to the server

typedef leader_pg store_kind;

static leader_backend store_make(leader_pg *store, const char *election, bool listens) {
    char info[120];
    leader_pg_config where;
    memset(&where, 0, sizeof where);
    snprintf(info, sizeof info, "host=127.0.0.1 port=%d user=postgres dbname=postgres",
             through ? through : server.port);
    where.conninfo = info;
    where.name = election;
    where.no_listen = !listens;
    return leader_pg_backend(store, &where);
}

static void store_change(void);
#include "tests/bench/bench_store.h"

static PGconn *connect_to(int port) {
    char info[120];
    snprintf(info, sizeof info, "host=127.0.0.1 port=%d user=postgres dbname=postgres", port);
    PGconn *conn = PQconnectdb(info);
    if (PQstatus(conn) != CONNECTION_OK) {
        die(PQerrorMessage(conn));
    }
    return conn;
}

static void run_sql(PGconn *conn, const char *sql) {
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        die(PQerrorMessage(conn));
    }
}

/* A row as wide as ours, changed if its version is still that one. */
static void store_change(void) {
    static PGconn *conn;
    static int version;
    char text[2][16];
    if (!conn) {
        conn = connect_to(server.port);
        run_sql(
            conn,
            "CREATE TABLE bare (name text PRIMARY KEY, version text, filling text) WITH (fillfactor = 50)");
        run_sql(conn, "INSERT INTO bare VALUES ('job', '0', repeat('x', 150))");
    }
    snprintf(text[0], sizeof text[0], "%d", version + 1);
    snprintf(text[1], sizeof text[1], "%d", version++);
    const char *const values[] = {text[0], text[1]};
    PGresult *result = PQexecParams(conn, "UPDATE bare SET version = $1 WHERE name = 'job' AND version = $2",
                                    2, NULL, values, NULL, NULL, 0);
    if (strcmp(PQcmdTuples(result), "1") != 0) {
        die("the bare write is refused");
    }
    PQclear(result);
}

/* ---- a session's advisory lock ------------------------------------------------------------------------- */

static void lock_ask(PGconn *conn, int key) {
    char sql[60];
    snprintf(sql, sizeof sql, "SELECT pg_advisory_lock(%d)", key);
    if (PQsendQuery(conn, sql) != 1) {
        die(PQerrorMessage(conn));
    }
}

static bool lock_granted(PGconn *conn, double limit_s) {
    for (double end = bench_now() + limit_s; bench_now() < end; usleep(50)) {
        PQconsumeInput(conn);
        if (!PQisBusy(conn)) {
            return true;
        }
    }
    return false;
}

static double lock_hand_over(void) {
    static int key = 1000;
    char sql[60];
    key++;
    PGconn *first = connect_to(server.port);
    PGconn *second = connect_to(server.port);
    snprintf(sql, sizeof sql, "SELECT pg_advisory_lock(%d)", key);
    run_sql(first, sql);
    lock_ask(second, key);
    usleep(20000);
    double from = bench_now();
    PQfinish(first);
    if (!lock_granted(second, 30)) {
        die("the advisory lock is not handed over");
    }
    double took = (bench_now() - from) * 1e3;
    PQfinish(second);
    return took;
}

/* ---- a black hole: a relay that is stopped ------------------------------------------------------------- */

static void relay_bytes(int from, int to) {
    char buf[8192];
    ssize_t got = read(from, buf, sizeof buf);
    if (got <= 0 || write(to, buf, (size_t)got) != got) {
        _exit(0);
    }
}

static void relay_serve(int client) {
    struct sockaddr_in at;
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_port = htons((uint16_t)server.port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int upstream = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(upstream, (struct sockaddr *)&at, sizeof at) != 0) {
        _exit(1);
    }
    for (;;) {
        struct pollfd wait[2] = {{client, POLLIN, 0}, {upstream, POLLIN, 0}};
        poll(wait, 2, -1);
        if (wait[0].revents) {
            relay_bytes(client, upstream);
        }
        if (wait[1].revents) {
            relay_bytes(upstream, client);
        }
    }
}

/* A process group of its own: stopped as a whole, it is a network that swallows everything. */
static pid_t relay_start(void) {
    struct sockaddr_in at;
    socklen_t len = sizeof at;
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, 16) != 0
        || getsockname(fd, (struct sockaddr *)&at, &len) != 0) {
        die("relay");
    }
    through = ntohs(at.sin_port);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            int client = accept(fd, NULL, NULL);
            if (fork() == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                relay_serve(client);
            }
            close(client);
        }
    }
    setpgid(pid, pid);
    close(fd);
    return pid;
}

static void relay_end(pid_t pid) {
    kill(-pid, SIGCONT);
    kill(-pid, SIGKILL);
    waitpid(pid, NULL, 0);
    through = 0;
}

/* The leader is cut off. With a lease the standby leads when it is over, and by then the leader has said
   no; the server keeps an advisory lock for as long as it takes a dead connection to be noticed, which is
   hours by default. */
static void bench_black_hole(void) {
    enum { LEASE_MS = 2000, LOCK_LIMIT_S = 20 };
    double both = 0;
    pid_t relay = relay_start();
    enter(&a, "leader", "hole", LEASE_MS, true);
    until(a_leads);
    int relayed = through;
    through = 0;
    enter(&b, "standby", "hole", LEASE_MS, true);
    until(b_knows);
    PGconn *holder = connect_to(relayed);
    PGconn *waiter = connect_to(server.port);
    run_sql(holder, "SELECT pg_advisory_lock(77)");
    lock_ask(waiter, 77);
    kill(-relay, SIGSTOP);
    double from = bench_now();
    while (!b_leads()) {
        if (bench_now() - from > 60) {
            die("nobody took over");
        }
        tick_both();
        usleep(100);
    }
    bench_fact("black hole: taken over after, lease 2 s", "ms", (bench_now() - from) * 1e3, BENCH_AT_MOST,
               LEASE_MS + 200);
    for (double last = bench_now(); bench_now() - from < 4;) {
        tick_both();
        both += a_leads() && b_leads() ? bench_now() - last : 0;
        last = bench_now();
        usleep(100);
    }
    bench_fact("black hole: two leaders for", "ms", both * 1e3, BENCH_AT_MOST, 0);
    bool granted = lock_granted(waiter, LOCK_LIMIT_S);
    double waited = bench_now() - from;
    bench_fact(granted ? "black hole: advisory lock taken over after"
                       : "black hole: advisory lock not taken over in",
               "ms", waited * 1e3, BENCH_NO_GOAL, 0);
    part();
    relay_end(relay);
    PQfinish(holder);
    PQfinish(waiter);
}

/* The other way round: the server ends the session, and its holder does not know. */
static void bench_ended_session(void) {
    static bench_series unaware;
    for (int i = 0, rounds = bench_rounds(8); i < rounds; i++) {
        PGconn *holder = connect_to(server.port);
        PGconn *waiter = connect_to(server.port);
        char sql[80];
        run_sql(holder, "SELECT pg_advisory_lock(78)");
        lock_ask(waiter, 78);
        snprintf(sql, sizeof sql, "SELECT pg_terminate_backend(%d)", PQbackendPID(holder));
        double from = bench_now();
        pg_sql(&server, "%s", sql);
        if (!lock_granted(waiter, 30)) {
            die("the lock of an ended session is not free");
        }
        bench_add(&unaware, (bench_now() - from) * 1e3);
        PQfinish(holder);
        PQfinish(waiter);
    }
    bench_print((bench_row){"session ended: advisory lock is another's after", "ms", &unaware, NULL, NULL,
                            true, BENCH_NO_GOAL, 0});
}

int main(int argc, char **argv) {
    bench_begin(argc, argv, "PostgreSQL: ");
    if (!pg_start(&server)) {
        die("PostgreSQL does not start");
    }
    bench_requests();
    bench_renewals();
    bench_hand_overs(lock_hand_over, "session advisory lock");
    bench_crashes(NULL, NULL);
    bench_black_hole();
    bench_ended_session();
    bench_memory();
    pg_stop(&server, SIGQUIT);
    return bench_end();
}
