#include "ui/scene/text/signal_reading.h"

#include "engine/signals/registry.h"
#include "ui/base/value_format.h"
#include "ui/scene/text/token_colours.h"

#include <fmt/format.h>

#include <cmath>

namespace refreshlab::ui {

SignalReading signal_reading(SeriesSet& series, const Signal& info, size_t signal, int64_t step,
                             LayerPick pick) {
    using Kind = SignalReading::Kind;
    const float value = series.value(step, signal, pick);
    if (const Verdicts* words = verdicts_of(info.name)) {
        if (std::isnan(value)) return {Kind::neither, std::string(words->neither)};
        const bool yes = value >= 0.5F;
        return {yes ? Kind::yes : Kind::no, std::string(yes ? words->yes : words->no)};
    }
    if (!is_absent(value)) return {Kind::value, format_signal(value)};
    if (const auto last = series.series(signal, pick).finite_at_or_before(step))
        return {Kind::earlier, fmt::format("{} at step {}", format_signal(series.value(*last, signal, pick)),
                                           format_thousands(*last))};
    return {Kind::none, "not measured"};
}

} // namespace refreshlab::ui
