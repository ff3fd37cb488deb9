// Sweep specs: whatever stands in the file, it is read or refused in one line, quickly, and what is read holds together.
#include "engine/base/error.h"
#include "engine/study/sweep/sweep_cells.h"
#include "tests/fuzz/fuzz_support.h"

#include <catch2/catch_test_macros.hpp>

#include <set>
#include <stdexcept>

namespace sweep_fuzz_test {

using namespace refreshlab;

namespace {

void promise(bool kept, const char* what) {
    if (!kept) throw std::logic_error(std::string("accepted, but not ") + what);
}

/// Files that a spec may name; nothing outside the test is read.
SweepFiles known_files() {
    SweepFiles files;
    const auto text_of = [](const std::string& name) -> const char* {
        if (name == "rows.jsonl")
            return "{\"kind\": \"chronicle\", \"prompt\": \"p\", \"response\": \"r\", \"turns\": [\"t\"]}\n"
                   "{\"kind\": \"retell\", \"prompt\": \"q\", \"response\": \"s\", \"turns\": [\"u\", "
                   "\"v\"]}\n";
        if (name == "broken.jsonl") return "{\"prompt\": \"p\"}\n{\"prompt\": 3}\nnull\n";
        if (name == "text.txt") return "a prompt";
        if (name == "gate.json")
            return "{\"name\": \"gate\", \"when\": {\"any\": [{\"signal\": \"entropy_bits\", \"above\": "
                   "6}]}}";
        if (name == "almanac.json") return "{}";
        return nullptr;
    };
    files.find = [text_of](const std::string& name) {
        if (text_of(name) == nullptr) throw Error("reading", "a file of the spec", "no such file or folder");
        return name;
    };
    files.read = [text_of](const std::string& path) { return std::string(text_of(path)); };
    return files;
}

void read_spec(const std::string& input) {
    static const SweepFiles files = known_files();
    RunConfig defaults;
    defaults.teacher_dir = "t";
    defaults.student_dir = "s";
    const SweepSpec spec = parse_sweep_spec(input, "spec", defaults, files);
    promise(!spec.rows.empty() && !spec.prompts.empty() && !spec.seeds.empty(), "a run");
    promise(spec.num_cells() <= sweep_limits::cells, "within the limits");
    promise(spec.timing.pairs == 0 || spec.timing.pairs >= 5, "at least five pairs");
    std::set<std::string> labels;
    for (const SweepRow& row : spec.rows) {
        promise(labels.insert(row.label).second, "rows with names of their own");
        check_run_config(row.config, "a row");
        promise(!row.none_row || *row.none_row < spec.rows.size(), "a row to compare with");
        promise(row.config.prompt.empty() && row.config.given_text.empty(), "rows without prompts");
    }
    for (const SweepPrompt& prompt : spec.prompts)
        promise(!prompt.text.empty() && !prompt.group.empty(), "prompts with text and group");
    if (spec.num_cells() > 60) return;
    const SweepPlan plan = make_sweep_plan(spec, {"t", "s", "cpu"});
    promise(static_cast<int64_t>(plan.cells.size()) == spec.num_cells(), "a plan of all cells");
    size_t shared = 0;
    for (int64_t i = 1; i <= 3; ++i)
        shared += cells_of(plan, {i, 3}).size();
    promise(shared == cells_of(plan, {}).size(), "shards that hold all cells");
    promise(plan.digest().size() == 32, "a digest");
}

} // namespace

TEST_CASE("no sweep spec makes the reader crash, hang or promise what it does not keep", "[fuzz][sweep]") {
    const fuzz::Outcome outcome = fuzz::run_target(
        "sweep", [](const std::string& input, size_t) { read_spec(input); },
        {"\"prompts\"", "\"policies\"", "\"set\"", "\"preset\"", "\"entropy.threshold\"", "\"windows\"",
         "\"seeds\"", "\"count\"", "\"samplers\"", "\"timing\"", "\"rows.jsonl\"", "\"overfill\""});
    CHECK(outcome.accepted > 0);
    CHECK(outcome.refused > 0);
}

} // namespace sweep_fuzz_test
