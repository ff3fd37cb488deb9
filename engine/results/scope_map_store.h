#pragma once

#include "engine/results/scope_map.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace refreshlab {

class Recording;

/// A scope map in a trace, beside the run whose text it is of.
struct StoredScopeMap {
    std::string run_id;
    std::shared_ptr<const ScopeMap> map;
};

/// All scope maps of a trace, one a run at most, in the order of their runs; none in a trace before schema 12. Throws Error{bad_input} as load_trace()
/// does, and for maps that do not hold together or are of longer texts than their runs.
[[nodiscard]] std::vector<StoredScopeMap> load_scope_maps(const std::filesystem::path& path);

/// That of one run; null: the trace has none. Throws as load_scope_maps().
[[nodiscard]] std::shared_ptr<const ScopeMap> load_scope_map_of(const std::filesystem::path& path,
                                                                const std::string& run_id);

/// Puts the map of a run's text into the run's trace, in place of one that stands there. One transaction: a kill leaves what was there.
/// A trace of schema 3 to 11 is brought up to date: programs before schema 12 do not read it any more.
/// Throws Error{bad_input}: no trace, no such run, another program has it open, not writable, an older trace; Error{failure} for a full disk.
void store_scope_map(const std::filesystem::path& path, const std::string& run_id, const ScopeMap& map);

} // namespace refreshlab
