# The kit: what every store must do, on each store. STORE=path/to/their.c: on that one, with CPPFLAGS and LDFLAGS of its own.
STORE_SUITES := $(patsubst tests/store/%.c,%,$(wildcard tests/store/test_store_*.c))
GIVEN := $(OUT)/test_store_given
ifneq ($(filter %.c,$(STORE)),)
TEST_SUITES += 'store 600 mkdir -p $(OUT) && $(CC) $(C_FLAGS) $(SANITIZE) -DSTORE_FILE="\"$(abspath $(STORE))\"" \
    tests/store/given.c -o $(GIVEN) $(LIBS) $(LDFLAGS) && $(GIVEN)'
else
NEEDS := pg redis k8s etcd
TEST_SUITES += $(foreach s,$(filter-out %_serial,$(STORE_SUITES)),$(call covered,$(s),600))
ALL_SUITES += $(foreach s,$(filter %_serial,$(STORE_SUITES)),$(call covered,$(s),600))
endif
$(OUT)/test_store_pg $(OUT)/test_store_pg_serial: CPPFLAGS += $(PG_FLAGS)
$(OUT)/test_store_pg $(OUT)/test_store_pg_serial: LIBS += -lpq
$(OUT)/test_store_redis: LIBS += -lhiredis
$(OUT)/test_store_k8s $(OUT)/test_store_etcd: LIBS += -lcurl
