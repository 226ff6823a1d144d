# The ways to get leader.h: CMake, Meson, one file, a shared library, and from other languages.
ALL_NEEDS := redis k8s pg install compilers meson
ALL_SUITES  += 'packages 600 $(MAKE) -s lib && tests/packages/test_packages.sh'
ALL_SUITES  += 'single 600 tests/packages/test_single.sh'

# make single STORES="redis k8s": leader.h and these backends in one file; all of them by default.
STORES ?= $(patsubst backends/leader_%.h,%,$(filter-out %_http.h,$(wildcard backends/*.h)))
single: $(OUT)/leader_all.h
$(OUT)/leader_all.h: examples/packages/single.awk leader.h $(wildcard backends/*.h) | $(OUT)
	awk -v stores="$(STORES)" -f $< leader.h >$@

# make lib: libleader.so.1 with every store whose library is there, and libleader.a. Only what the headers declare is visible.
lib: $(OUT)/lib/libleader.so $(OUT)/lib/libleader.a
LIB_SOURCES = $(wildcard examples/packages/lib/*) examples/options.h leader.h $(wildcard backends/*.h)
$(OUT)/lib/leader.o: $(LIB_SOURCES) | $(OUT)/lib
	$(CC) -std=gnu99 $(STRICT) -Wno-format-truncation -O2 -fPIC -I. $(CPPFLAGS) $(STORE_FLAGS) -c examples/packages/lib/leader_lib.c -o $@

# Private functions end in an underscore; leader_init is inline and calls the one that does not count as private.
$(OUT)/lib/libleader.map: $(OUT)/lib/leader.o
	{ echo 'LEADER_1 {' && echo '  global:' && nm -g --defined-only $< | sed -n 's/.* T \(leader_[a-z0-9_]*[a-z0-9]\)$$/    \1;/p' | sort && \
	  echo '    leader_init_;' && echo '  local: *;' && echo '};'; } >$@

$(OUT)/lib/libleader.so: $(OUT)/lib/leader.o $(OUT)/lib/libleader.map
	$(CC) -shared -Wl,-soname,libleader.so.1 -Wl,--version-script,$(OUT)/lib/libleader.map -Wl,-z,defs $< -o $(OUT)/lib/libleader.so.1 -pthread $(STORE_LIBS)
	ln -sf libleader.so.1 $@

$(OUT)/lib/libleader.a: $(OUT)/lib/leader.o
	rm -f $@ && $(AR) rcs $@ $<

$(OUT)/lib:
	@mkdir -p $@

.PHONY: single lib
