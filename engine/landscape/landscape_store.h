#pragma once

#include "engine/landscape/landscape.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace refreshlab {

class Recording;

/// A landscape in a trace, beside the run whose text it is of.
struct StoredLandscape {
    std::string run_id;
    std::shared_ptr<const Landscape> landscape; ///< with the rows that are stored
};

/// All landscapes of a trace, in the order of their runs. Throws Error{bad_input} as load_trace() does, and for landscapes that
/// do not hold together.
[[nodiscard]] std::vector<StoredLandscape> load_landscapes(const std::filesystem::path& path);

/// Puts the landscape of a run into its trace: its rows are added to those that are stored. A landscape of other values that
/// stands there is replaced. One transaction: a kill leaves what was there.
/// Throws Error{bad_input}: no trace, no such run, another program has it open, not writable, a trace of a schema that lacks more
/// than whole tables; Error{failure} for a full disk.
void store_landscape(const std::filesystem::path& path, const std::string& run_id,
                     const Landscape& landscape);

/// Throws Error{bad_input} unless the landscape is of this run's prompt and text.
void require_landscape_of(const Landscape& landscape, const Recording& recording, const std::string& what);

/// The landscape that a trace has of this run; null where it has none. Throws as load_landscapes() and require_landscape_of() do.
[[nodiscard]] std::shared_ptr<const Landscape> load_landscape_of(const std::filesystem::path& path,
                                                                 const Recording& run);

} // namespace refreshlab
