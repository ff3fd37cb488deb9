// `sweep`, `merge` and `score` as a shell sees them: killed, split, joined, interrupted.
#include "engine/base/json_file.h"
#include "engine/record/trace/sqlite.h"
#include "tests/app/program.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

namespace sweep_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

namespace {

json short_grid() {
    return {
        {"name", "short"},
        {"base", {{"device", "cpu"}}},
        {"modes", {"teacher", "student", "overfill"}},
        {"policies", {"none", {{"preset", "periodic"}, {"set", {{"periodic.every", {8, 16}}}}}}},
        {"max_tokens", 24},
        {"prompts",
         {"Write a chronicle of 2 companies.", "Tell a story about a fox.", "Tell a story about a pond."}},
        {"seeds", {0}}};
}
constexpr int short_cells = 15;

/// Starts the program and lets it run.
pid_t start(const std::vector<std::string>& arguments, const std::string& err) {
    const std::string program = RL_BUILD_DIR "/refreshlab";
    std::vector<char*> argv{const_cast<char*>(program.c_str())};
    for (const std::string& a : arguments)
        argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    const pid_t child = fork();
    if (child != 0) return child;
    const int err_fd = open(err.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600),
              out_fd = open("/dev/null", O_WRONLY);
    dup2(err_fd, STDERR_FILENO);
    dup2(out_fd, STDOUT_FILENO);
    if (chdir(RL_SOURCE_DIR) != 0) _exit(126);
    execv(program.c_str(), argv.data());
    _exit(127);
}

/// Rows of `results`; 0 while there is no such file or table.
int64_t results_in(const std::string& file) {
    if (!std::filesystem::exists(file)) return 0;
    try {
        sqlite::Database db(file, sqlite::Open::read_only);
        db.busy_timeout(10'000);
        return db.integer("SELECT count(*) FROM results");
    } catch (const sqlite::SqlError&) {
        return 0; // being made
    }
}

/// When each result was computed and what it was: tells a result that was computed again.
std::map<std::string, std::string> stamps_in(const std::string& file) {
    std::map<std::string, std::string> stamps;
    sqlite::Database db(file, sqlite::Open::read_only);
    sqlite::Statement select(db, "SELECT id, summary FROM results");
    while (select.step())
        stamps[select.text(0)] = select.text(1);
    return stamps;
}

/// Waits (for its child's work, not for time) until `file` holds n results or the child has ended.
void until_results(const std::string& file, int64_t n, pid_t child) {
    for (;;) {
        siginfo_t state{};
        if (results_in(file) >= n) return;
        if (waitid(P_PID, static_cast<id_t>(child), &state, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            state.si_pid != 0)
            return;
        usleep(1000);
    }
}

int shell(const std::string& command) {
    return std::system(command.c_str());
}

} // namespace

TEST_CASE("a sweep ends in a database and a table", "[cli][sweep]") {
    const Scratch scratch("sweep");
    write_file(scratch / "grid.json", short_grid().dump());
    const Outcome dry =
        refreshlab_cli({"sweep", scratch / "grid.json", "--out", scratch / "s.db", "--dry-run"});
    CHECK(dry.status == 0);
    CHECK_THAT(dry.out, ContainsSubstring("5 rows x 3 prompts x 1 seeds = 15 runs") &&
                            ContainsSubstring("OverFill + periodic"));
    CHECK_FALSE(std::filesystem::exists(scratch / "s.db"));

    const Outcome run =
        refreshlab_cli({"sweep", scratch / "grid.json", "--out", scratch / "s.db", "--markdown",
                        scratch / "s.md", "--csv", scratch / "s.csv", "--pareto", scratch / "p.csv"});
    REQUIRE(run.status == 0);
    CHECK(run.out == read_file(scratch / "s.md"));
    CHECK_THAT(run.out, ContainsSubstring("| Teacher | ") && ContainsSubstring("| Student | ") &&
                            ContainsSubstring("| OverFill | "));
    CHECK_THAT(run.err, ContainsSubstring("100 %") && !ContainsSubstring("\033") && !ContainsSubstring("\r"));
    const Table table = read_csv(scratch / "s.csv");
    REQUIRE(table.rows.size() == 5);
    for (size_t row = 0; row < 5; ++row) {
        CHECK(table.at(row, "teacher_ppl_n") == "3");
        CHECK(std::stod(table.at(row, "teacher_ppl")) > 1);
        CHECK(std::stod(table.at(row, "decode_tps")) > 0);
        CHECK(table.at(row, "task_score").empty());
    }
    CHECK(table.at(0, "refreshes") == "0");
    CHECK(table.at(3, "refreshes") == "2"); // 23 steps, every 8
    CHECK(table.at(4, "refreshes") == "1");
    CHECK_FALSE(table.at(3, "overhead_percent").empty());
    CHECK(read_csv(scratch / "p.csv").rows.size() > 5);

    const auto before = stamps_in(scratch / "s.db");
    CHECK(before.size() == short_cells);
    json grown = short_grid();
    grown["seeds"] = {0, 1};
    grown["policies"].push_back("burst");
    write_file(scratch / "grid.json", grown.dump());
    const Outcome more = refreshlab_cli({"sweep", scratch / "grid.json", "--out", scratch / "s.db"});
    REQUIRE(more.status == 0);
    CHECK_THAT(more.err, ContainsSubstring("15 found there, 21 computed now"));
    const auto after = stamps_in(scratch / "s.db");
    CHECK(after.size() == 36);
    for (const auto& [id, stamp] : before)
        CHECK(after.at(id) == stamp);
}

TEST_CASE("on a terminal a sweep draws one line over and over, however narrow", "[cli][sweep]") {
    for (const int columns : {100, 18}) {
        const Scratch scratch("sweep-bar");
        write_file(scratch / "grid.json", json{{"base", {{"device", "cpu"}}},
                                               {"modes", {"teacher", "overfill"}},
                                               {"max_tokens", 4},
                                               {"prompts", {"One.", "Two.", "Three."}}}
                                              .dump());
        const Outcome run = refreshlab_on_terminal(
            {"sweep", scratch / "grid.json", "--out", scratch / "s.db", "--jobs", "2"}, columns);
        REQUIRE(run.status == 0);
        const std::string start = "\r\033[K";
        std::vector<std::string> frames;
        for (size_t at = run.err.find(start); at != std::string::npos;) {
            at += start.size();
            const size_t next = run.err.find(start, at);
            frames.push_back(run.err.substr(at, next == std::string::npos ? next : next - at));
            at = next;
        }
        REQUIRE(frames.size() > 10); // loading, then the runs
        const std::string below = frames.back().substr(frames.back().find("\r\n"));
        frames.back().resize(frames.back().size() - below.size());
        CHECK_THAT(below, ContainsSubstring("6 of 6 runs") && !ContainsSubstring("\033"));
        int done = -1;
        for (const std::string& frame : frames) {
            CAPTURE(frame, columns);
            CHECK(frame.size() < static_cast<size_t>(columns));
            CHECK(frame.find('\n') == std::string::npos);
            if (frame.find(" runs") == std::string::npos) continue; // loading
            const bool bar = frame.front() == '[';
            CHECK(bar == (columns == 100));
            const size_t filled = static_cast<size_t>(std::count(frame.begin(), frame.end(), '#'));
            const std::string text = bar ? frame.substr(frame.find(']') + 1) : frame;
            int percent = -1, now = -1, total = -1;
            REQUIRE(std::sscanf(text.c_str(), " %d %% %d/%d runs", &percent, &now, &total) == 3);
            CHECK(now >= done);
            CHECK(total == 6);
            if (bar) {
                CHECK(std::abs(static_cast<int>(filled) - now * 30 / 6) <= 1);
                CHECK((frame.find(" left") == std::string::npos) == (now == 0 || now == 6));
            }
            done = now;
        }
        CHECK(done == 6);
    }
}

TEST_CASE("a sweep that is killed goes on without computing anything twice", "[cli][sweep]") {
    const Scratch scratch("killed");
    json grid = short_grid();
    grid["max_tokens"] = 200;
    grid["base"]["ignore_stop"] = true;
    write_file(scratch / "grid.json", grid.dump());
    const std::vector<std::string> command{
        "sweep", scratch / "grid.json", "--out", scratch / "s.db", "--jobs", "2"};
    std::map<std::string, std::string> before;
    for (const int64_t at_least : {2, 6, 9}) { // three times in a row
        const pid_t child = start(command, scratch / "err");
        until_results(scratch / "s.db", at_least, child);
        kill(child, SIGKILL);
        int state = 0;
        waitpid(child, &state, 0);
        REQUIRE(WIFSIGNALED(state));
        const auto now = stamps_in(scratch / "s.db");
        CHECK(now.size() >= static_cast<size_t>(at_least));
        CHECK(now.size() < short_cells);
        for (const auto& [id, stamp] : before)
            CHECK(now.at(id) == stamp);
        before = now;
    }
    const Outcome rest = refreshlab_cli(command);
    REQUIRE(rest.status == 0);
    CHECK_THAT(rest.err, ContainsSubstring(fmt::format("{} found there, {} computed now", before.size(),
                                                       short_cells - before.size())));
    const auto after = stamps_in(scratch / "s.db");
    CHECK(after.size() == short_cells);
    for (const auto& [id, stamp] : before)
        CHECK(after.at(id) == stamp);
    CHECK_FALSE(std::filesystem::exists(scratch / "s.db.lock"));
    sqlite::Database db(scratch / "s.db", sqlite::Open::read_only);
    CHECK(db.text("PRAGMA integrity_check") == "ok");
}

TEST_CASE("Ctrl-C ends a sweep cleanly and says how to go on", "[cli][sweep]") {
    for (const int signal : {SIGINT, SIGTERM}) {
        CAPTURE(signal);
        const Scratch scratch("interrupted");
        json grid = short_grid();
        grid["max_tokens"] = 200;
        grid["base"]["ignore_stop"] = true;
        write_file(scratch / "grid.json", grid.dump());
        const std::vector<std::string> command{
            "sweep", scratch / "grid.json", "--out", scratch / "s.db", "--jobs", "1"};
        const pid_t child = start(command, scratch / "err");
        until_results(scratch / "s.db", 2, child);
        kill(child, signal);
        if (signal == SIGTERM) kill(child, signal); // as `timeout` does: to the process, and to its group
        int state = 0;
        waitpid(child, &state, 0);
        CHECK((WIFEXITED(state) && WEXITSTATUS(state) == 128 + signal));
        // Closed in order. (Before any look into the file: a read-only one leaves companions.)
        CHECK_FALSE(std::filesystem::exists(scratch / "s.db-wal"));
        CHECK_THAT(read_file(scratch / "err"), ContainsSubstring("stopped; the same command continues"));
        CHECK(results_in(scratch / "s.db") < short_cells);
        if (signal == SIGINT) CHECK(refreshlab_cli(command).status == 0);
    }
}

TEST_CASE("two processes on one file share the work", "[cli][sweep]") {
    const Scratch scratch("both");
    write_file(scratch / "grid.json", short_grid().dump());
    const auto command = [&](const char* csv) {
        return std::vector<std::string>{
            "sweep", scratch / "grid.json", "--out",          scratch / "s.db", "--jobs", "2",
            "--csv", scratch / csv,         "--deterministic"};
    };
    const pid_t a = start(command("a.csv"), scratch / "a.err"),
                b = start(command("b.csv"), scratch / "b.err");
    for (const pid_t child : {a, b}) {
        int state = 0;
        waitpid(child, &state, 0);
        CHECK(WIFEXITED(state));
        CHECK(WEXITSTATUS(state) == 0); // each waits for what the other still computes
    }
    CHECK(results_in(scratch / "s.db") == short_cells);
    CHECK(read_file(scratch / "a.csv") == read_file(scratch / "b.csv"));
    const Table table = read_csv(scratch / "a.csv");
    for (size_t row = 0; row < table.rows.size(); ++row)
        CHECK(table.at(row, "runs") == "3");
    for (const char* file : {"a.err", "b.err"}) {
        CHECK_THAT(read_file(scratch / file), ContainsSubstring("15 of 15 runs") &&
                                                  !ContainsSubstring("being computed by another process"));
    }
    const auto computed = [&](const std::string& file) {
        const std::string err = read_file(scratch / file);
        const size_t at = err.find(" found there, ");
        REQUIRE(at != std::string::npos);
        return std::stoi(err.substr(at + 14));
    };
    CHECK(computed("a.err") + computed("b.err") == short_cells); // nothing twice
}

TEST_CASE("a table without a run to compare with says why overhead is empty", "[cli][sweep]") {
    const Scratch scratch("no-none");
    json grid = short_grid();
    grid["modes"] = "overfill";
    grid["policies"] = "periodic";
    grid["prompts"] = "Tell a story about a fox.";
    grid["max_tokens"] = 6;
    write_file(scratch / "grid.json", grid.dump());
    const std::vector<std::string> command{"sweep", scratch / "grid.json", "--out", scratch / "s.db",
                                           "--csv", scratch / "s.csv"};
    const Outcome without = refreshlab_cli(command);
    REQUIRE(without.status == 0);
    CHECK_THAT(without.err, ContainsSubstring("overhead is empty") && ContainsSubstring("add \"none\""));
    CHECK_THAT(without.out, ContainsSubstring("Note: overhead is empty"));
    CHECK(read_csv(scratch / "s.csv").at(0, "overhead_percent").empty());
    CHECK_THAT(refreshlab_cli({"merge", scratch / "s.db"}).err, ContainsSubstring("overhead is empty"));
    grid["policies"] = {"none", "periodic"};
    write_file(scratch / "grid.json", grid.dump());
    const Outcome with = refreshlab_cli(command);
    REQUIRE(with.status == 0);
    CHECK_THAT(with.err,
               !ContainsSubstring("overhead is empty") && ContainsSubstring("1 found there, 1 computed"));
    CHECK_THAT(with.out, !ContainsSubstring("Note:"));
    CHECK_FALSE(read_csv(scratch / "s.csv").at(1, "overhead_percent").empty());
}

TEST_CASE("merged shards give the unsharded table byte for byte", "[cli][sweep]") {
    const Scratch scratch("shards");
    write_file(scratch / "grid.json", short_grid().dump());
    const auto files = [&](const std::string& stem) {
        return std::vector<std::string>{
            "--deterministic",         "--markdown", scratch / (stem + ".md"),    "--csv",
            scratch / (stem + ".csv"), "--pareto",   scratch / (stem + ".pareto")};
    };
    const auto with = [](std::vector<std::string> a, const std::vector<std::string>& b) {
        a.insert(a.end(), b.begin(), b.end());
        return a;
    };
    REQUIRE(
        refreshlab_cli(with({"sweep", scratch / "grid.json", "--out", scratch / "whole.db"}, files("whole")))
            .status == 0);
    for (const char* i : {"1", "2", "3", "4"}) {
        const Outcome shard =
            refreshlab_cli({"sweep", scratch / "grid.json", "--out", scratch / (std::string(i) + ".db"),
                            "--shard", std::string(i) + "/4", "--jobs", "1"});
        REQUIRE(shard.status == 0);
        CHECK(shard.out.empty());
    }
    CHECK(refreshlab_cli({"merge", scratch / "part.db", scratch / "3.db", scratch / "1.db"}).status ==
          1); // incomplete
    const Outcome merged = refreshlab_cli(with(
        {"merge", scratch / "out.db", scratch / "4.db", scratch / "2.db", scratch / "1.db", scratch / "3.db"},
        files("merged")));
    REQUIRE(merged.status == 0);
    for (const char* kind : {".md", ".csv", ".pareto"})
        CHECK(read_file(scratch / (std::string("merged") + kind)) ==
              read_file(scratch / (std::string("whole") + kind)));
    CHECK(merged.out == read_file(scratch / "whole.md"));
    // The measured rows too, once they are the same rows.
    const Outcome all = refreshlab_cli({"merge", scratch / "out.db"});
    CHECK(refreshlab_cli({"merge", scratch / "again.db", scratch / "1.db", scratch / "2.db", scratch / "3.db",
                          scratch / "4.db"})
              .out == all.out);

    json other = short_grid();
    other["seeds"] = {5};
    write_file(scratch / "other.json", other.dump());
    REQUIRE(refreshlab_cli({"sweep", scratch / "other.json", "--out", scratch / "other.db", "--shard", "1/4"})
                .status == 0);
    const Outcome refused = refreshlab_cli({"merge", scratch / "out.db", scratch / "other.db"});
    CHECK(refused.status == 2);
    CHECK_THAT(refused.err, ContainsSubstring("different runs"));
}

TEST_CASE("the Slurm array ends in the unsharded table", "[cli][sweep]") {
    const Scratch scratch("slurm");
    write_file(scratch / "grid.json", short_grid().dump());
    REQUIRE(refreshlab_cli({"sweep", scratch / "grid.json", "--out", scratch / "whole.db", "--deterministic",
                            "--csv", scratch / "whole.csv"})
                .status == 0);
    const std::string program = "REFRESHLAB=" RL_BUILD_DIR "/refreshlab ";
    const std::string script = RL_SOURCE_DIR "/scripts/sweep_slurm.sh ";
    const auto arguments = [&](const std::string& stem) {
        return fmt::format("'{}' --shards 3 --out '{}' --deterministic --csv '{}' ", scratch / "grid.json",
                           scratch / (stem + ".db"), scratch / (stem + ".csv"));
    };
    CHECK(shell(program + "bash " + script + arguments("local") + "--local > '" + (scratch / "local.out") +
                "' 2> '" + (scratch / "local.err") + "'") == 0);
    CAPTURE(read_file(scratch / "local.err"));
    CHECK(read_file(scratch / "local.csv") == read_file(scratch / "whole.csv"));

    // A stand-in for sbatch that keeps its contract: a copy of the script, the array's variables, a number on stdout, and
    // a dependency that must have been met.
    std::filesystem::create_directories(scratch / "bin");
    write_file(scratch / "bin/sbatch",
               "#!/usr/bin/env bash\n"
               "set -e\n"
               "dir=$(dirname \"$0\"); echo \"$*\" >> \"$dir/calls\"\n"
               "array=; dependency=; chdir=.\n"
               "while [[ $1 == -* ]]; do case $1 in\n"
               "--array=*) array=${1#*=};; --dependency=*) dependency=${1#*=};; --chdir=*) chdir=${1#*=};;\n"
               "esac; shift; done\n"
               "cp \"$1\" \"$dir/slurm_script\"; shift; cd \"$chdir\"\n"
               "if [[ -n $array ]]; then\n"
               "  for i in $(seq ${array%-*} ${array#*-}); do SLURM_JOB_ID=7$i SLURM_ARRAY_JOB_ID=70 "
               "SLURM_ARRAY_TASK_ID=$i bash \"$dir/slurm_script\" \"$@\" > \"$dir/job-$i\" 2>&1; done\n"
               "  touch \"$dir/done-70\"; echo '70;cluster'\n"
               "else\n"
               "  [[ $dependency == afterok:70 && -e $dir/done-70 ]]\n"
               "  SLURM_JOB_ID=71 bash \"$dir/slurm_script\" \"$@\" > \"$dir/job-merge\" 2>&1; echo 71\n"
               "fi\n");
    CHECK(shell(fmt::format("chmod +x '{}'", scratch / "bin/sbatch")) == 0);
    CHECK(shell("PATH='" + (scratch / "bin") + "':$PATH " + program + "bash " + script + arguments("sbatch") +
                "> '" + (scratch / "sbatch.out") + "' 2> '" + (scratch / "sbatch.err") + "'") == 0);
    CAPTURE(read_file(scratch / "sbatch.err"));
    REQUIRE(std::filesystem::exists(scratch / "sbatch.csv"));
    CHECK(read_file(scratch / "sbatch.csv") == read_file(scratch / "whole.csv"));
    CHECK_THAT(read_file(scratch / "bin/calls"),
               ContainsSubstring("--array=1-3") && ContainsSubstring("--dependency=afterok:70"));
}

TEST_CASE("the score of a trace is the closing pass's, with or without refreshes", "[cli][sweep]") {
    const Scratch scratch("score");
    REQUIRE(refreshlab_cli({"run", "--prompt", "Tell a story about a fox.", "--max-tokens", "40", "--device",
                            "cpu", "--policy", "burst", "--record", scratch / "r.rlt", "--summary",
                            scratch / "s.json"})
                .status == 0);
    const json summary = read_json_file(scratch / "s.json");
    const Outcome score = refreshlab_cli({"score", scratch / "r.rlt"});
    REQUIRE(score.status == 0);
    CHECK_THAT(score.out,
               ContainsSubstring(fmt::format("{:.4f}", summary["teacher_ppl"].get<double>())) &&
                   ContainsSubstring(fmt::format("{:.4f}", summary["tail_logprob"].get<double>())) &&
                   ContainsSubstring("burst"));
    // Another judge gives another number.
    const Outcome other =
        refreshlab_cli({"score", scratch / "r.rlt", "--teacher", "assets/models/llama-tales-student"});
    REQUIRE(other.status == 0);
    CHECK(other.out != score.out);
    CHECK(refreshlab_cli({"score", scratch / "gone.rlt"}).status == 2);
    CHECK(refreshlab_cli({"score", scratch / "r.rlt", "--teacher", "nowhere"}).status == 2);
}

TEST_CASE("bad input of a sweep is one line and exit status 2", "[cli][sweep]") {
    const Scratch scratch("bad-sweep");
    write_file(scratch / "good.json", short_grid().dump());
    write_file(scratch / "syntax.json", "{\n \"prompts\": [\"a\" \"b\"]\n}\n");
    write_file(scratch / "unknown.json", R"({"prompts": "a", "polices": ["none"]})");
    write_file(scratch / "text.db", "not a database");
    const std::string good = scratch / "good.json";
    const std::pair<std::vector<std::string>, const char*> cases[] = {
        {{"sweep"}, "SPEC"},
        {{"sweep", scratch / "gone.json"}, "gone.json"},
        {{"sweep", scratch / "syntax.json"}, "line 2"},
        {{"sweep", scratch / "unknown.json"}, "policies"},
        {{"sweep", good, "--shard", "5/4"}, "--shard"},
        {{"sweep", good, "--jobs", "-1"}, "jobs"},
        {{"sweep", good, "--out", scratch / "text.db"}, "is not a sweep"},
        {{"sweep", good, "--out", scratch / "no/such/folder.db"}, "no such folder"},
        {{"sweep", good, "--csv", scratch / "no/such/folder.csv"}, "--csv"},
        {{"sweep", good, "--devices", "cpu,tpu"}, "tpu"},
        {{"sweep", good, "--teacher", "nowhere"}, "nowhere"},
        {{"merge"}, "OUT"},
        {{"merge", scratch / "gone.db"}, "no such file"},
        {{"merge", scratch / "text.db"}, "is not a sweep"},
        {{"merge", scratch / "out.db", scratch / "gone.db"}, "gone.db"},
    };
    for (const auto& [arguments, part] : cases) {
        CAPTURE(fmt::format("{}", fmt::join(arguments, " ")));
        const Outcome outcome = refreshlab_cli(arguments);
        CHECK(outcome.status == 2);
        CHECK_THAT(outcome.err, ContainsSubstring(part));
        CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
        CHECK(outcome.out.empty());
    }
    CHECK_FALSE(std::filesystem::exists(scratch / "out.db"));
    CHECK(read_file(scratch / "text.db") == "not a database");
}

TEST_CASE("the bundled specs are read and say what they would do", "[cli][sweep]") {
    const Scratch scratch("bundled");
    int specs = 0;
    for (const auto& entry : std::filesystem::directory_iterator(RL_SOURCE_DIR "/assets/sweeps")) {
        CAPTURE(entry.path().string());
        const Outcome outcome =
            refreshlab_cli({"sweep", entry.path().string(), "--out", scratch / "s.db", "--dry-run"});
        CHECK(outcome.status == 0);
        CHECK_THAT(outcome.out, ContainsSubstring("OverFill"));
        ++specs;
    }
    CHECK(specs >= 3);
}

} // namespace sweep_test
