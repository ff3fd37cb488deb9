#include "engine/study/studies/kept_numbers.h"

#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/study/studies/study_run.h"
#include "engine/tasks/row_f1.h"

#include <utility>

namespace refreshlab {

namespace {

std::string text_of(const Recording& recording) {
    std::string text;
    const TokenTable& tokens = recording.tokens();
    for (int64_t t = 1; t <= recording.num_tokens(); ++t) {
        const int32_t id = recording.token(t);
        if (!tokens.is_special(id)) text += tokens.token_bytes(id);
    }
    return text;
}

} // namespace

KeptNumbers::KeptNumbers(std::filesystem::path folder, std::string study)
    : m_folder(std::move(folder))
    , m_study(std::move(study)) {}

std::optional<nlohmann::json> KeptNumbers::get(const std::string& id) const {
    if (m_folder.empty() || !std::filesystem::exists(file(id))) return {};
    return read_json_file(file(id));
}

void KeptNumbers::put(const std::string& id, const nlohmann::json& numbers) const {
    if (!m_folder.empty()) write_file(file(id), json_text(numbers));
}

std::filesystem::path KeptNumbers::file(const std::string& id) const {
    return m_folder / (m_study + "-" + id + ".json");
}

nlohmann::json to_json(const RunNumbers& n) {
    return {
        {"loss", n.loss},   {"hits", n.hits},     {"tokens", n.tokens},       {"score", n.score},
        {"right", n.right}, {"scored", n.scored}, {"refreshes", n.refreshes}, {"bytes_held", n.bytes_held}};
}
RunNumbers numbers_from(const nlohmann::json& json) {
    return {json.value("loss", 0.0),
            json.value("hits", int64_t{0}),
            json.value("tokens", int64_t{0}),
            json.value("score", 0.0),
            json.value("right", int64_t{0}),
            json.value("scored", int64_t{0}),
            json.value("refreshes", int64_t{0}),
            json.value("bytes_held", 0.0)};
}

RunNumbers numbers_of(const Recording& recording) {
    const RunConfig& config = recording.info().config;
    const TaskResult task = score_recording(recording, config.task, config.prompt);
    RunTotals totals;
    totals.add(recording, &task);
    RunNumbers numbers;
    numbers.loss = totals.run_loss.empty() ? 0 : totals.run_loss[0];
    numbers.hits = totals.hits;
    numbers.tokens = totals.choices;
    numbers.right = totals.right;
    numbers.scored = totals.scored;
    numbers.refreshes = totals.refreshes;
    const bool table = config.task.kind == "table" && !config.reads_given();
    numbers.score = table ? row_f1(text_of(recording), config.task.reference) : totals.correct_prefix;
    return numbers;
}

} // namespace refreshlab
