#include "engine/signals/registry.h"

#include "engine/base/error.h"
#include "engine/signals/nearest_name.h"
#include "engine/signals/signal_list.h"

#include <array>

namespace refreshlab {

namespace {

const auto& all_signals() {
    static const std::array all = {
#define RL_DEFINE_SIGNAL(name) signal_definition::name(),
        RL_SIGNALS(RL_DEFINE_SIGNAL)
#undef RL_DEFINE_SIGNAL
    };
    static_assert(std::tuple_size_v<decltype(all)> <= max_signals, "StepRecord has room for max_signals");
    return all;
}

} // namespace

std::span<const Signal> signals() {
    return all_signals();
}

std::optional<size_t> signal_id(std::string_view name) {
    return find_signal(all_signals(), name);
}

size_t require_signal(std::string_view name, const std::string& where) {
    return require_signal(all_signals(), name, where);
}

std::optional<size_t> find_signal(std::span<const Signal> table, std::string_view name) {
    for (size_t id = 0; id < table.size(); ++id) {
        if (table[id].name == name) return id;
    }
    return std::nullopt;
}

size_t require_signal(std::span<const Signal> table, std::string_view name, const std::string& where) {
    if (const std::optional<size_t> id = find_signal(table, name)) return *id;
    std::vector<std::string_view> names;
    for (const Signal& signal : table)
        names.push_back(signal.name);
    throw Error("reading", where, "unknown signal \"" + std::string(name) + "\"",
                name_hint(name, names, "signals"));
}

void evaluate_signals(const SignalInputs& in, std::span<float> out, LayerValues* layers) {
    const auto& all = all_signals();
    std::vector<float> values;
    for (size_t id = 0; id < all.size() && id < out.size(); ++id) {
        if (layers != nullptr && all[id].layer_values != nullptr) {
            values.clear();
            all[id].layer_values(in, values);
            if (!values.empty()) layers->set(id, values);
        }
        const std::optional<double> value = all[id].value(in);
        if (!value) continue;
        // A measured NaN must not carry the payload of absent(), whatever arithmetic made it.
        out[id] = std::isnan(*value) ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(*value);
    }
}

} // namespace refreshlab
