# Figures, each next to a limit measured in the same run: make bench. No suites.
$(OUT)/bench_etcd: LIBS += -lcurl
$(OUT)/bench_pg: CPPFLAGS += $(PG_FLAGS)
$(OUT)/bench_pg: LIBS += -lpq
$(OUT)/outage_candidate: CFLAGS = -O2 -g
$(OUT)/outage_candidate: tests/bench/outage_candidate.c examples/options.h $(HEADERS) Makefile | $(OUT)
	$(CC) $(C_FLAGS) $(STORE_FLAGS) $< -o $@ $(LDFLAGS) $(LIBS) $(STORE_LIBS)
