#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace refreshlab {

struct KnownModel {
    std::string name; ///< "SmolLM2-135M-Instruct.Q4_1"
    std::string path;
    friend bool operator==(const KnownModel&, const KnownModel&) = default;
};
/// Models in a folder, by name; a folder that cannot be read has none.
[[nodiscard]] std::vector<KnownModel> models_in(const std::filesystem::path& folder);
/// Models that lie where the program looks: bundled ones, then published ones that were fetched; for the lists of "New run".
[[nodiscard]] std::vector<KnownModel> known_models(const std::filesystem::path& assets);

} // namespace refreshlab
