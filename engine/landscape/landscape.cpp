#include "engine/landscape/landscape.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/signals/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace refreshlab {

namespace {

constexpr auto doing = "making a landscape";

double loss_of(float logprob) {
    return std::isfinite(logprob) ? -static_cast<double>(logprob) : std::numeric_limits<double>::infinity();
}

} // namespace

Landscape::Landscape(LandscapeInfo info)
    : m_info(std::move(info)) {
    if (m_info.tokens.size() < 2) {
        throw Error(doing, "of a text",
                    fmt::format("it has {} token{}, and a landscape needs two at least", m_info.tokens.size(),
                                m_info.tokens.size() == 1 ? "" : "s"),
                    "give a longer text");
    }
    if (m_info.values.empty() || m_info.values.front() != "logprob")
        throw Error(doing, {}, "logprob must be its first value");
    for (auto name = m_info.values.begin(); name != m_info.values.end(); ++name) {
        if (std::find(m_info.values.begin(), name, *name) != name)
            throw Error(doing, *name, "stands twice among the values");
        static_cast<void>(require_signal(*name, doing));
    }
    if (m_info.teacher_logprob.size() != m_info.tokens.size())
        throw Error(doing, {}, "the teacher's losses are not as many as the tokens");
    m_rows.resize(static_cast<size_t>(num_rows()));
}

std::vector<int64_t> Landscape::rows() const {
    std::vector<int64_t> present;
    for (int64_t j = 0; j < num_rows(); ++j) {
        if (has_row(j)) present.push_back(j);
    }
    return present;
}

int64_t Landscape::row_at_or_below(int64_t j) const {
    RL_ASSERT(j >= 0 && j < num_rows() && has_row(0));
    while (!has_row(j))
        --j;
    return j;
}

std::optional<size_t> Landscape::value_index(std::string_view name) const {
    const auto found = std::ranges::find(m_info.values, name);
    if (found == m_info.values.end()) return std::nullopt;
    return static_cast<size_t>(found - m_info.values.begin());
}

std::span<const float> Landscape::plane(size_t value, int64_t j) const {
    RL_ASSERT(j >= 0 && j < num_rows() && has_row(j) && value < m_info.values.size());
    return m_rows[static_cast<size_t>(j)]->planes[value];
}

float Landscape::cell(size_t value, int64_t j, int64_t step) const {
    const std::span<const float> cells = plane(value, j);
    RL_ASSERT(step > j && step <= num_steps());
    return cells[static_cast<size_t>(step - j - 1)];
}

double Landscape::loss(int64_t j, int64_t step) const {
    return loss_of(cell(0, j, step));
}

double Landscape::teacher_loss(int64_t step) const {
    RL_ASSERT(step >= 1 && step <= num_steps());
    return loss_of(m_info.teacher_logprob[static_cast<size_t>(step)]);
}

double Landscape::mean_teacher_loss() const {
    double sum = 0;
    for (int64_t step = 1; step <= num_steps(); ++step)
        sum += teacher_loss(step);
    return sum / static_cast<double>(num_steps());
}

double Landscape::mean_loss_without_refresh() const {
    double sum = 0;
    for (int64_t step = 1; step <= num_steps(); ++step)
        sum += loss(0, step);
    return sum / static_cast<double>(num_steps());
}

void Landscape::put_row(std::shared_ptr<const LandscapeRow> row) {
    RL_ASSERT(row != nullptr && row->row >= 0 && row->row < num_rows());
    RL_ASSERT(row->planes.size() == m_info.values.size());
    for (const auto& plane : row->planes)
        RL_ASSERT(static_cast<int64_t>(plane.size()) == num_steps() - row->row);
    auto& place = m_rows[static_cast<size_t>(row->row)];
    if (!place) ++m_present;
    place = std::move(row);
}

size_t Landscape::bytes() const {
    size_t cells = 0;
    for (int64_t j = 0; j < num_rows(); ++j) {
        if (has_row(j)) cells += static_cast<size_t>(num_steps() - j);
    }
    return cells * m_info.values.size() * sizeof(float);
}

std::string why_no_landscape_value(std::string_view name) {
    static_cast<void>(require_signal(name, "the values of a landscape"));
    if (name == "steps_since_refresh") return "it is the distance from a cell to its row";
    if (name == "kl_mean_nats") return "it is the mean of kl_nats along a row";
    if (name == "last_kl_nats" || name == "last_drift")
        return fmt::format("it hangs on the refresh before: with {} a staircase knows it",
                           name == "last_drift" ? "drift" : "kl_nats");
    if (name == "teacher_logprob" || name == "teacher_agreement" || name == "teacher_rank")
        return "it is the same in every row: what the teacher says of a token";
    if (name == "task_score") return "a verdict may hang on tokens on both sides of a refresh";
    return {};
}

bool needs_mc(std::span<const std::string> values) {
    return std::ranges::any_of(values, [](const std::string& name) {
        return signals()[require_signal(name, doing)].cost == SignalCost::mc_rows;
    });
}

std::vector<std::string> default_landscape_values() {
    std::vector<std::string> names{"logprob"};
    for (const Signal& signal : signals()) {
        const bool wanted = signal.cost == SignalCost::free
                                ? !signal.attention && signal.about != SignalAbout::session
                                : signal.name == "kl_nats" || signal.name == "acceptance";
        if (wanted && signal.name != "logprob" && why_no_landscape_value(signal.name).empty() &&
            signal.name != "drift")
            names.emplace_back(signal.name);
    }
    return names;
}

std::vector<std::string> landscape_values(std::string_view wanted) {
    if (wanted.empty()) return default_landscape_values();
    std::vector<std::string> names{"logprob"};
    while (!wanted.empty()) {
        const size_t comma = std::min(wanted.find(','), wanted.size());
        std::string name(wanted.substr(0, comma));
        wanted.remove_prefix(std::min(comma + 1, wanted.size()));
        std::erase(name, ' ');
        if (name.empty()) continue;
        if (const std::string why = why_no_landscape_value(name); !why.empty())
            throw Error("the values of a landscape", name, "has no cells: " + why);
        if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
    }
    return names;
}

int64_t coarsest_stride(int64_t num_rows) {
    constexpr int64_t least = 32, rows = 16;
    return std::max(least, static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(num_rows / rows))));
}

std::vector<std::vector<int64_t>> landscape_levels(int64_t num_rows, int64_t every) {
    RL_ASSERT(num_rows >= 0 && every >= 1);
    std::vector<int64_t> strides{every};
    while (strides.back() * 2 <= coarsest_stride(num_rows))
        strides.push_back(strides.back() * 2);
    std::vector<std::vector<int64_t>> levels;
    std::vector<bool> taken(static_cast<size_t>(num_rows));
    for (auto stride = strides.rbegin(); stride != strides.rend(); ++stride) {
        std::vector<int64_t> level;
        for (int64_t j = 0; j < num_rows; j += *stride) {
            if (taken[static_cast<size_t>(j)]) continue;
            taken[static_cast<size_t>(j)] = true;
            level.push_back(j);
        }
        if (!level.empty()) levels.push_back(std::move(level));
    }
    return levels;
}

} // namespace refreshlab
