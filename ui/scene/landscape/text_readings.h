#pragma once

#include "engine/landscape/landscape.h"
#include "engine/record/recording/recording.h"
#include "engine/results/scope_map_store.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// What was read of a run's text again, and is saved with the run; null: not there.
struct TextReadings {
    std::shared_ptr<const Landscape> landscape;
    std::shared_ptr<const ScopeMap> scope_map;
};
/// Puts them beside their run in its trace. Throws as store_landscape() and store_scope_map() do.
void store_readings(const std::filesystem::path& trace, const std::string& run_id,
                    const TextReadings& readings);

/// What stands beside the runs of a file.
struct ReadingsOfFile {
    std::shared_ptr<const Landscape> landscape; ///< of the newest run; null: none
    std::vector<StoredScopeMap> scope_maps;
    std::vector<std::string>
        faults; ///< why something that is there cannot be shown, one line each; the runs can
};
/// Throws nothing that load_trace() has not thrown before.
[[nodiscard]] ReadingsOfFile readings_of_file(const std::filesystem::path& path, const Recording& newest);

} // namespace refreshlab::ui
