# The programs in examples/ and the snippets of the README.
NEEDS := cxx python redis k8s examples
ALL_NEEDS := loops
# For make test-all: to install what these need takes a quarter of a minute.
LOOPS := libevent glib sd-event asio
ALL_LOOPS := poll epoll libuv libev $(LOOPS)
ROLES := redirect shards slots
TEST_SUITES += 'examples 600 $(checked) LEFT_OUT="$(LOOPS) $(ROLES)" examples && tests/examples/test_examples $(OUT)/checked/examples'
TEST_SUITES += 'healthz 300 $(checked) $(OUT)/checked/examples/healthz && tests/examples/test_healthz.py $(OUT)/checked/examples/healthz'
TEST_SUITES += 'cache 300 $(checked) $(OUT)/checked/examples/cache && tests/examples/test_cache.py $(OUT)/checked/examples/cache'
TEST_SUITES += 'readme 300 tests/examples/readme_snippets'
TEST_SUITES += 'messages 60 tests/examples/test_messages.py'
TEST_SUITES += 'public 60 tests/examples/test_public'
TEST_SUITES += 'lacking 60 tests/examples/test_lacking'
ALL_SUITES  += 'loops 300 $(checked) $(addprefix $(OUT)/checked/examples/,$(LOOPS)) && tests/examples/test_examples $(OUT)/checked/examples $(LOOPS)'
ALL_SUITES  += 'loops_majority 600 $(checked) $(addprefix $(OUT)/checked/examples/,$(ALL_LOOPS)) && tests/examples/test_loops.py $(OUT)/checked/examples'
ALL_NEEDS += etcd pg
ALL_SUITES  += 'shards 900 $(MAKE) -s $(OUT)/examples/shards && tests/examples/test_shards.py $(OUT)/examples/shards'
ALL_SUITES  += $(foreach s,redirect slots,'$(s) 300 $(checked) $(OUT)/checked/examples/$(s) && tests/examples/test_$(s).py $(OUT)/checked/examples/$(s)')

# Examples of more event loops, each built where its library is.
LACKING += $(call lacks,event2/event.h,libevent) $(call lacks,systemd/sd-event.h,sd-event) $(if $(call has_cxx,asio.hpp),,asio)
LACKING += $(if $(shell pkg-config --exists glib-2.0 2>/dev/null && echo yes),,glib)
$(OUT)/examples/libevent: LIBS += -levent
$(OUT)/examples/sd-event: LIBS += -lsystemd
$(OUT)/examples/glib: CPPFLAGS += $(subst -I,-isystem ,$(shell pkg-config --cflags glib-2.0 2>/dev/null))
$(OUT)/examples/glib: LIBS += $(shell pkg-config --libs glib-2.0 2>/dev/null)
