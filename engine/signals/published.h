#pragma once

#include "engine/signals/registry.h"

#include <span>
#include <string>
#include <vector>

namespace refreshlab {

/// A signal that a component of one run adds to those of the registry: a cache policy, for example, tells what it
/// keeps. The component lists its signals before the run starts. RunInfo::published_signals carries them, and the
/// recording has them in its table of signals. So they can be plotted, used as a trigger and exported like any other.
struct PublishedSignal {
    std::string name;                   ///< is_signal_name(); no name of the registry
    std::string label;                  ///< sentence case, without unit
    std::string unit;                   ///< may be empty
    std::string description;            ///< one sentence: definition and source
    std::string cost_hint = "free";     ///< shown beside the option
    SignalCost cost = SignalCost::free; ///< mc_rows and teacher_pass belong to the registry's signals
    SignalAbout about = SignalAbout::session;
    double min = 0, max = 0; ///< usual range; max 0 = open
    double default_threshold = 0;
    char letter =
        0; ///< of refresh markers; 0 = cannot trigger; none of the registry's letters, nor 'H', nor '+'
    bool layered = false; ///< values per layer; the scalar slot holds their mean

    friend bool operator==(const PublishedSignal&, const PublishedSignal&) = default;
};

/// What a name of a published signal looks like: lower-case letters, digits and '_', a letter first, at most 48.
[[nodiscard]] bool is_signal_name(std::string_view name);

/// Id of the index-th published signal of a run: after those of the registry.
[[nodiscard]] size_t published_id(size_t index);

/// The signals of a run: the registry's, then the published ones. The text views of the latter point into `published`,
/// which must stay where it is.
/// Throws Error{bad_input} naming the signal: more than max_signals in all, a name or a letter that is taken, a name that is no
/// snake_case, a range or a text that is not usable.
[[nodiscard]] std::vector<Signal> signal_table(std::span<const PublishedSignal> published);

/// Where a component puts its values of one step: into the step's record before it is appended.
class StepValues {
public:
    /// \param signals  StepRecord::signals
    /// \param layers   what goes to Recording::append() with that record
    StepValues(std::span<float> signals, LayerValues& layers)
        : m_signals(signals)
        , m_layers(layers) {}

    /// One number of a signal that is not layered. A NaN counts as measured.
    void set(size_t id, double value) const;
    /// [layers] of a layered signal; their mean goes into the scalar slot. absent() marks layers that were not measured.
    void set_layers(size_t id, std::span<const float> values) const;

private:
    std::span<float> m_signals;
    LayerValues& m_layers;
};

} // namespace refreshlab
