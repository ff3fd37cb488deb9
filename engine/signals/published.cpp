#include "engine/signals/published.h"

#include "engine/base/error.h"

#include <fmt/format.h>

#include <algorithm>

namespace refreshlab {

namespace {

constexpr size_t longest_name = 48, longest_text = 2000;

void check(const PublishedSignal& signal, std::span<const Signal> before) {
    const auto refuse = [&](const std::string& problem, const std::string& hint = {}) {
        throw Error("publishing signal", signal.name, problem, hint);
    };
    if (!is_signal_name(signal.name))
        refuse(fmt::format(
            "a name has lower-case letters, digits and '_', begins with a letter and is at most {} long",
            longest_name));
    if (find_signal(before, signal.name))
        refuse("a signal of this name exists already", "choose another name");
    if (signal.label.empty() || signal.description.empty()) refuse("a label and a description are needed");
    for (const std::string* text : {&signal.label, &signal.unit, &signal.description, &signal.cost_hint}) {
        const bool plain =
            std::ranges::all_of(*text, [](char c) { return static_cast<unsigned char>(c) >= 0x20; });
        if (!plain || text->size() > longest_text)
            refuse(fmt::format("its texts are one line of at most {} bytes", longest_text));
    }
    if (!std::isfinite(signal.min) || !std::isfinite(signal.max) ||
        (signal.max != 0 && signal.min >= signal.max))
        refuse("its range is empty");
    if (!std::isfinite(signal.default_threshold)) refuse("its default threshold is not a finite number");
    if (signal.cost != SignalCost::free)
        refuse("only signals of the registry are measured by teacher passes or MC rows");
    if (signal.letter == 0) return;
    const bool printable = signal.letter > ' ' && signal.letter <= '~';
    const bool taken = signal.letter == 'H' || signal.letter == '+' ||
                       std::ranges::find(before, signal.letter, &Signal::letter) != before.end();
    if (!printable || taken) refuse("its letter is taken or cannot be drawn", "choose another letter");
}

} // namespace

bool is_signal_name(std::string_view name) {
    const auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
    return !name.empty() && name.size() <= longest_name && lower(name[0]) &&
           std::ranges::all_of(name, [&](char c) { return lower(c) || (c >= '0' && c <= '9') || c == '_'; });
}

size_t published_id(size_t index) {
    return signals().size() + index;
}

std::vector<Signal> signal_table(std::span<const PublishedSignal> published) {
    const auto known = signals();
    std::vector<Signal> table(known.begin(), known.end());
    if (known.size() + published.size() > max_signals) {
        throw Error("publishing signals", "",
                    fmt::format("{} are too many: with the {} of the program there is room for {}",
                                published.size(), known.size(), max_signals));
    }
    table.reserve(known.size() + published.size());
    for (const PublishedSignal& signal : published) {
        check(signal, table);
        Signal entry;
        entry.name = signal.name;
        entry.label = signal.label;
        entry.unit = signal.unit;
        entry.description = signal.description;
        entry.cost_hint = signal.cost_hint;
        entry.cost = signal.cost;
        entry.about = signal.about;
        entry.min = signal.min;
        entry.max = signal.max;
        entry.default_threshold = signal.default_threshold;
        entry.letter = signal.letter;
        entry.layered = signal.layered;
        table.push_back(entry);
    }
    return table;
}

void StepValues::set(size_t id, double value) const {
    // A measured NaN must not carry the payload of absent(), whatever arithmetic made it.
    m_signals[id] = std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(value);
}

void StepValues::set_layers(size_t id, std::span<const float> values) const {
    m_layers.set(id, values);
    m_signals[id] = layer_mean(values);
}

} // namespace refreshlab
