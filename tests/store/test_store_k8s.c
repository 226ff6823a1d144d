#include "tests/store/k8s.c"
#define STORE_KIT_IMPLEMENTATION
#include "tests/store/kit.h"
