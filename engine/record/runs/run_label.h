#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace refreshlab {

/// Colours that runs are told apart by, side by side.
inline constexpr uint32_t run_colours = 8;

/// What a run is known by where several stand side by side. Traces keep it; a recording does not have it.
struct RunLabel {
    std::string name;               ///< by a person, as clean_run_name() gives it; empty: none was given
    std::optional<uint32_t> colour; ///< of run_colours; nothing: none was given
    [[nodiscard]] bool empty() const { return name.empty() && !colour; }
    bool operator==(const RunLabel&) const = default;
};

inline constexpr size_t longest_run_name = 400; ///< bytes: a hundred characters of any script

/// A name as lists, legends and files can show it: one line of well-formed UTF-8 without controls, no spaces at its ends,
/// at most longest_run_name bytes. What is no character becomes U+FFFD, what visible_text() spells out a space. May be empty.
[[nodiscard]] std::string clean_run_name(std::string_view typed);

} // namespace refreshlab
