#include "app/base/build_commit.h"
#include "app/options/engine_module.h"
#include "engine/base/error.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <system_error>

namespace refreshlab::app {

namespace {

namespace fs = std::filesystem;

constexpr const char* doing = "loading the engine";
constexpr const char* what_still_works = "traces, figures and tables work without it";

/// $REFRESHLAB_ENGINE, else beside the program.
fs::path engine_library() {
    if (const char* named = std::getenv("REFRESHLAB_ENGINE"); named != nullptr && *named != '\0')
        return named;
    std::error_code unknown;
    return fs::read_symlink("/proc/self/exe", unknown).parent_path() / "librefreshlab_engine.so";
}

/// What the dynamic linker says, in a person's words: "FILE: cannot open shared object file: No such file or directory" and so on.
Error linker_error(const fs::path& library, const std::string& said) {
    const auto names = [&](const char* text) { return said.find(text) != std::string::npos; };
    const std::string first = said.substr(0, said.find(": "));
    if (names("cannot open shared object file") && first != library.string())
        return {doing, library.string(), first + ", which it needs, is not on this machine",
                "run the set-up again (make setup); " + std::string(what_still_works), ErrorKind::failure};
    if (names("undefined symbol") || names("version `"))
        return {doing, library.string(), "a library that it needs is of another version: " + said,
                "run the set-up again and build anew", ErrorKind::failure};
    if (names("Cannot allocate memory") || names("failed to map"))
        return {doing, library.string(),
                "not enough memory or address space: libtorch alone takes some 600 MB of addresses",
                "raise the limit (ulimit -v); " + std::string(what_still_works), ErrorKind::failure};
    return {doing, library.string(), said, {}, ErrorKind::failure};
}

template <class Function>
Function* function_of(void* library, const char* name, const fs::path& file) {
    void* const symbol = dlsym(library, name);
    if (symbol == nullptr)
        throw Error(doing, file.string(), "is no engine of RefreshLab", {}, ErrorKind::failure);
    return reinterpret_cast<Function*>(symbol);
}

const EngineModule& load() {
    const fs::path file = engine_library();
    std::error_code unreadable;
    if (!fs::exists(file, unreadable))
        throw Error(doing, file.string(), "there is no such file: this is RefreshLab without its engine",
                    what_still_works, ErrorKind::failure);
    void* const library =
        dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL); // never closed: threads and objects of it may live on
    if (library == nullptr) {
        const char* said = dlerror();
        throw linker_error(file, said != nullptr ? said : "unknown");
    }
    const std::string theirs = function_of<const char*()>(library, "refreshlab_engine_build", file)();
    if (theirs != build_stamp())
        throw Error(doing, file.string(),
                    fmt::format("it is of build {}, and the program of {}", theirs, build_stamp()),
                    "build both anew", ErrorKind::failure);
    return *function_of<const EngineModule*()>(library, "refreshlab_engine", file)();
}

} // namespace

const EngineModule& engine_module() {
    static std::mutex mutex;
    static const EngineModule* module = nullptr;
    const std::lock_guard lock(mutex);
    if (module == nullptr) module = &load();
    return *module;
}

} // namespace refreshlab::app
