# Language level, warnings, sanitizers, compiler cache and linker: everything that holds for the project's own code.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release)
endif()
# RL_DEBUG_ASSERT and NaN poison follow NDEBUG; RL_ASSERT is always on.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1") # the sanitizer build: assertions and poison on

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    # pch_defines and time_macros let ccache cache files that use the precompiled header.
    set(_launcher ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
                  ${CCACHE_PROGRAM})
    set(CMAKE_C_COMPILER_LAUNCHER ${_launcher})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${_launcher})
endif()
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM)
    add_link_options(-fuse-ld=mold)
endif()

add_library(rl_options INTERFACE)
target_include_directories(rl_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_definitions(rl_options INTERFACE FMT_SHARED) # spdlog asks for it: precompiled headers need it the same everywhere
target_compile_options(rl_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wnon-virtual-dtor;-Woverloaded-virtual;-Wdouble-promotion;-Werror>)
# No contraction of a*b+c across statements: the same source gives the same bits in every instruction-set clone that
# does not ask for FMA by name.
target_compile_options(rl_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
# A function of a shared library is the library's own: it may be inlined there.
target_compile_options(rl_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fno-semantic-interposition>)
# Messages of assertions name a file of the project, not a folder of the machine that built it.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=>)
if(REFRESHLAB_SANITIZE STREQUAL "thread")
    # For the suites without libtorch, whose thread library is not instrumented (scripts/tsan.sh).
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=thread> $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer>)
    add_link_options(-fsanitize=thread)
elseif(REFRESHLAB_SANITIZE)
    # Checks of every pointer for null and alignment are a quarter of the compile time. AddressSanitizer stops at null as well, and the
    # processors here read at any address; the host machine of the kernels checks alignment by itself.
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=address,undefined> $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=null,alignment>
                        $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all>
                        $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer>)
    add_compile_definitions($<$<COMPILE_LANGUAGE:CXX>:_GLIBCXX_ASSERTIONS>)
    add_link_options(-fsanitize=address,undefined)
endif()
