/* A file system for the real file backend: the linker sends its system calls here (-Wl,--wrap=open and so
   on), so that leader.h runs unmodified on directories in memory, and a candidate can be stalled, killed
   or refused between every two calls; in some scenarios the processor goes to somebody else at every third
   of them. What is modelled: hard links, unlinked but open files, removed but open directories, inode
   numbers that return, locks that belong to an open file description, inotify, directories that are read
   in several portions while others change them, rm -rf that removes name by name while candidates run, and
   power failures after which the disk holds any subset of what was not synced. */

enum {
    VFS_NODES = 512,
    VFS_ENTRIES = 512,
    VFS_FDS = 192,
    VFS_FD_BASE = 5000,
    VFS_TEXT_MAX = 2048,
    VFS_NOTICES = 32,
    VFS_LOG = 64,
    VFS_NAME = 112
};
enum { VFS_FREE, VFS_FILE, VFS_DIR, VFS_NOTIFY, VFS_BOOT_ID };

typedef struct vfs_node {
    int kind, links, opens, logged;
    uint64_t inode;
    int lock_fd;
    size_t size, synced;
} vfs_node;
typedef struct vfs_change { int dir, node; bool added; uint64_t call; char name[VFS_NAME]; } vfs_change;
typedef struct vfs_entry { bool used, doomed; int dir, node; uint64_t hash; char name[VFS_NAME]; } vfs_entry;

typedef struct vfs_fd {
    int        kind, node, owner;
    bool       writable;
    size_t     offset;  // in a directory: the hash after which the listing goes on
    uint64_t   cursor;
    int        watched;                                     // inotify: the node watched; -1: none
    uint32_t   notices[VFS_NOTICES];
    int        notice_count;
} vfs_fd;

static struct {
    vfs_node  nodes[VFS_NODES];
    char      text[VFS_NODES][VFS_TEXT_MAX];
    vfs_entry entries[VFS_ENTRIES];
    int       entry_end;                                    // no entry is used from here on
    vfs_fd    fds[VFS_FDS];
    uint64_t  inodes;
    int       root;
    vfs_change log[VFS_LOG];  // changes of directories that are not on the disk yet
    int       logged;
    bool      undoing;
    uint64_t  calls;
    bool      local;                                        // one kernel: locks mean something
    int       portion;                                      // names per call when a directory is listed
    int       yield_percent;                                // of the system calls lose the processor
    bool      inodes_return;                                // a new file gets the number of one that is gone
    bool      journal;  // the disk keeps the order of changes; else any subset
    bool      wiping;                                       // rm -rf is under way
    int64_t   skew_ms[SIM_CANDIDATES_MAX];                  // wall clocks agree on nothing
    uint32_t  boots[SIM_CANDIDATES_MAX], namespaces[SIM_CANDIDATES_MAX];
    leader_listeners_t_ listeners[SIM_CANDIDATES_MAX];      // what would be a variable of the process
} vfs;

static leader_listeners_t_ *sim_listeners(void) {
    return &vfs.listeners[sim.running ? sim.running->number : 0];
}

/* ---- nodes and names --------------------------------------------------------------------------- */
static uint64_t vfs_hash(const char *name) {
    uint64_t h = 14695981039346656037u;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 1099511628211u;
    return (h ^ (h >> 31)) | 1;
}

static int vfs_new_node(int kind) {
    for (int i = 0; i < VFS_NODES; i++) {
        if (vfs.nodes[i].kind != VFS_FREE) continue;
        uint64_t inode = vfs.inodes_return ? 100 + (uint64_t)i : ++vfs.inodes;
        vfs_node fresh = { kind, 0, 0, 0, inode, -1, 0, 0 };  // lock -1: free
        vfs.nodes[i] = fresh;
        return i;
    }
    violation(&run.others, "the simulated disk has no inode left");
    abort();
}

/* Gone when nobody needs it; a directory that the disk lost takes what was in it with it. */
static void vfs_put_node(int node) {
    vfs_node *n = &vfs.nodes[node];
    if (n->links > 0 || n->opens > 0 || n->logged > 0 || n->kind == VFS_FREE) return;
    bool directory = n->kind == VFS_DIR;
    n->kind = VFS_FREE;
    for (int i = 0; directory && i < vfs.entry_end; i++) {
        vfs_entry *e = &vfs.entries[i];
        if (!e->used || e->dir != node) continue;
        e->used = false;
        vfs.nodes[e->node].links--;
        vfs_put_node(e->node);
    }
}

/* The disk knows the i-th change now. */
static void vfs_unlog(int i) {
    int node = vfs.log[i].node, dir = vfs.log[i].dir;
    memmove(vfs.log + i, vfs.log + i + 1, (size_t)(vfs.logged - i - 1) * sizeof vfs.log[0]);
    vfs.logged--;
    vfs.nodes[node].logged--;
    vfs.nodes[dir].logged--;
    vfs_put_node(node);
    vfs_put_node(dir);
}

static void vfs_log(int dir, int node, const char *name, bool added) {
    if (vfs.undoing) return;
    if (vfs.logged == VFS_LOG)  // whole calls reach the disk
        for (uint64_t oldest = vfs.log[0].call; vfs.logged > 0 && vfs.log[0].call == oldest;) vfs_unlog(0);
    vfs_change *change = &vfs.log[vfs.logged++];
    change->dir   = dir;
    change->node  = node;
    change->added = added;
    change->call  = vfs.calls;
    snprintf(change->name, sizeof change->name, "%s", name);
    vfs.nodes[node].logged++;
    vfs.nodes[dir].logged++;
}

static vfs_entry *vfs_find(int dir, const char *name) {
    uint64_t hash = vfs_hash(name);
    for (int i = 0; i < vfs.entry_end; i++) {
        vfs_entry *e = &vfs.entries[i];
        if (e->used && e->hash == hash && e->dir == dir && strcmp(e->name, name) == 0) return e;
    }
    return NULL;
}

static bool vfs_is_empty(int dir) {
    for (int i = 0; i < vfs.entry_end; i++)
        if (vfs.entries[i].used && vfs.entries[i].dir == dir)
            return false;
    return true;
}

static void vfs_enter(int dir, const char *name, int node) {
    int at = 0;
    while (at < VFS_ENTRIES && vfs.entries[at].used) at++;
    if (at == VFS_ENTRIES || strlen(name) >= sizeof vfs.entries[at].name) abort();
    if (at >= vfs.entry_end) vfs.entry_end = at + 1;
    vfs_entry *e = &vfs.entries[at];
    e->used = true;
    e->doomed = false;
    e->dir  = dir;
    e->node = node;
    e->hash = vfs_hash(name);
    snprintf(e->name, sizeof e->name, "%s", name);
    vfs.nodes[node].links++;
    vfs_log(dir, node, name, true);
}

/* ---- inotify ----------------------------------------------------------------------------------- */
static void vfs_notify(int node, uint32_t mask) {
    for (int i = 0; i < VFS_FDS; i++) {
        vfs_fd *f = &vfs.fds[i];
        if (f->kind != VFS_NOTIFY || f->watched != node || f->notice_count == VFS_NOTICES) continue;
        f->notices[f->notice_count] = f->notice_count + 1 == VFS_NOTICES ? (uint32_t)IN_Q_OVERFLOW : mask;
        f->notice_count++;
        candidate_wake(&sim.all[f->owner]);
    }
}

static void vfs_leave(vfs_entry *e) {
    vfs_log(e->dir, e->node, e->name, false);
    e->used = false;
    vfs.nodes[e->node].links--;
    vfs_notify(e->node, IN_ATTRIB);
    vfs_put_node(e->node);
}

static void vfs_close(int at) {
    vfs_fd *f = &vfs.fds[at];
    int node = f->node;
    if (node >= 0) {
        vfs_node *n = &vfs.nodes[node];
        if (f->writable) vfs_notify(node, IN_CLOSE_WRITE);
        if (n->lock_fd == at) n->lock_fd = -1;
        n->opens--;
        vfs_put_node(node);
    }
    f->kind = VFS_FREE;
}

/* ---- what the simulator does to it ------------------------------------------------------------- */
static void vfs_process_ends(candidate *c) {
    if (sim.store != STORE_FILE) return;
    memset(&vfs.listeners[c->number], 0, sizeof vfs.listeners[c->number]);
    for (int i = 0; i < VFS_FDS; i++)
        if (vfs.fds[i].kind != VFS_FREE && vfs.fds[i].owner == c->number)
            vfs_close(i);
}

static void vfs_reset(void) {
    for (int i = 0; i < VFS_NODES; i++) vfs.nodes[i].kind = VFS_FREE;
    for (int i = 0; i < vfs.entry_end; i++) vfs.entries[i].used = false;
    for (int i = 0; i < VFS_FDS; i++) vfs.fds[i].kind = VFS_FREE;
    memset(vfs.listeners, 0, sizeof vfs.listeners);
    vfs.entry_end = 0;
    vfs.logged = 0;
    vfs.inodes = 100;
    vfs.wiping = false;
    if (sim.store == STORE_FILE) {
        vfs.yield_percent = rng_percent(&sim.rng, 30) ? (int)rng_range(&sim.rng, 5, 50) : 0;
        vfs.inodes_return = rng_percent(&sim.rng, 50);
        vfs.journal = rng_percent(&sim.rng, 40);
    }
    vfs.root = vfs_new_node(VFS_DIR);
    vfs.nodes[vfs.root].links = 1;
}

static bool vfs_is_under(int dir, int top) {
    if (dir == top) return true;
    for (int i = 0; i < vfs.entry_end; i++) {
        const vfs_entry *e = &vfs.entries[i];
        if (e->used && e->node == dir && vfs.nodes[dir].kind == VFS_DIR) return vfs_is_under(e->dir, top);
    }
    return false;
}

/* rm -rf has read the directories; what is made from now on it does not see. It removes one name at a
   time, those that are not empty last, and fails at a directory into which something new came. */
static bool vfs_rm_one(void) {
    int names = 0, pick = -1;
    for (int i = 0; i < vfs.entry_end; i++) {
        vfs_entry *e = &vfs.entries[i];
        if (!e->used || !e->doomed || (vfs.nodes[e->node].kind == VFS_DIR && !vfs_is_empty(e->node)))
            continue;
        names++;
        if (rng_range(&sim.rng, 1, names) == 1) pick = i;
    }
    if (pick < 0) return false;
    note(NULL, "rm removes %s", vfs.entries[pick].name);
    vfs_leave(&vfs.entries[pick]);
    return true;
}

static void vfs_rm_finish(void) {
    while (vfs.wiping && vfs_rm_one()) {}
    vfs.wiping = false;
    for (int i = 0; i < vfs.entry_end; i++) vfs.entries[i].doomed = false;
}

/* An operator clears up: the record, all that is in the directory, the directory, with or without the
   readable copy; at one blow, or name by name; or moves the directory away. */
static void vfs_wipe(void) {
    vfs_rm_finish();
    vfs_entry *top = vfs_find(vfs.root, "job.lease.d"), *copy = vfs_find(vfs.root, "job.lease");
    int how = (int)rng_range(&sim.rng, 0, 4);
    vfs.calls++;
    if (top && how == 0) {
        char aside[VFS_NAME];
        int node = top->node;
        snprintf(aside, sizeof aside, "moved.%llu", (unsigned long long)vfs.calls);
        vfs_enter(vfs.root, aside, node);
        vfs_leave(vfs_find(vfs.root, "job.lease.d"));
    }
    for (int i = 0; top && how > 0 && i < vfs.entry_end; i++) {
        vfs_entry *e = &vfs.entries[i];
        bool inside = e->used && vfs_is_under(e->dir, top->node), record = inside && e->dir != top->node;
        e->doomed = how == 1 ? record : inside || (how > 2 && e == top);
    }
    if (copy && how > 2) copy->doomed = true;
    vfs.wiping = how > 0;
    if (rng_percent(&sim.rng, 50)) vfs_rm_finish();
}

static bool vfs_has_lock(uint64_t nonce) {
    char name[VFS_NAME];
    const vfs_entry *top = vfs_find(vfs.root, "job.lease.d");
    snprintf(name, sizeof name, "lock.%016llx", (unsigned long long)nonce);
    return top && vfs_find(top->node, name) != NULL;
}

/* What is left of an rm -rf that failed at the record, into which a new name had come. */
static bool vfs_strip(void) {
    vfs_entry *top = vfs_find(vfs.root, "job.lease.d");
    bool texts = rng_percent(&sim.rng, 50);
    for (int i = 0; top && i < vfs.entry_end; i++) {
        vfs_entry *e = &vfs.entries[i];
        bool lock = strncmp(e->name, "lock.", 5) == 0;
        bool text = texts && strncmp(e->name, "term.", 5) == 0;
        if (e->used && e->dir == top->node && (lock || text)) {
            vfs_leave(e);
        }
    }
    return top != NULL;
}

static vfs_entry *vfs_find_change(const vfs_change *change) {
    vfs_entry *e = vfs_find(change->dir, change->name);
    return e && e->node == change->node ? e : NULL;
}

static void vfs_apply(const vfs_change *change, bool add) {
    vfs_entry *e = vfs_find_change(change);
    if (add && !e && !vfs_find(change->dir, change->name)) vfs_enter(change->dir, change->name, change->node);
    if (!add && e) vfs_leave(e);
}

/* A call that removes a name needs the name: what it was built on must have reached the disk too. */
static bool vfs_applies(int first) {
    for (int i = first; i < vfs.logged && vfs.log[i].call == vfs.log[first].call; i++)
        if (!vfs.log[i].added && !vfs_find_change(&vfs.log[i])) return false;
    return true;
}

/* The power fails. A journal keeps the order: the last calls are lost. Without one, any of them may be; a
   rename is one change on every disk. What was written into files without a sync may be lost as well. */
static void vfs_lose_power(void) {
    int keep = (int)rng_range(&sim.rng, 0, vfs.logged), lost = 0;
    vfs.undoing = true;
    for (int i = vfs.logged - 1; i >= 0; i--) vfs_apply(&vfs.log[i], !vfs.log[i].added);
    bool reaches = false;
    for (int i = 0; i < vfs.logged; i++) {
        bool same_call = i > 0 && vfs.log[i].call == vfs.log[i - 1].call;
        if (!same_call) reaches = (vfs.journal ? i < keep : rng_percent(&sim.rng, 50)) && vfs_applies(i);
        if (reaches) vfs_apply(&vfs.log[i], vfs.log[i].added);
        else lost++;
    }
    vfs.undoing = false;
    note(NULL, "power fails: %d changes of directories are lost", lost);
    while (vfs.logged > 0) vfs_unlog(vfs.logged - 1);
    for (int i = 0; i < VFS_NODES; i++) {
        vfs_node *n = &vfs.nodes[i];
        if (n->kind != VFS_FILE || n->synced >= n->size || rng_percent(&sim.rng, 50)) continue;
        n->size = n->synced + (size_t)rng_range(&sim.rng, 0, (int64_t)(n->size - n->synced));
        if (rng_percent(&sim.rng, 70)) n->size = n->synced;
    }
}

static leader_backend vfs_backend(candidate *c) { return leader_file_backend(&c->file, "/sim/job.lease"); }

/* ---- system calls ------------------------------------------------------------------------------ */
static int vfs_refuse(int number) { errno = number; return -1; }

/* Every call can stall, kill, or fail. */
static bool vfs_fails(void) {
    static const int numbers[] = { EIO, ENOSPC, EACCES, EMFILE };
    candidate *c = sim.running;
    sim_point(c, POINT_SYSCALL);
    if (vfs.yield_percent && sim.phase == PHASE_CHAOS && rng_percent(&c->rng, vfs.yield_percent))
        candidate_pause(c, sim.now_us + rng_log(&c->rng, 1, 2000), false);
    if (vfs.wiping && (sim.phase != PHASE_CHAOS || (rng_percent(&sim.rng, 10) && !vfs_rm_one())))
        vfs_rm_finish();
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
    return at >= 0 && at < VFS_FDS && vfs.fds[at].kind != VFS_FREE && vfs.fds[at].owner == sim.running->number
               ? &vfs.fds[at]
               : NULL;
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
        f->watched = -1;
        f->notice_count = 0;
        if (node >= 0) vfs.nodes[node].opens++;
        return VFS_FD_BASE + i;
    }
    violation(&run.others, "%d leaks descriptors", sim.running->number);
    return vfs_refuse(EMFILE);
}

static int vfs_parent(int dir) {
    for (int i = 0; i < vfs.entry_end; i++)
        if (vfs.entries[i].used && vfs.entries[i].node == dir)
            return vfs.entries[i].dir;
    return vfs.root;
}

/* The directory and the last name of a path. */
static bool vfs_resolve(int at, const char *path, int *dir, const char **name) {
    if (strncmp(path, "/sim/", 5) == 0) {
        *dir = vfs.root;
        path += 5;
    } else {
        vfs_fd *f = vfs_get(at);
        if (!f || f->kind != VFS_DIR) { errno = EBADF; return false; }
        *dir = f->node;
    }
    for (const char *slash; (slash = strchr(path, '/')) != NULL; path = slash + 1) {
        char part[VFS_NAME];
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        const vfs_entry *e = vfs_find(*dir, part);
        if (!e || vfs.nodes[e->node].kind != VFS_DIR) { errno = e ? ENOTDIR : ENOENT; return false; }
        *dir = e->node;
    }
    *name = path;
    return true;
}

static int vfs_open(int at, const char *path, int flags) {
    int dir = -1;
    const char *name = "";
    if (vfs_fails()) return -1;
    if (strcmp(path, "/proc/sys/kernel/random/boot_id") == 0) return vfs_give(VFS_BOOT_ID, -1);
    if (!vfs_resolve(at, path, &dir, &name)) return -1;
    if (strcmp(name, "..") == 0) return vfs_give(VFS_DIR, vfs_parent(dir));
    vfs_entry *e = vfs_find(dir, name);
    if (e && (flags & O_CREAT) && (flags & O_EXCL)) return vfs_refuse(EEXIST);
    if (!e && !(flags & O_CREAT)) return vfs_refuse(ENOENT);
    if (!e && vfs.nodes[dir].links == 0) return vfs_refuse(ENOENT);  // a removed directory
    if (e && (flags & O_DIRECTORY) && vfs.nodes[e->node].kind != VFS_DIR) return vfs_refuse(ENOTDIR);
    bool created = !e;
    int node = e ? e->node : vfs_new_node(VFS_FILE);
    if (created) vfs_enter(dir, name, node);
    int fd = vfs_give(vfs.nodes[node].kind, node);
    if (fd < 0) return fd;
    vfs_fd *f = &vfs.fds[fd - VFS_FD_BASE];
    f->writable = (flags & O_ACCMODE) != O_RDONLY;
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
    if (strcmp(name, "..") == 0) return vfs_stat_node(vfs_parent(dir), st);
    vfs_entry *e = vfs_find(dir, name);
    return e ? vfs_stat_node(e->node, st) : vfs_refuse(ENOENT);
}

static int vfs_unlink(int at, const char *path, int flags) {
    int dir = -1;
    const char *name = "";
    if (vfs_fails() || !vfs_resolve(at, path, &dir, &name)) return -1;
    vfs_entry *e = vfs_find(dir, name);
    if (!e) return vfs_refuse(ENOENT);
    bool directory = vfs.nodes[e->node].kind == VFS_DIR;
    if (directory != ((flags & AT_REMOVEDIR) != 0)) return vfs_refuse(directory ? EISDIR : ENOTDIR);
    if (directory && !vfs_is_empty(e->node)) return vfs_refuse(ENOTEMPTY);
    vfs_leave(e);
    return 0;
}

static int vfs_link(int from_at, const char *from, int to_at, const char *to) {
    int from_dir = -1, to_dir = -1;
    const char *from_name = "", *to_name = "";
    if (vfs_fails() || !vfs_resolve(from_at, from, &from_dir, &from_name)
        || !vfs_resolve(to_at, to, &to_dir, &to_name))
        return -1;
    vfs_entry *e = vfs_find(from_dir, from_name);
    if (!e) return vfs_refuse(ENOENT);
    if (vfs_find(to_dir, to_name)) return vfs_refuse(EEXIST);
    if (vfs.nodes[to_dir].links == 0) return vfs_refuse(ENOENT);
    vfs_enter(to_dir, to_name, e->node);
    return 0;
}

/* A directory takes the place of nothing, or of an empty one. */
static int vfs_rename(int from_at, const char *from, int to_at, const char *to) {
    int from_dir = -1, to_dir = -1;
    const char *from_name = "", *to_name = "";
    if (vfs_fails() || !vfs_resolve(from_at, from, &from_dir, &from_name)
        || !vfs_resolve(to_at, to, &to_dir, &to_name))
        return -1;
    vfs_entry *e = vfs_find(from_dir, from_name), *old = vfs_find(to_dir, to_name);
    if (!e) return vfs_refuse(ENOENT);
    int node = e->node;
    bool directory = vfs.nodes[node].kind == VFS_DIR;
    if (vfs.nodes[to_dir].links == 0) return vfs_refuse(ENOENT);
    if (old && directory && vfs.nodes[old->node].kind != VFS_DIR) return vfs_refuse(ENOTDIR);
    if (old && !directory && vfs.nodes[old->node].kind == VFS_DIR) return vfs_refuse(EISDIR);
    if (old && directory && !vfs_is_empty(old->node)) return vfs_refuse(ENOTEMPTY);
    if (old) vfs_leave(old);
    vfs_enter(to_dir, to_name, node);
    vfs_leave(vfs_find(from_dir, from_name));
    note(sim.running, "renames %s to %s", from_name, to_name);
    return 0;
}

static ssize_t vfs_read_notices(vfs_fd *f, char *buf, size_t cap) {
    size_t used = 0;
    int taken = 0;
    for (; taken < f->notice_count && used + sizeof(struct inotify_event) <= cap; taken++) {
        struct inotify_event one;
        memset(&one, 0, sizeof one);
        one.mask = f->notices[taken];
        one.wd   = one.mask & IN_Q_OVERFLOW ? -1 : f->watched;
        memcpy(buf + used, &one, sizeof one);
        used += sizeof one;
    }
    memmove(f->notices, f->notices + taken, (size_t)(f->notice_count - taken) * sizeof f->notices[0]);
    f->notice_count -= taken;
    if (used == 0) errno = EAGAIN;
    return used ? (ssize_t)used : -1;
}

/* Names come in the order of their hashes, a few at a time. One that is added behind the cursor is missed,
   one that stays is always seen: what POSIX promises, and no more. */
static long vfs_list(vfs_fd *f, char *buf, size_t cap) {
    long used = 0;
    const uint16_t length = 19 + VFS_NAME + 5;
    for (int n = 0; n < vfs.portion && (size_t)used + length <= cap; n++) {
        const vfs_entry *next = NULL;
        for (int i = 0; i < vfs.entry_end; i++) {
            const vfs_entry *e = &vfs.entries[i];
            if (e->used && e->dir == f->node && e->hash > f->cursor && (!next || e->hash < next->hash))
                next = e;
        }
        if (!next) break;
        memset(buf + used, 0, length);
        memcpy(buf + used, &vfs.nodes[next->node].inode, 8);
        memcpy(buf + used + 16, &length, sizeof length);
        snprintf(buf + used + 19, VFS_NAME, "%s", next->name);
        f->cursor = next->hash;
        used += length;
    }
    return used;
}

/* ---- where the linker sends the calls: ours when a candidate runs, the system's otherwise ------ */
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
int     __wrap_mkdirat(int dir, const char *path, mode_t mode);
int     __wrap_fchown(int fd, uid_t owner, gid_t group);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t len, off_t at);
int     __wrap_inotify_rm_watch(int fd, int watch);
int     __wrap_chmod(const char *path, mode_t mode);
int     __wrap_fchmod(int fd, mode_t mode);
int     __wrap_fcntl(int fd, int command, ...);
int     __wrap_inotify_init1(int flags);
int     __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask);
int     __wrap_clock_gettime(clockid_t id, struct timespec *t);
pid_t   __wrap_getpid(void);
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
    bool failed = vfs_fails();  // an error from close, but closed all the same
    vfs_fd *f = vfs_get(fd);
    if (!f) {
        violation(&run.others, "%d closes descriptor %d, which is not its own", sim.running->number, fd);
        return vfs_refuse(EBADF);
    }
    vfs_close(fd - VFS_FD_BASE);
    return failed ? -1 : 0;
}

ssize_t __wrap_read(int fd, void *buf, size_t cap) {
    if (!sim.running) return __real_read(fd, buf, cap);
    vfs_fd *f = vfs_get(fd);
    // often, and never interesting
    if (f && f->kind == VFS_NOTIFY && f->notice_count == 0) return vfs_refuse(EAGAIN);
    if (vfs_fails()) return -1;
    if (!f) return vfs_refuse(EBADF);
    if (f->kind == VFS_NOTIFY) return vfs_read_notices(f, (char *)buf, cap);
    if (f->kind == VFS_BOOT_ID)
        return snprintf((char *)buf, cap, "%08x-b007-4000-8000-000000000000\n",
                        vfs.boots[sim.running->plan.host]);
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
    size_t n = len > 1 && rng_percent(&sim.running->rng, 2) ? len / 2 : len;  // short writes happen
    if (f->offset + n > VFS_TEXT_MAX) return vfs_refuse(ENOSPC);
    memcpy(vfs.text[f->node] + f->offset, buf, n);
    f->offset += n;
    vfs.nodes[f->node].size = f->offset;
    return (ssize_t)n;
}

ssize_t __wrap_pwrite(int fd, const void *buf, size_t len, off_t at) {
    if (vfs_fails()) return -1;
    vfs_fd *f = vfs_get(fd);
    if (!f || f->kind != VFS_FILE || !f->writable || (size_t)at + len > VFS_TEXT_MAX)
        return vfs_refuse(EBADF);
    memcpy(vfs.text[f->node] + at, buf, len);
    if (vfs.nodes[f->node].size < (size_t)at + len) vfs.nodes[f->node].size = (size_t)at + len;
    vfs_notify(f->node, IN_MODIFY);
    return (ssize_t)len;
}

/* A journal takes all that came before with it; otherwise only the file, or the names in the directory,
   are safe. */
int __wrap_fsync(int fd) {
    if (vfs_fails()) return -1;
    vfs_fd *f = vfs_get(fd);
    if (!f) return vfs_refuse(EBADF);
    if (f->node >= 0) vfs.nodes[f->node].synced = vfs.nodes[f->node].size;
    for (int i = vfs.logged - 1; i >= 0; i--) if (vfs.journal || vfs.log[i].dir == f->node) vfs_unlog(i);
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
    size_t cap = va_arg(args, size_t);
    va_end(args);
    if (vfs_fails()) return -1;
    vfs_fd *f = vfs_get(fd);
    return f && f->kind == VFS_DIR ? vfs_list(f, buf, cap) : vfs_refuse(EBADF);
}

int __wrap_fstat(int fd, struct stat *st) {
    if (vfs_fails()) return -1;
    vfs_fd *f = vfs_get(fd);
    return f && f->node >= 0 ? vfs_stat_node(f->node, st) : vfs_refuse(EBADF);
}
int __wrap_stat(const char *path, struct stat *st) { return vfs_stat(AT_FDCWD, path, st); }
int __wrap_lstat(const char *path, struct stat *st) { return vfs_stat(AT_FDCWD, path, st); }
int __wrap_fstatat(int dir, const char *path, struct stat *st, int flags) {
    (void)flags;
    return vfs_stat(dir, path, st);
}

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
int __wrap_unlinkat(int dir, const char *path, int flags) { return vfs_unlink(dir, path, flags); }
int __wrap_unlink(const char *path) { return vfs_unlink(AT_FDCWD, path, 0); }
int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to) {
    return vfs_rename(from_dir, from, to_dir, to);
}

int __wrap_mkdir(const char *path, mode_t mode) { return __wrap_mkdirat(AT_FDCWD, path, mode); }
int __wrap_mkdirat(int at, const char *path, mode_t mode) {
    (void)mode;
    int dir = -1;
    const char *name = "";
    if (vfs_fails() || !vfs_resolve(at, path, &dir, &name)) return -1;
    if (vfs.nodes[dir].links == 0) return vfs_refuse(ENOENT);
    if (vfs_find(dir, name)) return vfs_refuse(EEXIST);
    vfs_enter(dir, name, vfs_new_node(VFS_DIR));
    return 0;
}
int __wrap_chmod(const char *path, mode_t mode) { (void)path; (void)mode; return vfs_fails() ? -1 : 0; }
int __wrap_fchown(int fd, uid_t owner, gid_t group) {
    (void)fd;
    (void)owner;
    (void)group;
    return vfs_fails() ? -1 : 0;
}
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
    return e->node;
}
int __wrap_inotify_rm_watch(int fd, int watch) {
    if (vfs_fails()) return -1;
    vfs_fd *f = vfs_get(fd);
    if (!f || f->kind != VFS_NOTIFY || f->watched != watch) return vfs_refuse(EINVAL);
    f->watched = -1;
    return 0;
}

// nobody forks here, and a tenth of the time went into this call
pid_t __wrap_getpid(void) {
    return 1;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *t) {
    if (!sim.running) return __real_clock_gettime(id, t);
    int64_t ms = 1700000000000 + sim.now_us / 1000 + vfs.skew_ms[sim.running->plan.host];
    t->tv_sec  = (time_t)(ms / 1000);
    t->tv_nsec = (long)(ms % 1000 * 1000000);
    return 0;
}

static bool tcp_is_readable(const candidate *c);

// leader_sleep, leader_wait and leader_close sleep here; what a short read left ends it at once
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms) {
    if (!sim.running) return __real_poll(fds, count, timeout_ms);
    if (tcp_is_readable(sim.running)) sim.running->ready = true;
    int64_t until_us = sim.now_us + candidate_span_us(sim.running, timeout_ms);
    candidate_pause(sim.running, until_us, true);
    return sim.now_us < until_us ? 1 : 0;                               // woken early: something is ready
}
