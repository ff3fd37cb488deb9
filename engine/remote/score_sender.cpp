#include "engine/remote/score_sender.h"

#include "engine/remote/wire.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace refreshlab::remote {

namespace {

using nlohmann::json;

/// A server may have made steps that have not come here. More than these would only take memory.
constexpr int64_t most_ahead = int64_t{1} << 20;

template <class Number>
json bytes_of_numbers(const std::vector<Number>& numbers) {
    const auto bytes = std::as_bytes(std::span(numbers));
    const auto* const data = reinterpret_cast<const uint8_t*>(bytes.data());
    return json::binary({data, data + bytes.size()});
}

template <class Number>
std::vector<Number> numbers_of_bytes(const json& value, size_t count) {
    const auto& bytes = value.get_binary();
    if (bytes.size() != count * sizeof(Number)) throw ProtocolError("scores of another model came");
    std::vector<Number> numbers(count);
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return numbers;
}

} // namespace

void ScoreSender::look(std::shared_ptr<const Recording> run, int64_t position) {
    if (run != m_run) m_told.clear();
    m_run = std::move(run);
    m_position = std::clamp<int64_t>(position, -1, int64_t{1} << 40); // beyond it is none either
    if (m_run) m_run->entry_scores().ask();
}

bool ScoreSender::add(int64_t position, json& columns) {
    if (position < 0 || position >= m_run->prompt_length() + m_run->steps() + 1) return false;
    Column column;
    for (const auto& score : m_run->entry_scores().column(position)) {
        column.values.push_back(score.value);
        column.steps.push_back(score.step);
    }
    const auto told = m_told.find(position);
    if (told != m_told.end() && told->second == column) return false;
    columns.push_back(
        json::array({position, bytes_of_numbers(column.values), bytes_of_numbers(column.steps)}));
    m_told[position] = std::move(column);
    return true;
}

json ScoreSender::message(json columns) const {
    if (columns.empty()) return nullptr;
    return {{"run", m_run->info().id}, {"columns", std::move(columns)}};
}

json ScoreSender::next() {
    json columns = json::array();
    if (m_run) static_cast<void>(add(m_position, columns));
    return message(std::move(columns));
}

json ScoreSender::next_beside(int64_t bytes) {
    json columns = json::array();
    if (!m_run) return nullptr;
    const auto planes = static_cast<int64_t>(m_run->info().layers * m_run->info().kv_heads);
    const int64_t each = std::max<int64_t>(1, planes * 8);
    for (int64_t away = 1; away <= beside && bytes > 0; ++away)
        for (const int64_t position : {m_position + away, m_position - away})
            if (bytes > 0 && add(position, columns)) bytes -= each;
    return message(std::move(columns));
}

void take_scores(const json& message, Recording& run) {
    const auto planes = static_cast<size_t>(run.info().layers * run.info().kv_heads);
    for (const json& column : message.at("columns")) {
        const auto position = column.at(0).get<int64_t>();
        const auto values = numbers_of_bytes<float>(column.at(1), planes);
        const auto steps = numbers_of_bytes<int32_t>(column.at(2), planes);
        if (position < 0 || position > run.prompt_length() + run.steps() + most_ahead)
            throw ProtocolError("scores of no position came");
        std::vector<EntryScores::Score> scores;
        for (size_t plane = 0; plane < planes; ++plane)
            scores.push_back({values[plane], steps[plane]});
        run.entry_scores().put_column(position, scores);
    }
}

} // namespace refreshlab::remote
