#pragma once

#include "engine/control/engine_link.h"
#include "engine/control/run_config.h"
#include "ui/base/latest_answer.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// What the dialog "New run" asks for. No ImGui in here.
class NewRun {
public:
    /// Begins with the present configuration; where it names no model, with the bundled pair.
    NewRun(const RunConfig& present, const std::filesystem::path& assets);

    RunConfig config;               ///< as edited so far
    std::string seed;               ///< as typed
    std::optional<TaskConfig> task; ///< of the prompt as it was when it was last looked up
    /// The file of its facts on the machine of the engine; empty: the one that `task` names.
    std::string almanac_there = {};

    /// The bundled task that the prompt belongs to, so that its answer can be scored. Reads the prompt files, some
    /// milliseconds. Throws Error.
    void look_for_task();
    /// Why it cannot start, one line; empty when it can. Also reads the seed into `config`.
    [[nodiscard]] std::string problem();
    /// The run that was asked for. A given continuation belongs to its prompt: another prompt goes without.
    [[nodiscard]] RunConfig result() const;

    /// What the engine says of the run, asked beside the frames as soon as the fields have rested a moment; call once a frame.
    /// \param now_s  seconds, of any clock
    /// \return null while nothing is known about the fields as they are
    [[nodiscard]] const RunOutlook* outlook(const EngineLink& engine, double now_s);
    /// An answer is under way or will be asked for.
    [[nodiscard]] bool looking() const { return m_looking; }

private:
    /// What the outlook depends on.
    struct Question {
        const EngineLink* engine;
        RunConfig config;
        friend bool operator==(const Question&, const Question&) = default;
    };

    std::filesystem::path m_assets;
    std::string m_first_prompt;
    std::optional<Question> m_seen; ///< in the last frame
    double m_seen_since = 0;
    bool m_looking = false;
    std::optional<Question> m_asked;
    LatestAnswer<Question, RunOutlook> m_answers{
        [](const Question& question) { return question.engine->outlook(question.config); }};
};

/// "about 20 to 80 tokens/s, judged by the run that is loaded": decoding reads every weight once a token, so its speed goes with
/// the bytes. Empty where there is nothing to judge by.
[[nodiscard]] std::string speed_text(const RunConfig& config, const RunOutlook& outlook,
                                     const EngineStatus& status);

} // namespace refreshlab::ui
