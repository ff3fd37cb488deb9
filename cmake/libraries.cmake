# Debian's libraries, one look-up each. REFRESHLAB_STATIC links the small ones into the binaries, so that these run on a
# machine that has libtorch and nothing else of ours (scripts/gpu_check.sh).
option(REFRESHLAB_STATIC "Link SQLite, PCRE2 and fmt statically" OFF)
find_package(Threads REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(spdlog 1.10 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(SQLite3 3.38 REQUIRED)
find_package(ZLIB REQUIRED)

# rl_library(NAME LIBRARY): an interface target, the static archive where REFRESHLAB_STATIC asks for it.
function(rl_library name library)
    if(REFRESHLAB_STATIC)
        find_library(${name}_FILE NAMES lib${library}.a REQUIRED)
    else()
        find_library(${name}_FILE NAMES ${library} REQUIRED)
    endif()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${${name}_FILE} ${CMAKE_DL_LIBS} Threads::Threads)
endfunction()
rl_library(rl_sqlite sqlite3)
target_include_directories(rl_sqlite SYSTEM INTERFACE ${SQLite3_INCLUDE_DIRS})
rl_library(rl_pcre2 pcre2-8)
rl_library(rl_fmt fmt)
target_compile_definitions(rl_fmt INTERFACE FMT_SHARED) # as spdlog's users have it: one form of the headers
rl_library(rl_utf8proc utf8proc)
# libtorch ships the headers of another fmt in its include folder. Ours, the one that is linked, must be found first.
find_path(RL_FMT_INCLUDE fmt/core.h REQUIRED NO_CMAKE_PATH)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/fmt-include)
file(CREATE_LINK ${RL_FMT_INCLUDE}/fmt ${CMAKE_BINARY_DIR}/fmt-include/fmt SYMBOLIC)
target_include_directories(rl_fmt SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/fmt-include)
