/* A PostgreSQL of the tests' own: a cluster in a temporary directory, on a free port, as an unprivileged
   user, without fsync. Servers die with this process. */
#ifndef PG_SERVER_H
#define PG_SERVER_H

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <libpq-fe.h>

#define PG_HELPER static __attribute__((unused))

typedef struct pg_server {
    char data[200];
    int port;
    pid_t pid;
} pg_server;

static char pg_root[128]; // all files of this run
static char pg_bin[128]; // where initdb and postgres are
static pid_t pg_owner;

PG_HELPER int pg_shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
PG_HELPER int pg_shell(const char *format, ...) {
    char line[2000];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    int status = system(line);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* PostgreSQL refuses to run as root. */
PG_HELPER const char *pg_as_user(void) {
    return getuid() == 0 ? "setpriv --reuid=nobody --regid=nogroup --clear-groups" : "";
}

PG_HELPER int pg_free_port(void) {
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

PG_HELPER bool pg_find_programs(void) {
    const char *given = getenv("PG_BIN");
    FILE *out =
        popen("ls -d /usr/lib/postgresql/*/bin /usr/local/pgsql/bin /usr/bin 2>/dev/null | sort -V -r", "r");
    char line[128];
    snprintf(pg_bin, sizeof pg_bin, "%s", given ? given : "");
    while (pg_bin[0] == 0 && fgets(line, sizeof line, out)) {
        char program[160];
        line[strcspn(line, "\n")] = 0;
        snprintf(program, sizeof program, "%s/initdb", line);
        if (access(program, X_OK) == 0) {
            snprintf(pg_bin, sizeof pg_bin, "%s", line);
        }
    }
    pclose(out);
    return pg_bin[0] != 0;
}

PG_HELPER void pg_remove_root(void) {
    if (pg_root[0] && getpid() == pg_owner) {
        pg_shell("rm -rf '%s'", pg_root);
    }
}

PG_HELPER bool pg_make_root(void) {
    snprintf(pg_root, sizeof pg_root, "%s/leader-pg-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(pg_root) || !pg_find_programs()) {
        printf("no PostgreSQL server here: tests/deps pg\n");
        return false;
    }
    pg_owner = getpid();
    atexit(pg_remove_root);
    chmod(pg_root, 0777);
    return true;
}

PG_HELPER void pg_run(pg_server *s) {
    fflush(NULL);
    s->pid = fork();
    if (s->pid == 0) {
        char line[1000];
        snprintf(line, sizeof line,
                 "exec %s setpriv --pdeathsig QUIT %s/postgres -D %s -p %d -c listen_addresses=127.0.0.1"
                 " -c unix_socket_directories=%s >>%s.log 2>&1",
                 pg_as_user(), pg_bin, s->data, s->port, pg_root, s->data);
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(127);
    }
}

PG_HELPER void pg_quiet(void *unused, const char *text) {
    (void)unused;
    (void)text;
}

/* As the administrator. NULL: the server does not answer. */
PG_HELPER PGconn *pg_admin(const pg_server *s) {
    char info[200];
    snprintf(info, sizeof info, "host=127.0.0.1 port=%d user=postgres dbname=postgres connect_timeout=10",
             s->port);
    PGconn *conn = PQconnectdb(info);
    PQsetNoticeProcessor(conn, pg_quiet, NULL);
    if (PQstatus(conn) == CONNECTION_OK) {
        return conn;
    }
    PQfinish(conn);
    return NULL;
}

PG_HELPER bool pg_wait_ready(const pg_server *s) {
    for (int i = 0; i < 600; i++) {
        PGconn *conn = pg_admin(s);
        if (conn) {
            PQfinish(conn);
            return true;
        }
        usleep(50000);
    }
    printf("PostgreSQL does not answer on port %d; its log:\n", s->port);
    pg_shell("tail -n 20 %s.log", s->data);
    return false;
}

/* One statement or several; the first value of the last answer, "" if there is none. */
PG_HELPER const char *pg_sql(const pg_server *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
PG_HELPER const char *pg_sql(const pg_server *s, const char *format, ...) {
    static char value[1000];
    char text[2000];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    PGconn *conn = pg_admin(s);
    PGresult *result = conn ? PQexec(conn, text) : NULL;
    ExecStatusType status = PQresultStatus(result);
    bool has_value = status == PGRES_TUPLES_OK && PQntuples(result) > 0;
    snprintf(value, sizeof value, "%s", has_value ? PQgetvalue(result, 0, 0) : "");
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        snprintf(value, sizeof value, "failed: %s", conn ? PQerrorMessage(conn) : "no connection");
    }
    PQclear(result);
    PQfinish(conn);
    return value;
}

PG_HELPER bool pg_start(pg_server *s) {
    if (pg_root[0] == 0 && !pg_make_root()) {
        return false;
    }
    s->port = pg_free_port();
    snprintf(s->data, sizeof s->data, "%s/%d", pg_root, s->port);
    int failed =
        pg_shell("%s %s/initdb -D %s -U postgres -A trust -E UTF8 --locale=C.UTF-8 --no-sync >%s.log 2>&1",
                 pg_as_user(), pg_bin, s->data, s->data);
    if (failed) {
        pg_shell("tail -n 20 %s.log", s->data);
        return false;
    }
    failed = pg_shell(
        "printf '%%s\\n' 'fsync=off' 'shared_buffers=16MB' 'max_wal_senders=4' 'log_min_messages=fatal'"
        " >>%s/postgresql.conf",
        s->data);
    failed |= pg_shell(
        "{ echo 'host all pw 127.0.0.1/32 scram-sha-256'; echo 'host all nobody_here 127.0.0.1/32 reject';"
        " cat %s/pg_hba.conf; } >%s/hba && cp %s/hba %s/pg_hba.conf",
        s->data, s->data, s->data, s->data);
    pg_run(s);
    return !failed && pg_wait_ready(s);
}

PG_HELPER bool pg_start_replica(pg_server *replica, const pg_server *primary) {
    replica->port = pg_free_port();
    snprintf(replica->data, sizeof replica->data, "%s/%d", pg_root, replica->port);
    int failed =
        pg_shell("%s %s/pg_basebackup -h 127.0.0.1 -p %d -U postgres -D %s -R -c fast --no-sync >%s.log 2>&1",
                 pg_as_user(), pg_bin, primary->port, replica->data, replica->data);
    if (failed) {
        pg_shell("tail -n 20 %s.log", replica->data);
        return false;
    }
    pg_run(replica);
    return pg_wait_ready(replica);
}

/* To the whole server: the postmaster's processes are found by the postmaster's pid. */
PG_HELPER void pg_signal_all(const pg_server *s, int number) {
    pg_shell("kill -%d $(ps -o pid= --ppid %ld) 2>/dev/null; kill -%d %ld", number, (long)s->pid, number,
             (long)s->pid);
}

PG_HELPER void pg_stop(pg_server *s, int number) {
    if (s->pid > 0) {
        kill(s->pid, number);
        waitpid(s->pid, NULL, 0);
        s->pid = 0;
    }
}
#endif
