/* A command that is dead in time. Linux.

   "Only while leader" means that the command, with everything that it started, is dead before anyone else can lead: also when leader-run is
   killed, stopped, starved of CPU or suspended with the machine, and also when the command ignores SIGTERM or leaves daemons behind. A
   process cannot promise that about itself, so three of them watch each other:

       leader-run   holds the election. Tells the guard until when the lease is good, after every renewal.
       guard        a fork of it, parent of the command. Has its own timer, on the clock that counts suspend: at stop_at it sends SIGTERM,
                    at kill_at SIGKILL, unless it has heard of later times. Needs nobody for that.
       command      in a process group of its own.

   leader-run stopped, or stuck: the guard's timer runs out. Nothing has to be noticed.
   leader-run killed: the guard's socket ends. SIGTERM at once, SIGKILL after the grace, at kill_at at the latest.
   guard killed: the kernel kills the command (PR_SET_PDEATHSIG), and what the command started falls to leader-run, which kills it.
   guard stopped: leader-run waits until kill_at and a little longer, kills the guard, and goes on as above.
   daemons: both are "child subreapers". Whoever loses its parent becomes a child of the guard, in whichever session or process group it
   has put itself; so the guard finds everybody below it in /proc, and knows that all are gone when it has no child left.

   The file store lets standbys take over as soon as the leader's lock is free. The lock belongs to the open file, which guard and command
   inherit: it is free when the last of them is gone, and not when leader-run is. (A daemon that closes all its descriptors, after both
   leader-run and the guard were killed with SIGKILL at one moment, is the case that remains: it has until the end of the lease.)

   kill_at is the renew deadline D, counted from before the last successful renewal was sent. Others may lead when the lease L is over: L - D
   is what the kernel has for killing, and what clocks may differ in rate. */
#ifndef GUARD_H_INCLUDED
#define GUARD_H_INCLUDED

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { GUARD_KILL_AGAIN_MS = 10 };

typedef struct guard_command {
    char           **argv;
    sigset_t         mask;                      /* the signal mask and the handling of SIGPIPE that leader-run was        */
    struct sigaction on_pipe;                   /* started with: the command gets them back                               */
    fd_set           inherited;                 /* descriptors that leader-run was started with: so does the command      */
    int64_t          grace_ms;                  /* between SIGTERM and SIGKILL                                            */
    int              lock_fd;                   /* of the file store; -1: none                                            */
} guard_command;

typedef struct guard {                          /* leader-run's side                                                      */
    bool    busy;                               /* something of the command, or the guard, may be alive                   */
    pid_t   pid;                                /* of the guard; 0: it ended without a report, we sweep up ourselves      */
    int     socket;
    int64_t stop_at_ms, kill_at_ms;             /* what it has been told                                                  */
} guard;

typedef struct guard_order  { int64_t stop_at_ms, kill_at_ms; int signal; } guard_order;     /* signal 0: the times             */
typedef struct guard_report { bool gone, by_itself; int status; } guard_report;              /* not gone: the time to stop came */

static int64_t guard_clock_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- everybody below a process ------------------------------------------------------------------------------------------------- */

enum { GUARD_PROCESSES_MAX = 65536 };
static struct { pid_t pid, parent; } guard_processes[GUARD_PROCESSES_MAX];
static pid_t guard_found[GUARD_PROCESSES_MAX];

static pid_t guard_parent_of(const char *pid) {
    char name[64], text[512];
    snprintf(name, sizeof name, "/proc/%.20s/stat", pid);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *after_name = strrchr(text, ')');        /* "pid (name) state parent": the name may hold anything          */
    int parent = 0;
    return after_name && sscanf(after_name + 1, " %*c %d", &parent) == 1 ? (pid_t)parent : 0;
}

/* Sends the signal to all descendants of this process, but not to it. */
static void guard_signal_all_below(int number) {
    int count = 0, found = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *e; proc && (e = readdir(proc)) != NULL && count < GUARD_PROCESSES_MAX;) {
        if (e->d_name[0] < '1' || e->d_name[0] > '9') continue;
        guard_processes[count].pid = (pid_t)atol(e->d_name);
        guard_processes[count++].parent = guard_parent_of(e->d_name);
    }
    if (proc) closedir(proc);
    for (int from = -1; from < found; from++) {         /* the children of this process, then theirs, and so on           */
        pid_t parent = from < 0 ? getpid() : guard_found[from];
        for (int i = 0; i < count; i++) {
            if (guard_processes[i].parent != parent) continue;
            guard_processes[i].parent = -1;             /* found once: readdir may have shown a process twice             */
            guard_found[found++] = guard_processes[i].pid;
        }
    }
    for (int i = 0; i < found; i++) kill(guard_found[i], number);
}

/* ---- the guard's own process --------------------------------------------------------------------------------------------------- */

typedef struct guard_watch {
    const guard_command *command;
    int      socket, timer, signals;
    pid_t    main;                              /* the command's first process; also the number of its group              */
    bool     main_gone, by_itself, ending;
    int      status;
    int64_t  stop_at_ms, kill_at_ms;
} guard_watch;

/* Between fork and exec. Nothing of leader-run's may show: not its signals, not its descriptors. */
static void guard_exec(const guard_watch *w, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(125);        /* it died before we asked                                                */
    setpgid(0, 0);
    if (isatty(STDIN_FILENO)) {                 /* a group in the background that reads from a terminal is stopped        */
        int null = open("/dev/null", O_RDONLY);
        if (null >= 0) dup2(null, STDIN_FILENO);
        if (null > STDIN_FILENO) close(null);
    }
    if (w->command->lock_fd >= 0) fcntl(w->command->lock_fd, F_SETFD, 0);
    sigaction(SIGPIPE, &w->command->on_pipe, NULL);
    sigprocmask(SIG_SETMASK, &w->command->mask, NULL);
    if (guard_clock_ms() >= w->stop_at_ms) _exit(125);  /* a stall on the way here: the last moment to look               */
    execvp(w->command->argv[0], w->command->argv);
    int e = errno;
    fprintf(stderr, "leader-run: cannot run %s: %s\n", w->command->argv[0], strerror(e));
    _exit(e == ENOENT ? 127 : 126);
}

static void guard_send(const guard_watch *w, bool gone) {
    guard_report report;
    memset(&report, 0, sizeof report);
    report.gone = gone;
    report.by_itself = w->by_itself;
    report.status = w->status;
    if (send(w->socket, &report, sizeof report, MSG_NOSIGNAL) < 0) return;      /* leader-run is gone: nobody to tell      */
}

static void guard_signal_group(const guard_watch *w, int number) {
    if (!w->main_gone) kill(-w->main, number);  /* later the number may belong to somebody else                           */
}

/* SIGTERM for all, now; SIGKILL after the grace, or at kill_at if that is sooner. */
static void guard_end(guard_watch *w) {
    int64_t limit = guard_clock_ms() + w->command->grace_ms;
    if (w->ending) return;
    w->ending = true;
    if (w->kill_at_ms > limit) w->kill_at_ms = limit;
    guard_signal_group(w, SIGTERM);
    guard_signal_all_below(SIGTERM);
    guard_signal_group(w, SIGCONT);             /* who is stopped would not hear of it                                    */
    guard_signal_all_below(SIGCONT);
}

/* Buries the dead. False: there is nobody left. */
static bool guard_reap(guard_watch *w) {
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
        if (pid != w->main) continue;
        w->main_gone = true;
        w->by_itself = !w->ending && guard_clock_ms() < w->stop_at_ms;
        w->status = status;
    }
    return pid == 0 || errno != ECHILD;
}

/* Reads what leader-run says. False: it is gone. */
static bool guard_obey(guard_watch *w) {
    guard_order order;
    ssize_t n;
    while ((n = recv(w->socket, &order, sizeof order, MSG_DONTWAIT)) == (ssize_t)sizeof order) {
        if (order.signal) { guard_signal_group(w, order.signal); continue; }
        w->stop_at_ms = order.stop_at_ms;
        if (!w->ending || order.kill_at_ms < w->kill_at_ms) w->kill_at_ms = order.kill_at_ms;
    }
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static void guard_sleep(const guard_watch *w, bool orphan, int64_t until_ms) {
    struct itimerspec when;
    uint64_t expired;
    struct signalfd_siginfo info;
    struct pollfd fds[3] = {{w->timer, POLLIN, 0}, {w->signals, POLLIN, 0}, {w->socket, POLLIN, 0}};
    memset(&when, 0, sizeof when);
    when.it_value.tv_sec = (time_t)(until_ms / 1000);
    when.it_value.tv_nsec = (long)(until_ms % 1000) * 1000000 + 1;      /* never all zero: that would disarm it             */
    timerfd_settime(w->timer, TFD_TIMER_ABSTIME, &when, NULL);
    poll(fds, orphan ? 2u : 3u, -1);
    if (read(w->timer, &expired, sizeof expired) < 0 && errno != EAGAIN) _exit(125);    /* cannot keep time: better no guard,      */
    while (read(w->signals, &info, sizeof info) > 0) {}                                 /* the kernel then kills the command       */
}

static void guard_watch_over(guard_watch *w) {
    bool orphan = false;
    for (;;) {
        if (!guard_reap(w)) break;
        if (!orphan) orphan = !guard_obey(w);
        int64_t now = guard_clock_ms();
        if (!w->ending && (orphan || w->main_gone || now >= w->stop_at_ms)) {
            bool late = !orphan && !w->main_gone;
            guard_end(w);
            if (late) guard_send(w, false);
        }
        int64_t next = w->ending ? w->kill_at_ms : w->stop_at_ms < w->kill_at_ms ? w->stop_at_ms : w->kill_at_ms;
        if (now >= w->kill_at_ms) {
            w->ending = true;
            guard_signal_group(w, SIGKILL);
            guard_signal_all_below(SIGKILL);
            next = now + GUARD_KILL_AGAIN_MS;
        }
        guard_sleep(w, orphan, next);
    }
    guard_send(w, true);
}

/* The guard's life. It keeps the command's descriptors and the lock, and gives up all else that leader-run has open: a leader-run that is
   started anew after a crash needs its port. */
static void guard_live(guard_watch *w) {
    sigset_t all, child;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    prctl(PR_SET_NAME, "leader-guard");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    setpgid(0, 0);                              /* SIGKILL for leader-run's group is not for us                           */
    for (int fd = STDERR_FILENO + 1; fd < FD_SETSIZE; fd++) {
        if (!FD_ISSET(fd, &w->command->inherited) && fd != w->command->lock_fd && fd != w->socket) close(fd);
    }
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    w->signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    w->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (w->signals < 0 || w->timer < 0) {
        fprintf(stderr, "leader-run: cannot guard the command: %s\n", strerror(errno));
        _exit(125);
    }
    pid_t self = getpid();
    w->main = fork();
    if (w->main == 0) guard_exec(w, self);
    if (w->main < 0) {
        fprintf(stderr, "leader-run: cannot fork: %s\n", strerror(errno));
        w->by_itself = true;
        w->status = 125 << 8;
        guard_send(w, true);
        _exit(125);
    }
    setpgid(w->main, w->main);                  /* whoever is first                                                       */
    guard_watch_over(w);
    _exit(0);
}

/* ---- leader-run's side --------------------------------------------------------------------------------------------------------- */

/* Starts the guard, and it the command. False, with errno: it did not work. */
static bool guard_start(guard *g, const guard_command *command, int64_t stop_at_ms, int64_t kill_at_ms) {
    int pair[2];
    guard_watch watch;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return false;
    memset(&watch, 0, sizeof watch);
    watch.command = command;
    watch.socket = pair[1];
    watch.stop_at_ms = g->stop_at_ms = stop_at_ms;
    watch.kill_at_ms = g->kill_at_ms = kill_at_ms;
    g->socket = pair[0];
    g->pid = fork();
    if (g->pid == 0) guard_live(&watch);
    int e = errno;
    close(pair[1]);
    g->busy = g->pid > 0;
    if (!g->busy) close(pair[0]);
    errno = e;
    return g->busy;
}

static bool guard_tell(const guard *g, int64_t stop_at_ms, int64_t kill_at_ms, int number) {
    guard_order order;
    memset(&order, 0, sizeof order);
    order.stop_at_ms = stop_at_ms;
    order.kill_at_ms = kill_at_ms;
    order.signal = number;
    return g->pid == 0 || send(g->socket, &order, sizeof order, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof order;
}

/* New times, if they are news. What cannot be said now, because the guard does not listen, is said at the next call. */
static void guard_set_times(guard *g, int64_t stop_at_ms, int64_t kill_at_ms) {
    enum { SAME_MS = 2 };                       /* two readings of one clock                                              */
    int64_t now = guard_clock_ms();
    if (stop_at_ms <= now && g->stop_at_ms <= now) stop_at_ms = g->stop_at_ms;
    if (kill_at_ms <= now && g->kill_at_ms <= now) kill_at_ms = g->kill_at_ms;
    if (llabs(stop_at_ms - g->stop_at_ms) <= SAME_MS && llabs(kill_at_ms - g->kill_at_ms) <= SAME_MS) return;
    if (!guard_tell(g, stop_at_ms, kill_at_ms, 0) && kill_at_ms > g->kill_at_ms) return;
    g->stop_at_ms = stop_at_ms;
    g->kill_at_ms = kill_at_ms;
}

/* Buries all that have died, also those that fell to us from elsewhere. True: we have no child left. */
static bool guard_bury(void) {
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG | __WALL)) > 0) {}
    return pid < 0 && errno == ECHILD;
}

/* The guard is dead, or alive and does not do its work: what it guarded falls to us. True: all of it is gone. */
static bool guard_sweep(guard *g, bool alive) {
    if (g->pid && alive) kill(g->pid, SIGKILL); /* dead, it may be buried already and the number be somebody else's        */
    if (g->pid) close(g->socket);
    g->pid = 0;
    guard_signal_all_below(SIGKILL);
    return guard_bury();
}

/* What the guard says; call it at every turn of the loop. False: nothing new. Once kill_at is over by `patience_ms` the guard is not waited
   for any longer. *wait_ms is shortened to the moment of the next call. */
static bool guard_hear(guard *g, int64_t patience_ms, guard_report *report, int *wait_ms) {
    int64_t left = g->kill_at_ms + patience_ms - guard_clock_ms();
    memset(report, 0, sizeof *report);
    ssize_t n = g->pid ? recv(g->socket, report, sizeof *report, MSG_DONTWAIT) : 0;
    if (n == (ssize_t)sizeof *report && !report->gone) return true;
    if (n == (ssize_t)sizeof *report) {         /* its last word: it has no child left, and ends                          */
        close(g->socket);
        g->busy = false;
        g->pid = 0;
        return true;
    }
    if (n < 0 && left > 0) {
        if (left < *wait_ms) *wait_ms = (int)left;
        return false;
    }
    if (!guard_sweep(g, n < 0)) {
        if (GUARD_KILL_AGAIN_MS < *wait_ms) *wait_ms = GUARD_KILL_AGAIN_MS;
        return false;
    }
    g->busy = false;
    report->gone = true;
    report->by_itself = guard_clock_ms() < g->stop_at_ms;
    report->status = SIGKILL;
    return true;
}

#endif /* GUARD_H_INCLUDED */
