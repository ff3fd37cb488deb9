#pragma once

#include "engine/record/recording/recording.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace refreshlab {

/// Numbers that earlier calls left behind, a file each; without a folder none are kept.
class KeptNumbers {
public:
    /// \param study  begins the names of its files
    explicit KeptNumbers(std::filesystem::path folder, std::string study = "cache");
    /// Throws Error{bad_input}: a file that is no JSON.
    [[nodiscard]] std::optional<nlohmann::json> get(const std::string& id) const;
    void put(const std::string& id, const nlohmann::json& numbers) const;

private:
    [[nodiscard]] std::filesystem::path file(const std::string& id) const;
    std::filesystem::path m_folder;
    std::string m_study;
};

/// What a table needs of a run.
struct RunNumbers {
    double loss = 0;              ///< nats per token of a given text
    int64_t hits = 0, tokens = 0; ///< first choices of a given text
    double score = 0;             ///< of an answer: correct prefix, or row F1
    int64_t right = 0, scored = 0;
    int64_t refreshes = 0;
    double bytes_held = 0; ///< by the decoder's cache, mean over steps; 0: nobody counted
};

[[nodiscard]] nlohmann::json to_json(const RunNumbers& n);
[[nodiscard]] RunNumbers numbers_from(const nlohmann::json& json);
[[nodiscard]] RunNumbers numbers_of(const Recording& recording);

} // namespace refreshlab
