/* A name server that answers as the test wants, and the files that the resolver reads. Include
   redis_harness.h first. */
#ifndef NAMESERVER_H
#define NAMESERVER_H

enum { ASKED_MAX = 32 };

typedef struct nameserver {
    int fd;
    int asked;                          // so many questions came
    char names[ASKED_MAX][256];         // which
    int types[ASKED_MAX];
    const char *answers_to;             // it knows this name alone: NXDOMAIN for all others
    const char *address;                // which is this; NULL: the name has none
    const char *address6;
    const char *fails_for;              // names that contain this get `code`
    int code;
    bool silent;
    bool cuts_short;                    // leaves the addresses out and says so
    bool lies;                          // answers another question first, with an address of its own
} nameserver;

HELPER void write_text(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    if (!f) abort();
    fputs(text, f);
    fclose(f);
}

/* Listens on this address: the first one chooses the port, the others take the same. */
HELPER void nameserver_listen(nameserver *d, const char *address) {
    struct sockaddr_in at;
    socklen_t len = sizeof at;
    memset(d, 0, sizeof *d);
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_port = htons((uint16_t)(dns_port == 53 ? 0 : dns_port));
    inet_pton(AF_INET, address, &at.sin_addr);
    d->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (bind(d->fd, (struct sockaddr *)&at, sizeof at) != 0) abort();
    if (getsockname(d->fd, (struct sockaddr *)&at, &len) != 0) abort();
    dns_port = ntohs(at.sin_port);
}

HELPER void nameserver_open(nameserver *d, const char *resolv) {
    nameserver_listen(d, "127.0.0.1");
    snprintf(resolv_conf, sizeof resolv_conf, "%s/resolv.conf", root);
    snprintf(hosts_file, sizeof hosts_file, "%s/hosts", root);
    write_text(resolv_conf, resolv);
    write_text(hosts_file, "# comment\n127.0.0.1 localhost\n127.0.0.1\tfile-name other ; and\n");
}

HELPER void nameserver_close(nameserver *d) {
    close(d->fd);
    dns_port = 53;
    snprintf(resolv_conf, sizeof resolv_conf, "/etc/resolv.conf");
    snprintf(hosts_file, sizeof hosts_file, "/etc/hosts");
}

/* A CNAME first, then the address if it is the right name and kind; NXDOMAIN for other names. */
HELPER size_t nameserver_reply(unsigned char *p, size_t n, bool known, int type, const char *address) {
    static const unsigned char alias[] = {0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 9, 0, 4, 1, 'x', 0xc0, 12};
    static const unsigned char head[] = {1, 'x', 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4};
    p[2] = 0x81;
    p[3] = known ? 0x80 : 0x83;
    bool v6 = address && strchr(address, ':');
    if (!known || !address || type != (v6 ? 28 : 1)) {
        return n;
    }
    p[7] = 2;
    memcpy(p + n, alias, sizeof alias);
    n += sizeof alias;
    memcpy(p + n, head, sizeof head);
    p[n + 5] = v6 ? 28 : 1;
    p[n + 13] = v6 ? 16 : 4;
    n += sizeof head;
    inet_pton(v6 ? AF_INET6 : AF_INET, address, p + n);
    return n + (v6 ? 16 : 4);
}

/* The name of a question, and its type. */
HELPER int nameserver_read(const unsigned char *p, size_t n, char name[256]) {
    size_t at = 12;
    size_t out = 0;
    name[0] = 0;
    while (at < n && p[at]) {
        memcpy(name + out, p + at + 1, p[at]);
        out += p[at];
        at += (size_t)p[at] + 1;
        name[out++] = p[at] ? '.' : 0;
    }
    return p[at + 2];
}

HELPER void nameserver_answer(nameserver *d, unsigned char *p, size_t n, const struct sockaddr_in *to) {
    char name[256];
    int type = nameserver_read(p, n, name);
    int slot = d->asked % ASKED_MAX;
    d->asked++;
    snprintf(d->names[slot], sizeof d->names[slot], "%s", name);
    d->types[slot] = type;
    if (d->silent) {
        return;
    }
    unsigned char lie[512];
    memcpy(lie, p, n);
    lie[13] ^= 1;                       // another name
    size_t lie_len = nameserver_reply(lie, n, true, type, type == 28 ? "fd00::bad" : "10.6.6.6");
    bool known = d->answers_to && strcmp(name, d->answers_to) == 0;
    size_t m = nameserver_reply(p, n, known, type, type == 28 ? d->address6 : d->address);
    if (d->fails_for && strstr(name, d->fails_for)) {
        p[3] = (unsigned char)(0x80 | d->code);
        p[7] = 0;
        m = n;
    }
    if (d->cuts_short) {
        p[2] |= 2;
        p[7] = 0;
        m = n;
    }
    if (d->lies) {
        sendto(d->fd, lie, lie_len, 0, (const struct sockaddr *)to, sizeof *to);
    }
    unsigned char stray[12] = {(unsigned char)(p[0] ^ 1), p[1]};        // does no harm
    sendto(d->fd, stray, sizeof stray, 0, (const struct sockaddr *)to, sizeof *to);
    sendto(d->fd, p, m, 0, (const struct sockaddr *)to, sizeof *to);
}

/* Answers what has been asked. */
HELPER void nameserver_step(nameserver *d) {
    for (;;) {
        unsigned char p[512];
        struct sockaddr_in from;
        socklen_t len = sizeof from;
        ssize_t n = recvfrom(d->fd, p, 400, 0, (struct sockaddr *)&from, &len);
        if (n <= 12) {
            return;
        }
        nameserver_answer(d, p, (size_t)n, &from);
    }
}

#endif
