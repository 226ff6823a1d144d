/* The election in an asio io_context: a descriptor object for each descriptor, one timer, one set of signals.

       asio NAME [STORE]
       STORE: a lease file, a URL, or a majority of URLs, see options.h */
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include "options.h"
#include <asio.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <map>
#include <memory>

class Election {
  public:
    Election(asio::io_context &io, const char *identity, const leader_backend &backend)
        : io_(io), timer_(io), signals_(io, SIGINT, SIGTERM) {
        leader_config cfg = {};
        cfg.identity = identity;
        cfg.backend = backend;
        cfg.on_new_leader = [](void *, const char *name) {
            std::printf("leader: %s\n", name[0] ? name : "nobody");
        };
        cfg.on_fd = [](void *self, intptr_t fd, int events) {
            static_cast<Election *>(self)->watch(static_cast<int>(fd), events);
        };
        cfg.on_due = [](void *self) { static_cast<Election *>(self)->again(0); };
        cfg.loop_user = this;
        ready_ = leader_init(&me_, &cfg) == LEADER_OK;
        if (ready_) {
            signals_.async_wait([this](const asio::error_code &error, int) { stop(error); });
            tick();
        }
    }

    const char *error() const {
        return ready_ ? nullptr : leader_error(&me_);
    }

  private:
    /* A descriptor that asio waits on without owning it: it is the library's to close. */
    struct Watch {
        Watch(asio::io_context &io, int fd) : at(io, fd) {
        }
        ~Watch() {
            at.release();
        }
        asio::posix::stream_descriptor at;
        int events = 0;
    };

    void watch(int fd, int events) {
        // 0: it is about to be closed; otherwise it is made again with what is wanted now
        watches_.erase(fd);
        if (events == 0) {
            return;
        }
        std::shared_ptr<Watch> w = std::make_shared<Watch>(io_, fd);
        w->events = events;
        watches_[fd] = w;
        wait(w);
    }

    void wait(const std::shared_ptr<Watch> &w) {
        std::weak_ptr<Watch> weak = w;
        auto on_ready = [this, weak](const asio::error_code &error) {
            if (error || weak.expired()) {
                return;
            }
            tick();
            std::shared_ptr<Watch> same = weak.lock();  // the tick may have let go of it
            if (same) {
                same->at.cancel();
                wait(same);
            }
        };
        if (w->events & LEADER_READ) {
            w->at.async_wait(asio::posix::stream_descriptor::wait_read, on_ready);
        }
        if (w->events & LEADER_WRITE) {
            w->at.async_wait(asio::posix::stream_descriptor::wait_write, on_ready);
        }
    }

    void again(int ms) {
        timer_.expires_after(std::chrono::milliseconds(ms));
        timer_.async_wait([this](const asio::error_code &error) {
            if (!error) {
                tick();
            }
        });
    }

    void stop(const asio::error_code &error) {
        if (!error) {
            leader_stop(&me_);
            tick();
        }
    }

    void tick() {
        int wait_ms = leader_tick(&me_);
        if (!leader_is_stopped(&me_)) {
            again(wait_ms);
            return;
        }
        leader_close(&me_, 0);  // takes its descriptors back through watch
        timer_.cancel();
        signals_.cancel();
    }

    asio::io_context &io_;
    asio::steady_timer timer_;
    asio::signal_set signals_;
    std::map<int, std::shared_ptr<Watch>> watches_;
    leader_t me_;
    bool ready_ = false;
};

int main(int argc, char **argv) {
    asio::io_context io;
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    static store where;
    leader_backend backend = store_of_argument(&where, argc > 2 ? argv[2] : "job.lease");
    Election election(io, argc > 1 ? argv[1] : "node-a", backend);
    if (election.error()) {
        std::fprintf(stderr, "%s\n", election.error());
        return 1;
    }
    io.run();
    return 0;
}
