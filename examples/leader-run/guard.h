/* A command that is dead in time. Linux.

   "Only while leader" means that the command, with everything that it started, is dead before anyone else
   can lead: also when processes of leader-run are killed, stopped, starved of CPU or suspended with the
   machine, and also when the command ignores SIGTERM or leaves daemons behind. A process cannot promise
   that about itself, so three of them watch each other, and any one of them is enough:

       leader-run   holds the election. Tells guard and watchdog until when the lease is good, after every
                    renewal.
       watchdog     its child, parent of the guard. Has its own timer, on the clock that counts suspend: kills
                    everything below it a little after kill_at, and at once when the guard is dead.
       guard        parent of the command. Has a timer as well: SIGTERM at stop_at, SIGKILL at kill_at, unless
                    it has heard of later times.
       command      in a process group of its own.

   - leader-run killed: the guard's socket ends. SIGTERM at once, SIGKILL after the grace, at kill_at at the
     latest.
   - leader-run stopped: the guard's timer runs out. Nothing has to be noticed.
   - guard killed: the kernel kills the command (PR_SET_PDEATHSIG) and its process group (below); watchdog and
     leader-run kill the rest.
   - guard stopped: the watchdog kills all below it at kill_at and a little, leader-run a little later still.
   - watchdog killed: the guard learns of it from the kernel and ends the command.
   - watchdog stopped: the others do not need it.
   - Two of the three killed or stopped: the third does it. In ps they are called leader-watchdog and
     leader-guard, so that a signal by name for leader-run is not for them.
   - All three killed in one moment: the kernel kills the command and its process group. The guard holds the
     only writing end of a pipe whose reading end the command inherits, and the kernel sends SIGKILL to the
     group when the writing end closes (O_ASYNC, F_SETOWN, F_SETSIG).
   - Daemons: all three are "child subreapers". A process that loses its parent becomes a child of the next of
     them, in whichever session or process group it is; so each finds everybody below it in /proc, and knows
     that all are gone when it has no child left.
   - In a PID namespace (--pid-namespace) the kernel kills all, daemons too, as soon as the namespace's first
     process is dead.

   What remains is said in leader-run.1, under SAFETY.

   The file store lets standbys take over as soon as the leader's lock is free. The lock belongs to the
   open file, which watchdog, guard and command inherit: it is free when the last of them is gone, and not
   when leader-run is.

   kill_at is the renew deadline D, counted from before the last successful renewal was sent. Others may
   lead when the lease L is over: L - D is what the kernel has for killing, and what clocks may differ in
   rate. */
#ifndef GUARD_H_INCLUDED
#define GUARD_H_INCLUDED

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "say.h"

enum { GUARD_KILL_AGAIN_MS = 10, GUARD_FAILED = 125, GUARD_LOCKS_MAX = 7 };

typedef struct guard_command {
    char           **argv;
    // what leader-run was started with, and the command gets back
    sigset_t         mask;
    struct sigaction on_pipe;                   // of SIGPIPE
    fd_set           inherited;                 // descriptors
    int64_t          grace_ms;                  // between SIGTERM and SIGKILL
    int64_t          patience_ms;               // of the watchdog, after kill_at
    // SIGKILL follows a SIGTERM from outside as well, after the grace
    bool             strict;
    bool             pid_namespace;
    // of file stores: they stand for the life of the command as well
    int              locks[GUARD_LOCKS_MAX];
    int              lock_count;
    char            *title;                     // the memory that ps reads; NULL: leave it
    size_t           title_size;
} guard_command;

typedef struct guard {                          // leader-run's side
    // something of the command, the guard or the watchdog may be alive
    bool    busy;
    bool    sweeping;                           // the guard ended without a report, we sweep up ourselves
    int     socket;                             // to the guard
    int     watchdog;                           // to the watchdog
    int64_t stop_at_ms, kill_at_ms;             // what they have been told
} guard;

typedef struct guard_order {                    // leader-run to guard and watchdog
    int64_t stop_at_ms, kill_at_ms;
    int     signal;                             // 0: the times
} guard_order;

typedef struct guard_report {                   // guard to leader-run
    bool gone;                                  // all are gone; otherwise: the time to stop has come
    bool by_itself;                             // the command ended before it had to
    bool never_ran;                             // a stall before exec: there was no time left to run it
    int  status;                                // of the command
} guard_report;

static int64_t guard_clock_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- everybody below a process ------------------------------------------------------------------------- */

enum { GUARD_PROCESSES_MAX = 65536 };

typedef struct guard_process {
    pid_t pid, parent;
    char  state;                                // as in ps: T is stopped
} guard_process;

static guard_process guard_processes[GUARD_PROCESSES_MAX];
static pid_t guard_found[GUARD_PROCESSES_MAX];

static guard_process guard_look_up(pid_t pid) {
    guard_process found = {pid, 0, 0};
    char name[64];
    char text[512];
    snprintf(name, sizeof name, "/proc/%ld/stat", (long)pid);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return found;
    }
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    // "pid (name) state parent": the name may hold anything
    const char *after_name = strrchr(text, ')');
    int parent = 0;
    if (after_name && sscanf(after_name + 1, " %c %d", &found.state, &parent) == 2) {
        found.parent = (pid_t)parent;
    }
    return found;
}

/* NULL: /proc shows the processes as we count them. Otherwise what is wrong with it. */
static const char *guard_proc_mistake(void) {
    char self[32] = "";
    char expected[32];
    ssize_t n = readlink("/proc/self", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    snprintf(expected, sizeof expected, "%ld", (long)getpid());
    if (self[0] == 0) {
        return "/proc is not mounted, and without it daemons of the command are not found: mount -t proc "
               "proc /proc";
    }
    if (strcmp(self, expected) != 0) {
        return "/proc belongs to another PID namespace, so daemons of the command are not found: mount -t "
               "proc proc /proc";
    }
    if (guard_look_up(getpid()).parent != getppid()) {
        return "/proc does not show this process, so daemons of the command are not found: mount -t proc "
               "proc /proc";
    }
    return NULL;
}

static int guard_list_processes(void) {
    int count = 0;
    DIR *proc = opendir("/proc");
    if (!proc) {
        return 0;
    }
    while (count < GUARD_PROCESSES_MAX) {
        struct dirent *entry = readdir(proc);
        if (!entry) {
            break;
        }
        long pid = atol(entry->d_name);
        if (pid > 0) {
            guard_processes[count] = guard_look_up((pid_t)pid);
            count++;
        }
    }
    closedir(proc);
    return count;
}

/* Appends the children of `parent` to guard_found. */
static int guard_add_children(pid_t parent, int count, int found) {
    for (int i = 0; i < count; i++) {
        if (guard_processes[i].parent == parent) {
            guard_processes[i].parent = -1;     // found once: readdir may have shown a process twice
            guard_found[found] = guard_processes[i].pid;
            found++;
        }
    }
    return found;
}

/* Sends the signal to all descendants of this process, but not to it. */
static void guard_signal_all_below(int number) {
    int count = guard_list_processes();
    int found = guard_add_children(getpid(), count, 0);
    for (int i = 0; i < found; i++) {           // grows while it runs: children, their children, and so on
        found = guard_add_children(guard_found[i], count, found);
    }
    for (int i = 0; i < found; i++) {
        kill(guard_found[i], number);
    }
}

/* ---- what guard and watchdog have in common ------------------------------------------------------------ */

typedef struct guard_alarm {
    int timer, signals;
} guard_alarm;

static bool guard_alarm_open(guard_alarm *a) {
    sigset_t heard;
    sigemptyset(&heard);
    sigaddset(&heard, SIGCHLD);
    sigaddset(&heard, SIGTERM);                 // the kernel's, when the parent has died
    a->signals = signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK);
    a->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    return a->signals >= 0 && a->timer >= 0;
}

/* Until then, or a signal, or something to read from `socket` (-1: none). */
static void guard_alarm_wait(const guard_alarm *a, int socket, int64_t until_ms) {
    struct itimerspec when;
    struct signalfd_siginfo info;
    struct pollfd fds[3] = {{a->timer, POLLIN, 0}, {a->signals, POLLIN, 0}, {socket, POLLIN, 0}};
    uint64_t expired;
    memset(&when, 0, sizeof when);
    when.it_value.tv_sec = (time_t)(until_ms / 1000);
    // never all zero: that would disarm it
    when.it_value.tv_nsec = (long)(until_ms % 1000) * 1000000 + 1;
    timerfd_settime(a->timer, TFD_TIMER_ABSTIME, &when, NULL);
    poll(fds, 3, -1);
    bool broken = read(a->timer, &expired, sizeof expired) < 0 && errno != EAGAIN;
    if (broken) {
        _exit(GUARD_FAILED);                    // cannot keep time: better dead, which the others notice
    }
    while (read(a->signals, &info, sizeof info) > 0) {
    }
}

static bool guard_is_lock(const guard_command *command, int fd) {
    for (int i = 0; i < command->lock_count; i++) {
        if (command->locks[i] == fd) {
            return true;
        }
    }
    return false;
}

/* A process of ours with a name and a group of its own, deaf to signals. Keeps the command's descriptors,
   the lock and the sockets, and gives up all else that leader-run has open: a leader-run that is started
   again after a crash needs its port. */
static void guard_settle(const guard_command *command, const char *name, int keep_a, int keep_b) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    prctl(PR_SET_NAME, name);
    if (command->title) {
        memset(command->title, 0, command->title_size);
        strncpy(command->title, name, command->title_size - 1);
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    setpgid(0, 0);                              // SIGKILL for leader-run's group is not for us
    for (int fd = STDERR_FILENO + 1; fd < FD_SETSIZE; fd++) {
        bool kept = FD_ISSET(fd, &command->inherited) || guard_is_lock(command, fd) || fd == say_to.fd
                    || fd == keep_a || fd == keep_b;
        if (!kept) {
            close(fd);
        }
    }
}

/* ---- the first process of a PID namespace -------------------------------------------------------------- */

/* Its own death is that of everybody in the namespace. It ignores the signals for the group, as the kernel
   has it for a first process. */
static void guard_be_init(pid_t main, int64_t grace_ms) {
    const struct timespec pause = {0, GUARD_KILL_AGAIN_MS * 1000000L};
    int code = GUARD_FAILED;
    bool ended = false;
    int64_t until = INT64_MAX;
    while (guard_clock_ms() < until) {
        int status;
        pid_t pid = waitpid(-1, &status, ended ? WNOHANG | __WALL : __WALL);
        if (pid == main) {
            code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
            ended = true;
            until = guard_clock_ms() + grace_ms;
            kill(-1, SIGTERM);                  // daemons: all but this process
            kill(-1, SIGCONT);
        }
        if (pid < 0 && errno == ECHILD) {
            break;
        }
        if (pid == 0) {
            nanosleep(&pause, NULL);
        }
    }
    _exit(code);
}

/* The namespace has a /proc of its own; mounts from outside still appear in it. */
static bool guard_mount_proc(void) {
    bool apart = unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL) == 0;
    return apart && mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0;
}

/* fork(), into a new PID namespace. The memory is a copy, as with fork: no stack is needed. */
static pid_t guard_fork_namespace(void) {
    return (pid_t)syscall(SYS_clone, (unsigned long)(CLONE_NEWPID | SIGCHLD), NULL, NULL, NULL, NULL);
}

/* NULL: --pid-namespace will work. Tried out, since no file tells what is permitted. */
static const char *guard_namespace_mistake(void) {
    pid_t pid = guard_fork_namespace();
    if (pid == 0) {
        _exit(guard_mount_proc() ? 0 : 1);
    }
    int status = 1;
    bool good = pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
    return good ? NULL
                : "not permitted here: it takes root or CAP_SYS_ADMIN (or run leader-run itself in unshare "
                  "--user --map-root-user)";
}

/* ---- the guard's own process --------------------------------------------------------------------------- */

typedef struct guard_watch {
    const guard_command *command;
    guard_alarm alarm;
    int      socket;                            // to leader-run
    int      tie[2];                            // the pipe whose end is the end of the command's group
    int      trouble[2];                        // the command tells that it was not run; closed by exec
    pid_t    watchdog;
    pid_t    main;                              // the command's first process; also the number of its group
    bool     main_gone, by_itself, never_ran, ending;
    int      status;
    int64_t  stop_at_ms, kill_at_ms;
    // after a signal from outside that asks for the end: when to look whether it worked
    int64_t  asked_until_ms;
} guard_watch;

/* From now on the end of the guard is that of the whole group. Must be called by the group's first
   process. */
static void guard_tie_group(int fd) {
    fcntl(fd, F_SETOWN, -getpid());
    fcntl(fd, F_SETSIG, SIGKILL);
    fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK);
    fcntl(fd, F_SETFD, 0);
}

/* A group in the background that reads from a terminal is stopped: it reads from /dev/null instead. */
static void guard_leave_terminal(void) {
    if (!isatty(STDIN_FILENO)) {
        return;
    }
    int null = open("/dev/null", O_RDONLY);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
    }
    if (null > STDIN_FILENO) {
        close(null);
    }
}

/* In the command's process, up to exec. Nothing of leader-run's may show: not its signals, not its
   descriptors. */
static void guard_exec(const guard_watch *w) {
    const guard_command *command = w->command;
    char late = 1;
    guard_leave_terminal();
    for (int i = 0; i < command->lock_count; i++) {
        fcntl(command->locks[i], F_SETFD, 0);
    }
    sigaction(SIGPIPE, &command->on_pipe, NULL);
    sigprocmask(SIG_SETMASK, &command->mask, NULL);
    if (guard_clock_ms() >= w->stop_at_ms) {    // a stall on the way here: the last moment to look
        bool told = write(w->trouble[1], &late, 1) == 1;
        _exit(told ? GUARD_FAILED : GUARD_FAILED + 1);
    }
    execvp(command->argv[0], command->argv);
    int e = errno;
    char what[512];
    snprintf(what, sizeof what, "cannot run %.400s", command->argv[0]);
    say(what, strerror(e));
    _exit(e == ENOENT ? 127 : 126);
}

/* The first process below the guard: the command itself, or the first process of its namespace. */
static void guard_begin(const guard_watch *w, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // a namespace hides the parent: asked below
    bool orphan = !w->command->pid_namespace && getppid() != parent;
    if (orphan) {
        _exit(GUARD_FAILED);
    }
    setpgid(0, 0);
    guard_tie_group(w->tie[0]);
    if (!w->command->pid_namespace) {
        guard_exec(w);
    }
    struct pollfd guard_gone = {w->tie[0], 0, 0};
    bool too_late = poll(&guard_gone, 1, 0) != 0;
    if (too_late || !guard_mount_proc()) {
        _exit(GUARD_FAILED);
    }
    pid_t main = fork();
    if (main == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        guard_exec(w);
    }
    if (main < 0) {
        _exit(GUARD_FAILED);
    }
    for (int fd = STDERR_FILENO + 1; fd < FD_SETSIZE; fd++) {
        bool kept = guard_is_lock(w->command, fd) || fd == w->tie[0];
        if (!kept) {
            close(fd);
        }
    }
    guard_be_init(main, w->command->grace_ms);
}

static void guard_send(const guard_watch *w, bool gone) {
    guard_report report;
    memset(&report, 0, sizeof report);
    report.gone = gone;
    report.by_itself = w->by_itself;
    report.never_ran = w->never_ran;
    report.status = w->status;
    if (send(w->socket, &report, sizeof report, MSG_NOSIGNAL) < 0) {
        return;                                 // leader-run is gone: nobody to tell
    }
}

static void guard_signal_group(const guard_watch *w, int number) {
    if (!w->main_gone) {                        // later the number may belong to another process
        kill(-w->main, number);
    }
}

/* SIGTERM for all, now; SIGKILL after the grace, or at kill_at if that is sooner. */
static void guard_end(guard_watch *w) {
    int64_t limit = guard_clock_ms() + w->command->grace_ms;
    if (w->ending) {
        return;
    }
    w->ending = true;
    if (w->kill_at_ms > limit) {
        w->kill_at_ms = limit;
    }
    guard_signal_group(w, SIGTERM);
    guard_signal_all_below(SIGTERM);
    guard_signal_group(w, SIGCONT);             // a stopped process would not hear of it
    guard_signal_all_below(SIGCONT);
}

/* Buries the dead. False: there is nobody left. */
static bool guard_reap(guard_watch *w) {
    for (;;) {
        int status;
        char late;
        pid_t pid = waitpid(-1, &status, WNOHANG | __WALL);
        if (pid <= 0) {
            return pid == 0 || errno != ECHILD;
        }
        if (pid == w->main) {
            w->main_gone = true;
            w->never_ran = read(w->trouble[0], &late, 1) == 1;
            w->by_itself = !w->never_ran && !w->ending && guard_clock_ms() < w->stop_at_ms;
            w->status = status;
        }
    }
}

/* A signal from outside. One that asks for the end is followed by SIGCONT: a stopped command would not
   hear of it. */
static void guard_pass_on(guard_watch *w, int number) {
    bool asks_to_end = number == SIGTERM || number == SIGINT || number == SIGQUIT || number == SIGHUP;
    guard_signal_group(w, number);
    if (!asks_to_end) {
        return;
    }
    guard_signal_group(w, SIGCONT);
    bool first = w->asked_until_ms == INT64_MAX && number != SIGHUP;
    if (first) {
        w->asked_until_ms = guard_clock_ms() + w->command->grace_ms;
    }
}

/* The grace after a signal from outside is over. A command that is at work may take its time while the
   lease is renewed, unless a grace was asked for; one that is stopped never ends. */
static void guard_look_after_asking(guard_watch *w) {
    char state = guard_look_up(w->main).state;
    bool stopped = state == 'T' || state == 't';
    w->asked_until_ms = INT64_MAX;
    if (stopped || w->command->strict) {
        w->ending = true;
        w->kill_at_ms = guard_clock_ms();
    } else {
        w->asked_until_ms = guard_clock_ms() + w->command->grace_ms;
    }
}

/* Reads what leader-run says. False: it is gone. */
static bool guard_obey(guard_watch *w) {
    for (;;) {
        guard_order order;
        ssize_t n = recv(w->socket, &order, sizeof order, MSG_DONTWAIT);
        if (n != (ssize_t)sizeof order) {
            return n < 0 && (errno == EAGAIN || errno == EINTR);
        }
        if (order.signal != 0) {
            guard_pass_on(w, order.signal);
            continue;
        }
        w->stop_at_ms = order.stop_at_ms;
        if (!w->ending || order.kill_at_ms < w->kill_at_ms) {
            w->kill_at_ms = order.kill_at_ms;
        }
    }
}

/* When to look again, at the latest. */
static int64_t guard_next_ms(const guard_watch *w) {
    int64_t next = w->kill_at_ms;
    if (!w->ending && w->stop_at_ms < next) {
        next = w->stop_at_ms;
    }
    if (w->asked_until_ms < next) {
        next = w->asked_until_ms;
    }
    return next;
}

static void guard_watch_over(guard_watch *w) {
    bool alone = false;                         // leader-run or the watchdog is gone
    while (guard_reap(w)) {
        if (!alone) {
            alone = !guard_obey(w) || getppid() != w->watchdog;
        }
        bool stop_now = guard_clock_ms() >= w->stop_at_ms;
        if (!w->ending && (alone || w->main_gone || stop_now)) {
            bool late = !alone && !w->main_gone;
            guard_end(w);
            if (late) {
                guard_send(w, false);
            }
        }
        if (guard_clock_ms() >= w->asked_until_ms) {
            guard_look_after_asking(w);
        }
        int64_t next = guard_next_ms(w);
        if (guard_clock_ms() >= w->kill_at_ms) {
            w->ending = true;
            guard_signal_group(w, SIGKILL);
            guard_signal_all_below(SIGKILL);
            next = guard_clock_ms() + GUARD_KILL_AGAIN_MS;
        }
        guard_alarm_wait(&w->alarm, alone ? -1 : w->socket, next);
    }
    guard_send(w, true);
}

static void guard_give_up(guard_watch *w, const char *what) {
    w->by_itself = true;
    w->status = GUARD_FAILED << 8;
    say(what, strerror(errno));
    guard_send(w, true);
    _exit(GUARD_FAILED);
}

static void guard_live(guard_watch *w) {
    pid_t self = getpid();
    prctl(PR_SET_PDEATHSIG, SIGTERM);           // the watchdog's death wakes us
    guard_settle(w->command, "leader-guard", w->socket, -1);
    bool ready = guard_alarm_open(&w->alarm) && pipe2(w->tie, O_CLOEXEC) == 0
                 && pipe2(w->trouble, O_CLOEXEC | O_NONBLOCK) == 0;
    if (!ready) {
        guard_give_up(w, "cannot guard the command");
    }
    w->main = w->command->pid_namespace ? guard_fork_namespace() : fork();
    if (w->main == 0) {
        close(w->tie[1]);
        guard_begin(w, self);
    }
    if (w->main < 0) {
        guard_give_up(w, "cannot fork");
    }
    close(w->tie[0]);
    close(w->trouble[1]);
    setpgid(w->main, w->main);                  // here or in the child, in whichever comes first
    guard_watch_over(w);
    _exit(0);
}

/* ---- the watchdog's own process ------------------------------------------------------------------------ */

/* True: nobody is left. */
static bool watchdog_reap(pid_t guarded, bool *guard_gone) {
    for (;;) {
        pid_t pid = waitpid(-1, NULL, WNOHANG | __WALL);
        if (pid == guarded) {
            *guard_gone = true;
        }
        if (pid <= 0) {
            return pid < 0 && errno == ECHILD;
        }
    }
}

/* The newest times. False: leader-run is gone; then the last times stand. */
static bool watchdog_hear(int socket, int64_t *kill_at_ms) {
    for (;;) {
        guard_order order;
        ssize_t n = recv(socket, &order, sizeof order, MSG_DONTWAIT);
        if (n != (ssize_t)sizeof order) {
            return n < 0 && (errno == EAGAIN || errno == EINTR);
        }
        *kill_at_ms = order.kill_at_ms;
    }
}

static void watchdog_watch_over(const guard_alarm *alarm, int socket, pid_t guarded, int64_t patience_ms,
                                int64_t kill_at_ms) {
    bool guard_gone = false;
    while (!watchdog_reap(guarded, &guard_gone)) {
        bool heard = socket >= 0 && watchdog_hear(socket, &kill_at_ms);
        if (!heard) {
            socket = -1;
        }
        int64_t now = guard_clock_ms();
        int64_t next = kill_at_ms + patience_ms;
        if (guard_gone || now >= next) {
            guard_signal_all_below(SIGKILL);
            next = now + GUARD_KILL_AGAIN_MS;
        }
        guard_alarm_wait(alarm, socket, next);
    }
}

static void watchdog_live(guard_watch *w, int socket) {
    guard_alarm alarm;
    int64_t kill_at_ms = w->kill_at_ms;
    int64_t patience_ms = w->command->patience_ms;
    w->watchdog = getpid();
    guard_settle(w->command, "leader-watchdog", socket, w->socket);
    if (!guard_alarm_open(&alarm)) {
        guard_give_up(w, "cannot guard the command");
    }
    pid_t guarded = fork();
    if (guarded == 0) {
        guard_live(w);
    }
    if (guarded < 0) {
        guard_give_up(w, "cannot fork");
    }
    close(w->socket);                           // leader-run learns of the guard's end from it
    watchdog_watch_over(&alarm, socket, guarded, patience_ms, kill_at_ms);
    _exit(0);
}

/* ---- leader-run's side --------------------------------------------------------------------------------- */

static bool guard_pair(int pair[2]) {
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0;
}

static void guard_close_pair(int pair[2]) {
    int e = errno;
    close(pair[0]);
    close(pair[1]);
    errno = e;
}

/* Starts the watchdog, it the guard, and that the command. False, with errno: it did not work. */
static bool guard_start(guard *g, const guard_command *command, int64_t stop_at_ms, int64_t kill_at_ms) {
    int to_guard[2];
    int to_watchdog[2];
    guard_watch watch;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (!guard_pair(to_guard)) {
        return false;
    }
    if (!guard_pair(to_watchdog)) {
        guard_close_pair(to_guard);
        return false;
    }
    memset(&watch, 0, sizeof watch);
    watch.command = command;
    watch.socket = to_guard[1];
    watch.stop_at_ms = stop_at_ms;
    watch.kill_at_ms = kill_at_ms;
    watch.asked_until_ms = INT64_MAX;
    pid_t pid = fork();
    if (pid == 0) {
        watchdog_live(&watch, to_watchdog[1]);
    }
    if (pid < 0) {
        guard_close_pair(to_guard);
        guard_close_pair(to_watchdog);
        return false;
    }
    close(to_guard[1]);
    close(to_watchdog[1]);
    g->busy = true;
    g->sweeping = false;
    g->socket = to_guard[0];
    g->watchdog = to_watchdog[0];
    g->stop_at_ms = stop_at_ms;
    g->kill_at_ms = kill_at_ms;
    return true;
}

static bool guard_tell(const guard *g, int64_t stop_at_ms, int64_t kill_at_ms, int number) {
    guard_order order;
    memset(&order, 0, sizeof order);
    order.stop_at_ms = stop_at_ms;
    order.kill_at_ms = kill_at_ms;
    order.signal = number;
    if (g->sweeping) {
        return true;
    }
    bool to_watchdog = number == 0;
    bool all = true;
    if (to_watchdog) {
        all = send(g->watchdog, &order, sizeof order, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof order;
    }
    return send(g->socket, &order, sizeof order, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof order && all;
}

/* New times, if they are news. What cannot be said now, because nobody listens, is said at the next call. */
static void guard_set_times(guard *g, int64_t stop_at_ms, int64_t kill_at_ms) {
    enum { SAME_MS = 2 };                       // two readings of one clock
    int64_t now = guard_clock_ms();
    if (stop_at_ms <= now && g->stop_at_ms <= now) {
        stop_at_ms = g->stop_at_ms;
    }
    if (kill_at_ms <= now && g->kill_at_ms <= now) {
        kill_at_ms = g->kill_at_ms;
    }
    bool same = llabs(stop_at_ms - g->stop_at_ms) <= SAME_MS && llabs(kill_at_ms - g->kill_at_ms) <= SAME_MS;
    if (same) {
        return;
    }
    bool told = guard_tell(g, stop_at_ms, kill_at_ms, 0);
    if (!told && kill_at_ms > g->kill_at_ms) {
        return;
    }
    g->stop_at_ms = stop_at_ms;
    g->kill_at_ms = kill_at_ms;
}

// a child of leader-run's that is not the watchdog; 0: none, or it has ended
static pid_t guard_stranger;

/* Buries all that have died, also those that fell to us from elsewhere. True: we have no child left. */
static bool guard_bury(void) {
    for (;;) {
        pid_t pid = waitpid(-1, NULL, WNOHANG | __WALL);
        if (pid > 0 && pid == guard_stranger) {
            guard_stranger = 0;
        }
        if (pid <= 0) {
            return pid < 0 && errno == ECHILD;
        }
    }
}

static void guard_hang_up(guard *g) {
    close(g->socket);
    close(g->watchdog);
    g->socket = -1;
    g->watchdog = -1;
}

/* The guard is dead, or alive and does not do its work: what it guarded falls to us. True: all of it is
   gone. */
static bool guard_sweep(guard *g) {
    if (!g->sweeping) {
        guard_hang_up(g);
    }
    g->sweeping = true;
    guard_signal_all_below(SIGKILL);
    return guard_bury();
}

static void guard_wake_in(int *wait_ms, int64_t ms) {
    if (ms < *wait_ms) {
        *wait_ms = (int)ms;
    }
}

/* What the guard says; call it at every turn of the loop. False: nothing new. Once kill_at is over by
   `patience_ms` the guard is not waited for any longer. *wait_ms is shortened to the moment of the next
   call. */
static bool guard_hear(guard *g, int64_t patience_ms, guard_report *report, int *wait_ms) {
    int64_t left = g->kill_at_ms + patience_ms - guard_clock_ms();
    ssize_t n = 0;
    memset(report, 0, sizeof *report);
    if (!g->sweeping) {
        n = recv(g->socket, report, sizeof *report, MSG_DONTWAIT);
    }
    if (n == (ssize_t)sizeof *report) {
        if (report->gone) {                     // its last word: it has no child left, and ends
            guard_hang_up(g);
            g->busy = false;
        }
        return true;
    }
    bool silent = n < 0;
    if (silent && left > 0) {
        guard_wake_in(wait_ms, left);
        return false;
    }
    if (!guard_sweep(g)) {
        guard_wake_in(wait_ms, GUARD_KILL_AGAIN_MS);
        return false;
    }
    g->busy = false;
    report->gone = true;
    report->by_itself = guard_clock_ms() < g->stop_at_ms;
    report->status = SIGKILL;
    return true;
}

#endif // GUARD_H_INCLUDED
