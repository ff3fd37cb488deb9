#pragma once

#include "ui/scene/series/series_set.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace refreshlab::ui {

/// A signal's value at a step, as a plot's header says it.
struct SignalReading {
    enum class Kind : uint8_t {
        value, ///< "5.2"
        yes,
        no,      ///< of a signal with words
        neither, ///< such a signal, not known here
        earlier, ///< "5.2 at step 112": the last one before
        none,    ///< "not measured"
    };
    Kind kind = Kind::none;
    std::string text;
};
/// \param signal  its id in the table of the recording that `series` shows
[[nodiscard]] SignalReading signal_reading(SeriesSet& series, const Signal& info, size_t signal, int64_t step,
                                           LayerPick pick = {});

} // namespace refreshlab::ui
