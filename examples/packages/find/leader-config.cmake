# find_package(leader [COMPONENTS redis k8s etcd pg quorum]), then target_link_libraries(app leader::leader) or leader::redis, leader::k8s, ...
# leader.h is a header: define LEADER_IMPLEMENTATION in one file of yours.
include(CMakeFindDependencyMacro)
find_dependency(Threads)

if(NOT TARGET leader::leader)
  get_filename_component(_leader_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
  add_library(leader::leader INTERFACE IMPORTED)
  set_target_properties(leader::leader PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${_leader_prefix}/include/leader"
    INTERFACE_LINK_LIBRARIES Threads::Threads)
  unset(_leader_prefix)
endif()

if("redis" IN_LIST leader_FIND_COMPONENTS)
  find_library(LEADER_HIREDIS_LIBRARY hiredis)
  find_path(LEADER_HIREDIS_INCLUDE_DIR hiredis/hiredis.h)
  if(LEADER_HIREDIS_LIBRARY AND LEADER_HIREDIS_INCLUDE_DIR)
    set(leader_redis_FOUND TRUE)
    if(NOT TARGET leader::redis)
      add_library(leader::redis INTERFACE IMPORTED)
      set_target_properties(leader::redis PROPERTIES
        INTERFACE_COMPILE_DEFINITIONS LEADER_WITH_REDIS
        INTERFACE_INCLUDE_DIRECTORIES "${LEADER_HIREDIS_INCLUDE_DIR}"
        INTERFACE_LINK_LIBRARIES "leader::leader;${LEADER_HIREDIS_LIBRARY}")
    endif()
  endif()
endif()

# _leader_store(NAME DEFINITION LIBRARIES...): the target of a component whose library was found
function(_leader_store name definition)
  set(leader_${name}_FOUND TRUE PARENT_SCOPE)
  if(NOT TARGET leader::${name})
    add_library(leader::${name} INTERFACE IMPORTED)
    set_target_properties(leader::${name} PROPERTIES
      INTERFACE_COMPILE_DEFINITIONS ${definition}
      INTERFACE_LINK_LIBRARIES "leader::leader;${ARGN}")
  endif()
endfunction()

if("k8s" IN_LIST leader_FIND_COMPONENTS OR "etcd" IN_LIST leader_FIND_COMPONENTS)
  find_package(CURL QUIET)
  if(CURL_FOUND)
    _leader_store(k8s LEADER_WITH_K8S CURL::libcurl)
    _leader_store(etcd LEADER_WITH_ETCD CURL::libcurl)
  endif()
endif()

if("pg" IN_LIST leader_FIND_COMPONENTS)
  find_package(PostgreSQL QUIET)
  if(PostgreSQL_FOUND)
    _leader_store(pg LEADER_WITH_PG ${PostgreSQL_LIBRARIES})
    set_target_properties(leader::pg PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${PostgreSQL_INCLUDE_DIRS}")
  endif()
endif()

if("quorum" IN_LIST leader_FIND_COMPONENTS)
  _leader_store(quorum LEADER_WITH_QUORUM)
endif()

foreach(_leader_component IN LISTS leader_FIND_COMPONENTS)
  if(leader_FIND_REQUIRED_${_leader_component} AND NOT leader_${_leader_component}_FOUND)
    set(leader_FOUND FALSE)
    set(leader_NOT_FOUND_MESSAGE "leader: the library for the component ${_leader_component} was not found (redis: hiredis, k8s and etcd: libcurl, pg: libpq)")
  endif()
endforeach()
