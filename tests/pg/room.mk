# The PostgreSQL backend, on servers that the tests start: a cluster of their own, a replica, PgBouncer.
NEEDS := pg
ALL_NEEDS := chaos
TEST_SUITES += $(call covered,test_pg,600)
ALL_SUITES += '+chaos_pg 180 $(MAKE) -s chaos STORE=pg SECONDS=12 SEED=1'

PG_FLAGS = $(shell pkg-config --cflags libpq 2>/dev/null || echo -I/usr/include/postgresql)
$(OUT)/test_pg $(OUT)/plain/test_pg: CPPFLAGS += $(PG_FLAGS)
$(OUT)/test_pg $(OUT)/plain/test_pg: LIBS += -lpq
LACKING += $(call lacks,postgresql/libpq-fe.h,pg_fencing)
$(OUT)/examples/pg_fencing: CPPFLAGS += $(PG_FLAGS)
$(OUT)/examples/pg_fencing: LIBS += -lpq
$(OUT)/chaos-candidate: CPPFLAGS += $(if $(call lacks,postgresql/libpq-fe.h,no),,-DLEADER_WITH_PG $(PG_FLAGS))
$(OUT)/chaos-candidate: LIBS += $(if $(call lacks,postgresql/libpq-fe.h,no),,-lpq)
