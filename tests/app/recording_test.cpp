// What a trace holds when the run that wrote it did not end in good order.
#include "engine/base/json_file.h"
#include "engine/record/trace/trace_store.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "tests/app/program.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace recording_test {

namespace fs = std::filesystem;
using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// The program with its stdout in a pipe, so that a test acts while it prints.
class Printing {
public:
    /// \param err  file for its stderr
    Printing(std::vector<std::string> arguments, std::string err)
        : m_err(std::move(err)) {
        const std::string program = RL_BUILD_DIR "/refreshlab";
        std::vector<char*> argv{const_cast<char*>(program.c_str())};
        for (std::string& a : arguments)
            argv.push_back(a.data());
        argv.push_back(nullptr);
        int text[2];
        REQUIRE(pipe(text) == 0);
        m_child = fork();
        if (m_child == 0) {
            dup2(text[1], STDOUT_FILENO);
            dup2(open(m_err.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600), STDERR_FILENO);
            close(text[0]);
            close(text[1]);
            if (chdir(RL_SOURCE_DIR) != 0) _exit(126);
            execv(program.c_str(), argv.data());
            _exit(127);
        }
        close(text[1]);
        m_text = text[0];
    }
    Printing(const Printing&) = delete;
    Printing& operator=(const Printing&) = delete;
    ~Printing() {
        close(m_text);
        if (m_child > 0) {
            kill(m_child, SIGKILL);
            waitpid(m_child, nullptr, 0);
        }
    }

    /// Reads until so many bytes have come, or the program has closed its stdout.
    const std::string& read_at_least(size_t bytes) {
        char buffer[4096];
        for (ssize_t n = 1; m_printed.size() < bytes && n > 0;) {
            n = read(m_text, buffer, sizeof buffer);
            if (n > 0) m_printed.append(buffer, static_cast<size_t>(n));
        }
        return m_printed;
    }
    /// All that it printed, whether or not it was killed meanwhile.
    const std::string& read_all() { return read_at_least(SIZE_MAX); }
    void send(int signal) const { REQUIRE(kill(m_child, signal) == 0); }
    /// \return exit status; 128 + signal when it died of one
    int wait() {
        int state = 0;
        waitpid(m_child, &state, 0);
        m_child = -1;
        return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    }
    [[nodiscard]] std::string said() const { return read_file(m_err); }

private:
    std::string m_err, m_printed;
    pid_t m_child = -1;
    int m_text = -1;
};

std::vector<std::string> recording_to(const std::string& trace, int tokens) {
    return {"run",
            "--prompt",
            "Write a chronicle of 6 companies.",
            "--max-tokens",
            std::to_string(tokens),
            "--ignore-stop",
            "--device",
            "cpu",
            "--record",
            trace};
}

/// The program in a shell that is limited as a person or a batch system limits it; its streams go to `out` and `err`.
/// \param before  commands of the shell: "ulimit -f 600"
/// \return exit status; 128 + signal when it died of one
int run_in_shell(const Scratch& scratch, const std::string& before,
                 const std::vector<std::string>& arguments) {
    std::string command;
    for (const std::string& a : arguments)
        command += " '" + a + "'";
    write_file(scratch / "script.sh",
               before + "; cd '" RL_SOURCE_DIR "'; exec '" RL_BUILD_DIR "/refreshlab'" + command);
    const int state = std::system(("bash '" + (scratch / "script.sh") + "' > '" + (scratch / "out") +
                                   "' 2> '" + (scratch / "err") + "'")
                                      .c_str());
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

/// The text of a recorded run, as `run` prints it token by token.
std::string text_of(const Recording& recording) {
    TextStream stream(Tokenizer::load(RL_SOURCE_DIR "/assets/models/llama-tales-student"));
    std::string text;
    for (const int32_t id : recording.token_ids())
        text += stream.push(id);
    return text;
}

} // namespace

TEST_CASE("what a run has printed is in its trace, whenever it is killed", "[cli][record]") {
    const Scratch scratch("killed");
    std::mt19937 random(seed(31));
    for (int round = 0; round < 6; ++round) {
        const std::string trace = scratch / (std::to_string(round) + ".rlt");
        Printing run(recording_to(trace, 1500), scratch / "err");
        const size_t wanted = std::uniform_int_distribution<size_t>(1, 1200)(random);
        CAPTURE(round, wanted);
        run.read_at_least(wanted);
        run.send(SIGKILL);
        const std::string printed = run.read_all();
        REQUIRE(run.wait() == 128 + SIGKILL); // it was still at work
        REQUIRE(printed.size() >= wanted);
        const auto runs = load_trace(trace);
        REQUIRE(runs.size() == 1);
        CHECK_FALSE(runs[0]->end());
        const std::string recorded = text_of(*runs[0]);
        CAPTURE(printed.size(), recorded.size());
        CHECK(recorded.starts_with(printed));
    }
}

TEST_CASE("a branch that is killed leaves its trace as it was, and what it printed beside it",
          "[cli][record]") {
    const Scratch scratch("killed-branch");
    const std::string trace = scratch / "run.rlt";
    REQUIRE(refreshlab_cli(recording_to(trace, 60)).status == 0);
    const std::string bytes = read_file(trace);
    {
        Printing run(
            {"run", "--branch", trace + "@40", "--seed", "9", "--max-tokens", "1500", "--record", trace},
            scratch / "err");
        run.read_at_least(700); // beyond the steps that it shares
        run.send(SIGKILL);
        const std::string printed = run.read_all();
        REQUIRE(run.wait() == 128 + SIGKILL);
        CHECK(read_file(trace) == bytes);
        size_t others = 0;
        for (const auto& file : fs::directory_iterator(fs::path(trace).parent_path())) {
            if (!file.path().string().ends_with(".tmp")) continue;
            ++others;
            const auto runs = load_trace(file.path());
            REQUIRE(runs.size() == 2);
            CHECK(text_of(*runs[1]).starts_with(printed));
            CHECK(runs[1]->info().fork_step == 39);
        }
        CHECK(others == 1);
    }
    // Stopped in good order it takes its place; a file that was removed meanwhile is made again, with the run that was left.
    {
        Printing run({"run", "--branch", trace + "@40", "--max-tokens", "1500", "--record", trace},
                     scratch / "err");
        run.read_at_least(300);
        run.send(SIGINT);
        static_cast<void>(run.read_all());
        CHECK(run.wait() == 128 + SIGINT);
        const auto runs = load_trace(trace);
        REQUIRE(runs.size() == 2);
        CHECK(runs[1]->end()->stop_reason == "cancelled");
    }
    const std::string other = scratch / "other.rlt";
    Printing run({"run", "--branch", trace + "@40", "--max-tokens", "1200", "--record", other},
                 scratch / "err");
    run.read_at_least(300);
    fs::remove(other);
    static_cast<void>(run.read_all());
    CHECK(run.wait() == 1);
    CHECK_THAT(run.said(), ContainsSubstring("removed or renamed") && ContainsSubstring("all 1200 steps"));
    const auto runs = load_trace(other);
    REQUIRE(runs.size() == 3);
    CHECK(runs[2]->steps() == 1200);
    CHECK(runs[2]->info().parent_id == runs[1]->info().id);
}

TEST_CASE("a trace that is removed while it is recorded is made again from the run", "[cli][record]") {
    const Scratch scratch("removed");
    const std::string trace = scratch / "run.rlt", elsewhere = scratch / "elsewhere.rlt";
    for (const bool renamed : {false, true}) {
        CAPTURE(renamed);
        Printing run(recording_to(trace, 400), scratch / "err");
        run.read_at_least(10);
        renamed ? fs::rename(trace, elsewhere) : static_cast<void>(fs::remove(trace));
        const std::string printed = run.read_all();
        CHECK(run.wait() == 1);
        const std::string said = run.said();
        CHECK_THAT(said, ContainsSubstring("removed or renamed while it was being recorded") &&
                             ContainsSubstring("all 400 steps"));
        CHECK(text_of(*load_trace(trace).at(0)) == printed);
    }
}

TEST_CASE("a trace that is replaced while it is recorded is left alone", "[cli][record]") {
    const Scratch scratch("replaced");
    const std::string trace = scratch / "run.rlt";
    Printing run(recording_to(trace, 400), scratch / "err");
    run.read_at_least(10);
    fs::remove(trace);
    write_file(trace, "something of somebody else");
    run.read_all();
    CHECK(run.wait() == 1);
    CHECK_THAT(run.said(),
               ContainsSubstring("removed or renamed") && ContainsSubstring("another file stands there"));
    CHECK(read_file(trace) == "something of somebody else");
}

TEST_CASE("a limit on file sizes and a full disk stop the recording, not the run", "[cli][record]") {
    const Scratch scratch("limits");
    const auto in_shell = [&](const std::string& before, const std::string& trace) {
        return run_in_shell(scratch, before, recording_to(trace, 400));
    };
    const auto last_line = [&] {
        std::string line;
        std::istringstream lines(read_file(scratch / "err"));
        for (std::string next; std::getline(lines, next);)
            line = next;
        return line;
    };
    const std::string trace = scratch / "small.rlt";
    CHECK(in_shell("ulimit -f 600", trace) == 1); // KiB
    CHECK_THAT(last_line(), ContainsSubstring(trace) && ContainsSubstring("File too large") &&
                                ContainsSubstring("the run itself went on"));
    const std::string whole = read_file(scratch / "out");
    const std::string part = text_of(*load_trace(trace).at(0));
    CHECK_FALSE(part.empty());
    CHECK(whole.starts_with(part));
    CHECK(part.size() < whole.size());

    const std::string disk = scratch / "disk";
    fs::create_directory(disk);
    const std::string mounted = "mount -t tmpfs -o size=600k tmpfs '" + disk + "'";
    if (std::system(("unshare -rm sh -c \"" + mounted + "\" 2> /dev/null").c_str()) != 0)
        return; // this machine lets nobody mount a small disk; the suite of engine/record has a full file
    CHECK(
        in_shell("if [ -z \"${RL_INSIDE:-}\" ]; then export RL_INSIDE=1; exec unshare -rm bash \"$0\"; fi; " +
                     mounted,
                 disk + "/run.rlt") == 1);
    CHECK_THAT(last_line(), ContainsSubstring("run.rlt") && ContainsSubstring("full") &&
                                ContainsSubstring("the run itself went on"));
    CHECK(read_file(scratch / "out") == whole);
}

TEST_CASE("a limit of the machine is a failure and no bad input, whatever meets it", "[cli]") {
    const Scratch scratch("machine-limits");
    const std::string trace = scratch / "good.rlt";
    REQUIRE(refreshlab_cli(recording_to(trace, 60)).status == 0);
    write_file(scratch / "grid.json", R"({"base": {"device": "cpu"}, "max_tokens": 3, "prompts": "Hello"})");
    const auto fails = [&](const std::string& limit, const std::vector<std::string>& arguments,
                           const std::string& problem) {
        const int status = run_in_shell(scratch, limit, arguments);
        const std::string said = read_file(scratch / "err");
        CAPTURE(limit, arguments, said);
        CHECK(status == 1);
        CHECK_THAT(said, ContainsSubstring(problem) && ContainsSubstring("ulimit"));
    };
    const std::string too_large = "File too large";
    [[maybe_unused]] const std::string too_many = "Too many open files";
    fails("ulimit -f 10", {"export", trace, "--csv", scratch / "csv"}, too_large);
    fails("ulimit -f 1", {"run", "--prompt", "Hello", "--max-tokens", "3", "--summary", scratch / "s.json"},
          too_large);
    CHECK_FALSE(fs::exists(scratch / "s.json"));
    fails("ulimit -f 20", {"run", "--prompt", "Hello", "--max-tokens", "3", "--record", scratch / "r.rlt"},
          too_large);
#ifndef __SANITIZE_ADDRESS__ // UBSan opens a pipe of its own to look whether memory can be read, and takes none for a fault
    fails("ulimit -n 6", {"run", "--prompt", "Hello", "--max-tokens", "3", "--record", scratch / "r.rlt"},
          too_many);
#endif
    CHECK(run_in_shell(scratch, "ulimit -f 20",
                       {"sweep", scratch / "grid.json", "--out", scratch / "s.db"}) == 1);
    CHECK_THAT(read_file(scratch / "err"), ContainsSubstring("s.db") && ContainsSubstring("ulimit -f"));
}

} // namespace recording_test
