/* The simulated network of stream sockets, under the real hiredis. Bytes of one direction of one
   connection never overtake each other, but they may take long, come again after a loss (with all that was
   sent behind them), or never; a connection may go dead without a word. What a process had sent before it
   gave up or died is still delivered, unless it asked for an abortive close (SO_LINGER 0): then nothing
   that the network had lost is sent again. */

enum { TCP_LINKS = 1024, TCP_FD_BASE = 9000, TCP_KEEPALIVE_US = 30000000 };

typedef enum tcp_state { TCP_FREE, TCP_NEW, TCP_CONNECTING, TCP_UP, TCP_OVER } tcp_state;

typedef struct tcp_bytes { char *at; size_t len, room; } tcp_bytes;

typedef struct tcp_link {                                       // one connection, both of its ends
    tcp_state state;                                            // as its client sees it
    uint32_t  serial;  // packets of an earlier use of this place are void
    int       owner;
    uint32_t  incarnation;
    bool      client_open;                                      // the process still has the descriptor
    bool      server_open;
    bool      dead;                                             // nothing passes any more, and nobody is told
    bool      aborts;                                           // SO_LINGER 0
    int       error;                                            // why it is over; 0: orderly
    int       told;                                             // events that the candidate's loop waits for
    bool      subscribed;
    char      channel[64];
    int       packets;                                          // under way
    int64_t   to_server_us, to_client_us;                       // arrival of the last packet
    int64_t   stopped_us;                                       // the server reads nothing before
    tcp_bytes in, out;  // arrived at the client; at the server, not parsed yet
} tcp_link;

typedef enum tcp_what { TCP_SYN, TCP_TO_SERVER, TCP_FIN, TCP_TO_CLIENT, TCP_RESET } tcp_what;

typedef struct tcp_packet {
    tcp_what what;
    int      link, next_free;
    uint32_t serial;
    uint64_t id;
    bool     resent;                                            // lost at first
    char    *bytes;
    size_t   len;
} tcp_packet;

static struct {
    tcp_link    links[TCP_LINKS];
    int         links_end;                                      // no link is used from here on
    uint32_t    serials;
    tcp_packet *packets;
    int         room, free;
    bool        frozen;                                         // an outage: the server is stopped, not gone
} tcp;

static void server_takes(tcp_link *link, const char *bytes, size_t len, uint64_t id);

/* ---- bytes and packets ------------------------------------------------------------------------- */
static void bytes_add(tcp_bytes *b, const char *at, size_t len) {
    if (b->len + len + 1 > b->room) {
        b->room = (b->len + len + 1) * 2;
        b->at = (char *)realloc(b->at, b->room);
        if (!b->at) {
            abort();
        }
    }
    memcpy(b->at + b->len, at, len);
    b->len += len;
    b->at[b->len] = 0;
}

static void bytes_drop(tcp_bytes *b, size_t len) {
    memmove(b->at, b->at + len, b->len - len);
    b->len -= len;
}

static int packet_new(void) {
    if (tcp.free < 0) {
        int room = tcp.room ? tcp.room * 2 : 64;
        tcp.packets = (tcp_packet *)realloc(tcp.packets, (size_t)room * sizeof *tcp.packets);
        if (!tcp.packets) {
            abort();
        }
        for (int i = tcp.room; i < room; i++) {
            tcp.packets[i].next_free = i + 1 < room ? i + 1 : -1;
            tcp.packets[i].bytes = NULL;
        }
        tcp.free = tcp.room;
        tcp.room = room;
    }
    int at = tcp.free;
    tcp.free = tcp.packets[at].next_free;
    return at;
}

static tcp_packet packet_take(int at) {
    tcp_packet p = tcp.packets[at];
    tcp.packets[at].bytes = NULL;
    tcp.packets[at].next_free = tcp.free;
    tcp.free = at;
    return p;
}

static void packet_send(tcp_link *link, tcp_what what, int64_t at_us, const char *bytes, size_t len,
                        bool resent) {
    int at = packet_new();
    tcp_packet *p = &tcp.packets[at];
    p->what   = what;
    p->link   = link ? (int)(link - tcp.links) : -1;
    p->serial = link ? link->serial : 0;
    p->id     = ++sim.message_ids;
    p->resent = resent;
    p->len    = len;
    p->bytes  = NULL;
    if (len > 0) {
        p->bytes = (char *)malloc(len);
        if (!p->bytes) {
            abort();
        }
        memcpy(p->bytes, bytes, len);
    }
    if (link) {
        link->packets++;
    }
    plan_event(at_us, EV_PACKET, 0, 0, at);
}

static void tcp_reset(void) {
    for (int i = 0; i < tcp.room; i++) {
        free(tcp.packets[i].bytes);
        tcp.packets[i].bytes = NULL;
        tcp.packets[i].next_free = i + 1 < tcp.room ? i + 1 : -1;
    }
    for (int i = 0; i < tcp.links_end; i++) {
        tcp.links[i].state = TCP_FREE;
        tcp.links[i].packets = 0;
    }
    tcp.free = tcp.room ? 0 : -1;
    tcp.links_end = 0;
    tcp.serials = 0;
    tcp.frozen = false;
}

/* ---- links ------------------------------------------------------------------------------------- */
static tcp_link *link_new(candidate *c) {
    int at = 0;
    while (at < TCP_LINKS && (tcp.links[at].state != TCP_FREE || tcp.links[at].packets > 0)) {
        at++;
    }
    if (at == TCP_LINKS) {
        violation(&run.others, "%d leaks connections", c->number);
        abort();
    }
    if (at >= tcp.links_end) {
        tcp.links_end = at + 1;
    }
    tcp_link *link = &tcp.links[at];
    tcp_bytes in = link->in;
    tcp_bytes out = link->out;
    memset(link, 0, sizeof *link);
    link->in = in;
    link->out = out;
    link->in.len = link->out.len = 0;
    link->state = TCP_NEW;
    link->serial = ++tcp.serials;
    link->owner = c->number;
    link->incarnation = c->incarnation;
    link->client_open = true;
    return link;
}

static candidate *link_owner(const tcp_link *link) {            // NULL: that process is gone
    candidate *c = &sim.all[link->owner];
    bool there = c->up && c->incarnation == link->incarnation && link->client_open;
    return there ? c : NULL;
}

static void link_wakes(const tcp_link *link, int events) {
    candidate *c = link_owner(link);
    if (c && (c->plan.plain_sleep || (link->told & events))) {
        candidate_wake(c);
    }
}

static void link_ends(tcp_link *link, int error) {
    if (link->state == TCP_FREE || link->state == TCP_OVER) {
        return;
    }
    link->state = TCP_OVER;
    link->error = error;
    link_wakes(link, LEADER_READ | LEADER_WRITE);
}

/* A lost packet is sent again and again until the cut is over, or the connection is dead from then on:
   some router forgot it. */
static int64_t link_arrival(tcp_link *link, int64_t *last_us, int64_t cut_us, fault_kind loss, bool *resent) {
    sim_rng *r = &sim.net_rng;
    int64_t at_us = sim.now_us + net_delay_us();
    *resent = net_loses(cut_us, loss);
    if (*resent) {
        int64_t from_us = cut_us > sim.now_us ? cut_us : sim.now_us;
        at_us = from_us + rng_log(r, sim.delay_hi_us, sim.tail_us);
        if (!link->dead && rng_percent(r, 20)) {
            link->dead = true;
            packet_send(link, TCP_RESET, sim.now_us + TCP_KEEPALIVE_US, NULL, 0, false);
        }
    }
    if (at_us < *last_us) {
        at_us = *last_us;
    }
    *last_us = at_us;
    return at_us;
}

static void link_to_server(tcp_link *link, tcp_what what, const char *bytes, size_t len) {
    const candidate *c = &sim.all[link->owner];
    bool resent;
    int64_t at_us = link_arrival(link, &link->to_server_us, c->cut_requests_us, FAULT_LOST_REQUEST, &resent);
    if (!link->dead) {
        packet_send(link, what, at_us, bytes, len, resent);
    }
}

static void link_to_client(tcp_link *link, tcp_what what, const char *bytes, size_t len) {
    const candidate *c = &sim.all[link->owner];
    bool resent;
    int64_t at_us = link_arrival(link, &link->to_client_us, c->cut_replies_us, FAULT_LOST_REPLY, &resent);
    if (!link->dead) {
        packet_send(link, what, at_us, bytes, len, resent);
    }
}

static void link_close(tcp_link *link) {
    link->client_open = false;
    link->told = 0;
    if (link->state == TCP_UP) {
        link_to_server(link, TCP_FIN, NULL, 0);
    }
    link->state = TCP_FREE;
}

static void tcp_process_ends(const candidate *c) {
    for (int i = 0; i < tcp.links_end; i++) {
        tcp_link *link = &tcp.links[i];
        if (link->client_open && link->state != TCP_FREE && link->owner == c->number) {
            link_close(link);
        }
    }
}

/* The server goes down: it ends every connection, and those who are not cut off learn of it. */
static void tcp_server_ends(void) {
    for (int i = 0; i < tcp.links_end; i++) {
        tcp_link *link = &tcp.links[i];
        if (!link->server_open) {
            continue;
        }
        link->server_open = link->subscribed = false;
        link->out.len = 0;
        if (link->client_open) {
            link_to_client(link, TCP_RESET, NULL, 0);
        }
    }
}

/* ---- packets arrive ---------------------------------------------------------------------------- */
static void tcp_connects(tcp_link *link) {
    if (link->state != TCP_CONNECTING) {
        return;
    }
    bool refused = sim.now_us < sim.outage_us && !tcp.frozen;
    if (refused) {
        link_ends(link, ECONNREFUSED);
        return;
    }
    link->state = TCP_UP;
    link->server_open = true;
    link_wakes(link, LEADER_WRITE);
}

static void tcp_reaches_server(tcp_link *link, const tcp_packet *p) {
    bool gone = link && !link->client_open;
    if (gone && link->aborts && p->resent) {
        link->server_open = link->subscribed = false;           // what comes behind the gap is of no use
        return;
    }
    if (!link) {                                                // a copy that somebody on the way kept
        server_takes(NULL, p->bytes, p->len, p->id);
        return;
    }
    if (!link->server_open) {
        if (!gone) {
            link_to_client(link, TCP_RESET, NULL, 0);
        }
        return;
    }
    if (p->what == TCP_FIN) {
        link->server_open = link->subscribed = false;
        return;
    }
    server_takes(link, p->bytes, p->len, p->id);
}

static void tcp_reaches_client(tcp_link *link, const tcp_packet *p) {
    if (p->what == TCP_RESET) {
        link_ends(link, ECONNRESET);
        return;
    }
    if (link->state != TCP_UP) {
        return;
    }
    bytes_add(&link->in, p->bytes, p->len);
    link_wakes(link, LEADER_READ);
}

/* A stopped server finds everything that came in the meantime when it goes on, in the order in which it
   was sent. */
static bool packet_waits(int at) {
    const tcp_packet *p = &tcp.packets[at];
    bool to_server = p->what == TCP_TO_SERVER || p->what == TCP_FIN;
    if (!to_server || p->link < 0 || tcp.links[p->link].serial != p->serial) {
        return false;
    }
    tcp_link *link = &tcp.links[p->link];
    bool stopped = sim.now_us < sim.outage_us && tcp.frozen;
    if (stopped && link->stopped_us < sim.outage_us) {
        link->stopped_us = sim.outage_us;
    }
    if (sim.now_us >= link->stopped_us) {
        return false;
    }
    plan_event(link->stopped_us, EV_PACKET, 0, 0, at);
    return true;
}

static void tcp_packet_arrives(int at) {
    if (packet_waits(at)) {
        return;
    }
    tcp_packet p = packet_take(at);
    tcp_link *link = p.link >= 0 ? &tcp.links[p.link] : NULL;
    bool current = !link || link->serial == p.serial;
    if (link && current) {
        link->packets--;
    }
    bool server_down = sim.now_us < sim.outage_us && p.what == TCP_TO_SERVER;
    if (!current || (server_down && !link)) {
        free(p.bytes);
        return;
    }
    if (server_down) {
        link->server_open = false;
    }
    switch (p.what) {
    case TCP_SYN:       tcp_connects(link); break;
    case TCP_TO_SERVER: tcp_reaches_server(link, &p); break;
    case TCP_FIN:       tcp_reaches_server(link, &p); break;
    case TCP_TO_CLIENT: tcp_reaches_client(link, &p); break;
    case TCP_RESET:     tcp_reaches_client(link, &p); break;
    }
    free(p.bytes);
}

/* ---- system calls, as hiredis and the adapter make them ---------------------------------------- */
static tcp_link *link_of(int fd) {
    int at = fd - TCP_FD_BASE;
    bool known = at >= 0 && at < tcp.links_end && tcp.links[at].state != TCP_FREE;
    if (known && tcp.links[at].owner == sim.running->number) {
        return &tcp.links[at];
    }
    violation(&run.others, "%d uses descriptor %d, which is not its own", sim.running->number, fd);
    errno = EBADF;
    return NULL;
}

static int tcp_refuse(int number) {
    errno = number;
    return -1;
}

int tcp_socket(int family, int type, int protocol) {
    (void)family;
    (void)type;
    (void)protocol;
    sim_point(sim.running, POINT_SYSCALL);
    return TCP_FD_BASE + (int)(link_new(sim.running) - tcp.links);
}

int tcp_bind(int fd, const struct sockaddr *from, socklen_t len) {
    (void)fd;
    (void)from;
    (void)len;
    return 0;
}

int tcp_connect(int fd, const struct sockaddr *to, socklen_t len) {
    (void)to;
    (void)len;
    sim_point(sim.running, POINT_SYSCALL);
    tcp_link *link = link_of(fd);
    if (!link) {
        return -1;
    }
    link->state = TCP_CONNECTING;
    link_to_server(link, TCP_SYN, NULL, 0);
    return tcp_refuse(EINPROGRESS);
}

int tcp_setsockopt(int fd, int level, int name, const void *value, socklen_t len) {
    (void)len;
    tcp_link *link = link_of(fd);
    if (!link) {
        return -1;
    }
    if (level == SOL_SOCKET && name == SO_LINGER) {
        const struct linger *how = (const struct linger *)value;
        link->aborts = how->l_onoff && how->l_linger == 0;
    }
    return 0;
}

int tcp_getsockopt(int fd, int level, int name, void *value, socklen_t *len) {
    (void)len;
    const tcp_link *link = link_of(fd);
    if (!link || level != SOL_SOCKET || name != SO_ERROR) {
        return tcp_refuse(EINVAL);
    }
    int error = link->state == TCP_OVER ? link->error : 0;
    memcpy(value, &error, sizeof error);
    return 0;
}

int tcp_fcntl(int fd, int command, ...) {
    (void)command;
    return link_of(fd) ? 0 : -1;
}

static short link_ready(const tcp_link *link, short wanted) {
    if (link->state == TCP_OVER) {
        return (short)(POLLHUP | POLLERR | (wanted & (POLLIN | POLLOUT)));
    }
    short ready = 0;
    if (link->in.len > 0) {
        ready |= POLLIN;
    }
    if (link->state == TCP_UP) {
        ready |= POLLOUT;
    }
    return (short)(ready & wanted);
}

int tcp_poll(struct pollfd *fds, nfds_t count, int timeout_ms) {
    sim_point(sim.running, POINT_SYSCALL);
    int ready = 0;
    for (nfds_t i = 0; i < count; i++) {
        fds[i].revents = 0;
        if (fds[i].fd < 0) {
            continue;
        }
        const tcp_link *link = link_of(fds[i].fd);
        fds[i].revents = link ? link_ready(link, fds[i].events) : POLLNVAL;
        ready += fds[i].revents != 0;
    }
    if (timeout_ms != 0) {
        violation(&run.others, "%d waits in a backend", sim.running->number);
    }
    return ready;
}

/* Loops watch levels: what a short read left wakes its reader again. */
static bool tcp_is_readable(const candidate *c) {
    for (int i = 0; i < tcp.links_end; i++) {
        const tcp_link *link = &tcp.links[i];
        if (link->owner == c->number && link->in.len > 0 && (link->told & LEADER_READ) && link_owner(link)) {
            return true;
        }
    }
    return false;
}

ssize_t tcp_read(int fd, void *buf, size_t cap) {
    sim_point(sim.running, POINT_SYSCALL);
    tcp_link *link = link_of(fd);
    if (!link) {
        return -1;
    }
    size_t n = link->in.len < cap ? link->in.len : cap;
    if (n > 1 && rng_percent(&sim.net_rng, 5)) {                // packets are cut as they please
        n = (size_t)rng_range(&sim.net_rng, 1, (int64_t)n);
    }
    if (n > 0) {
        memcpy(buf, link->in.at, n);
        bytes_drop(&link->in, n);
        return (ssize_t)n;
    }
    if (link->state == TCP_UP) {
        return tcp_refuse(EAGAIN);
    }
    return link->error ? tcp_refuse(link->error) : 0;
}

ssize_t tcp_write(int fd, const void *buf, size_t len) {
    sim_point(sim.running, POINT_SYSCALL);
    tcp_link *link = link_of(fd);
    if (!link) {
        return -1;
    }
    if (link->state != TCP_UP) {
        return tcp_refuse(EPIPE);
    }
    size_t n = len;
    if (n > 1 && rng_percent(&sim.net_rng, 2)) {
        n = n / 2;
    }
    const char *bytes = (const char *)buf;
    note(sim.running, "sends %d bytes", (int)n);
    link_to_server(link, TCP_TO_SERVER, bytes, n);
    if (bytes[0] == '*' && net_doubles(FAULT_DUP_REQUEST)) {    // kept on the way, and sent once more
        packet_send(NULL, TCP_TO_SERVER, sim.now_us + rng_log(&sim.net_rng, sim.delay_lo_us, sim.tail_us),
                    bytes, n, false);
    }
    candidate *c = sim.running;
    if (!c->seen_record && n <= sizeof c->naive) {
        memcpy(c->naive, bytes, n);
        c->naive_len = n;
        c->naive_us  = sim.now_us;
    }
    return (ssize_t)n;
}

int tcp_close(int fd) {
    sim_point(sim.running, POINT_SYSCALL);
    tcp_link *link = link_of(fd);
    if (!link) {
        return -1;
    }
    link_close(link);
    return 0;
}

int tcp_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out) {
    static struct sockaddr_in address;
    static struct addrinfo info;
    (void)host;
    (void)port;
    (void)hints;
    address.sin_family = AF_INET;
    info.ai_family   = AF_INET;
    info.ai_socktype = SOCK_STREAM;
    info.ai_addr     = (struct sockaddr *)(void *)&address;
    info.ai_addrlen  = sizeof address;
    *out = &info;
    return 0;
}

void tcp_freeaddrinfo(struct addrinfo *info) { (void)info; }

int tcp_sigmask(int how, const sigset_t *set, sigset_t *before) {   // nobody is ever signalled here
    (void)how;
    (void)set;
    if (before) {
        sigemptyset(before);
    }
    return 0;
}

/* The candidate's loop waits for these events. One that could write at once finds out at once, as poll
   would tell it. */
static void tcp_told(candidate *c, int fd, int events) {
    int at = fd - TCP_FD_BASE;
    if (at < 0 || at >= tcp.links_end || tcp.links[at].owner != c->number) {
        return;
    }
    tcp_link *link = &tcp.links[at];
    link->told = events;
    bool now =
        ((events & LEADER_WRITE) && link->state == TCP_UP) || ((events & LEADER_READ) && link->in.len > 0);
    if (now || link->state == TCP_OVER) {
        c->ready = true;
    }
}

/* ---- memory: what a process had is gone with it; one that ends in order has given everything back ---- */
typedef struct mem_block { struct mem_block *next, *prev; size_t bytes, unused; } mem_block;

static mem_block *mem_list(void) {
    static mem_block heads[SIM_CANDIDATES_MAX];
    mem_block *head = &heads[sim.running->number];
    if (!head->next) {
        head->next = head->prev = head;
    }
    return head;
}

void *mem_malloc(size_t bytes) {
    mem_block *head = mem_list();
    mem_block *b = (mem_block *)malloc(sizeof *b + bytes);
    if (!b) {
        abort();
    }
    b->bytes = bytes;
    b->next = head->next;
    b->prev = head;
    head->next->prev = b;
    head->next = b;
    return b + 1;
}

void mem_free(void *old) {
    if (!old) {
        return;
    }
    mem_block *b = (mem_block *)old - 1;
    b->next->prev = b->prev;
    b->prev->next = b->next;
    free(b);
}

void *mem_calloc(size_t count, size_t bytes) {
    void *fresh = mem_malloc(count * bytes);
    memset(fresh, 0, count * bytes);
    return fresh;
}

void *mem_realloc(void *old, size_t bytes) {
    void *fresh = mem_malloc(bytes);
    if (old) {
        size_t had = ((mem_block *)old - 1)->bytes;
        memcpy(fresh, old, had < bytes ? had : bytes);
        mem_free(old);
    }
    return fresh;
}

char *mem_strdup(const char *text) {
    size_t bytes = strlen(text) + 1;
    return (char *)memcpy(mem_malloc(bytes), text, bytes);
}

static void mem_process_ends(candidate *c, bool crashed) {
    candidate *was = sim.running;
    sim.running = c;
    mem_block *head = mem_list();
    if (!crashed && head->next != head) {
        violation(&run.others, "%d has closed and left %d bytes behind", c->number, (int)head->next->bytes);
    }
    while (head->next != head) {
        mem_free(head->next + 1);
    }
    sim.running = was;
}

static void mem_reset(void) {  // those who lived at the end of the last scenario
    for (int i = 0; i < SIM_CANDIDATES_MAX; i++) {
        sim.all[i].number = i;
        mem_process_ends(&sim.all[i], true);
    }
}
