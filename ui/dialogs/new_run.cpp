#include "ui/dialogs/new_run.h"

#include "engine/base/error.h"
#include "engine/base/model_path.h"
#include "engine/control/parameters.h"
#include "engine/tasks/prompt_file.h"
#include "ui/base/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

NewRun::NewRun(const RunConfig& present, const std::filesystem::path& assets)
    : config(present)
    , seed(fmt::format("{}", present.seed))
    , m_assets(assets)
    , m_first_prompt(present.prompt) {
    if (!config.teacher_dir.empty() || !config.student_dir.empty()) return;
    const BundledPair bundled = bundled_pair(assets);
    config.teacher_dir = bundled.teacher;
    config.student_dir = bundled.student;
}

void NewRun::look_for_task() {
    task.reset();
    task = find_task(config.prompt, m_assets / "prompts");
}

std::string NewRun::problem() {
    if (config.prompt.empty()) return "The prompt is empty";
    if (config.mode != Mode::student && config.teacher_dir.empty()) return "The teacher is missing";
    if (config.mode != Mode::teacher && config.student_dir.empty()) return "The student is missing";
    if (config.max_tokens < 1) return "At least one token";
    try {
        set_parameter(config, "seed", seed);
    } catch (const Error& e) {
        return "Seed: " + e.problem();
    }
    return {};
}

RunConfig NewRun::result() const {
    RunConfig run = config;
    run.task = task.value_or(TaskConfig{});
    if (!run.task.almanac.empty() && !almanac_there.empty()) run.task.almanac = almanac_there;
    run.prompt_cache.clear(); // this dialog's runs read their prompt
    run.bridge.digest.clear();
    if (run.prompt != m_first_prompt) {
        run.given_text.clear();
        run.given_ids.clear();
    }
    return run;
}

const RunOutlook* NewRun::outlook(const EngineLink& engine, double now_s) {
    constexpr double rest_s = 0.25; // nobody types that slowly
    Question question{&engine, result()};
    if (!m_seen || !(*m_seen == question)) {
        m_seen = question;
        m_seen_since = now_s;
    }
    if (now_s - m_seen_since >= rest_s && !(m_asked && *m_asked == question)) {
        m_asked = question;
        m_answers.ask(question, false);
    }
    const RunOutlook* answer = m_answers.answer();
    m_looking = m_answers.busy() || !(m_asked && *m_asked == question);
    return m_looking ? nullptr : answer;
}

namespace {

/// An estimate has no more: "0.83", "4.2", "38", "920".
std::string two_digits(double value) {
    const double unit = std::pow(10.0, std::floor(std::log10(value)) - 1);
    return format_number(std::round(value / unit) * unit);
}

} // namespace

std::string speed_text(const RunConfig& config, const RunOutlook& outlook, const EngineStatus& status) {
    const bool by_teacher = config.mode == Mode::teacher;
    const bool was_teacher = status.applied.mode == Mode::teacher;
    const ModelSummary& writer = was_teacher ? status.teacher : status.student;
    const int64_t bytes = by_teacher ? outlook.teacher_bytes : outlook.student_bytes;
    if (status.tokens_per_second <= 0 || writer.weight_bytes <= 0 || bytes <= 0) return {};
    const std::string& dir = by_teacher ? config.teacher_dir : config.student_dir;
    if (dir == writer.dir && to_string(config.dtype) == writer.dtype)
        return fmt::format("about {} tokens/s, as in the run that is loaded",
                           two_digits(status.tokens_per_second));
    const double rate =
        status.tokens_per_second * static_cast<double>(writer.weight_bytes) / static_cast<double>(bytes);
    return fmt::format("{} to {} tokens/s, judged by the run that is loaded", two_digits(rate / 2),
                       two_digits(rate * 2));
}

} // namespace refreshlab::ui
