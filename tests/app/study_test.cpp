// The studies as commands: each table cell that is looked at is computed again from exported data.
#include "engine/base/json_file.h"
#include "tests/app/program.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>

namespace study_test {

using namespace refreshlab;
using namespace refreshlab::test;
using Catch::Approx;

namespace {

double number(const std::string& text) {
    REQUIRE(!text.empty());
    return std::stod(text);
}

/// The row whose first columns hold these texts.
size_t row_of(const Table& table, const std::vector<std::string>& keys) {
    for (size_t row = 0; row < table.rows.size(); ++row) {
        if (std::equal(keys.begin(), keys.end(), table.rows[row].begin())) return row;
    }
    FAIL("no row " << keys[0]);
    return 0;
}

Outcome study(const std::vector<std::string>& arguments) {
    std::vector<std::string> all{"study"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    Outcome outcome = refreshlab_cli(all);
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return outcome;
}

Table exported(const Scratch& scratch, const std::string& trace, const std::string& file) {
    const std::string folder = scratch / (trace + ".csv");
    const Outcome outcome =
        refreshlab_cli({"export", scratch / ("traces/" + trace + ".rlt"), "--csv", folder});
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return read_csv(folder + "/" + file);
}

/// Attribute words whose token was the first choice, of all attribute words: by the tokens, without the scorer. A list's
/// word follows a role, after a line's head.
Score first_choice_words(const Table& steps) {
    Score score;
    std::string line;
    for (size_t i = 0; i < steps.rows.size(); ++i) {
        const std::string& token = steps.at(i, "text");
        const bool list =
            line.starts_with("Homes:") || line.starts_with("Colors:") || line.starts_with("Animals:");
        // "Homes: king" or "Homes: king barn, cook": an even number of spaces and commas before the word says it is one.
        const auto spaces = std::count(line.begin(), line.end(), ' ');
        if (list && token.starts_with(" ") && spaces % 2 == 1) {
            ++score.total;
            score.right += steps.at(i, "top1_hit") == "1" ? 1 : 0;
        }
        line += token;
        if (const size_t end = line.rfind('\n'); end != std::string::npos) line.erase(0, end + 1);
    }
    return score;
}

double refreshes_per_1000(const Table& events, size_t tokens) {
    int refreshes = 0;
    for (size_t i = 0; i < events.rows.size(); ++i) {
        if (events.at(i, "kind") == "refresh" && events.at(i, "spliced") != "0") ++refreshes;
    }
    return 1000.0 * refreshes / static_cast<double>(tokens);
}

} // namespace

TEST_CASE("study simulation prints the summary and keeps what it is made from", "[study]") {
    const Scratch scratch("study_simulation");
    const Outcome outcome = study({"simulation", "--seed", "11", "--out", scratch / "out"});
    CHECK(outcome.out == read_file(scratch / "out/table.md"));
    for (const char* line :
         {"entropy fires at: 112, 144, 176, 256, 288, 320", "mcvar fires at: 112, 144, 176"})
        CHECK(outcome.out.find(line) != std::string::npos);
    const Table table = read_csv(scratch / "out/table.csv"), figure = read_csv(scratch / "out/figure.csv");
    REQUIRE(table.rows.size() == 4);
    REQUIRE(figure.rows.size() == 400);
    const char* order[] = {"alea", "conf", "drift", "post"};
    for (size_t row = 0; row < 4; ++row) {
        CHECK(table.at(row, "phase") == order[row]);
        double entropy = 0, variance = 0, steps = 0, fires = 0, mc_fires = 0;
        for (size_t t = 0; t < 400; ++t) {
            if (figure.at(t, "phase") != order[row]) continue;
            ++steps;
            entropy += number(figure.at(t, "entropy_nats"));
            variance += number(figure.at(t, "mc_variance"));
            fires += number(figure.at(t, "entropy_fires"));
            mc_fires += number(figure.at(t, "mc_fires"));
        }
        CHECK(number(table.at(row, "steps")) == steps);
        CHECK(number(table.at(row, "mean_entropy")) == Approx(entropy / steps));
        CHECK(number(table.at(row, "mean_entropy_bits")) == Approx(entropy / steps / std::log(2)));
        CHECK(number(table.at(row, "mean_mcvar")) == Approx(variance / steps));
        CHECK(number(table.at(row, "frac_entropy_fire")) == Approx(fires / steps));
        CHECK(number(table.at(row, "frac_mcvar_fire")) == Approx(mc_fires / steps));
    }
    double mean = 0, squares = 0;
    for (size_t t = 0; t < 100; ++t)
        mean += number(figure.at(t, "entropy_nats")) / 100;
    for (size_t t = 0; t < 100; ++t)
        squares += std::pow(number(figure.at(t, "entropy_nats")) - mean, 2);
    CHECK(number(figure.at(0, "entropy_threshold_nats")) == Approx(mean + 6 * std::sqrt(squares / 99)));
}

TEST_CASE("study tasks: shares of right words and refreshes are those of the exported runs",
          "[study][pair]") {
    const Scratch scratch("study_tasks");
    study({"tasks", "--limit", "1", "--parts", "table", "--out", scratch / "out", "--traces",
           scratch / "traces"});
    const Table table = read_csv(scratch / "out/table.csv");
    REQUIRE(table.rows.size() == 11);
    const std::map<std::string, std::string> names{
        {"teacher", "teacher"},
        {"refresh every 32", "refresh_every_32"},
        {"entropy gate, 6 bits", "entropy_gate_6_bits"},
        {"teacher's prompt KV, no refresh", "teacher_s_prompt_kv_no_refresh"}};
    for (const auto& [name, file] : names) {
        CAPTURE(name);
        const size_t row = row_of(table, {name});
        for (const auto& [kind, column] : std::map<std::string, std::string>{
                 {"roll_call", "roll call"}, {"company", "company"}, {"chronicle", "chronicle"}}) {
            const std::string trace = "given_" + kind + "_" + file + "_1";
            const Table steps = exported(scratch, trace, "steps.csv");
            const Score score = first_choice_words(steps);
            REQUIRE(score.total > 0);
            CHECK(number(table.at(row, column)) == Approx(static_cast<double>(score.right) / score.total));
            const Table events = exported(scratch, trace, "events.csv");
            if (kind == "chronicle" && name != "teacher") {
                CHECK(number(table.at(row, "refreshes per 1,000 tokens (chronicle)")) ==
                      Approx(refreshes_per_1000(events, steps.rows.size())));
            }
        }
    }
    // What the pair is for.
    CHECK(number(table.at(row_of(table, {"teacher"}), "chronicle")) == 1);
    CHECK(number(table.at(row_of(table, {"student alone"}), "chronicle")) < 0.2);
    CHECK(number(table.at(row_of(table, {"entropy gate, 6 bits, redraw"}), "chronicle")) == 1);
}

TEST_CASE("study tasks: the loss on stories is that of the exported log-probabilities", "[study][pair]") {
    const Scratch scratch("study_stories");
    study({"tasks", "--limit", "1", "--parts", "stories", "--out", scratch / "out", "--traces",
           scratch / "traces"});
    const Table table = read_csv(scratch / "out/stories.csv");
    const std::map<std::string, std::string> names{{"teacher", "teacher"},
                                                   {"student alone", "student_alone"},
                                                   {"entropy gate, 6 bits", "entropy_gate_6_bits"}};
    for (const auto& [name, file] : names) {
        CAPTURE(name);
        const std::string trace = "given_story_continuations_" + file + "_1";
        const Table steps = exported(scratch, trace, "steps.csv");
        double sum = 0;
        std::string text;
        for (size_t i = 0; i < steps.rows.size(); ++i) {
            sum -= number(steps.at(i, "logprob"));
            text += steps.at(i, "text");
        }
        const size_t row = row_of(table, {name});
        CHECK(number(table.at(row, "loss (nats per token)")) ==
              Approx(sum / static_cast<double>(steps.rows.size())));
        // The given text is the story's continuation, and its beginning stands in the prompt.
        const nlohmann::json record = nlohmann::json::parse(
            read_file(RL_SOURCE_DIR "/assets/prompts/story_continuations.jsonl")
                .substr(0, read_file(RL_SOURCE_DIR "/assets/prompts/story_continuations.jsonl").find('\n')));
        CHECK(text == record["reference"]);
        const nlohmann::json meta = read_json_file(scratch / (trace + ".csv/meta.json"));
        CHECK(meta.dump().find(
                  nlohmann::json(record["prefix"].get<std::string>().substr(0, 40)).dump().substr(1, 30)) !=
              std::string::npos);
    }
    CHECK(number(table.at(row_of(table, {"teacher"}), "loss (nats per token)")) <
          number(table.at(row_of(table, {"student alone"}), "loss (nats per token)")));
}

TEST_CASE("study tasks: live answers are scored as their traces say", "[study][pair]") {
    const Scratch scratch("study_live");
    study({"tasks", "--limit", "1", "--parts", "live,answers", "--out", scratch / "out", "--traces",
           scratch / "traces"});
    const Table live = read_csv(scratch / "out/live.csv"), answers = read_csv(scratch / "out/answers.csv");
    for (const std::string kind : {"company", "chronicle"}) {
        const size_t row = row_of(live, {kind, "refresh every 32"});
        const Table steps = exported(scratch, "live_" + kind + "_refresh_every_32_1", "steps.csv");
        std::string text;
        double teacher = 0;
        for (size_t i = 0; i < steps.rows.size(); ++i) {
            text += steps.at(i, "text");
            teacher += number(steps.at(i, "teacher_logprob"));
        }
        const Score score = score_chronicle(text);
        CHECK(number(live.at(row, "right")) == score.right);
        CHECK(number(live.at(row, "scored")) == score.total);
        CHECK(number(live.at(row, "tokens")) == static_cast<double>(steps.rows.size()));
        CHECK(number(live.at(row, "teacher-PPL")) ==
              Approx(std::exp(-teacher / static_cast<double>(steps.rows.size()))));
    }
    for (const std::string kind : {"chain_of_key", "ledger", "table", "retell"}) {
        const size_t row = row_of(answers, {kind, "teacher"});
        const Table steps = exported(scratch, "given_" + kind + "_teacher_1", "steps.csv");
        double hits = 0;
        for (size_t i = 0; i < steps.rows.size(); ++i)
            hits += number(steps.at(i, "top1_hit"));
        CHECK(number(answers.at(row, "token accuracy")) ==
              Approx(hits / static_cast<double>(steps.rows.size())));
    }
}

TEST_CASE("study drift: means over distances are those of the exported drift", "[study][pair]") {
    const Scratch scratch("study_drift");
    study({"drift", "--limit", "1", "--parts", "company", "--out", scratch / "out", "--traces",
           scratch / "traces"});
    const Table figure = read_csv(scratch / "out/figure.csv");
    const Table drift = exported(scratch, "drift_company_every_16_1", "drift.csv");
    REQUIRE(!drift.rows.empty());
    // Position of the first column of each refresh, then sums by (layer, distance).
    std::map<std::string, double> first;
    for (size_t i = 0; i < drift.rows.size(); ++i) {
        const double position = number(drift.at(i, "position"));
        const auto [it, fresh] = first.try_emplace(drift.at(i, "refresh"), position);
        it->second = std::min(it->second, position);
    }
    std::map<std::pair<std::string, int>, std::vector<double>> k, v;
    for (size_t i = 0; i < drift.rows.size(); ++i) {
        const int distance =
            static_cast<int>(number(drift.at(i, "position")) - first.at(drift.at(i, "refresh"))) + 1;
        for (const std::string& layer : {drift.at(i, "layer"), std::string("mean")}) {
            k[{layer, distance}].push_back(number(drift.at(i, "k_relative")));
            v[{layer, distance}].push_back(number(drift.at(i, "v_relative")));
        }
    }
    int compared = 0;
    const auto mean = [](const std::vector<double>& values) {
        double sum = 0;
        for (const double value : values)
            sum += value;
        return sum / static_cast<double>(values.size());
    };
    for (size_t row = 0; row < figure.rows.size(); ++row) {
        if (figure.at(row, "every") != "16") continue;
        const std::pair key(figure.at(row, "layer"), static_cast<int>(number(figure.at(row, "distance"))));
        REQUIRE(k.contains(key));
        CHECK(number(figure.at(row, "k_mean")) == Approx(mean(k.at(key))));
        CHECK(number(figure.at(row, "v_mean")) == Approx(mean(v.at(key))));
        CHECK(figure.at(row, "k_half_width").empty()); // one text has no interval
        ++compared;
    }
    CHECK(compared == 16 * 6); // distances x (layers and their mean)
}

TEST_CASE(
    "study thresholds: a threshold is the quantile of the exported signal, its rate that of the live run",
    "[study][pair]") {
    const Scratch scratch("study_thresholds");
    study({"thresholds", "--limit", "1", "--parts", "company", "--out", scratch / "out", "--traces",
           scratch / "traces"});
    const Table table = read_csv(scratch / "out/table.csv"), grid = read_csv(scratch / "out/grid.csv");
    std::vector<Table> calibration;
    size_t tokens = 0;
    for (int i = 1;
         std::filesystem::exists(scratch / ("traces/calibration_company_" + std::to_string(i) + ".rlt"));
         ++i) {
        calibration.push_back(exported(scratch, "calibration_company_" + std::to_string(i), "steps.csv"));
        tokens += calibration.back().rows.size();
    }
    CHECK(tokens >= 2000);
    const auto quantile_of = [&](const std::string& signal, size_t stride, double q) {
        std::vector<double> values;
        for (const Table& run : calibration) {
            for (size_t t = stride; t <= run.rows.size(); t += stride) {
                if (const std::string& text = run.at(t - 1, signal); !text.empty())
                    values.push_back(std::stod(text));
            }
        }
        REQUIRE(!values.empty());
        std::sort(values.begin(), values.end());
        const double place = q * static_cast<double>(values.size() - 1);
        const auto below = static_cast<size_t>(place);
        const size_t above = std::min(below + 1, values.size() - 1);
        return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
    };
    for (const std::string signal :
         {"entropy_bits", "top1_surprisal_bits", "kl_nats", "mc_variance", "mc_mutual_information_bits"}) {
        CAPTURE(signal);
        const size_t row = row_of(table, {"company", signal, "1"});
        CHECK(number(table.at(row, "q")) == Approx(0.9975));
        CHECK(number(table.at(row, "threshold")) == Approx(quantile_of(signal, 1, 0.9975)));
        CHECK(number(table.at(row_of(table, {"company", signal, "16"}), "threshold")) ==
              Approx(quantile_of(signal, 16, 0.96)));
        const std::string trace = "live_company_" + signal + "_every_1_target_20_1";
        const Table steps = exported(scratch, trace, "steps.csv");
        const Table events = exported(scratch, trace, "events.csv");
        const size_t tried = row_of(grid, {"company", signal, "1", "20"});
        CHECK(number(grid.at(tried, "refreshes per 1,000 tokens")) ==
              Approx(refreshes_per_1000(events, steps.rows.size())));
    }
    // The figure: a line of what the calibration promises for every threshold, and the points that were tried.
    const Table figure = read_csv(scratch / "out/figure.csv");
    size_t line = 0, points = 0;
    for (size_t i = 0; i < figure.rows.size(); ++i) {
        const std::string& signal = figure.at(i, "signal");
        const auto stride = static_cast<size_t>(number(figure.at(i, "every")));
        const double fires = number(figure.at(i, "fires_per_1000"));
        if (figure.at(i, "source") == "calibration") {
            const double q = 1 - fires * static_cast<double>(stride) / 1000;
            CHECK(number(figure.at(i, "threshold")) == Approx(quantile_of(signal, stride, q)));
            CHECK(figure.at(i, "teacher_ppl").empty());
            ++line;
            continue;
        }
        CHECK(figure.at(i, "source") == "live");
        for (size_t row = 0; row < grid.rows.size(); ++row) {
            if (grid.at(row, "signal") != signal || grid.at(row, "every") != figure.at(i, "every") ||
                grid.at(row, "threshold") != figure.at(i, "threshold"))
                continue;
            CHECK(number(grid.at(row, "refreshes per 1,000 tokens")) == Approx(fires));
            CHECK(grid.at(row, "teacher-PPL") == figure.at(i, "teacher_ppl"));
            ++points;
            break;
        }
    }
    CHECK(line > 11 * 30);                 // signals with strides x points that a stride can promise
    CHECK(points == grid.rows.size() - 1); // all but "(no refresh)"
    CHECK(points + line == figure.rows.size());
}

TEST_CASE("studies refuse what they cannot do in one line", "[study]") {
    const Scratch scratch("study_bad");
    write_file(scratch / "file", "text");
    struct Case {
        std::vector<std::string> arguments;
        const char* part;
    };
    const std::vector<Case> cases{
        {{"study"}, "the studies are simulation, tasks, thresholds, drift"},
        {{"study", "nonsense"}, "nonsense"},
        {{"study", "tasks", "--parts", "tables"}, "the parts are table, answers, live, stories"},
        {{"study", "drift", "--parts", "chronicle,retell"}, "there is no part 'retell'"},
        {{"study", "cache", "--parts", "text,both,texts"},
         "the parts are text, recall, written, both, zoo, zoo_recall"},
        {{"study", "cache", "--methods", "snapkv,snapkw"}, "there is no such cache policy"},
        {{"study", "tasks", "--limit", "0"}, "--limit"},
        {{"study", "tasks", "--prompts", scratch / "nowhere"}, "nowhere"},
        {{"study", "drift", "--prompts", RL_SOURCE_DIR "/engine", "--limit", "1"}, "chronicle.jsonl"},
        {{"study", "simulation", "--out", scratch / "file"}, "--out"},
        {{"study", "tasks", "--traces", scratch / "file"}, "--traces"},
        {{"study", "tasks", "--teacher", scratch / "nowhere"}, "nowhere"},
        {{"study", "tasks", "--dtype", "f64"}, "f32, bf16, f16"},
        {{"study", "simulation", "--seed", "-1"}, "--seed"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.arguments);
        const Outcome outcome = refreshlab_cli(c.arguments);
        CAPTURE(outcome.err);
        CHECK(outcome.status == 2);
        CHECK(outcome.err.find(c.part) != std::string::npos);
        CHECK(outcome.out.empty());
    }
}

TEST_CASE("the landscape study's means are those of its stored landscapes, and a second call computes none "
          "of them again",
          "[cli][study][landscape]") {
    const Scratch scratch("study-landscape");
    const std::vector<std::string> arguments = {
        "landscape", "--parts",          "company", "--limit",      "2", "--device", "cpu",
        "--traces",  scratch / "traces", "--out",   scratch / "out"};
    const std::string first = study(arguments).out;
    const Table table = read_csv(scratch / "out/table.csv");
    const size_t row = row_of(table, {"16", "2"});
    double best = 0, none = 0;
    for (const char* trace : {"landscape company 1", "landscape company 2"}) {
        const Table schedules = exported(scratch, trace, "schedules.csv");
        const auto steps = static_cast<int64_t>(exported(scratch, trace, "steps.csv").rows.size()) - 1;
        const int64_t count = std::max<int64_t>(1, (16 * steps + 128) / 256);
        best +=
            number(schedules.at(row_of(schedules, {"best", std::to_string(count)}), "loss_above_teacher")) /
            2;
        none += number(schedules.at(row_of(schedules, {"best", "0"}), "loss_above_teacher")) / 2;
    }
    CHECK(number(table.at(row, "best")) == Approx(best).epsilon(1e-9));
    CHECK(number(table.at(row, "none")) == Approx(none).epsilon(1e-9));
    const Table ranks = read_csv(scratch / "out/ranks.csv");
    CHECK(std::abs(number(ranks.at(row_of(ranks, {"entropy_bits"}), "rank correlation"))) <= 1);

    const auto written = [&] {
        return std::filesystem::last_write_time(scratch / "traces/landscape company 1.rlt");
    };
    const auto then = written();
    CHECK(study(arguments).out == first);
    CHECK(written() == then);
}

TEST_CASE("a gate is fitted on landscapes, says how good it is, and runs", "[cli][study][landscape]") {
    const Scratch scratch("fit-gate");
    std::vector<std::string> traces;
    for (const char* prompt : {"Write a chronicle of 2 companies.", "Write a chronicle of 3 companies."}) {
        const std::string trace = scratch / fmt::format("{}.rlt", traces.size());
        REQUIRE(refreshlab_cli({"run", "--prompt", prompt, "--mode", "teacher", "--max-tokens", "50",
                                "--device", "cpu", "--record", trace})
                    .status == 0);
        const Outcome before = refreshlab_cli({"fit-gate", trace, trace, "-o", scratch / "gate.json"});
        CHECK(before.status == 2);
        CHECK(before.err.find("holds no landscape") != std::string::npos);
        REQUIRE(refreshlab_cli({"landscape", trace, "--best", "1"}).status == 0);
        traces.push_back(trace);
    }
    const std::string gate = scratch / "gate.json";
    CHECK(refreshlab_cli({"fit-gate", traces[0], "-o", gate}).err.find("it takes two at least") !=
          std::string::npos);
    const Outcome fitted = refreshlab_cli(
        {"fit-gate", traces[0], traces[1], "-o", gate, "--signals", "entropy_bits,steps_since_refresh"});
    INFO(fitted.err);
    REQUIRE(fitted.status == 0);
    CHECK(fitted.out.find("blind placement") != std::string::npos);
    const auto policy = read_json_file(gate);
    CHECK(policy["signals"][0]["weights"].size() == 2);
    const Outcome run =
        refreshlab_cli({"run", "--prompt", "Write a chronicle of 6 companies.", "--max-tokens", "40",
                        "--device", "cpu", "--policy", gate, "--record", scratch / "run.rlt"});
    INFO(run.err);
    REQUIRE(run.status == 0);
    REQUIRE(refreshlab_cli({"export", scratch / "run.rlt", "--csv", scratch / "csv"}).status == 0);
    // The published signal is the sum of the recorded ones.
    const Table steps = read_csv(scratch / "csv/steps.csv");
    const auto& weights = policy["signals"][0]["weights"];
    for (size_t i = 0; i + 1 < steps.rows.size(); ++i) {
        const double sum =
            policy["signals"][0]["offset"].get<double>() +
            weights["entropy_bits"].get<double>() * number(steps.at(i, "entropy_bits")) +
            weights["steps_since_refresh"].get<double>() * number(steps.at(i, "steps_since_refresh"));
        CHECK(number(steps.at(i, "fitted_gate")) == Approx(sum).epsilon(1e-4).margin(1e-4));
    }
    // The landscape of that run is walked by the very policy: refreshes as the run made them.
    const Outcome walked =
        refreshlab_cli({"landscape", scratch / "run.rlt", "--best", "0", "--summary", scratch / "s.json"});
    REQUIRE(walked.status == 0);
    std::vector<int64_t> made;
    for (size_t i = 0; i < steps.rows.size(); ++i) {
        if (steps.at(i, "refreshed") == "1") made.push_back(static_cast<int64_t>(i + 1));
    }
    CHECK(nlohmann::json(made) == read_json_file(scratch / "s.json")["policy"]["steps"]);
}

TEST_CASE("study derived: readings are those of score --split, and a second call reads nothing again",
          "[study][pair]") {
    const Scratch scratch("study_derived");
    const std::string student = "derive:bits=3,group=32";
    const std::vector<std::string> arguments{"derived", "--limit",       "1",        "--student",     student,
                                             "--out",   scratch / "out", "--traces", scratch / "kept"};
    const Outcome first = study(arguments);
    CHECK(first.out == read_file(scratch / "out/table.md"));
    const Table figure = read_csv(scratch / "out/figure.csv");
    REQUIRE(figure.rows.size() == 2 * 8); // an answer and a passage; the teacher and seven ways of reading
    // The same text, read token by token by another command.
    const Outcome split = refreshlab_cli({"score", scratch / "kept/answer_1_by_the_teacher.rlt", "--split",
                                          "--every", "16", "--student", student});
    INFO(split.out << split.err);
    REQUIRE(split.status == 0);
    const size_t losses = split.out.find("entries before");
    REQUIRE(losses != std::string::npos);
    for (const auto& [reading, row] : std::map<std::string, std::string>{{"teacher", "teacher"},
                                                                         {"every 1", "R = 1"},
                                                                         {"every 16", "R = 16"},
                                                                         {"no refresh", "none"},
                                                                         {"alone", "alone"}}) {
        CAPTURE(reading);
        const size_t at = row_of(figure, {"answers", "3-bit g32", "answer 1", reading});
        const size_t line = split.out.find("\n" + fmt::format("{:<18}", row) + " ", losses);
        REQUIRE(line != std::string::npos);
        CHECK(std::abs(number(split.out.substr(line + 20, 12)) - number(figure.at(at, "nll"))) < 6e-5);
        const size_t kl_line = split.out.rfind("\n" + fmt::format("{:<18}", row) + " ");
        if (reading == "teacher" || reading == "alone") continue;
        REQUIRE(kl_line > line);
        CHECK(std::abs(number(split.out.substr(kl_line + 26, 10)) - number(figure.at(at, "kl_nats"))) < 6e-5);
    }
    // The table's split is made of these rows.
    const Table table = read_csv(scratch / "out/table.csv");
    const auto nll = [&](const char* reading) {
        return number(figure.at(row_of(figure, {"passages", "3-bit g32", "passage 1", reading}), "nll"));
    };
    const size_t passage = row_of(table, {"passages", "3-bit g32"});
    CHECK(number(table.at(passage, "own weights")) == Approx(nll("every 1") - nll("teacher")));
    CHECK(number(table.at(passage, "cache")) == Approx(nll("no refresh") - nll("every 1")));

    // What is there is not read again, and gives the same bytes; what is lost is.
    const std::string kept = read_file(scratch / "out/figure.csv");
    std::filesystem::remove(scratch / "kept/answer_1_by_the_teacher.rlt");
    CHECK(study(arguments).out == first.out);
    CHECK(read_file(scratch / "out/figure.csv") == kept);
    CHECK_FALSE(std::filesystem::exists(scratch / "kept/answer_1_by_the_teacher.rlt")); // nothing was decoded
    std::filesystem::remove(scratch / "kept/derived.db");
    CHECK(study(arguments).out == first.out);
    CHECK(std::filesystem::exists(scratch / "kept/answer_1_by_the_teacher.rlt"));
}

TEST_CASE("study derived: students that do not fit are left out with a reason, or refused", "[study][pair]") {
    const Scratch scratch("study_derived_students");
    write_file(scratch / "passages.jsonl",
               R"({"prompt": "The old tower", "reference": "stood by the river, and nobody knew it."})");
    const Outcome outcome =
        study({"derived", "--parts", "passages", "--prompts", scratch / ".", "--out", scratch / "out"});
    const Table table = read_csv(scratch / "out/table.csv");
    std::vector<std::string> students;
    for (size_t row = 0; row < table.rows.size(); ++row)
        students.push_back(table.at(row, "student"));
    for (const char* name : {"3-bit g32", "3-bit g32 MLP", "FFN 75 %", "FFN 50 %", "without 1 attention"})
        CHECK(std::ranges::count(students, name) == 1);
    const bool all = std::ranges::count(students, "4-bit g192") == 1;
    CHECK(all != (outcome.out.find("4-bit g192 is left out: ") != std::string::npos));

    const auto refused = [](std::vector<std::string> arguments, const std::string& part) {
        arguments.insert(arguments.begin(), {"study", "derived"});
        const Outcome bad = refreshlab_cli(arguments);
        CAPTURE(bad.err);
        CHECK(bad.status == 2);
        CHECK(std::ranges::count(bad.err, '\n') == 1);
        CHECK(bad.err.find(part) != std::string::npos);
    };
    refused({"--parts", "tales"}, "'tales'");
    refused({"--student", RL_SOURCE_DIR "/assets/models/llama-tales-student"}, "made of the teacher");
    refused({"--student", "derive:bits=9"}, "from 2 to 8");
    refused({"--student", "derive:bits=3,group=7"}, "does not divide");
    write_file(scratch / "derived.db", "not a database");
    const Outcome kept = refreshlab_cli(
        {"study", "derived", "--parts", "passages", "--prompts", scratch / ".", "--traces", scratch / "."});
    CHECK(kept.status == 2);
    INFO(kept.err);
    CHECK(kept.err.find("derived.db: ") != std::string::npos);
    CHECK(kept.err.find("choose another --traces") != std::string::npos);
}

TEST_CASE("study cache: accuracies are those of runs, and a second call makes none of them again",
          "[study][cache_policy]") {
    const Scratch scratch("study_cache");
    const std::string ledger = "These are the facts:\nMaya has a yellow map in the garden and 8 coins.\nKate "
                               "has a brown doll in the "
                               "garden and 11 coins.\nWrite a list in this order: Kate, Maya.";
    const std::string answer = "Kate: brown doll, garden, 11\nMaya: yellow map, garden, 8";
    const auto record = [&](const std::string& kind, const std::string& prompt, const std::string& response) {
        write_file(scratch / (kind + ".jsonl"),
                   nlohmann::json({{"kind", kind}, {"prompt", prompt}, {"response", response}}).dump());
    };
    record("chain_of_key",
           "Here are some keys:\nring-wind\nwind-grape\nMake a chain. Each key starts with the last word of "
           "the key "
           "before it. Begin with ring.",
           "ring-wind\nwind-grape");
    record("table",
           "<table>\n<tr><th>item</th></tr>\n<tr><td> lamp</td></tr>\n</table>\nWrite these columns with "
           "tabs between them: item.",
           " item\n lamp");
    record("ledger", ledger, answer);
    record("retell", "Tell this story again, word for word:\nThe cook sang.", "The cook sang.");
    std::filesystem::copy_file(RL_SOURCE_DIR "/assets/prompts/almanac.json", scratch / "almanac.json");
    const std::vector<std::string> arguments{
        "cache",     "--device",    "cpu",   "--parts",       "recall,written", "--limit",       "1",
        "--prompts", scratch / ".", "--out", scratch / "out", "--traces",       scratch / "kept"};
    const Outcome first = study(arguments);
    const Table table = read_csv(scratch / "out/recall.csv");
    CHECK(table.rows.size() == 5 * 11); // the oracle is asked of given answers alone
    CHECK(read_csv(scratch / "out/written.csv").rows.size() == 4 * 10);
    study({"cache", "--device", "cpu", "--parts", "zoo_recall", "--methods", "h2o,streaming_llm", "--limit",
           "1", "--prompts", scratch / ".", "--out", scratch / "some"});
    const Table some = read_csv(scratch / "some/zoo_recall.csv");
    CHECK(some.rows.size() == 1 + 2 * 4);
    for (const char* method : {"full", "h2o", "streaming_llm"})
        CHECK(some.at(row_of(some, {method}), "policy") == method);
    write_file(scratch / "given.txt", answer);
    const int budget = 10; // a fourth of the prompt's 42 tokens
    for (const bool streaming : {false, true}) {
        std::vector<std::string> run{"run",
                                     "--mode",
                                     "teacher",
                                     "--device",
                                     "cpu",
                                     "--prompt",
                                     ledger,
                                     "--given-file",
                                     scratch / "given.txt",
                                     "--max-tokens",
                                     "100",
                                     "--record",
                                     scratch / "run.rlt"};
        if (streaming) {
            for (const std::string& more :
                 {std::string("--teacher-cache"), std::string("streaming_llm"), std::string("--set"),
                  fmt::format("teacher_cache.budget={}", budget)})
                run.push_back(more);
        }
        REQUIRE(refreshlab_cli(run).status == 0);
        REQUIRE(refreshlab_cli({"export", scratch / "run.rlt", "--csv", scratch / "csv"}).status == 0);
        const Table steps = read_csv(scratch / "csv/steps.csv");
        double hits = 0;
        for (size_t i = 0; i < steps.rows.size(); ++i)
            hits += number(steps.at(i, "top1_hit"));
        const size_t row = row_of(table, {"ledger", streaming ? "StreamingLLM" : "vanilla"});
        CHECK(number(table.at(row, "token accuracy")) ==
              Approx(hits / static_cast<double>(steps.rows.size())));
    }
    size_t kept = 0;
    for (const auto& file : std::filesystem::directory_iterator(scratch / "kept")) {
        ++kept;
        nlohmann::json numbers = read_json_file(file.path());
        if (numbers.contains("score")) {
            numbers["score"] = 0.125;
        } else { // a given answer under every policy
            for (nlohmann::json& reading : numbers)
                reading["first_choice"] = {1, 0, 0, 0};
        }
        write_file(file.path(), numbers.dump());
    }
    CHECK(kept == 4 * 10 + 4);
    study(arguments);
    const Table again = read_csv(scratch / "out/recall.csv"), written = read_csv(scratch / "out/written.csv");
    for (size_t i = 0; i < again.rows.size(); ++i) {
        CHECK(number(again.at(i, "token accuracy")) == 0.25);
        CHECK(again.at(i, "loss") == table.at(i, "loss"));
    }
    for (size_t i = 0; i < written.rows.size(); ++i)
        CHECK(written.at(i, "score") == "0.125");
}

} // namespace study_test
