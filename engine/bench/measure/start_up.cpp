#include "engine/bench/measure/start_up.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/bench/measure/machine.h"
#include "engine/fetch/child_process.h"

#include <nlohmann/json.hpp>

#include <sstream>

namespace refreshlab::bench {

namespace {

constexpr std::string_view prefix = "refreshlab-start-up ";

} // namespace

void StartUpMarks::mark(std::string_view part) {
    ends.emplace_back(part, monotonic_ns());
}

std::string to_line(const StartUpMarks& marks) {
    nlohmann::json ends = nlohmann::json::array();
    for (const auto& [part, end] : marks.ends)
        ends.push_back({{"part", part}, {"end", end}});
    return std::string(prefix) + json_text({{"ends", ends},
                                            {"libraries_bytes", marks.libraries_bytes},
                                            {"peak_bytes", marks.peak_bytes},
                                            {"tokens", marks.tokens}});
}

StartUpMarks marks_from(const std::string& said) {
    std::istringstream lines(said);
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with(prefix)) continue;
        const auto json = parse_json(line.substr(prefix.size()), "a start of the program");
        StartUpMarks marks;
        for (const auto& end : json.at("ends"))
            marks.ends.emplace_back(end.at("part").get<std::string>(), end.at("end").get<int64_t>());
        marks.libraries_bytes = json.at("libraries_bytes").get<int64_t>();
        marks.peak_bytes = json.at("peak_bytes").get<int64_t>();
        marks.tokens = json.at("tokens").get<int64_t>();
        return marks;
    }
    throw Error("measuring the start-up", {}, "the program did not say its times: " + said, {},
                ErrorKind::failure);
}

StartUp start_up_of(const std::vector<Start>& starts) {
    RL_ASSERT(!starts.empty());
    const auto& names = starts.front().marks.ends;
    std::vector<std::vector<double>> parts(names.size());
    std::vector<double> total, libraries, peak;
    for (const Start& start : starts) {
        RL_ASSERT(start.marks.ends.size() == names.size() && !names.empty());
        int64_t last = start.began;
        for (size_t i = 0; i < names.size(); ++i) {
            const int64_t end = start.marks.ends[i].second;
            parts[i].push_back(static_cast<double>(end - last) * 1e-6);
            last = end;
        }
        total.push_back(static_cast<double>(last - start.began) * 1e-6);
        libraries.push_back(static_cast<double>(start.marks.libraries_bytes));
        peak.push_back(static_cast<double>(start.marks.peak_bytes));
    }
    StartUp result{.total_ms = spread_of(total),
                   .parts = {},
                   .libraries_bytes = spread_of(libraries),
                   .peak_bytes = spread_of(peak),
                   .tokens = starts.front().marks.tokens};
    for (size_t i = 0; i < names.size(); ++i)
        result.parts.emplace_back(names[i].first, spread_of(parts[i]));
    return result;
}

StartUp measure_start_up(const std::vector<std::string>& command, int64_t times) {
    std::vector<Start> starts;
    for (int64_t i = -1; i < times; ++i) {
        const int64_t began = monotonic_ns();
        const ChildResult child = run_child(command, {}, [] { return true; });
        if (child.status != 0)
            throw Error("measuring the start-up", {}, "a start failed: " + child.said, {},
                        ErrorKind::failure);
        if (i >= 0) starts.push_back({began, marks_from(child.said)});
    }
    return start_up_of(starts);
}

} // namespace refreshlab::bench
