# Several sources of one folder are compiled as one: headers and templates, which take most of the time, are then read once.
# OFF compiles each file alone, which also shows a file that leans on the includes of its neighbours.
option(REFRESHLAB_JUMBO "Compile the sources of a folder together" ON)

# rl_jumbo(TARGET FILES_AT_MOST): every folder of TARGET's sources becomes as few units of about equal size as that allows. Files with
# options of their own, and those marked SKIP_UNITY_BUILD_INCLUSION, stay alone.
function(rl_jumbo target at_most)
    if(NOT REFRESHLAB_JUMBO)
        return()
    endif()
    get_target_property(_sources ${target} SOURCES)
    set(_folders "")
    foreach(_source IN LISTS _sources)
        get_filename_component(_folder ${_source} DIRECTORY)
        get_source_file_property(_alone ${_source} SKIP_UNITY_BUILD_INCLUSION)
        if(_source MATCHES "\\.cpp$" AND NOT _alone)
            list(APPEND _folders ${_folder})
            string(MD5 _key ${_folder})
            list(APPEND _files_${_key} ${_source})
        endif()
    endforeach()
    list(REMOVE_DUPLICATES _folders)
    foreach(_folder IN LISTS _folders)
        string(MD5 _key ${_folder})
        list(LENGTH _files_${_key} _count)
        math(EXPR _units "(${_count} + ${at_most} - 1) / ${at_most}")
        set(_index 0)
        foreach(_source IN LISTS _files_${_key})
            math(EXPR _unit "${_index} * ${_units} / ${_count}")
            get_filename_component(_name ${_folder} NAME)
            string(SUBSTRING ${_key} 0 6 _short)
            set_source_files_properties(${_source} PROPERTIES UNITY_GROUP "${_name}_${_short}_${_unit}")
            math(EXPR _index "${_index} + 1")
        endforeach()
    endforeach()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    # A class of one source may hold what stands in the same source's anonymous namespace; here the compiler takes that for a header's.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endfunction()

# rl_cold(TARGET): no loop of it is ever waited for, so the compiler may take a quarter less time.
function(rl_cold target)
    target_compile_options(${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
endfunction()

# What nearly every source reads.
set(RL_COMMON_HEADERS <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <deque> <filesystem> <functional> <map> <memory> <mutex>
    <optional> <set> <span> <string> <string_view> <thread> <unordered_map> <utility> <variant> <vector> <fmt/format.h>)

# Headers that take seconds to read are compiled once for all targets of one set of options: rl_headers() makes a library
# without code for them, and targets say target_precompile_headers(TARGET REUSE_FROM NAME).
function(rl_headers name)
    cmake_parse_arguments(_arg "" "" "HEADERS;LIBRARIES;OPTIONS" ${ARGN})
    file(WRITE ${CMAKE_BINARY_DIR}/headers/${name}.cpp.new "// Compiled for the headers before it.\n")
    file(COPY_FILE ${CMAKE_BINARY_DIR}/headers/${name}.cpp.new ${CMAKE_BINARY_DIR}/headers/${name}.cpp ONLY_IF_DIFFERENT)
    add_library(${name} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/headers/${name}.cpp)
    target_link_libraries(${name} PRIVATE ${_arg_LIBRARIES})
    target_compile_options(${name} PRIVATE ${_arg_OPTIONS})
    target_precompile_headers(${name} PRIVATE ${_arg_HEADERS})
endfunction()
