// The program and the library of its engine: who needs it, and what is said where it cannot be had.
#include "engine/base/json_file.h"
#include "tests/app/program.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace engine_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

const std::vector<std::string> a_run = {"run", "--prompt", "Tell a story about a fox.", "--max-tokens", "4"};

Outcome with_engine(const std::string& library, const std::vector<std::string>& arguments) {
    return refreshlab_program(arguments, [&] { setenv("REFRESHLAB_ENGINE", library.c_str(), 1); });
}

/// One line that ends the program as a failure.
void check_refused(const Outcome& outcome, const std::string& said) {
    INFO(outcome.err);
    CHECK(outcome.status == 1);
    CHECK(outcome.out.empty());
    CHECK(std::ranges::count(outcome.err, '\n') == 1);
    CHECK(outcome.err.starts_with("refreshlab: loading the engine "));
    CHECK_THAT(outcome.err, ContainsSubstring(said));
}

/// A shared library of this C++ text. \param more  for the compiler
void compile(const std::string& text, const std::string& library, const std::string& more = {}) {
    const std::string source = library + ".cpp";
    std::ofstream(source) << text;
    const std::string command =
        std::string(RL_COMPILER) + " -shared -fPIC -o '" + library + "' '" + source + "' " + more;
    REQUIRE(std::system(command.c_str()) == 0);
}

TEST_CASE("traces, figures, tables and help need no engine", "[engine-library]") {
    const Scratch scratch("no-engine");
    std::vector<std::string> record = a_run;
    record.insert(record.end(), {"--record", scratch / "a.rlt"});
    REQUIRE(refreshlab_program(record).status == 0);
    const std::string gone = scratch / "no-such.so";
    for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>> {
             {"--help"}, {"--version"}, {"run", "--help"}, {"policies"}, {"models", "list"},
                 {"info", scratch / "a.rlt"}, {"export", scratch / "a.rlt", "--csv", scratch / "csv"},
#if REFRESHLAB_UI
                 {"figure", scratch / "a.rlt", "-o", scratch / "a.svg"},
                 {"gui", scratch / "a.rlt", "--screenshot", scratch / "a.png", "--size", "800x600"},
#endif
         }) {
        const Outcome outcome = with_engine(gone, arguments);
        INFO(arguments.front() << ": " << outcome.err);
        CHECK(outcome.status == 0);
    }
    // Nor does the dynamic linker load libtorch with the program.
    const Outcome libraries = refreshlab_program({}, [] { setenv("LD_TRACE_LOADED_OBJECTS", "1", 1); });
    CHECK_THAT(libraries.out, ContainsSubstring("librefreshlab_plain.so"));
    CHECK_THAT(libraries.out,
               !ContainsSubstring("torch") && !ContainsSubstring("libc10") && !ContainsSubstring("cudart"));
}

TEST_CASE("an engine that cannot be had is one line", "[engine-library][bad-input]") {
    const Scratch scratch("engine-library");
    check_refused(with_engine(scratch / "none.so", a_run), "there is no such file");

    std::ofstream(scratch / "text.so") << "no library\n";
    check_refused(with_engine(scratch / "text.so", a_run), "text.so");

    compile("int nothing;", scratch / "other.so");
    check_refused(with_engine(scratch / "other.so", a_run), "is no engine of RefreshLab");

    const std::string old =
        "extern \"C\" const char* refreshlab_engine_build() { return \"0.0.1 of long ago\"; }";
    compile(old, scratch / "old.so");
    check_refused(with_engine(scratch / "old.so", a_run),
                  "it is of build 0.0.1 of long ago, and the program of ");

    compile("int needed() { return 1; }", scratch / "libneeded.so");
    compile("int needed(); " + old + " int use() { return needed(); }", scratch / "needs.so",
            "'" + (scratch / "libneeded.so") + "'");
    compile("int another() { return 1; }", scratch / "libneeded.so");
    check_refused(with_engine(scratch / "needs.so", a_run), "of another version");
    std::filesystem::remove(scratch / "libneeded.so");
    check_refused(with_engine(scratch / "needs.so", a_run),
                  "libneeded.so, which it needs, is not on this machine");
}

TEST_CASE("too little address space for the engine is one line", "[engine-library][bad-input]") {
    for (const rlim_t megabytes : {100, 300}) {
        const Outcome outcome = refreshlab_program(a_run, [&] {
            const rlimit limit{megabytes << 20, megabytes << 20};
            static_cast<void>(setrlimit(RLIMIT_AS, &limit));
        });
        INFO(megabytes << " MB: " << outcome.err);
        CHECK(outcome.status == 1);
        CHECK(std::ranges::count(outcome.err, '\n') == 1);
        CHECK(outcome.err.starts_with("refreshlab: "));
        CHECK_THAT(outcome.err, ContainsSubstring("memory"));
    }
}

} // namespace engine_test
