# Figures, each next to a limit measured in the same run: make bench. No suites.
$(OUT)/bench_etcd: LIBS += -lcurl
$(OUT)/bench_pg: CPPFLAGS += $(PG_FLAGS)
$(OUT)/bench_pg: LIBS += -lpq
