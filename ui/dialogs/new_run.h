#pragma once

#include "engine/control/run_config.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// Models that lie where the program looks: bundled ones, then published ones that were fetched; for the lists of "New run".
struct KnownModel {
    std::string name; ///< "SmolLM2-135M-Instruct.Q4_1"
    std::string path;
};
[[nodiscard]] std::vector<KnownModel> known_models(const std::filesystem::path& assets);

/// What the dialog "New run" asks for. No ImGui in here.
class NewRun {
public:
    /// Begins with the present configuration; where it names no model, with the bundled pair.
    NewRun(const RunConfig& present, const std::filesystem::path& assets);

    RunConfig config;               ///< as edited so far
    std::string seed;               ///< as typed
    std::optional<TaskConfig> task; ///< of the prompt as it was when it was last looked up

    /// The bundled task that the prompt belongs to, so that its answer can be scored. Reads the prompt files, some
    /// milliseconds. Throws Error.
    void look_for_task();
    /// Why it cannot start, one line; empty when it can. Also reads the seed into `config`.
    [[nodiscard]] std::string problem();
    /// The run that was asked for. A given continuation belongs to its prompt: another prompt goes without.
    [[nodiscard]] RunConfig result() const;

private:
    std::filesystem::path m_assets;
    std::string m_first_prompt;
};

} // namespace refreshlab::ui
