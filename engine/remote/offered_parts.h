#pragma once

#include "engine/control/engine_link.h"

#include <filesystem>
#include <string>
#include <vector>

namespace refreshlab::remote {

/// "almanac", "gate", "prompt_cache".
[[nodiscard]] std::string part_name(LinkOffers::Part::Kind kind);
/// The reverse. Throws Error{bad_input}.
[[nodiscard]] LinkOffers::Part::Kind part_kind(const std::string& name);

/// The almanacs (.json), gates and prompt caches (.safetensors) that stand in a folder itself, by name: other files of these endings are
/// left out. A folder that cannot be read has none. Reads the almanacs, and of the others what their headers say.
[[nodiscard]] std::vector<LinkOffers::Part> parts_in(const std::filesystem::path& folder);

} // namespace refreshlab::remote
