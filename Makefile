# leader.h is one file: to use it, copy it. What is here builds the tests, the figures and the examples.
# `make` alone lists the targets. Everything that is built goes to build/.

CFLAGS  ?= -O1 -g
STRICT  := -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror
SANITIZE = -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
COVERAGE = $(if $(findstring clang,$(CC)),,--coverage -dumpdir $(OUT)/coverage/)
LIBS     = -pthread
OUT     := build
comma   := ,

# make test-core UTEST=dir/utest.h: the same tests with another header of that interface, as a system header, whose warnings are not ours.
ifdef UTEST
OUT         := build/other-utest
UTEST_FLAGS := -isystem $(abspath $(dir $(UTEST))) -DUTEST_HEADER='<$(notdir $(UTEST))>'
endif

C_FLAGS   = -std=gnu99 $(STRICT) -I. $(CFLAGS) $(CPPFLAGS) $(CHECKED)
CXX_FLAGS = -std=c++11 $(STRICT) -I. $(CFLAGS) $(CPPFLAGS) $(CHECKED)
HEADERS  := $(wildcard leader.h backends/*.h tests/*.h tests/*/*.h examples/*.h bench/*.h)

# The core tests are every tests/test_*.c that needs no server.
CORE     := $(filter-out test_redis% test_k8s%,$(patsubst tests/%.c,%,$(wildcard tests/test_*.c)))
SERVERS  := $(patsubst tests/%.c,%,$(wildcard tests/test_redis*.c tests/test_k8s*.c))
THREADS  := $(filter test_threads,$(CORE))
FUZZERS  := $(filter-out all,$(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/*.c)))
MEMCHECKED := $(addprefix $(OUT)/plain/,test_terms test_handover test_standby test_loop test_file test_redis test_k8s)
BENCHES  := $(patsubst bench/%.c,%,$(wildcard bench/*.c))

# The examples whose library is not installed are left out. Looked at only where it matters: it runs the preprocessor.
lacks     = $(shell echo '\#include <$(1)>' | $(CC) -E -x c - >/dev/null 2>&1 || echo $(2))
LACKING   = $(call lacks,uv.h,libuv) $(call lacks,ev.h,libev) $(call lacks,sys/epoll.h,epoll)
EXAMPLES  = $(filter-out $(LACKING),$(patsubst examples/%.c,%,$(wildcard examples/*.c))) $(patsubst examples/%.cpp,%,$(wildcard examples/*.cpp))

# healthz and leader-run have every store whose library is installed. Looked at only where it matters: it runs the preprocessor.
has_store   = $(and $(wildcard backends/leader_$(1).h),$(shell echo '\#include <$(2)>' | $(CC) -E -x c - >/dev/null 2>&1 && echo yes))
STORE_FLAGS = $(if $(call has_store,redis,hiredis/hiredis.h),-DLEADER_WITH_REDIS) $(if $(call has_store,k8s,curl/curl.h),-DLEADER_WITH_K8S)
STORE_LIBS  = $(if $(call has_store,redis,hiredis/hiredis.h),-lhiredis) $(if $(call has_store,k8s,curl/curl.h),-lcurl)

# The thread sanitizer does not start where addresses are randomised more widely than it was built for.
UNRANDOMIZED := $(shell setarch -R true 2>/dev/null && echo setarch -R)

# ---- the suites: '<name> <seconds it may take> <command>', one line each; see tests/run ---------------------------------------------
# A program is built as part of its suite, so that one that does not compile is a failed suite and no more.

suite = '$(1) $(2) $(MAKE) -s $(OUT)/$(1) && $(3) $(OUT)/$(1) $(4)'

# Test programs leave what coverage reads; a run forgets that of the run before.
covered = $(call suite,$(1),$(2),rm -f $(OUT)/coverage/$(1).gcda &&)

# Examples and leader-run are tested with the sanitizers, in a directory of their own: what is installed or tried out is without.
checked = $(MAKE) -s OUT=$(OUT)/checked CHECKED="$(SANITIZE)"

CORE_SUITES := 'run 300 tests/test_run.sh'
CORE_SUITES += $(foreach t,$(CORE),$(call covered,$(t),600))
CORE_SUITES += $(foreach t,$(THREADS),$(call suite,$(t)-tsan,600,$(UNRANDOMIZED)))
CORE_SUITES += $(if $(wildcard tests/sim.c),$(call suite,sim,900))

REDIS_SUITES := $(call covered,test_redis,900)
REDIS_SUITES += $(call suite,test_redis-tsan,300,$(UNRANDOMIZED),"--filter=threads.*")
REDIS_SUITES += $(call suite,test_redis_faults,300)
REDIS_SUITES += 'redis_builds 300 tests/test_backend_builds.sh redis'

K8S_SUITES  := $(call covered,test_k8s,600)
K8S_SUITES  += $(call suite,test_k8s-tsan,300,$(UNRANDOMIZED),"--filter=threads.*")
K8S_SUITES  += $(call suite,test_k8s_faults,300)
K8S_SUITES  += $(foreach t,$(wildcard tests/test_k8s_*.py),'$(basename $(notdir $(t))) 300 python3 $(t)')
K8S_SUITES  += 'k8s_builds 300 tests/test_backend_builds.sh k8s'
K8S_LIVE    := 'test_k8s-live 900 $(MAKE) -s $(OUT)/test_k8s && $(OUT)/test_k8s "--filter=live.*"'

# Short runs: make chaos has the long ones, and a new seed for each.
CHAOS_SUITES := $(foreach s,file redis redis-sentinel k8s,'chaos_$(s) 180 $(MAKE) -s chaos STORE=$(s) SECONDS=12 SEED=1')
CHAOS_SUITES += 'chaos_file-short-leases 180 $(MAKE) -s chaos SECONDS=12 LEASE=150 SEED=1'
CHAOS_SUITES += 'chaos_checker 180 $(MAKE) -s $(OUT)/chaos-candidate && tests/test_chaos.py'
CHAOS_SUITES += 'chaos_proxy 180 tests/chaos/test_proxy.py'
CHAOS_SUITES += 'chaos_stores 300 tests/chaos/test_stores.py'

FAULT_SUITES := $(foreach t,test_faults test_redis_faults test_k8s_faults,$(call suite,$(t),600))

# The long ones first, so that none is left to run alone at the end.
ALL_SUITES  := $(REDIS_SUITES) $(K8S_SUITES) $(CHAOS_SUITES)
ALL_SUITES  += 'examples 600 $(checked) examples && tests/test_examples $(OUT)/checked/examples'
ALL_SUITES  += 'leader_run 600 $(checked) $(addprefix $(OUT)/checked/,leader-run leader-run-pod) && tests/test_leader_run.py $(OUT)/checked/leader-run'
ALL_SUITES  += 'matrix 900 tests/matrix --all'
ALL_SUITES  += 'mutation 1200 tests/mutation'
ALL_SUITES  += $(CORE_SUITES)
ALL_SUITES  += 'wine 600 tests/test_wine.sh'
ALL_SUITES  += 'healthz 300 $(checked) $(OUT)/checked/examples/healthz && tests/test_healthz.py $(OUT)/checked/examples/healthz'
ALL_SUITES  += 'cache 300 $(checked) $(OUT)/checked/examples/cache && tests/test_cache.py $(OUT)/checked/examples/cache'
ALL_SUITES  += 'readme 300 tests/readme_snippets'
ALL_SUITES  += 'install 300 tests/test_install.sh'
ALL_SUITES  += 'fuzz_corpus 300 $(MAKE) -s $(OUT)/fuzz/all && mkdir -p $(OUT)/fuzz/tmp && TMPDIR=$(OUT)/fuzz/tmp $(OUT)/fuzz/all tests/fuzz/corpus'
ALL_SUITES  += 'lint 600 tests/lint'
ALL_SUITES  += 'memcheck 600 $(MAKE) -s $(MEMCHECKED) && tests/memcheck $(OUT)/plain'
ALL_SUITES  += $(if $(COVERAGE),'+coverage 60 tests/coverage $(OUT)/coverage')

# ---- targets -------------------------------------------------------------------------------------------------------------------------

help:
	@echo "make run         three candidates, one leader: a demonstration (needs a C compiler, nothing else)"
	@echo "make test        everything, after installing what is missing with apt-get"
	@echo "make test-core   the core only; UTEST=dir/utest.h uses another utest.h"
	@echo "make test-redis  the Redis backend only"
	@echo "make test-k8s    the Kubernetes backend only; with KUBE_URL=https://... KUBE_TOKEN=... KUBE_CA=file KUBE_NAMESPACE=... on that API server"
	@echo "make coverage    the lines that the tests reach, in percent, and those that they do not"
	@echo "make memcheck    tests of each store under valgrind"
	@echo "make lint        clang-tidy and cppcheck"
	@echo "make sim         the simulator; RUNS=n scenarios from SEED=s"
	@echo "make chaos       real processes killed, stopped, cut off, from SEED=s: STORE=file|redis|redis-sentinel|k8s NODES=5 SECONDS=60 TIMELINE=1"
	@echo "make fuzz        the fuzzers, SECONDS=60 each, from the corpus in tests/fuzz; TARGET=name for one of: $(FUZZERS)"
	@echo "make faults      every answer, system call and allocation fails once; FAULT=n.way plays one run of build/test_*faults again"
	@echo "make bench       figures, next to a limit measured in the same run; BENCH_FLAGS=--json"
	@echo "make matrix      every compiler and language standard, as a table"
	@echo "make examples    the programs in examples/"
	@echo "make install     leader.h, leader-run and its man page, pkg-config and CMake files; PREFIX=/usr/local DESTDIR= (make uninstall)"
	@echo "make clean       removes build/"

run: $(OUT)/demo
	@$(OUT)/demo

test:
	-@tests/deps all
	-@$(MAKE) -s -k -j2 programs $(MEMCHECKED) >/dev/null 2>&1
	-@$(checked) -k -j2 examples $(addprefix $(OUT)/checked/,leader-run leader-run-pod) >/dev/null 2>&1
	@tests/run $(ALL_SUITES)

test-core:
	-@$(MAKE) -s -k -j2 $(addprefix $(OUT)/,$(CORE) $(addsuffix -tsan,$(THREADS)) sim) >/dev/null 2>&1
	@tests/run $(CORE_SUITES)

test-redis:
	-@tests/deps redis
	@tests/run $(REDIS_SUITES)

test-k8s:
	-@tests/deps k8s
	@tests/run $(if $(KUBE_URL),$(K8S_LIVE),$(K8S_SUITES))

mutation-redis:
	@tests/redis_mutation

mutation-k8s:
	@tests/k8s_mutation

mutation-fuzz:
	@tests/fuzz/mutation

# Built before the suites, which run two at a time and must not both build one program.
programs: $(addprefix $(OUT)/,$(CORE) $(SERVERS) $(addsuffix -tsan,$(THREADS) test_redis test_k8s) sim chaos-candidate leader-run fuzz/all) $(MEMCHECKED)
	+@$(checked) examples $(addprefix $(OUT)/checked/,leader-run leader-run-pod)

coverage:
	-@tests/deps redis k8s
	@tests/run $(foreach t,$(CORE) test_redis test_k8s,$(call covered,$(t),900)) '+coverage 60 tests/coverage $(OUT)/coverage'
	@cat $(OUT)/logs/*coverage.log

memcheck:
	-@tests/deps redis k8s tools
	@$(MAKE) -s $(MEMCHECKED)
	@tests/memcheck $(OUT)/plain

lint:
	-@tests/deps redis k8s examples tools
	@tests/lint

fuzz:
	-@tests/deps core redis k8s
	@$(MAKE) -s -j2 $(addprefix $(OUT)/fuzz/,$(or $(TARGET),$(FUZZERS)))
	@tests/fuzz/run --seconds $(or $(SECONDS),60) $(or $(TARGET),$(FUZZERS))

sim: $(OUT)/sim
	@$(OUT)/sim $(if $(RUNS),--runs $(RUNS)) $(if $(SEED),--seed $(SEED)) $(if $(STORE),--store $(STORE))

# Pictures of violations, and of the whole run with TIMELINE=1, go to build/chaos. EXCUSED=1 adds the faults under which the README promises nothing.
chaos:
	-@tests/deps chaos $(filter redis k8s,$(subst -, ,$(STORE)))
	@$(MAKE) -s $(OUT)/chaos-candidate
	@python3 tests/chaos/chaos.py --candidate $(OUT)/chaos-candidate --store $(or $(STORE),file) \
	    $(if $(NODES),--nodes $(NODES)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(LEASE),--lease $(LEASE)) $(if $(SEED),--seed $(SEED)) \
	    $(if $(FAULTS),--faults '$(FAULTS)') $(if $(EXCUSED),--excused) $(if $(TIMELINE),--timeline) $(if $(KEEP),--keep)

faults:
	-@tests/deps core redis k8s
	@tests/run $(FAULT_SUITES)

bench: $(addprefix $(OUT)/,$(BENCHES))
	@$(foreach b,$(sort $(BENCHES)),$(OUT)/$(b) $(if $(filter bench,$(b)),,--no-head) $(BENCH_FLAGS) &&) true

# Puts the table into the README, between its two marks.
figures:
	@$(MAKE) -s bench BENCH_FLAGS=--markdown >$(OUT)/figures.md
	@awk 'FNR == NR { if (/^\|/) table = table $$0 "\n"; next } /^<!-- figures -->$$/ { print; printf "%s", table; inside = 1; next } \
	      /^<!-- end of figures -->$$/ { inside = 0 } !inside' $(OUT)/figures.md README.md >$(OUT)/README.md && cp $(OUT)/README.md README.md
	@grep -v '^|' $(OUT)/figures.md

matrix:
	@tests/matrix

examples:
	@$(MAKE) $(addprefix $(OUT)/examples/,$(EXAMPLES))

# What is installed, as mode:file:place under PREFIX.
PREFIX   ?= /usr/local
VERSION  := $(shell sed -n 's/^\#define LEADER_VERSION  *"\(.*\)".*/\1/p' leader.h)
PKGCONFIG := leader.pc leader-redis.pc leader-k8s.pc
CMAKE    := leader-config.cmake leader-config-version.cmake
INSTALLED = 644:leader.h:include/leader/leader.h $(foreach b,$(wildcard backends/*.h),644:$(b):include/leader/$(b)) \
            755:$(OUT)/leader-run:bin/leader-run 644:examples/leader-run/leader-run.1:share/man/man1/leader-run.1 \
            $(foreach f,$(PKGCONFIG),644:$(OUT)/$(f):share/pkgconfig/$(f)) $(foreach f,$(CMAKE),644:$(OUT)/$(f):share/cmake/leader/$(f))

install: $(OUT)/leader-run $(addprefix $(OUT)/,$(PKGCONFIG) $(CMAKE))
	@for entry in $(INSTALLED); do \
	    IFS=:; set -- $$entry; unset IFS; \
	    install -D -m "$$1" "$$2" "$(DESTDIR)$(PREFIX)/$$3" && echo "$(DESTDIR)$(PREFIX)/$$3" || exit 1; \
	done

uninstall:
	@for entry in $(INSTALLED); do rm -f "$(DESTDIR)$(PREFIX)/$${entry##*:}"; done
	@for dir in include/leader/backends include/leader share/cmake/leader; do \
	    if [ -d "$(DESTDIR)$(PREFIX)/$$dir" ]; then rmdir "$(DESTDIR)$(PREFIX)/$$dir"; fi; \
	done

$(addprefix $(OUT)/,$(PKGCONFIG) $(CMAKE)): $(OUT)/%: packaging/% leader.h | $(OUT)
	sed 's/@VERSION@/$(VERSION)/' $< >$@

clean:
	rm -rf build

.PHONY: help run test test-core test-redis test-k8s coverage memcheck lint mutation-redis mutation-k8s mutation-fuzz faults fuzz programs sim chaos bench figures matrix \
        examples install uninstall clean

# ---- how things are built ------------------------------------------------------------------------------------------------------------

$(OUT)/test_%: tests/test_%.c $(HEADERS) Makefile | $(OUT)/coverage
	$(CC) $(C_FLAGS) $(SANITIZE) $(COVERAGE) $(UTEST_FLAGS) $< -o $@ $(LDFLAGS) $(LIBS)

# The address sanitizer brings a malloc of its own, which a test of a failing malloc has to replace.
$(OUT)/test_malloc $(OUT)/test_redis_faults $(OUT)/test_k8s_faults: SANITIZE = -fsanitize=undefined -fno-sanitize-recover=all

# The linker sends these calls of the library to the test, which can make each of them fail.
FAULT_CALLS := chmod close fchmod fcntl fstat fstatat fstatfs fsync inotify_add_watch inotify_init1 link linkat lseek lstat mkdir open openat read \
               renameat stat syscall unlink unlinkat write
$(OUT)/test_faults: LDFLAGS += $(addprefix -Wl$(comma)--wrap=,$(FAULT_CALLS))

$(addprefix $(OUT)/,test_redis test_redis-tsan test_redis_faults plain/test_redis bench_redis): LIBS += -lhiredis
$(addprefix $(OUT)/,test_k8s test_k8s-tsan test_k8s_faults plain/test_k8s bench_k8s): LIBS += -lcurl

$(OUT)/test_%-tsan: tests/test_%.c $(HEADERS) Makefile | $(OUT)
	$(CC) $(C_FLAGS) -fsanitize=thread $(UTEST_FLAGS) $< -o $@ $(LDFLAGS) $(LIBS)

# For valgrind, which takes the place of the sanitizers.
$(OUT)/plain/test_%: tests/test_%.c $(HEADERS) Makefile | $(OUT)/plain
	$(CC) $(C_FLAGS) $(UTEST_FLAGS) $< -o $@ $(LDFLAGS) $(LIBS)

# The simulator and the bench are for speed. The linker sends the simulator's system calls to its own file system.
SIM_CALLS := chmod clock_gettime close fchmod fcntl fstat fstatat fstatfs fsync inotify_add_watch inotify_init1 link linkat lseek lstat \
             mkdir open openat poll read renameat stat syscall unlink unlinkat write
$(OUT)/sim: CFLAGS = -O2 -g
$(OUT)/sim: tests/sim.c $(wildcard tests/sim/*) $(HEADERS) Makefile | $(OUT)
	$(CC) $(C_FLAGS) $< -o $@ $(LDFLAGS) $(addprefix -Wl$(comma)--wrap=,$(SIM_CALLS)) $(LIBS)

$(addprefix $(OUT)/,$(BENCHES)): CFLAGS = -O2 -g
$(addprefix $(OUT)/,$(BENCHES)): LIBS += -lm
$(addprefix $(OUT)/,$(BENCHES)): $(OUT)/%: bench/%.c $(HEADERS) Makefile | $(OUT)
	$(CC) $(C_FLAGS) $< -o $@ $(LDFLAGS) $(LIBS)

$(OUT)/demo: examples/demo.c $(HEADERS) Makefile | $(OUT)
	$(CC) -std=gnu99 -I. -O2 $(CPPFLAGS) $< -o $@ $(LDFLAGS) $(LIBS)

$(OUT)/examples/%: examples/%.c $(HEADERS) Makefile | $(OUT)/examples
	$(CC) $(C_FLAGS) $< -o $@ $(LDFLAGS) $(LIBS)

$(OUT)/examples/%: examples/%.cpp $(HEADERS) Makefile | $(OUT)/examples
	$(CXX) $(CXX_FLAGS) $< -o $@ $(LDFLAGS) $(LIBS)

$(OUT)/examples/libuv: LIBS += -luv
$(OUT)/examples/libev: LIBS += -lev

$(OUT)/examples/healthz: CPPFLAGS += $(STORE_FLAGS)
$(OUT)/examples/healthz: LIBS += $(STORE_LIBS)

# No address sanitizer: it does not go with the library that moves the wall clock. Several suites may build it at the same time: hence the mv.
$(OUT)/chaos-candidate: tests/chaos/candidate.c $(HEADERS) Makefile | $(OUT)
	$(CC) $(C_FLAGS) -fsanitize=undefined -fno-sanitize-recover=all $(STORE_FLAGS) $< -o $@.$$$$ $(LDFLAGS) $(LIBS) $(STORE_LIBS) && mv $@.$$$$ $@

$(OUT)/leader-run: CFLAGS = $(if $(CHECKED),-O1,-O2) -g
$(OUT)/leader-run: examples/leader-run/leader-run.c examples/leader-run/guard.h $(HEADERS) Makefile | $(OUT)
	$(CC) $(C_FLAGS) $(STORE_FLAGS) $< -o $@ $(LDFLAGS) $(LIBS) $(STORE_LIBS)

# For tests: a pod's files are looked for in the working directory.
$(OUT)/leader-run-pod: examples/leader-run/leader-run.c examples/leader-run/guard.h $(HEADERS) Makefile | $(OUT)
	$(CC) $(C_FLAGS) $(STORE_FLAGS) -DLEADER_K8S_SERVICE_ACCOUNT='"pod"' $< -o $@ $(LDFLAGS) $(LIBS) $(STORE_LIBS)

# One program with all targets for the corpus, and one for each target with clang's libFuzzer.
$(OUT)/fuzz/%: LIBS += -lhiredis -lcurl
$(OUT)/fuzz/all: CFLAGS = -O0 -g
$(OUT)/fuzz/all: tests/fuzz/all.c $(wildcard tests/fuzz/*.c) $(HEADERS) Makefile | $(OUT)/fuzz
	$(CC) $(C_FLAGS) $(SANITIZE) $< -o $@ $(LDFLAGS) $(LIBS)

$(addprefix $(OUT)/fuzz/,$(FUZZERS)): $(OUT)/fuzz/%: tests/fuzz/%.c $(HEADERS) Makefile | $(OUT)/fuzz
	clang $(C_FLAGS) $(SANITIZE) -fsanitize=fuzzer $< -o $@ $(LDFLAGS) $(LIBS)

$(OUT) $(addprefix $(OUT)/,examples coverage plain fuzz):
	@mkdir -p $@
