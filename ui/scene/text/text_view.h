#pragma once

#include "ui/scene/axes/own_range.h"

#include <string>
#include <string_view>

namespace refreshlab::ui {

/// What a text may be coloured by beside its run's signals: what a refresh before each token would have gained, as the landscape of
/// the text says; how much the shown step read each token, the prompt's among them, as the mean of all recorded heads or by the
/// chosen one. Names of no signal.
inline constexpr std::string_view gain_colouring = "landscape:gain", mean_colouring = "attention:mean",
                                  head_colouring = "attention:head";

/// What a person has chosen to see of a text: on screen, on paper, and in the settings file.
struct TextView {
    std::string coloured_by = "entropy_bits"; ///< the name of a signal, or one of those above
    bool origins = false; ///< underlined by who wrote the cache entry, in place of the underline of the value
    bool rejected = false; ///< drafted tokens that verification rejected, struck out
    OwnRanges ranges = {}; ///< of colours, by what colours
    friend bool operator==(const TextView&, const TextView&) = default;
};

} // namespace refreshlab::ui
