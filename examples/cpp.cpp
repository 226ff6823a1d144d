// C++11: the same header, behind a small class. Callbacks are plain functions; `user` brings the object.
//
//     cpp NAME [LEASE-FILE] [SECONDS]
#define LEADER_IMPLEMENTATION
#include "leader.h"
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>

class Election {  // neither copied nor moved: the library keeps pointers into it
  public:
    Election(const std::string &identity, const std::string &path) {
        leader_config cfg = {};
        cfg.identity = identity.c_str();  // copied by leader_init
        cfg.backend = leader_file_backend(&file_, path.c_str());
        cfg.user = this;
        cfg.on_started_leading = [](void *self, uint64_t token) {
            if (of(self)->started) {
                of(self)->started(token);
            }
        };
        cfg.on_stopped_leading = [](void *self, uint64_t, leader_result why) {
            if (of(self)->stopped) {
                of(self)->stopped(why);
            }
        };
        if (leader_init(&me_, &cfg) != LEADER_OK) {
            throw std::invalid_argument(leader_error(&me_));
        }
    }
    ~Election() {
        leader_close(&me_, 1000);
    }  // hands over; its callbacks still run, so they must outlive it
    Election(const Election &) = delete;
    Election &operator=(const Election &) = delete;

    void step(std::chrono::milliseconds at_most) {
        leader_tick(&me_);
        leader_sleep(&me_, static_cast<int>(at_most.count()));
    }
    explicit operator bool() const {
        return leader_is_leader(&me_);
    }
    uint64_t token() const {
        return leader_token(&me_);
    }

    std::function<void(uint64_t)> started;
    std::function<void(leader_result)> stopped;

  private:
    static Election *of(void *self) {
        return static_cast<Election *>(self);
    }
    leader_t me_;
    leader_file file_;
};

int main(int argc, char **argv) {
    try {
        Election election(argc > 1 ? argv[1] : "node-a", argc > 2 ? argv[2] : "job.lease");
        election.started = [](uint64_t token) {
            std::printf("leading with token %llu\n", static_cast<unsigned long long>(token));
        };
        election.stopped = [](leader_result why) { std::printf("over: %s\n", leader_strerror(why)); };
        const auto end =
            std::chrono::steady_clock::now() + std::chrono::seconds(argc > 3 ? std::atoi(argv[3]) : 60);
        long pieces = 0;
        while (std::chrono::steady_clock::now() < end) {
            election.step(std::chrono::milliseconds(100));
            if (election) {
                pieces++;
            }
        }
        std::printf("%ld pieces of work\n", pieces);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
    return 0;
}
