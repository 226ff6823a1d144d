/* A file system for the real file backend: the linker sends its system calls here (-Wl,--wrap=open and so on), so that
 * leader.h runs unmodified on directories in memory, and a candidate can be stalled, killed or refused between every two
 * calls. What is modelled: hard links, unlinked but open files, removed but open directories, locks that belong to an open
 * file description, inotify, and directories that are read in several portions while others change them. */

enum { VFS_NODES = 512, VFS_ENTRIES = 512, VFS_FDS = 192, VFS_FD_BASE = 5000, VFS_TEXT_MAX = 2048, VFS_NOTICES = 32, VFS_LOG = 64 };
enum { VFS_FREE, VFS_FILE, VFS_DIR, VFS_NOTIFY, VFS_BOOT_ID };

typedef struct vfs_node { int kind, links, opens, logged; uint64_t inode; int lock_fd; size_t size, synced; } vfs_node;
typedef struct vfs_change { int dir, node; bool added; uint64_t call; char name[64]; } vfs_change;
typedef struct vfs_entry { bool used; int dir, node; uint64_t hash; char name[64]; } vfs_entry;
typedef struct vfs_notice { uint32_t mask; char name[64]; } vfs_notice;

typedef struct vfs_fd {
    int        kind, node, owner;
    bool       writable;
    size_t     offset;                                      /* in a directory: the hash after which the listing goes on */
    uint64_t   cursor;
    bool       at_start;
    int        dir;                                         /* where it was opened, and under which name: for inotify   */
    char       name[64];
    int        watched;                                     /* inotify: the directory watched; -1: none                 */
    vfs_notice notices[VFS_NOTICES];
    int        notice_count;
} vfs_fd;

static struct {
    vfs_node  nodes[VFS_NODES];
    char      text[VFS_NODES][VFS_TEXT_MAX];
    vfs_entry entries[VFS_ENTRIES];
    int       entry_end;                                    /* no entry is used from here on                            */
    vfs_fd    fds[VFS_FDS];
    uint64_t  inodes;
    int       root;
    vfs_change log[VFS_LOG];                                /* changes of directories since the last fsync              */
    int       logged;
    bool      undoing;
    uint64_t  calls;
    bool      local;                                        /* one kernel: locks mean something                         */
    int       portion;                                      /* names per call when a directory is listed                */
    int64_t   skew_ms[SIM_CANDIDATES_MAX];                  /* wall clocks agree on nothing                             */
    uint32_t  boots[SIM_CANDIDATES_MAX], namespaces[SIM_CANDIDATES_MAX];
} vfs;

/* ---- nodes and names ------------------------------------------------------------------------------------------------------ */
static uint64_t vfs_hash(const char *name) {
    uint64_t h = 14695981039346656037u;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 1099511628211u;
    return (h ^ (h >> 31)) | 1;
}

static int vfs_new_node(int kind) {
    for (int i = 0; i < VFS_NODES; i++) {
        if (vfs.nodes[i].kind != VFS_FREE) continue;
        vfs_node fresh = { kind, 0, 0, 0, ++vfs.inodes, -1, 0, 0 };                                        /* lock -1: free */
        vfs.nodes[i] = fresh;
        return i;
    }
    violation(&run.others, "the simulated disk has no inode left");
    abort();
}

static void vfs_put_node(int node) {                                                           /* gone when nobody needs it */
    vfs_node *n = &vfs.nodes[node];
    if (n->links == 0 && n->opens == 0 && n->logged == 0) n->kind = VFS_FREE;
}

/* What the disk does not know yet. The journal keeps the order; when it is full, its oldest change has reached the disk. */
static void vfs_unlog(int keep_from) {
    for (int i = 0; i < keep_from; i++) {
        vfs.nodes[vfs.log[i].node].logged--;
        vfs_put_node(vfs.log[i].node);
    }
    memmove(vfs.log, vfs.log + keep_from, (size_t)(vfs.logged - keep_from) * sizeof vfs.log[0]);
    vfs.logged -= keep_from;
}

static void vfs_log(int dir, int node, const char *name, bool added) {
    if (vfs.undoing) return;
    if (vfs.logged == VFS_LOG) vfs_unlog(1);
    vfs_change *change = &vfs.log[vfs.logged++];
    change->dir   = dir;
    change->node  = node;
    change->added = added;
    change->call  = vfs.calls;
    snprintf(change->name, sizeof change->name, "%s", name);
    vfs.nodes[node].logged++;
}

static vfs_entry *vfs_find(int dir, const char *name) {
    uint64_t hash = vfs_hash(name);
    for (int i = 0; i < vfs.entry_end; i++) {
        vfs_entry *e = &vfs.entries[i];
        if (e->used && e->hash == hash && e->dir == dir && strcmp(e->name, name) == 0) return e;
    }
    return NULL;
}

static void vfs_enter(int dir, const char *name, int node) {
    int at = 0;
    while (at < VFS_ENTRIES && vfs.entries[at].used) at++;
    if (at == VFS_ENTRIES || strlen(name) >= sizeof vfs.entries[at].name) abort();
    if (at >= vfs.entry_end) vfs.entry_end = at + 1;
    vfs_entry *e = &vfs.entries[at];
    e->used = true;
    e->dir  = dir;
    e->node = node;
    e->hash = vfs_hash(name);
    snprintf(e->name, sizeof e->name, "%s", name);
    vfs.nodes[node].links++;
    vfs_log(dir, node, name, true);
}

static void vfs_leave(vfs_entry *e) {
    vfs_log(e->dir, e->node, e->name, false);
    e->used = false;
    vfs.nodes[e->node].links--;
    vfs_put_node(e->node);
}

/* ---- inotify -------------------------------------------------------------------------------------------------------------- */
static void vfs_notify(int dir, uint32_t mask, const char *name) {
    for (int i = 0; i < VFS_FDS; i++) {
        vfs_fd *f = &vfs.fds[i];
        if (f->kind != VFS_NOTIFY || f->watched != dir || f->notice_count == VFS_NOTICES) continue;
        vfs_notice *n = &f->notices[f->notice_count++];
        n->mask = f->notice_count == VFS_NOTICES ? (uint32_t)IN_Q_OVERFLOW : mask;
        snprintf(n->name, sizeof n->name, "%s", name);
        candidate_wake(&sim.all[f->owner]);
    }
}

static void vfs_close(int at) {
    vfs_fd *f = &vfs.fds[at];
    int node = f->node;
    if (node >= 0) {
        vfs_node *n = &vfs.nodes[node];
        if (f->writable) vfs_notify(f->dir, IN_CLOSE_WRITE, f->name);
        if (n->lock_fd == at) n->lock_fd = -1;
        n->opens--;
        vfs_put_node(node);
    }
    f->kind = VFS_FREE;
}

/* ---- what the simulator does to it -------------------------------------------------------------------------------------- */
static void vfs_process_ends(candidate *c) {
    if (sim.store != STORE_FILE) return;
    for (int i = 0; i < VFS_FDS; i++) if (vfs.fds[i].kind != VFS_FREE && vfs.fds[i].owner == c->number) vfs_close(i);
}

static void vfs_reset(void) {
    for (int i = 0; i < VFS_NODES; i++) vfs.nodes[i].kind = VFS_FREE;
    for (int i = 0; i < vfs.entry_end; i++) vfs.entries[i].used = false;
    for (int i = 0; i < VFS_FDS; i++) vfs.fds[i].kind = VFS_FREE;
    vfs.entry_end = 0;
    vfs.logged = 0;
    vfs.inodes = 100;
    vfs.root = vfs_new_node(VFS_DIR);
    vfs.nodes[vfs.root].links = 1;
}

static void vfs_empty(int dir) {
    for (int i = 0; i < vfs.entry_end; i++) if (vfs.entries[i].used && vfs.entries[i].dir == dir) vfs_leave(&vfs.entries[i]);
}

/* An operator clears up: the records, with or without their directory and the readable copy. */
static void vfs_wipe(void) {
    vfs_entry *records = vfs_find(vfs.root, "job.lease.d"), *copy = vfs_find(vfs.root, "job.lease");
    int how = (int)rng_range(&sim.rng, 0, 3);
    if (records) {
        int dir = records->node;
        vfs_empty(dir);
        if (how > 0) {
            vfs_notify(dir, IN_DELETE_SELF, "");
            for (int i = 0; i < VFS_FDS; i++) if (vfs.fds[i].kind == VFS_NOTIFY && vfs.fds[i].watched == dir) vfs.fds[i].watched = -1;
            vfs_leave(records);
        }
    }
    if (copy && how > 1) vfs_leave(copy);
}

/* The last changes of directories may not have reached the disk, in whole calls and from the end; nor what was written into
   files without a sync. */
static void vfs_lose_power(void) {
    int keep = (int)rng_range(&sim.rng, 0, vfs.logged);
    while (keep > 0 && keep < vfs.logged && vfs.log[keep].call == vfs.log[keep - 1].call) keep--;
    vfs.undoing = true;
    for (int i = vfs.logged - 1; i >= keep; i--) {
        const vfs_change *change = &vfs.log[i];
        vfs_entry *e = NULL;
        for (int k = 0; k < vfs.entry_end && !e; k++) {
            vfs_entry *one = &vfs.entries[k];
            if (one->used && one->dir == change->dir && one->node == change->node && strcmp(one->name, change->name) == 0) e = one;
        }
        if (change->added && e) vfs_leave(e);
        if (!change->added)     vfs_enter(change->dir, change->name, change->node);
    }
    vfs.undoing = false;
    note(NULL, "power fails: %d changes of directories are lost", vfs.logged - keep);
    vfs_unlog(vfs.logged);
    for (int i = 0; i < VFS_NODES; i++) {
        vfs_node *n = &vfs.nodes[i];
        if (n->kind != VFS_FILE || n->synced >= n->size || rng_percent(&sim.rng, 50)) continue;
        n->size = n->synced + (size_t)rng_range(&sim.rng, 0, (int64_t)(n->size - n->synced));
        if (rng_percent(&sim.rng, 70)) n->size = n->synced;
    }
}

static leader_backend vfs_backend(candidate *c) { return leader_file_backend(&c->file, "/sim/job.lease"); }

/* ---- system calls ----------------------------------------------------------------------------------------------------------- */
static int vfs_refuse(int number) { errno = number; return -1; }

/* Every call can stall, kill, or fail. */
static bool vfs_fails(void) {
    static const int numbers[] = { EIO, ENOSPC, EACCES, EMFILE };
    candidate *c = sim.running;
    sim_point(c, POINT_SYSCALL);
    vfs.calls++;
    if (c->error_in && --c->error_in == 0) {
        run.faults[FAULT_DISK]++;
        errno = numbers[c->error_number];
        note(c, "a system call fails: %s", strerror(errno));
        return true;
    }
    if (sim.now_us < sim.outage_us) { errno = EIO; return true; }
    if (sim.now_us < sim.errors_us && rng_percent(&c->rng, 10)) { errno = EIO; return true; }
    return false;
}

static vfs_fd *vfs_get(int fd) {
    int at = fd - VFS_FD_BASE;
    return at >= 0 && at < VFS_FDS && vfs.fds[at].kind != VFS_FREE && vfs.fds[at].owner == sim.running->number ? &vfs.fds[at] : NULL;
}

static int vfs_give(int kind, int node) {
    for (int i = 0; i < VFS_FDS; i++) {
        vfs_fd *f = &vfs.fds[i];
        if (f->kind != VFS_FREE) continue;
        f->kind = kind;
        f->node = node;
        f->owner = sim.running->number;
        f->writable = false;
        f->offset = 0;
        f->cursor = 0;
        f->watched = f->dir = -1;
        f->name[0] = 0;
        f->notice_count = 0;
        if (node >= 0) vfs.nodes[node].opens++;
        return VFS_FD_BASE + i;
    }
    violation(&run.others, "%d leaks descriptors", sim.running->number);
    return vfs_refuse(EMFILE);
}

/* The directory and the last name of a path. */
static bool vfs_resolve(int at, const char *path, int *dir, const char **name) {
    if (strncmp(path, "/sim/", 5) == 0) { *dir = vfs.root; *name = path + 5; return true; }
    vfs_fd *f = vfs_get(at);
    if (!f || f->kind != VFS_DIR) { errno = EBADF; return false; }
    *dir = f->node;
    *name = path;
    return true;
}

static int vfs_open(int at, const char *path, int flags) {
    int dir = -1;
    const char *name = "";
    if (vfs_fails()) return -1;
    if (strcmp(path, "/proc/sys/kernel/random/boot_id") == 0) return vfs_give(VFS_BOOT_ID, -1);
    if (!vfs_resolve(at, path, &dir, &name)) return -1;
    vfs_entry *e = vfs_find(dir, name);
    if (e && (flags & O_CREAT) && (flags & O_EXCL)) return vfs_refuse(EEXIST);
    if (!e && !(flags & O_CREAT)) return vfs_refuse(ENOENT);
    if (!e && vfs.nodes[dir].links == 0) return vfs_refuse(ENOENT);                               /* a removed directory */
    if (e && (flags & O_DIRECTORY) && vfs.nodes[e->node].kind != VFS_DIR) return vfs_refuse(ENOTDIR);
    bool created = !e;
    int node = e ? e->node : vfs_new_node(VFS_FILE);
    if (created) vfs_enter(dir, name, node);
    int fd = vfs_give(vfs.nodes[node].kind, node);
    if (fd < 0) return fd;
    vfs_fd *f = &vfs.fds[fd - VFS_FD_BASE];
    f->writable = (flags & O_ACCMODE) != O_RDONLY;
    f->dir = dir;
    snprintf(f->name, sizeof f->name, "%s", name);
    if (created) vfs_notify(dir, IN_CREATE, name);
    return fd;
}

static int vfs_stat_node(int node, struct stat *st) {
    memset(st, 0, sizeof *st);
    st->st_dev  = 7;
    st->st_ino  = vfs.nodes[node].inode;
    st->st_mode = vfs.nodes[node].kind == VFS_DIR ? S_IFDIR | 0700 : S_IFREG | 0600;
    st->st_size = (off_t)vfs.nodes[node].size;
    return 0;
}

static int vfs_stat(int at, const char *path, struct stat *st) {
    int dir = -1;
    const char *name = "";
    if (vfs_fails()) return -1;
    if (strcmp(path, "/proc/self/ns/time") == 0) {
        memset(st, 0, sizeof *st);
        st->st_ino = 4026531834u + vfs.namespaces[sim.running->plan.host];
        return 0;
    }
    if (!vfs_resolve(at, path, &dir, &name)) return -1;
    vfs_entry *e = vfs_find(dir, name);
    return e ? vfs_stat_node(e->node, st) : vfs_refuse(ENOENT);
}

static int vfs_unlink(int at, const char *path) {
    int dir = -1;
    const char *name = "";
    if (vfs_fails() || !vfs_resolve(at, path, &dir, &name)) return -1;
    vfs_entry *e = vfs_find(dir, name);
    if (!e) return vfs_refuse(ENOENT);
    if (leader_file_number_(name)) note(sim.running, "removes record %s", name);
    vfs_leave(e);
    return 0;
}

static int vfs_link(int from_at, const char *from, int to_at, const char *to) {
    int from_dir = -1, to_dir = -1;
    const char *from_name = "", *to_name = "";
    if (vfs_fails() || !vfs_resolve(from_at, from, &from_dir, &from_name) || !vfs_resolve(to_at, to, &to_dir, &to_name)) return -1;
    vfs_entry *e = vfs_find(from_dir, from_name);
    if (!e) return vfs_refuse(ENOENT);
    if (vfs_find(to_dir, to_name)) return vfs_refuse(EEXIST);
    if (vfs.nodes[to_dir].links == 0) return vfs_refuse(ENOENT);
    vfs_enter(to_dir, to_name, e->node);
    note(sim.running, "links record %s", to_name);
    vfs_notify(to_dir, IN_CREATE, to_name);
    return 0;
}

static int vfs_rename(int from_at, const char *from, int to_at, const char *to) {
    int from_dir = -1, to_dir = -1;
    const char *from_name = "", *to_name = "";
    if (vfs_fails() || !vfs_resolve(from_at, from, &from_dir, &from_name) || !vfs_resolve(to_at, to, &to_dir, &to_name)) return -1;
    vfs_entry *e = vfs_find(from_dir, from_name), *old = vfs_find(to_dir, to_name);
    if (!e) return vfs_refuse(ENOENT);
    int node = e->node;
    vfs_enter(to_dir, to_name, node);
    if (old) vfs_leave(old);
    vfs_leave(vfs_find(from_dir, from_name));
    vfs_notify(to_dir, IN_MOVED_TO, to_name);
    return 0;
}

static ssize_t vfs_read_notices(vfs_fd *f, char *buf, size_t cap) {
    size_t used = 0;
    int taken = 0;
    for (; taken < f->notice_count; taken++) {
        struct inotify_event one;
        memset(&one, 0, sizeof one);
        one.mask = f->notices[taken].mask;
        one.len  = 64;
        if (used + sizeof one + 64 > cap) break;
        memcpy(buf + used, &one, sizeof one);
        memset(buf + used + sizeof one, 0, 64);
        snprintf(buf + used + sizeof one, 64, "%s", f->notices[taken].name);
        used += sizeof one + 64;
    }
    memmove(f->notices, f->notices + taken, (size_t)(f->notice_count - taken) * sizeof f->notices[0]);
    f->notice_count -= taken;
    if (used == 0) errno = EAGAIN;
    return used ? (ssize_t)used : -1;
}

/* Names come in the order of their hashes, a few at a time. One that is added behind the cursor is missed, one that stays
   is always seen: what POSIX promises, and no more. */
static long vfs_list(vfs_fd *f, char *buf) {
    long used = 0;
    for (int n = 0; n < vfs.portion; n++) {
        const vfs_entry *next = NULL;
        for (int i = 0; i < vfs.entry_end; i++) {
            const vfs_entry *e = &vfs.entries[i];
            if (e->used && e->dir == f->node && e->hash > f->cursor && (!next || e->hash < next->hash)) next = e;
        }
        if (!next) break;
        uint16_t length = 19 + 64 + 5;
        memset(buf + used, 0, length);
        memcpy(buf + used, &vfs.nodes[next->node].inode, 8);
        memcpy(buf + used + 16, &length, sizeof length);
        snprintf(buf + used + 19, 64, "%s", next->name);
        f->cursor = next->hash;
        used += length;
    }
    return used;
}

/* ---- where the linker sends the calls: ours when a candidate runs, the system's otherwise ------------------------------------ */
int     __real_open(const char *, int, ...);
int     __real_openat(int, const char *, int, ...);
int     __real_close(int);
ssize_t __real_read(int, void *, size_t);
ssize_t __real_write(int, const void *, size_t);
int     __real_clock_gettime(clockid_t, struct timespec *);
int     __wrap_open(const char *path, int flags, ...);
int     __wrap_openat(int dir, const char *path, int flags, ...);
int     __wrap_close(int fd);
ssize_t __wrap_read(int fd, void *buf, size_t cap);
ssize_t __wrap_write(int fd, const void *buf, size_t len);
int     __wrap_fsync(int fd);
off_t   __wrap_lseek(int fd, off_t offset, int whence);
long    __wrap_syscall(long number, ...);
int     __wrap_fstat(int fd, struct stat *st);
int     __wrap_stat(const char *path, struct stat *st);
int     __wrap_lstat(const char *path, struct stat *st);
int     __wrap_fstatat(int dir, const char *path, struct stat *st, int flags);
int     __wrap_fstatfs(int fd, struct statfs *st);
int     __wrap_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags);
int     __wrap_link(const char *from, const char *to);
int     __wrap_unlinkat(int dir, const char *path, int flags);
int     __wrap_unlink(const char *path);
int     __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to);
int     __wrap_mkdir(const char *path, mode_t mode);
int     __wrap_chmod(const char *path, mode_t mode);
int     __wrap_fchmod(int fd, mode_t mode);
int     __wrap_fcntl(int fd, int command, ...);
int     __wrap_inotify_init1(int flags);
int     __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask);
int     __wrap_clock_gettime(clockid_t id, struct timespec *t);
int     __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int     __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

int __wrap_open(const char *path, int flags, ...) {
    return sim.running ? vfs_open(AT_FDCWD, path, flags) : __real_open(path, flags, 0600);
}
int __wrap_openat(int dir, const char *path, int flags, ...) {
    return sim.running ? vfs_open(dir, path, flags) : __real_openat(dir, path, flags, 0600);
}

int __wrap_close(int fd) {
    if (!sim.running) return __real_close(fd);
    bool failed = vfs_fails();                                             /* an error from close, but closed all the same */
    vfs_fd *f = vfs_get(fd);
    if (!f) { violation(&run.others, "%d closes descriptor %d, which is not its own", sim.running->number, fd); return vfs_refuse(EBADF); }
    vfs_close(fd - VFS_FD_BASE);
    return failed ? -1 : 0;
}

ssize_t __wrap_read(int fd, void *buf, size_t cap) {
    if (!sim.running) return __real_read(fd, buf, cap);
    vfs_fd *f = vfs_get(fd);
    if (f && f->kind == VFS_NOTIFY && f->notice_count == 0) return vfs_refuse(EAGAIN);            /* often, and never interesting */
    if (vfs_fails()) return -1;
    if (!f) return vfs_refuse(EBADF);
    if (f->kind == VFS_NOTIFY) return vfs_read_notices(f, (char *)buf, cap);
    if (f->kind == VFS_BOOT_ID)
        return snprintf((char *)buf, cap, "%08x-b007-4000-8000-000000000000\n", vfs.boots[sim.running->plan.host]);
    if (f->kind != VFS_FILE) return vfs_refuse(EISDIR);
    size_t left = vfs.nodes[f->node].size - f->offset, n = left < cap ? left : cap;
    memcpy(buf, vfs.text[f->node] + f->offset, n);
    f->offset += n;
    return (ssize_t)n;
}

ssize_t __wrap_write(int fd, const void *buf, size_t len) {
    if (!sim.running) return __real_write(fd, buf, len);
    if (vfs_fails()) return -1;
    vfs_fd *f = vfs_get(fd);
    if (!f || f->kind != VFS_FILE || !f->writable) return vfs_refuse(EBADF);
    size_t n = len > 1 && rng_percent(&sim.running->rng, 2) ? len / 2 : len;                        /* short writes happen */
    if (f->offset + n > VFS_TEXT_MAX) return vfs_refuse(ENOSPC);
    memcpy(vfs.text[f->node] + f->offset, buf, n);
    f->offset += n;
    vfs.nodes[f->node].size = f->offset;
    return (ssize_t)n;
}

int __wrap_fsync(int fd) {                                      /* a journal: what came before reaches the disk as well */
    if (vfs_fails()) return -1;
    vfs_fd *f = vfs_get(fd);
    if (!f) return vfs_refuse(EBADF);
    if (f->node >= 0) vfs.nodes[f->node].synced = vfs.nodes[f->node].size;
    vfs_unlog(vfs.logged);
    return 0;
}

off_t __wrap_lseek(int fd, off_t offset, int whence) {
    vfs_fd *f = vfs_get(fd);
    if (vfs_fails()) return -1;
    if (!f || offset != 0 || whence != SEEK_SET) return vfs_refuse(EINVAL);
    f->offset = 0;
    f->cursor = 0;
    return 0;
}

long __wrap_syscall(long number, ...) {
    if (number != SYS_getdents64 || !sim.running) return vfs_refuse(ENOSYS);
    va_list args;
    va_start(args, number);
    int   fd  = va_arg(args, int);
    char *buf = va_arg(args, char *);
    va_end(args);
    if (vfs_fails()) return -1;
    vfs_fd *f = vfs_get(fd);
    return f && f->kind == VFS_DIR ? vfs_list(f, buf) : vfs_refuse(EBADF);
}

int __wrap_fstat(int fd, struct stat *st) {
    if (vfs_fails()) return -1;
    vfs_fd *f = vfs_get(fd);
    return f && f->node >= 0 ? vfs_stat_node(f->node, st) : vfs_refuse(EBADF);
}
int __wrap_stat(const char *path, struct stat *st) { return vfs_stat(AT_FDCWD, path, st); }
int __wrap_lstat(const char *path, struct stat *st) { return vfs_stat(AT_FDCWD, path, st); }
int __wrap_fstatat(int dir, const char *path, struct stat *st, int flags) { (void)flags; return vfs_stat(dir, path, st); }

int __wrap_fstatfs(int fd, struct statfs *st) {
    (void)fd;
    if (vfs_fails()) return -1;
    memset(st, 0, sizeof *st);
    st->f_type = vfs.local ? 0x01021994 : 0x6969;
    return 0;
}

int __wrap_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags) {
    (void)flags;
    return vfs_link(from_dir, from, to_dir, to);
}
int __wrap_link(const char *from, const char *to) { return vfs_link(AT_FDCWD, from, AT_FDCWD, to); }
int __wrap_unlinkat(int dir, const char *path, int flags) { (void)flags; return vfs_unlink(dir, path); }
int __wrap_unlink(const char *path) { return vfs_unlink(AT_FDCWD, path); }
int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to) { return vfs_rename(from_dir, from, to_dir, to); }

int __wrap_mkdir(const char *path, mode_t mode) {
    (void)mode;
    int dir = -1;
    const char *name = "";
    if (vfs_fails() || !vfs_resolve(AT_FDCWD, path, &dir, &name)) return -1;
    if (vfs_find(dir, name)) return vfs_refuse(EEXIST);
    vfs_enter(dir, name, vfs_new_node(VFS_DIR));
    return 0;
}
int __wrap_chmod(const char *path, mode_t mode) { (void)path; (void)mode; return vfs_fails() ? -1 : 0; }
int __wrap_fchmod(int fd, mode_t mode) { (void)fd; (void)mode; return vfs_fails() ? -1 : 0; }

int __wrap_fcntl(int fd, int command, ...) {
    va_list args;
    va_start(args, command);
    struct flock *lock = va_arg(args, struct flock *);
    va_end(args);
    if (vfs_fails()) return -1;
    vfs_fd *f = vfs_get(fd);
    if (!f || f->node < 0) return vfs_refuse(EBADF);
    int *holder = &vfs.nodes[f->node].lock_fd, at = fd - VFS_FD_BASE;
    bool others = *holder >= 0 && *holder != at;
    if (command == F_OFD_GETLK) { if (!others) lock->l_type = F_UNLCK; return 0; }
    if (command != F_OFD_SETLK) return vfs_refuse(EINVAL);
    if (others) return vfs_refuse(EAGAIN);
    *holder = at;
    return 0;
}

int __wrap_inotify_init1(int flags) { (void)flags; return vfs_fails() ? -1 : vfs_give(VFS_NOTIFY, -1); }

int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask) {
    int dir = -1;
    const char *name = "";
    (void)mask;
    if (vfs_fails() || !vfs_resolve(AT_FDCWD, path, &dir, &name)) return -1;
    vfs_fd *f = vfs_get(fd);
    vfs_entry *e = vfs_find(dir, name);
    if (!f || f->kind != VFS_NOTIFY) return vfs_refuse(EBADF);
    if (!e) return vfs_refuse(ENOENT);
    f->watched = e->node;
    return 1;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *t) {
    if (!sim.running) return __real_clock_gettime(id, t);
    int64_t ms = 1700000000000 + sim.now_us / 1000 + vfs.skew_ms[sim.running->plan.host];
    t->tv_sec  = (time_t)(ms / 1000);
    t->tv_nsec = (long)(ms % 1000 * 1000000);
    return 0;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms) {       /* leader_sleep, leader_wait and leader_close sleep here */
    if (!sim.running) return __real_poll(fds, count, timeout_ms);
    candidate_pause(sim.running, sim.now_us + candidate_span_us(sim.running, timeout_ms), true);
    return 0;
}
