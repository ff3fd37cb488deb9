#include "engine/record/runs/run_command.h"

#include "engine/base/error.h"
#include "engine/base/json_text.h"
#include "engine/base/model_path.h"
#include "engine/base/shell_word.h"
#include "engine/control/parameters.h"
#include "engine/record/recording/recording.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <string_view>

namespace refreshlab {

namespace {

/// A model in the folder of assets, wherever that lies.
bool comes_along(const std::string& model, const std::string& bundled) {
    const auto normal = std::filesystem::path(model).lexically_normal();
    return normal.filename() == std::filesystem::path(bundled).filename() &&
           normal.parent_path().filename() == "models" &&
           normal.parent_path().parent_path().filename() == "assets";
}

/// Puts options together, and keeps the configuration that they give.
class Line {
public:
    explicit Line(const RunConfig& wanted)
        : m_wanted(wanted) {
        m_config.max_tokens = 256; // as `run` begins
    }

    /// A value that looks like an option is tied to its own.
    void option(std::string_view name, std::string_view value) {
        m_words += fmt::format(" {}{}{}", name, value.starts_with('-') ? '=' : ' ', shell_word(value));
    }
    void file(std::string_view option_name, std::string name, std::string text) {
        option(option_name, name);
        m_files.push_back({std::move(name), std::move(text)});
    }

    void models() {
        const BundledPair bundled = bundled_pair("assets");
        const auto name = [&](std::string_view option_name, const std::string& model,
                              const std::string& along) {
            if (!model.empty() && !comes_along(model, along)) option(option_name, model);
        };
        name("--teacher", m_wanted.teacher_dir, bundled.teacher);
        name("--student", m_wanted.student_dir, bundled.student);
        m_config.teacher_dir = m_wanted.teacher_dir;
        m_config.student_dir = m_wanted.student_dir;
        const std::pair<std::string_view, std::string RunConfig::*> devices[] = {
            {"--device", &RunConfig::device},
            {"--teacher-device", &RunConfig::teacher_device},
            {"--student-device", &RunConfig::student_device}};
        for (const auto& [option_name, field] : devices) {
            if (m_wanted.*field != m_config.*field) option(option_name, m_wanted.*field);
            m_config.*field = m_wanted.*field;
        }
        if (m_wanted.dtype != m_config.dtype) option("--dtype", to_string(m_wanted.dtype));
        m_config.dtype = m_wanted.dtype;
        m_config.threads = m_wanted.threads; // changes no bit
    }

    void text() {
        option("--prompt", m_wanted.prompt);
        if (m_wanted.raw_prompt) m_words += " --raw-prompt";
        if (!m_wanted.prompt_cache.empty()) option("--cache", m_wanted.prompt_cache);
        if (!m_wanted.given_text.empty()) file("--given-file", "given.txt", m_wanted.given_text);
        if (m_wanted.mode != m_config.mode) option("--mode", to_string(m_wanted.mode));
        m_config.prompt = m_wanted.prompt;
        m_config.raw_prompt = m_wanted.raw_prompt;
        m_config.prompt_cache = m_wanted.prompt_cache;
        m_config.given_text = m_wanted.given_text;
        m_config.mode = m_wanted.mode;
        m_config.task = m_wanted.task; // by the prompt
    }

    /// The policy by its preset where --set makes the rest of it, else as a file.
    void policies() {
        const auto preset = std::ranges::find(presets(), m_wanted.policy.name, &Preset::name);
        if (preset != presets().end()) {
            RunConfig tried = m_config;
            tried.policy = preset_policy(preset->name);
            set_all(tried, nullptr);
            set_all(tried, nullptr);
            if (tried.policy == m_wanted.policy) {
                m_config.policy = preset_policy(preset->name);
                if (preset->name != RefreshPolicy{}.name) option("--policy", preset->name);
                return;
            }
        }
        m_config.policy = m_wanted.policy;
        file("--policy", "policy.json", json_text(policy_to_json(m_wanted.policy), 1) + "\n");
    }

    /// Cache policies by name; settings() says which of their values are others than the method's own.
    void caches() {
        const auto cache = [&](std::string_view option_name, CachePolicyConfig RunConfig::*field) {
            const std::string& policy = (m_wanted.*field).policy;
            if ((m_wanted.*field).is_full()) return;
            option(option_name, policy);
            m_config.*field = cache_policy_defaults(policy, std::string(option_name));
        };
        cache("--student-cache", &RunConfig::student_cache);
        cache("--teacher-cache", &RunConfig::teacher_cache);
    }

    /// Twice, as one parameter may move another: burst.every sets the window too.
    void settings() {
        set_all(m_config, &m_words);
        set_all(m_config, &m_words);
    }

    /// The log as a command file, without looks at attention: they change no token.
    void commands(const Recording& recording) {
        nlohmann::json list = nlohmann::json::array();
        const auto& log = recording.commands();
        for (size_t i = 0, n = log.size(); i < n; ++i) {
            nlohmann::json command = nlohmann::json::parse(log[i].json, nullptr, false);
            if (command.is_discarded() ||
                (command.is_object() && command.value("command", "") == "request_attention"))
                continue;
            list.push_back({{"step", log[i].step}, {"command", std::move(command)}});
        }
        if (!list.empty()) file("--commands", "commands.json", json_text(list, 1) + "\n");
    }

    [[nodiscard]] RunCommand finish() {
        RunCommand command{"refreshlab run" + m_words, std::move(m_files), {}};
        if (!m_wanted.given_ids.empty())
            command.lacks = "It reads a text that is known by the ids of its tokens alone.";
        else if (!(m_config == m_wanted))
            command.lacks = "Some of its settings have no option.";
        return command;
    }

private:
    /// Every parameter that differs from what was wanted, as far as it can be set. \param words  gets the options; may be null
    void set_all(RunConfig& config, std::string* words) const {
        for (const Parameter& parameter : parameters()) {
            const auto wanted = parameter_value(m_wanted, parameter.key);
            if (!wanted || parameter_value(config, parameter.key) == wanted) continue;
            try {
                set_parameter(config, parameter.key, *wanted);
            } catch (const Error&) { // a whole policy says it, or nothing does: finish() compares
                continue;
            }
            if (words == nullptr) continue;
            if (parameter.option.empty() ||
                (parameter.kind == Parameter::Kind::boolean && *wanted == "false"))
                *words += fmt::format(" --set {}", shell_word(fmt::format("{}={}", parameter.key, *wanted)));
            else if (parameter.kind == Parameter::Kind::boolean)
                *words += fmt::format(" {}", parameter.option);
            else
                *words += fmt::format(" {} {}", parameter.option, shell_word(*wanted));
        }
    }

    const RunConfig& m_wanted;
    RunConfig m_config; ///< that the words give
    std::string m_words;
    std::vector<RunCommand::File> m_files;
};

} // namespace

RunCommand run_command(const Recording& recording) {
    Line line(recording.info().config);
    line.models();
    line.text();
    line.policies();
    line.caches();
    line.settings();
    line.commands(recording);
    return line.finish();
}

} // namespace refreshlab
