#include "ui/scene/attention/head_ranking.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace refreshlab::ui {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t steps_that_hold = 16; ///< a live run makes so many before the order is looked at again

double weight(uint16_t half) {
    return static_cast<double>(half_to_float(half));
}

} // namespace

std::string_view head_order_label(HeadOrder order) {
    constexpr std::array<std::string_view, head_orders.size()> labels = {
        "By layer", "Lowest entropy", "Highest entropy", "Farthest from the sink", "Largest difference"};
    return labels[static_cast<size_t>(order)];
}

std::string_view head_order_unit(HeadOrder order) {
    return order == HeadOrder::focused || order == HeadOrder::spread ? "bits" : "";
}

double row_entropy(std::span<const uint16_t> weights) {
    double sum = 0;
    for (const uint16_t half : weights)
        if (const double w = weight(half); w > 0) sum -= w * std::log2(w);
    return weights.empty() ? unknown : sum;
}

double row_off_sink(std::span<const uint16_t> weights) {
    return weights.empty() ? unknown : 1 - weight(weights[0]);
}

double row_distance(std::span<const uint16_t> a, std::span<const uint16_t> b) {
    if (a.size() != b.size() || a.empty()) return unknown;
    double sum = 0;
    for (size_t k = 0; k < a.size(); ++k)
        sum += std::abs(weight(a[k]) - weight(b[k]));
    return sum / 2;
}

void HeadRanking::clear() {
    m_known.clear();
    m_ranked.clear();
    m_recording = nullptr;
    m_ranked_last = -1;
    m_ranked_rows = 0;
}

std::vector<double> HeadRanking::measure(const Recording& recording, int64_t query) const {
    const bool both = m_question.order == HeadOrder::differing;
    const auto rows = recording.attention(query, !both && m_question.teacher);
    const auto others = both ? recording.attention(query, true) : nullptr;
    std::vector<double> values;
    std::vector<uint16_t> shares, shares_of_others;
    if (!rows || (both && !others)) return values;
    for (const int32_t layer : m_question.layers)
        for (const int32_t head : m_question.heads) {
            const auto mine = head_weights(*rows, layer, head, shares);
            values.push_back(both ? row_distance(mine, head_weights(*others, layer, head, shares_of_others))
                             : m_question.order == HeadOrder::off_sink ? row_off_sink(mine)
                                                                       : row_entropy(mine));
        }
    return values;
}

bool HeadRanking::update(const Recording& recording, const Question& question, const QueryWindow& window,
                         int64_t rows) {
    if (m_recording != &recording || m_question != question) {
        clear();
        m_recording = &recording;
        m_question = question;
    }
    if (question.order == HeadOrder::place) return false;
    if (std::exchange(m_window_rows, window.rows()) != window.rows()) m_ranked_rows = 0;
    std::erase_if(m_known, [&](const auto& row) { return !window.contains(row.first); });
    bool left = false;
    for (int64_t query = window.last_query; query >= window.first_query && !left; --query) {
        if (m_known.contains(query)) continue;
        std::vector<double> values = measure(recording, query);
        if (values.empty()) continue;
        m_known.emplace(query, std::move(values));
        left = --rows <= 0;
    }
    const bool moved = std::abs(window.last_query - m_ranked_last) >= steps_that_hold;
    const bool grew = m_known.size() > m_ranked_rows; // not where a row came in the place of one that left
    if (m_ranked.empty() || moved || grew) rank(window);
    return left;
}

void HeadRanking::rank(const QueryWindow& window) {
    m_ranked.clear();
    m_ranked_last = window.last_query;
    m_ranked_rows = m_known.size();
    const size_t heads = m_question.heads.size(), count = m_question.layers.size() * heads;
    for (size_t at = 0; at < count; ++at) {
        double sum = 0;
        int64_t rows = 0;
        for (const auto& [query, values] : m_known)
            if (std::isfinite(values[at])) {
                sum += values[at];
                ++rows;
            }
        if (rows > 0) m_ranked.push_back({at / heads, at % heads, sum / static_cast<double>(rows)});
    }
    const bool ascending = m_question.order == HeadOrder::focused;
    std::ranges::stable_sort(m_ranked, [&](const RankedHead& a, const RankedHead& b) {
        return ascending ? a.value < b.value : a.value > b.value;
    });
}

} // namespace refreshlab::ui
