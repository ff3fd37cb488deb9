#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// How the values of the layers become one number: what a trigger compares.
enum class Reduction : uint8_t {
    mean,  ///< over the layers; also what stands in the signal's scalar slot
    max,   ///< the largest
    min,   ///< the smallest
    layer, ///< the value of one layer
};
[[nodiscard]] std::string_view to_string(Reduction reduction);
[[nodiscard]] std::optional<Reduction> reduction_from_string(std::string_view name);

/// The values of one step that are measured per layer, by signal id. Layers count from 0; absent() marks a layer that was not
/// measured. Plain data of one thread.
class LayerValues {
public:
    struct Entry {
        size_t signal, first, count;
    };

    /// Replaces what the signal had. No values: the signal is not measured.
    void set(size_t signal, std::span<const float> values);
    /// [layers], or empty where the signal was not measured. Until the next change.
    [[nodiscard]] std::span<const float> find(size_t signal) const;
    [[nodiscard]] bool empty() const { return m_entries.empty(); }
    /// One for each signal that has values, in the order of set().
    [[nodiscard]] std::span<const Entry> entries() const { return m_entries; }
    [[nodiscard]] std::span<const float> values(const Entry& entry) const;
    void clear();

private:
    std::vector<Entry> m_entries;
    std::vector<float> m_values;
};

/// Over the layers that were measured, in fp64 from layer 0 on; NaN where one of them is NaN; absent() where none was measured.
[[nodiscard]] float layer_mean(std::span<const float> values);

/// One number of a step's layer values. Layers that were not measured do not count; a NaN among those that count makes the
/// result NaN; absent() where nothing is left, and for a layer that is not there.
/// \param layer  of Reduction::layer, from 0
[[nodiscard]] float reduce_layers(std::span<const float> values, Reduction reduction, int32_t layer = 0);

/// "kept_positions" for the mean, else "kept_positions.max", "kept_positions.min", "kept_positions.layer3": the signal with its
/// reduction, in reasons and messages.
[[nodiscard]] std::string reduced_name(std::string_view signal, Reduction reduction, int32_t layer = 0);

} // namespace refreshlab
