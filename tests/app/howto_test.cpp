// The pages keep what they promise: their commands are run as they stand, in an empty folder with the repository's names.
#include "engine/base/json_file.h"
#include "tests/app/program.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

namespace howto_test {

namespace fs = std::filesystem;
using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Matchers::ContainsSubstring;

namespace {

struct Block {
    std::string
        kind; ///< what stands after the opening fence: "sh", "python", "cpp", "json", "sh-window", or nothing
    std::string text;
};

std::vector<Block> blocks_of(const std::string& page) {
    std::vector<Block> blocks;
    std::istringstream lines(read_file(fs::path(RL_SOURCE_DIR) / page));
    bool inside = false;
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("```")) {
            inside = !inside;
            if (inside) blocks.push_back({line.substr(3), ""});
        } else if (inside) {
            blocks.back().text += line + "\n";
        }
    }
    REQUIRE_FALSE(inside);
    return blocks;
}

/// An empty folder in which build/, assets/ and scripts/ are the repository's.
class Place {
public:
    explicit Place(const std::string& name)
        : m_scratch("howto-" + name) {
        fs::create_symlink(RL_BUILD_DIR, m_scratch / "build");
        for (const char* folder : {"assets", "scripts"})
            fs::create_symlink(fs::path(RL_SOURCE_DIR) / folder, m_scratch / folder);
    }
    [[nodiscard]] std::string operator/(const std::string& file) const { return m_scratch / file; }

    /// Runs a shell script there; what it wrote is in `said`. \return its exit status
    int run(const std::string& script, std::string& said) const {
        write_file(m_scratch / "script.sh", "set -euo pipefail\n" + script);
        const std::string folder = m_scratch / ".";
        const int state =
            std::system(("cd '" + folder + "' && env -u DISPLAY bash script.sh > said 2>&1").c_str());
        said = read_file(m_scratch / "said");
        return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    }

private:
    Scratch m_scratch;
};

/// The blocks of a page that can be run here, joined in order; Python becomes a part of the script.
std::string script_of(const std::string& page) {
    std::string script;
    for (const Block& block : blocks_of(page)) {
        const bool shell = block.kind == "sh" || (REFRESHLAB_UI && block.kind == "sh-window");
        if (shell) script += block.text;
        if (block.kind == "python")
            script += "'" RL_PYTHON "' - <<'END_OF_PYTHON'\n" + block.text + "END_OF_PYTHON\n";
    }
    return script;
}

void runs(const std::string& page, const std::string& script, const std::vector<std::string>& promised) {
    const Place place(fs::path(page).stem().string());
    std::string said;
    const int status = place.run(script, said);
    INFO(page << "\n" << script << "\n" << said);
    CHECK(status == 0);
    for (const std::string& part : promised)
        CHECK_THAT(said, ContainsSubstring(part));
}

} // namespace

TEST_CASE("the commands of the how-to pages run as they stand", "[docs]") {
    runs("docs/howto/your-own-pair.md", script_of("docs/howto/your-own-pair.md"),
         {"one tokenizer and one KV geometry", "every statement holds", "mode                     student"});
    runs("docs/howto/rebuild-mode.md", script_of("docs/howto/rebuild-mode.md"),
         {"refreshes                7"}); // and cmp found no difference
    runs("docs/howto/derived-students.md", script_of("docs/howto/derived-students.md"),
         {"3-bit g32", "refreshes                2", "one tokenizer and one KV geometry", "of the teacher"});
    runs("docs/howto/make-a-pair.md", script_of("docs/howto/make-a-pair.md"),
         {"rows.jsonl: 240 rows", "1000 tokens: 5 special, 256 bytes, 739 merged", "hidden 320 -> 144",
          "one tokenizer and one KV geometry"});
    runs("docs/howto/train-gate.md", script_of("docs/howto/train-gate.md"),
         {"step 20 of 20", "held out", "gate.safetensors: ", "wrote loss.svg"});
    runs("docs/howto/train-a-student.md", script_of("docs/howto/train-a-student.md"),
         {"step 4 of 4", "step 2  ", "held out", "healed: ", "again: ", "wrote loss.svg"});
    runs("docs/howto/server.md", script_of("docs/howto/server.md"), {"wrote 120 steps to csv"});
    runs("docs/howto/traces-in-python.md", script_of("docs/howto/traces-in-python.md"),
         {"entropy_bits", "chosen", "mean_drift", "\n1.0\n"});
    runs("docs/howto/add-a-policy.md", script_of("docs/howto/add-a-policy.md"),
         {"step,limit,reason,detail", ",budget,entropy,", "periodic", ",OverFill,task_score,"});
    runs("docs/howto/landscape.md", script_of("docs/howto/landscape.md"),
         {"mean loss in nats: teacher", "policy entropy: ", "\nbest,1,", "at 0.5 nats per refresh",
          "(59, 59)", "Too few texts to say whether the gate"});
    runs("docs/howto/scope.md", script_of("docs/howto/scope.md"),
         {"smallest scopes", "--set refresh.", "refreshes of 16.0 positions"});
#if REFRESHLAB_UI
    runs("docs/howto/figures.md", script_of("docs/howto/figures.md"),
         {"wrote signals.svg and signals.csv", "wrote figures/gated-cache.pdf", "no spikes of plain.rlt"});
#endif
#if REFRESHLAB_UI
    runs("docs/howto/report.md", script_of("docs/howto/report.md"), {"wrote run.html: 1 run, 120 steps, "});
#endif
    runs("docs/benchmarks/README.md", script_of("docs/benchmarks/README.md"), {"tokens/s", "share"});
    runs("docs/howto/decode-plan.md", script_of("docs/howto/decode-plan.md"),
         {"PREDICTION of a decode step on a NVIDIA H200", "114 launches", "refresh of 64 tokens"});
    runs("docs/howto/share-a-run.md", script_of("docs/howto/share-a-run.md"), {"identical"});
}

TEST_CASE("a trace without attention is small", "[docs]") {
    const Place place("small");
    std::string said;
    const std::string run =
        "build/refreshlab run --prompt 'Write a chronicle of 6 companies.' --max-tokens 330 --policy entropy "
        "--set entropy.every=1 ";
    REQUIRE(place.run(run + "--record with.rlt > text\n" + run +
                          "--set capture.attention=false --record without.rlt > text",
                      said) == 0);
    const auto with = fs::file_size(place / "with.rlt"), without = fs::file_size(place / "without.rlt");
    INFO(with << " and " << without);
    CHECK(without * 8 < with); // docs/howto/share-a-run.md: 0.4 and 4.2 MB
    CHECK(with < 5'000'000);
    CHECK(without < 500'000);
}

TEST_CASE("the command file of docs/reference/command-files.md steers the run that the page names",
          "[docs]") {
    const Place place("commands");
    std::string script, said;
    for (const Block& block : blocks_of("docs/reference/command-files.md")) {
        if (block.kind == "json") write_file(place / "steps.json", block.text);
        if (block.kind == "sh") script += block.text;
    }
    REQUIRE_FALSE(script.empty());
    const int status = place.run(script, said);
    INFO(said);
    CHECK(status == 0);
    // By hand at 40, then every 32 tokens from 80 on: 40 tokens have passed there.
    CHECK_THAT(said, ContainsSubstring("\n    40  manual") && ContainsSubstring("\n    80  periodic") &&
                         ContainsSubstring("\n   112  periodic"));
    CHECK_THAT(said, ContainsSubstring("branch at step 42: token 43 is the first that differs"));
    CHECK(read_file(place / "other").find("slate") != std::string::npos);
}

TEST_CASE("the commands of the page about commands run", "[docs]") {
    std::string script;
    for (const Block& block : blocks_of("docs/reference/command-line.md")) {
        if (block.text.find("build/refreshlab run --prompt \"Write") == std::string::npos) continue;
        std::istringstream lines(block.text);
        for (std::string line, whole; std::getline(lines, line); whole.clear()) {
            whole = line;
            while (whole.ends_with("\\") && std::getline(lines, line)) {
                whole.pop_back();
                whole += line;
            }
            const bool placeholder =
                whole.find("...") != std::string::npos || whole.find("TEACHER") != std::string::npos;
            const bool window = whole.find(" gui ") != std::string::npos && !REFRESHLAB_UI;
            const bool waits =
                whole.find(" serve ") != std::string::npos; // until somebody ends it: serve_test.cpp
            if (!placeholder && !window && !waits) script += whole + "\n";
        }
    }
    CHECK(std::count(script.begin(), script.end(), '\n') >= 3);
    runs("docs/reference/command-line.md", script, {"wrote 330 steps to out/", "replay: identical"});
}

TEST_CASE("the signal of the how-to page compiles", "[docs]") {
    const Place place("signal");
    std::string source, said;
    for (const Block& block : blocks_of("docs/development/add-a-signal.md"))
        if (block.kind == "cpp") source += block.text;
    REQUIRE_FALSE(source.empty());
    // What the registry's list would declare.
    const size_t body = source.find("namespace refreshlab");
    REQUIRE(body != std::string::npos);
    source.insert(body,
                  "namespace refreshlab::signal_definition { [[nodiscard]] Signal top1_log_odds(); }\n");
    write_file(place / "top1_log_odds.cpp", source);
    const int status =
        place.run("'" RL_COMPILER "' -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I'" RL_SOURCE_DIR
                  "' top1_log_odds.cpp",
                  said);
    INFO(said);
    CHECK(status == 0);
    CHECK(fs::exists(fs::path(RL_SOURCE_DIR) / "engine/signals/defined"));
    const std::string list = read_file(fs::path(RL_SOURCE_DIR) / "engine/signals/signal_list.h");
    CHECK_THAT(list, ContainsSubstring("X(entropy_bits)") && !ContainsSubstring("top1_log_odds"));
}

TEST_CASE("every link and every file that the pages name exists", "[docs]") {
    const Place place("links");
    std::string said;
    const int status = place.run("'" RL_PYTHON "' '" RL_SOURCE_DIR "/scripts/check_docs.py'", said);
    INFO(said);
    CHECK(status == 0);
}

} // namespace howto_test
