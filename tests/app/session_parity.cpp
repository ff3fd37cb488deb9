#include "tests/app/session_parity.h"

#include "engine/base/json_file.h"
#include "tests/app/program.h"

#include <catch2/catch_test_macros.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <tuple>

namespace refreshlab::test {

namespace {

using json = nlohmann::json;

/// What the program said about one run.
struct Exported {
    json summary, meta;
    Table steps, topk, events, drift;
};

Exported run_and_export(const SessionCase& session) {
    const Scratch folder("session-parity");
    std::vector<std::string> arguments{"run", "--device", "cpu", "--threads", "1"};
    arguments.insert(arguments.end(), session.arguments.begin(), session.arguments.end());
    for (const std::string& more :
         {std::string("--record"), folder / "run.rlt", std::string("--summary"), folder / "run.json"})
        arguments.push_back(more);
    const Outcome run = refreshlab_cli(arguments);
    if (run.status != 0) FAIL(session.name << ": run ended with " << run.status << ": " << run.err);
    const Outcome exported = refreshlab_cli({"export", folder / "run.rlt", "--csv", folder / "csv"});
    if (exported.status != 0)
        FAIL(session.name << ": export ended with " << exported.status << ": " << exported.err);
    const auto table = [&](const char* name) { return read_csv(folder / fmt::format("csv/{}.csv", name)); };
    return {read_json_file(folder / "run.json"),
            read_json_file(folder / "csv/meta.json"),
            table("steps"),
            table("topk"),
            table("events"),
            table("drift")};
}

std::optional<double> number(const std::string& field) {
    return field.empty() ? std::nullopt : std::optional(std::stod(field));
}
std::optional<double> number(const json& value) {
    return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

class Differences {
public:
    Differences(size_t most, double tolerance)
        : m_most(most)
        , m_tolerance(tolerance) {}
    void add(std::string line) {
        if (m_lines.size() < m_most) m_lines.push_back(std::move(line));
    }
    template <typename A, typename B>
    void equal(const std::string& what, const A& value, const B& expected) {
        if (!(value == expected))
            add(fmt::format("{}: {}, expected {}", what, json(value).dump(), json(expected).dump()));
    }
    void near(const std::string& what, std::optional<double> value, std::optional<double> expected) {
        if (value.has_value() != expected.has_value()) {
            add(fmt::format("{}: {}, expected {}", what, value ? fmt::to_string(*value) : "not known",
                            expected ? fmt::to_string(*expected) : "not known"));
        } else if (value &&
                   !(std::abs(*value - *expected) <= m_tolerance * (1 + std::abs(*expected)))) { // also NaN
            add(fmt::format("{}: {}, expected {}", what, *value, *expected));
        }
    }
    [[nodiscard]] std::vector<std::string> take() { return std::move(m_lines); }

private:
    size_t m_most;
    double m_tolerance;
    std::vector<std::string> m_lines;
};

void compare_steps(const Table& steps, const json& expected, Differences& out) {
    out.equal("steps", steps.rows.size(), expected.size());
    // Words; drawn by other random numbers; of tasks, which the reference does not know.
    const std::set<std::string> other{"text", "reason", "task_score", "mc_variance_sd", "mc_entropy_sd_bits"};
    for (size_t i = 0; i < std::min(steps.rows.size(), expected.size()); ++i) {
        for (const std::string& column : steps.header) {
            if (other.contains(column)) continue;
            const json range = expected[i].value(column, json());
            const auto value = number(steps.at(i, column)),
                       wanted = range.is_array() ? std::nullopt : number(range);
            const std::string what = fmt::format("step {}, {}", i + 1, column);
            if (range.is_array()) { // what the precision of logits leaves open
                const bool inside =
                    value && *value >= range[0].get<double>() && *value <= range[1].get<double>();
                if (!inside)
                    out.add(fmt::format("{}: {}, expected in {}", what,
                                        value ? fmt::to_string(*value) : "not known", range.dump()));
            } else if (column.starts_with("mc_")) {
                out.equal(what + " measured", value.has_value(), wanted.has_value());
            } else {
                out.near(what, value, wanted);
            }
        }
    }
}

void compare_candidates(const Table& topk, const json& expected, Differences& out) {
    size_t at = 0;
    for (const json& step : expected) {
        for (size_t rank = 1; rank <= step.at("topk").size(); ++rank, ++at) {
            const std::string what = fmt::format("step {}, candidate {}", step.at("step").get<int>(), rank);
            if (at >= topk.rows.size()) return out.add(what + " is missing");
            out.equal(what + ", step", topk.at(at, "step"), fmt::to_string(step.at("step").get<int>()));
            out.equal(what + ", rank", topk.at(at, "rank"), fmt::to_string(rank));
            // Not the ids: of two candidates that are all but equally likely either may stand first.
            out.near(what, number(topk.at(at, "prob")), number(step.at("topk")[rank - 1][1]));
        }
    }
    out.equal("candidates", topk.rows.size(), at);
}

void compare_refreshes(const Exported& run, const json& expected, Differences& out) {
    const json& refreshes = run.summary.at("refreshes");
    out.equal("refreshes", refreshes.size(), expected.size());
    std::vector<size_t> rows;
    for (size_t i = 0; i < run.events.rows.size(); ++i) {
        if (run.events.at(i, "kind") == "refresh") rows.push_back(i);
    }
    out.equal("refreshes of events.csv", rows.size(), refreshes.size());
    for (size_t i = 0; i < std::min({refreshes.size(), expected.size(), rows.size()}); ++i) {
        const json &value = refreshes[i], &wanted = expected[i];
        const std::string what = fmt::format("refresh at {}, ", wanted.at("step").get<int>());
        for (const char* key : {"step", "fired_step", "automatic", "delta", "first_pos", "spliced",
                                "pass_tokens", "on_fire", "token_before", "token_after"})
            out.equal(what + key, value.at(key), wanted.at(key));
        for (const char* key : {"kl_nats", "mean_drift"})
            out.near(what + key, number(value.at(key)), number(wanted.at(key)));
        const std::string detail = run.events.at(rows[i], "detail");
        const json hits = detail.empty() ? json::array() : json::parse(detail),
                   &wanted_hits = wanted.at("hits");
        out.equal(what + "by hand", run.events.at(rows[i], "reason").starts_with("manual"),
                  wanted.at("by_hand").get<bool>());
        out.equal(what + "triggers", hits.size(), wanted_hits.size());
        for (size_t h = 0; h < std::min(hits.size(), wanted_hits.size()); ++h) {
            const auto signal = wanted_hits[h].at("signal").get<std::string>();
            out.equal(what + "trigger", hits[h].at("signal"), signal);
            out.near(what + "threshold of " + signal, number(hits[h].at("threshold")),
                     number(wanted_hits[h].at("threshold")));
            if (!signal.starts_with("mc_"))
                out.near(what + "value of " + signal, number(hits[h].at("value")),
                         number(wanted_hits[h].at("value")));
        }
    }
}

void compare_passes(const Table& events, const json& expected, Differences& out) {
    std::vector<std::tuple<int, int, int>> passes, wanted;
    for (size_t i = 0; i < events.rows.size(); ++i) {
        if (events.at(i, "kind") != "pass") continue;
        passes.emplace_back(std::stoi(events.at(i, "step")), std::stoi(events.at(i, "first_pos")),
                            std::stoi(events.at(i, "pass_tokens")));
    }
    for (const json& pass : expected)
        wanted.emplace_back(pass.at("step").get<int>(), pass.at("first_pos").get<int>(),
                            pass.at("tokens").get<int>());
    out.equal("teacher passes (boundary, first position, tokens)", passes, wanted);
}

void compare_drift(const Table& drift, const json& expected, Differences& out) {
    std::map<std::tuple<int, int, int>, size_t> rows;
    for (size_t i = 0; i < drift.rows.size(); ++i)
        rows[{std::stoi(drift.at(i, "step")), std::stoi(drift.at(i, "layer")),
              std::stoi(drift.at(i, "position"))}] = i;
    size_t wanted = 0;
    for (const json& refresh : expected) {
        for (const json& cell : refresh.at("drift")) {
            ++wanted;
            const std::tuple key{refresh.at("step").get<int>(), cell.at("layer").get<int>(),
                                 cell.at("position").get<int>()};
            const std::string what = fmt::format("drift at {}, layer {}, position {}", std::get<0>(key),
                                                 std::get<1>(key), std::get<2>(key));
            const auto row = rows.find(key);
            if (row == rows.end()) return out.add(what + " is missing");
            for (const char* column : {"k_relative", "v_relative", "k_max_abs", "v_max_abs"})
                out.near(what + ", " + column, number(drift.at(row->second, column)),
                         number(cell.at(column)));
        }
    }
    out.equal("rows of drift.csv", drift.rows.size(), wanted);
}

} // namespace

const std::vector<SessionCase>& session_cases() {
    static const std::vector<SessionCase> cases = [] {
        const char* const wanted = std::getenv("REFRESHLAB_PARITY");
        const std::string extent = wanted != nullptr && std::string_view(wanted) == "full" ? "full" : "short";
        const auto out = std::filesystem::path(RL_BUILD_DIR) / ("session-parity-" + extent);
        const auto models = std::filesystem::path(RL_SOURCE_DIR) / "assets" / "models";
        const std::string command = fmt::format(
            "'{}' '{}/tests/app/session_jobs.py' '{}' {} '{}' '{}'", RL_PYTHON, RL_SOURCE_DIR, out.string(),
            extent, (models / "llama-tales-teacher").string(), (models / "llama-tales-student").string());
        std::vector<SessionCase> result;
        if (std::system(command.c_str()) != 0) return result;
        for (const json& entry : read_json_file(out / "manifest.json"))
            result.push_back({entry.at("name"), entry.at("arguments"), entry.at("expected")});
        return result;
    }();
    if (cases.empty()) FAIL("session_jobs.py failed; its message is above");
    return cases;
}

const std::vector<SessionCase>& real_session_cases() {
    static const std::vector<SessionCase> cases = [] {
        const char* const named = std::getenv("REFRESHLAB_MODELS");
        const auto model =
            std::filesystem::path(named != nullptr ? named : RL_MODELS) / "SmolLM2-135M-Instruct.Q4_1.gguf";
        std::vector<SessionCase> result;
        if (!std::filesystem::exists(model)) return result;
        const auto out = std::filesystem::path(RL_BUILD_DIR) / "session-parity-real";
        const std::string command =
            fmt::format("'{}' -B '{}/tests/app/session_real_jobs.py' '{}' '{}/refreshlab' '{}'", RL_PYTHON,
                        RL_SOURCE_DIR, out.string(), RL_BUILD_DIR, model.string());
        if (std::system(command.c_str()) != 0) FAIL("session_real_jobs.py failed; its message is above");
        for (const json& entry : read_json_file(out / "manifest.json"))
            result.push_back({entry.at("name"), entry.at("arguments"), entry.at("expected"), 2e-4});
        return result;
    }();
    return cases;
}

std::vector<std::string> session_differences(const SessionCase& session, size_t most) {
    const Exported run = run_and_export(session);
    const json& expected = session.expected;
    Differences out(most, session.tolerance);
    out.equal("prompt ids", run.meta.at("prompt_token_ids"), expected.at("prompt_ids"));
    out.equal("token ids", run.meta.at("token_ids"), expected.at("token_ids"));
    compare_refreshes(run, expected.at("refreshes"), out);
    compare_passes(run.events, expected.at("passes"), out);
    compare_steps(run.steps, expected.at("steps"), out);
    compare_candidates(run.topk, expected.at("steps"), out);
    compare_drift(run.drift, expected.at("refreshes"), out);
    for (const auto& [key, wanted] : expected.at("summary").items()) {
        if (wanted.is_array()) {
            out.equal("summary, numbers of " + key, run.summary.at(key).size(), wanted.size());
            for (size_t i = 0; i < std::min(run.summary.at(key).size(), wanted.size()); ++i)
                out.near(fmt::format("summary, {} {}", key, i), number(run.summary.at(key)[i]),
                         number(wanted[i]));
        } else if (wanted.is_number_float()) {
            out.near("summary, " + key, number(run.summary.at(key)), number(wanted));
        } else {
            out.equal("summary, " + key, run.summary.at(key), wanted);
        }
    }
    out.equal("rebuild mode is said", run.summary.at("rebuild").get<bool>(),
              expected.at("rebuild").get<bool>());
    return out.take();
}

std::map<std::string, std::vector<double>> dropout_scores(const SessionCase& session) {
    const Exported run = run_and_export(session);
    std::map<std::string, std::vector<double>> scores;
    for (const json& step : session.expected.at("steps")) {
        if (!step.contains("mc_groups")) continue;
        for (const auto& [signal, measurements] : step.at("mc_groups").items()) {
            const auto n = static_cast<double>(measurements.size());
            double mean = 0, squares = 0;
            for (const json& g : measurements)
                mean += g.get<double>() / n;
            for (const json& g : measurements)
                squares += (g.get<double>() - mean) * (g.get<double>() - mean);
            const double value = std::stod(run.steps.at(step.at("step").get<size_t>() - 1, signal));
            scores[signal].push_back((value - mean) / std::sqrt(squares / (n - 1) * (1 + 1 / n)));
        }
    }
    return scores;
}

} // namespace refreshlab::test
