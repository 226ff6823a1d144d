# leader.h is one file: to use it, copy it. What is here builds the tests, the figures and the examples.
# `make` alone lists the targets. Everything that is built goes to build/.

.DEFAULT_GOAL := help

# Without optimisation everything is built three times as fast; what needs speed says so below, and make matrix optimises.
CFLAGS  ?= -O0 -g
STRICT  := -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror
# Of undefined behaviour, what the address sanitizer sees anyway, or what needs optimisation, is left out: a seventh of the time to build.
SANITIZE = -fsanitize=address,undefined -fno-sanitize=null,object-size -fno-sanitize-recover=all -fno-omit-frame-pointer
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
HEADERS   = $(wildcard leader.h backends/*.h tests/*/*.h examples/*.h)

# Everything about tests that is not here is in the rooms: tests/ROOM/room.mk, see tests/README.md.
ROOMS    := $(patsubst tests/%/room.mk,%,$(wildcard tests/*/room.mk))
vpath %.c $(addprefix tests/,$(ROOMS))
CORE     := $(filter-out test_step,$(patsubst tests/core/%.c,%,$(wildcard tests/core/test_*.c)))
THREADS  := $(filter test_threads,$(CORE))
FUZZERS  := $(filter-out all,$(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/*.c)))
BENCHES  := $(patsubst tests/bench/%.c,%,$(wildcard tests/bench/bench*.c))

# Is there a header? Looked at only where it matters: it runs the preprocessor. A hash sign as such would be read differently by
# different makes.
has_header = $(shell printf '\043include <%s>\n' '$(1)' | $(CC) -E -x c $(2) - >/dev/null 2>&1 && echo yes)
has_cxx    = $(shell printf '\043include <%s>\n' '$(1)' | $(CXX) -E -x c++ - >/dev/null 2>&1 && echo yes)
lacks      = $(if $(call has_header,$(1)),,$(2))

# The examples whose library is not installed are left out, and those in LEFT_OUT.
LACKING   = $(call lacks,uv.h,libuv) $(call lacks,ev.h,libev) $(call lacks,sys/epoll.h,epoll) $(call lacks,hiredis/hiredis.h,redis)
EXAMPLES  = $(filter-out $(LACKING) $(LEFT_OUT),$(patsubst examples/%.c,%,$(wildcard examples/*.c)) $(patsubst examples/%.cpp,%,$(wildcard examples/*.cpp)))

# Those with a command line have every store whose library is installed.
PG_FLAGS   := $(shell pkg-config --cflags libpq 2>/dev/null)
STORE_FLAGS = -DLEADER_WITH_QUORUM $(if $(call has_header,hiredis/hiredis.h),-DLEADER_WITH_REDIS $(if $(call has_header,openssl/ssl.h),-DLEADER_REDIS_TLS)) \
              $(if $(call has_header,curl/curl.h),-DLEADER_WITH_K8S -DLEADER_WITH_ETCD) $(if $(call has_header,libpq-fe.h,$(PG_FLAGS)),-DLEADER_WITH_PG $(PG_FLAGS))
STORE_LIBS  = $(if $(call has_header,hiredis/hiredis.h),-lhiredis $(if $(call has_header,openssl/ssl.h),-lssl -lcrypto)) \
              $(if $(call has_header,curl/curl.h),-lcurl) $(if $(call has_header,libpq-fe.h,$(PG_FLAGS)),-lpq)

# The thread sanitizer does not start where addresses are randomised more widely than it was built for.
UNRANDOMIZED := $(shell setarch -R true 2>/dev/null && echo setarch -R)

# ---- the suites: '<name> <seconds it may take> <command>', one line each; see tests/tools/run -----------------------------------------
# A room adds its suites to TEST_SUITES (make test) or to ALL_SUITES (make test-all, which does not repeat those of make test).
# A program is built as part of its suite, so that one that does not compile is a failed suite and no more.

# $(call suite,PROGRAM,SECONDS[,PREFIX[,ARGUMENTS]])
suite = '$(1) $(2) $(MAKE) -s $(OUT)/$(1) && $(3) $(OUT)/$(1) $(4)'

# Test programs leave what coverage reads; a run forgets that of the run before.
covered = $(call suite,$(1),$(2),rm -f $(OUT)/coverage/$(1).gcda &&)

# Several processes of one program side by side, each with its share of the tests: for programs that mostly wait.
# $(call sharded,PROGRAM,SECONDS,HOW MANY)
sharded = $(call suite,$(1),$(2),rm -f $(OUT)/coverage/$(1).gcda && tests/tools/shards $(3))

# Examples and leader-run are tested with the sanitizers, in a directory of their own: what is installed or tried out is without.
checked = $(MAKE) -s OUT=$(OUT)/checked CHECKED="$(SANITIZE)"

# Each room's suites by themselves as well, for make test-ROOM.
define room
TEST_SUITES :=
ALL_SUITES :=
NEEDS :=
ALL_NEEDS :=
include tests/$(1)/room.mk
$(1)_NEEDS := core $$(NEEDS)
$(1)_ALL_NEEDS := core $$(NEEDS) $$(ALL_NEEDS)
$(1)_TEST := $$(if $$(TEST_SUITES),--needs 'core $$(NEEDS)' $$(TEST_SUITES))
$(1)_ALL := $$(if $$(ALL_SUITES),--needs 'core $$(NEEDS) $$(ALL_NEEDS)' $$(ALL_SUITES))
endef
$(foreach r,$(ROOMS),$(eval $(call room,$(r))))
TEST_SUITES := $(foreach r,$(ROOMS),$($(r)_TEST))
ALL_SUITES  := $(foreach r,$(ROOMS),$($(r)_ALL))
NEEDS       := $(sort $(foreach r,$(ROOMS),$($(r)_NEEDS)))
ALL_NEEDS   := $(sort $(foreach r,$(ROOMS),$($(r)_ALL_NEEDS)))

# ---- targets -------------------------------------------------------------------------------------------------------------------------

help:
	@echo "make run         three candidates, one leader: a demonstration (needs a C compiler, nothing else)"
	@echo "make test        what a user wants to know, after installing what is missing with apt-get"
	@echo "make test-all    the rest: compilers, mutants, chaos, lint, valgrind, coverage, Windows"
	@echo "make test-core   the core and the file store only; UTEST=dir/utest.h uses another utest.h"
	@echo "make test-ROOM   one room of tests/: $(ROOMS)"
	@echo "                 test-k8s with KUBE_URL=https://... KUBE_TOKEN=... KUBE_CA=file KUBE_NAMESPACE=... on that API server"
	@echo "make coverage    the lines that the tests reach, in percent, and those that they do not"
	@echo "make memcheck    tests of each store under valgrind"
	@echo "make lint        clang-tidy and cppcheck"
	@echo "make sim         the simulator; RUNS=n scenarios from SEED=s"
	@echo "make prove       the shipped core and engine explored exhaustively, BOUNDS=name; then the models with Spin"
	@echo "make chaos       real processes killed, stopped, cut off, from SEED=s: STORE=file|redis|redis-sentinel|redis-quorum|k8s|pg|etcd NODES=5 SECONDS=60 TIMELINE=1"
	@echo "make fuzz        the fuzzers, SECONDS=60 each, from the corpus in tests/fuzz; TARGET=name for one of: $(FUZZERS)"
	@echo "make faults      every answer, system call and allocation fails once; FAULT=n.way plays one run of build/test_*faults again"
	@echo "make bench       figures, next to a limit measured in the same run; BENCH_FLAGS=--json"
	@echo "make outages     servers that go away and come back: when somebody leads again; BENCH_FLAGS=--quick"
	@echo "make matrix      every compiler and language standard, as a table"
	@echo "make examples    the programs in examples/"
	@echo "make man         build/leader.3: the comments of leader.h as a man page (man -l build/leader.3)"
	@echo "make install     leader.h, leader-run, man pages, pkg-config and CMake files; PREFIX=/usr/local DESTDIR= (make uninstall)"
	@echo "make clean       removes build/"

run: $(OUT)/demo
	@$(OUT)/demo

# The core is built while the servers are installed. What several suites use is built before them. These suites wait more than
# they work: three at a time for each processor.
test: export TEST_JOBS ?= $(shell expr 3 '*' "$$(nproc 2>/dev/null || echo 2)")
test:
	@tests/deps core 2>/dev/null || true
	@tests/deps $(NEEDS) & $(MAKE) -s -k -j2 $(addprefix $(OUT)/,$(CORE) $(FILE)) >/dev/null 2>&1; wait
	@$(MAKE) -s -k -j2 programs >/dev/null 2>&1 || true
	@tests/tools/run $(TEST_SUITES)

test-all:
	@tests/deps $(ALL_NEEDS) || true
	@$(MAKE) -s -k -j2 programs >/dev/null 2>&1 || true
	@tests/tools/run $(ALL_SUITES)

# Needs nothing but a compiler.
test-core:
	@tests/tools/run $(core_TEST) $(file_TEST)

# make test-redis, make test-k8s and so on: all of a room.
$(addprefix test-,$(filter-out core,$(ROOMS))): test-%:
	@tests/deps $($*_ALL_NEEDS) || true
	@tests/tools/run $(if $(KUBE_URL),$($*_LIVE),$($*_TEST) $($*_ALL))

mutation-redis:
	@tests/redis/mutation

mutation-k8s:
	@tests/k8s/mutation

mutation-fuzz:
	@tests/fuzz/mutation

# Built before the suites, which run side by side and must not both build one program.
programs:
	+@$(checked) LEFT_OUT='$(LOOPS) $(ROLES)' examples $(OUT)/checked/leader-run

COVERED := $(addprefix test_,faults redis redis_attack redis_names http k8s k8s_config etcd pg quorum quorum_real) \
           $(addprefix test_store_,file memory single redis k8s etcd pg pg_serial)
coverage:
	@tests/deps redis k8s etcd pg || true
	@tests/tools/run $(foreach t,$(CORE) $(FILE) $(COVERED),$(call covered,$(t),900)) '+coverage 60 tests/tools/coverage $(OUT)/coverage'
	@cat $(OUT)/logs/*coverage.log

memcheck:
	@tests/deps redis k8s tools || true
	@$(MAKE) -s $(MEMCHECKED)
	@tests/tools/memcheck $(OUT)/plain

lint:
	@tests/deps redis k8s examples tools || true
	@tests/tools/lint

fuzz:
	@tests/deps core redis k8s || true
	@$(MAKE) -s -j2 $(addprefix $(OUT)/fuzz/,$(or $(TARGET),$(FUZZERS)))
	@tests/fuzz/run --seconds $(or $(SECONDS),60) $(or $(TARGET),$(FUZZERS))

sim: $(OUT)/sim
	@$(OUT)/sim $(if $(RUNS),--runs $(RUNS)) $(if $(SEED),--seed $(SEED)) $(if $(STORE),--store $(STORE))

prove: $(OUT)/prove
	@tests/deps prove python || true
	@$(OUT)/prove $(BOUNDS)
	@$(if $(BOUNDS),,tests/prove/models)

# Pictures of violations, and of the whole run with TIMELINE=1, go to build/chaos. EXCUSED=1 adds the faults under which the README promises nothing.
chaos:
	@tests/deps chaos $(filter redis k8s pg etcd,$(subst -, ,$(STORE))) || true
	@$(MAKE) -s $(OUT)/chaos-candidate
	@python3 tests/chaos/chaos.py --candidate $(OUT)/chaos-candidate --store $(or $(STORE),file) \
	    $(if $(NODES),--nodes $(NODES)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(LEASE),--lease $(LEASE)) $(if $(SEED),--seed $(SEED)) \
	    $(if $(FAULTS),--faults '$(FAULTS)') $(if $(EXCUSED),--excused) $(if $(TIMELINE),--timeline) $(if $(KEEP),--keep)

faults:
	@tests/deps core redis k8s || true
	@tests/tools/run $(foreach t,test_faults test_redis_faults test_k8s_faults,$(call suite,$(t),600))

bench: bench-table outages

bench-table:
	@tests/deps bench redis k8s etcd pg || true
	@$(MAKE) -s -j2 $(addprefix $(OUT)/,$(BENCHES))
	@$(foreach b,$(sort $(BENCHES)),$(OUT)/$(b) $(if $(filter bench,$(b)),,--no-head) $(BENCH_FLAGS) &&) true

# Servers that go away and come back. BENCH_FLAGS=--quick: for five seconds only.
outages:
	@tests/deps redis k8s etcd pg chaos || true
	@$(MAKE) -s $(OUT)/outage_candidate
	@python3 tests/bench/outages.py $(BENCH_FLAGS)

# Puts the table into tests/README.md, between its two marks.
figures:
	@$(MAKE) -s bench-table BENCH_FLAGS=--markdown >$(OUT)/figures.md
	@awk 'FNR == NR { if (/^\|/) table = table $$0 "\n"; next } /^<!-- figures -->$$/ { print; printf "%s", table; inside = 1; next } \
	      /^<!-- end of figures -->$$/ { inside = 0 } !inside' $(OUT)/figures.md tests/README.md >$(OUT)/README.md && cp $(OUT)/README.md tests/README.md
	@grep -v '^|' $(OUT)/figures.md

matrix:
	@tests/compile/matrix

examples:
	@$(MAKE) $(addprefix $(OUT)/examples/,$(EXAMPLES))

# What is installed, as mode:file:place under PREFIX.
PREFIX   ?= /usr/local
VERSION  := $(shell sed -n 's/^\#define LEADER_VERSION  *"\(.*\)".*/\1/p' leader.h)
PKGCONFIG := leader.pc $(patsubst backends/leader_%.h,leader-%.pc,$(filter-out %_http.h,$(wildcard backends/*.h)))
CMAKE    := leader-config.cmake leader-config-version.cmake
INSTALLED = 644:leader.h:include/leader/leader.h $(foreach b,$(wildcard backends/*.h),644:$(b):include/leader/$(b)) \
            755:$(OUT)/leader-run:bin/leader-run 644:examples/leader-run/leader-run.1:share/man/man1/leader-run.1 \
            644:$(OUT)/leader.3:share/man/man3/leader.3 \
            644:examples/leader-run/completions/leader-run.bash:share/bash-completion/completions/leader-run \
            644:examples/leader-run/completions/_leader-run:share/zsh/site-functions/_leader-run \
            $(foreach f,$(PKGCONFIG),644:$(OUT)/$(f):share/pkgconfig/$(f)) $(foreach f,$(CMAKE),644:$(OUT)/$(f):share/cmake/leader/$(f))

install: $(OUT)/leader-run $(OUT)/leader.3 $(addprefix $(OUT)/,$(PKGCONFIG) $(CMAKE))
	@for entry in $(INSTALLED); do \
	    IFS=:; set -- $$entry; unset IFS; \
	    install -D -m "$$1" "$$2" "$(DESTDIR)$(PREFIX)/$$3" && echo "$(DESTDIR)$(PREFIX)/$$3" || exit 1; \
	done

uninstall:
	@for entry in $(INSTALLED); do rm -f "$(DESTDIR)$(PREFIX)/$${entry##*:}"; done
	@for dir in include/leader/backends include/leader share/cmake/leader; do \
	    if [ -d "$(DESTDIR)$(PREFIX)/$$dir" ]; then rmdir "$(DESTDIR)$(PREFIX)/$$dir"; fi; \
	done

$(addprefix $(OUT)/,$(PKGCONFIG) $(CMAKE)): $(OUT)/%: examples/packages/find/% leader.h | $(OUT)
	sed 's/@VERSION@/$(VERSION)/' $< >$@

# The header's own comments: there is no other source.
man: $(OUT)/leader.3
$(OUT)/leader.3: examples/packages/man.awk leader.h | $(OUT)
	awk -f $< leader.h >$@

clean:
	rm -rf build

.PHONY: help run test test-all $(addprefix test-,$(ROOMS)) coverage memcheck lint mutation-redis mutation-k8s mutation-fuzz faults fuzz programs sim prove chaos bench bench-table outages figures matrix \
        examples man install uninstall clean

# ---- how things are built ------------------------------------------------------------------------------------------------------------

$(OUT)/test_%: test_%.c $(HEADERS) Makefile | $(OUT)/coverage
	$(CC) $(C_FLAGS) $(SANITIZE) $(COVERAGE) $(UTEST_FLAGS) $< -o $@ $(LDFLAGS) $(LIBS)

# The address sanitizer brings a malloc of its own, which a test of a failing malloc has to replace.
$(OUT)/test_malloc $(OUT)/test_redis_faults $(OUT)/test_k8s_faults: SANITIZE = -fsanitize=undefined -fno-sanitize-recover=all

# Thousands of processes, each of which the address sanitizer makes slow to start: test_file has it.
$(OUT)/test_file_stop: SANITIZE = -fsanitize=undefined -fno-sanitize-recover=all

# Thousands of lives, one after another.
$(OUT)/test_faults $(OUT)/test_redis_faults $(OUT)/test_k8s_faults: CFLAGS = -O2 -g

# The linker sends these calls of the library to the test, which can make each of them fail.
FAULT_CALLS := chmod close fchmod fchown fcntl fstat fstatat fstatfs fsync inotify_add_watch inotify_init1 inotify_rm_watch link linkat lseek lstat \
               mkdir mkdirat open openat pwrite read renameat stat syscall unlink unlinkat write
$(OUT)/test_faults: LDFLAGS += $(addprefix -Wl$(comma)--wrap=,$(FAULT_CALLS))

$(addprefix $(OUT)/,test_redis test_redis-tsan test_redis_faults plain/test_redis bench_redis): LIBS += -lhiredis
$(addprefix $(OUT)/,test_k8s test_k8s-tsan test_k8s_faults plain/test_k8s bench_k8s): LIBS += -lcurl

$(OUT)/test_%-tsan: test_%.c $(HEADERS) Makefile | $(OUT)
	$(CC) $(C_FLAGS) -fsanitize=thread $(UTEST_FLAGS) $< -o $@ $(LDFLAGS) $(LIBS)

# For valgrind, which takes the place of the sanitizers.
$(OUT)/plain/test_%: test_%.c $(HEADERS) Makefile | $(OUT)/plain
	$(CC) $(C_FLAGS) $(UTEST_FLAGS) $< -o $@ $(LDFLAGS) $(LIBS)

# The simulator and the bench are for speed. The linker sends the simulator's system calls to its own file system.
SIM_CALLS := chmod clock_gettime close fchmod fchown fcntl fstat fstatat fstatfs fsync getpid inotify_add_watch inotify_init1 inotify_rm_watch link \
             linkat lseek lstat mkdir mkdirat open openat poll pwrite read renameat stat syscall unlink unlinkat write
$(OUT)/sim: CFLAGS = -O2 -g
$(OUT)/sim: tests/sim/sim.c $(HEADERS) Makefile | $(OUT)
	$(CC) $(C_FLAGS) $< -o $@ $(LDFLAGS) $(addprefix -Wl$(comma)--wrap=,$(SIM_CALLS)) $(LIBS)

$(addprefix $(OUT)/,$(BENCHES)): CFLAGS = -O2 -g
$(addprefix $(OUT)/,$(BENCHES)): LIBS += -lm
$(addprefix $(OUT)/,$(BENCHES)): $(OUT)/%: tests/bench/%.c $(HEADERS) Makefile | $(OUT)
	$(CC) $(C_FLAGS) $< -o $@ $(LDFLAGS) $(LIBS)

$(OUT)/demo: examples/demo.c $(HEADERS) Makefile | $(OUT)
	$(CC) -std=gnu99 -I. -O2 $(CPPFLAGS) $< -o $@ $(LDFLAGS) $(LIBS)

# With the sanitizers the implementation is compiled once for all of them: it is said to be there already. So are the stores, for
# those that take any; the others with a store compile it whole.
ANY_STORE := cache healthz redirect shards slots $(ALL_LOOPS)
WHOLE := pg_fencing redis
ifdef CHECKED
IMPLEMENTATION = $(OUT)/leader.o
WITH_STORES := $(addprefix $(OUT)/examples/,$(ANY_STORE))
SHARING := $(addprefix $(OUT)/examples/,$(filter-out $(WHOLE) $(ANY_STORE),$(patsubst examples/%.c,%,$(wildcard examples/*.c))) cpp)
$(SHARING): $(OUT)/leader.o
$(SHARING): private CPPFLAGS += -DLEADER_IMPLEMENTATION_DONE
$(WITH_STORES): $(OUT)/stores.o
$(WITH_STORES): IMPLEMENTATION = $(OUT)/stores.o
$(WITH_STORES): private CPPFLAGS += -DLEADER_IMPLEMENTATION_DONE $(patsubst %,-DLEADER_%_IMPLEMENTATION_DONE,HTTP REDIS K8S ETCD PG QUORUM)
$(OUT)/leader.o: leader.h Makefile | $(OUT)
	echo '#include "leader.h"' | $(CC) $(C_FLAGS) -DLEADER_IMPLEMENTATION -x c -c - -o $@
$(OUT)/stores.o: leader.h $(wildcard backends/*.h) Makefile | $(OUT)
	echo '#include "leader.h"' | $(CC) $(C_FLAGS) $(STORE_FLAGS) -DLEADER_IMPLEMENTATION -x c -c - -o $@
$(addprefix $(OUT)/examples/,$(WHOLE)): IMPLEMENTATION =
endif

$(OUT)/examples/%: examples/%.c $(HEADERS) Makefile | $(OUT)/examples
	$(CC) $(C_FLAGS) $< $(IMPLEMENTATION) -o $@ $(LDFLAGS) $(LIBS)

$(OUT)/examples/%: examples/%.cpp $(HEADERS) Makefile | $(OUT)/examples
	$(CXX) $(CXX_FLAGS) $< $(IMPLEMENTATION) -o $@ $(LDFLAGS) $(LIBS)

$(OUT)/examples/libuv: LIBS += -luv
$(OUT)/examples/libev: LIBS += -lev
$(OUT)/examples/redis: LIBS += -lhiredis

$(addprefix $(OUT)/examples/,$(ANY_STORE)): private CPPFLAGS += $(STORE_FLAGS)
$(addprefix $(OUT)/examples/,$(ANY_STORE)): LIBS += $(STORE_LIBS)
$(OUT)/examples/shards $(OUT)/examples/slots: examples/family.h

# No address sanitizer: it does not go with the library that moves the wall clock. Several suites may build it at the same time: hence the mv.
$(OUT)/chaos-candidate: tests/chaos/candidate.c $(HEADERS) Makefile | $(OUT)
	$(CC) $(C_FLAGS) -fsanitize=undefined -fno-sanitize-recover=all $(STORE_FLAGS) $< -o $@.$$$$ $(LDFLAGS) $(LIBS) $(STORE_LIBS) && mv $@.$$$$ $@

$(OUT)/leader-run: CFLAGS = $(if $(CHECKED),-O1,-O2) -g -Wno-format-truncation
$(OUT)/leader-run: examples/leader-run/leader-run.c examples/leader-run/guard.h $(HEADERS) Makefile | $(OUT)
	$(CC) $(C_FLAGS) $(STORE_FLAGS) $< -o $@ $(LDFLAGS) $(LIBS) $(STORE_LIBS)

# One program with all targets for the corpus, and one for each target with clang's libFuzzer.
$(OUT)/fuzz/%: LIBS += -lhiredis -lcurl
$(OUT)/fuzz/all: CFLAGS = -O0 -g
$(OUT)/fuzz/all: tests/fuzz/all.c $(wildcard tests/fuzz/*.c) $(HEADERS) Makefile | $(OUT)/fuzz
	$(CC) $(C_FLAGS) $(SANITIZE) $< -o $@ $(LDFLAGS) $(LIBS)

$(addprefix $(OUT)/fuzz/,$(FUZZERS)): $(OUT)/fuzz/%: tests/fuzz/%.c $(HEADERS) Makefile | $(OUT)/fuzz
	clang $(C_FLAGS) $(SANITIZE) -fsanitize=fuzzer $< -o $@ $(LDFLAGS) $(LIBS)

$(OUT) $(addprefix $(OUT)/,examples coverage plain fuzz):
	@mkdir -p $@
