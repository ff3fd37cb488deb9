#include "ui/dialogs/new_run.h"

#include "engine/base/error.h"
#include "engine/base/model_path.h"
#include "engine/control/parameters.h"
#include "engine/fetch/published_models.h"
#include "engine/tasks/prompt_file.h"

#include <fmt/format.h>

#include <algorithm>

namespace refreshlab::ui {

std::vector<KnownModel> known_models(const std::filesystem::path& assets) {
    std::vector<KnownModel> models;
    std::error_code error; // a folder that cannot be read has none
    for (const auto& entry : std::filesystem::directory_iterator(assets / "models", error))
        if (may_be_model(entry.path())) models.push_back({model_name(entry.path()), entry.path().string()});
    std::ranges::sort(models, {}, &KnownModel::name);
    const std::filesystem::path fetched = models_folder(assets);
    for (const PublishedModel& model : published_models())
        if (is_fetched(model, fetched))
            models.push_back({model_name(fetched / model.file), (fetched / model.file).string()});
    return models;
}

NewRun::NewRun(const RunConfig& present, const std::filesystem::path& assets)
    : config(present)
    , seed(fmt::format("{}", present.seed))
    , m_assets(assets)
    , m_first_prompt(present.prompt) {
    if (!config.teacher_dir.empty() || !config.student_dir.empty()) return;
    config.teacher_dir = (assets / "models" / "llama-tales-teacher").string();
    config.student_dir = (assets / "models" / "llama-tales-student").string();
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
    if (run.prompt != m_first_prompt) run.given_text.clear();
    return run;
}

} // namespace refreshlab::ui
