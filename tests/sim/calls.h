/* Where the store clients meet the simulator. The Redis adapter is compiled into this file and linked with
   the real hiredis, whose calls objcopy has renamed (tests/sim/hiredis.syms): both end in the simulated
   network of tests/sim/tcp.h instead of the system's. Everything above the socket is the code that ships. */

struct addrinfo;
struct pollfd;

int     tcp_socket(int family, int type, int protocol);
int     tcp_connect(int fd, const struct sockaddr *to, socklen_t len);
int     tcp_bind(int fd, const struct sockaddr *from, socklen_t len);
int     tcp_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int     tcp_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int     tcp_fcntl(int fd, int command, ...);
int     tcp_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
ssize_t tcp_read(int fd, void *buf, size_t cap);
ssize_t tcp_write(int fd, const void *buf, size_t len);
int     tcp_close(int fd);
int tcp_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints, struct addrinfo **out);
void    tcp_freeaddrinfo(struct addrinfo *info);
int     tcp_sigmask(int how, const sigset_t *set, sigset_t *before);

void   *mem_malloc(size_t bytes);
void   *mem_calloc(size_t count, size_t bytes);
void   *mem_realloc(void *old, size_t bytes);
char   *mem_strdup(const char *text);
void    mem_free(void *old);
