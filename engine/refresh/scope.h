#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// Which halves of an entry a refresh writes.
enum class ScopeParts : uint8_t { both, keys, values };

/// Which positions of delta a refresh writes: all of them, or `count`. A score is that of a position, over the layers, KV heads and parts in
/// scope; where two are equal the older position comes first.
enum class ScopePositions : uint8_t {
    all,
    newest,          ///< as a window of `count`
    drift,           ///< those that are farthest from the teacher's (reference/refresh.md, 6.2)
    attention,       ///< those that the student's queries have attended to most since they were written
    drift_attention, ///< by drift times attention
};

/// Whole numbers first .. last.
struct IndexRange {
    int32_t first = 0, last = 0;
    [[nodiscard]] bool has(int64_t i) const { return i >= first && i <= last; }
    friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

/// KV heads of some layers.
struct HeadRange {
    std::optional<IndexRange> layers; ///< nothing: all
    IndexRange heads;
    friend bool operator==(const HeadRange&, const HeadRange&) = default;
};

/// Which entries of delta a refresh takes over from the teacher; the rest stays the student's for good, as what a window passes over
/// (reference/refresh.md, section 3, Scope). Data, not code: it stands in the policy.
///
/// Text   "0,3,7-9" or "all". Heads may name their layers: "0,10-12:1-2" is head 0 of all layers, and heads 1 and 2 of layers 10 to 12.
struct RefreshScope {
    std::vector<IndexRange> layers; ///< ascending, disjoint; none = all
    std::vector<HeadRange>
        kv_heads; ///< all that one of them names; none = all. What `layers` leaves out stays out
    ScopeParts parts = ScopeParts::both;
    ScopePositions positions = ScopePositions::all;
    int32_t count = 32; ///< of positions, where not all are written

    /// Every layer, KV head and part: only positions are chosen.
    [[nodiscard]] bool whole_entries() const;
    /// All of delta, every layer, KV head and part.
    [[nodiscard]] bool whole() const { return whole_entries() && positions == ScopePositions::all; }
    [[nodiscard]] bool has(int64_t layer, int64_t kv_head) const;
    /// [layers * kv_heads], 1 = in scope.
    [[nodiscard]] std::vector<uint8_t> heads_of(int64_t num_layers, int64_t num_kv_heads) const;

    friend bool operator==(const RefreshScope&, const RefreshScope&) = default;
};

/// Largest numbers of a scope, and most ranges of a list.
namespace scope_limits {
inline constexpr int32_t index = 65'535, count = 1'000'000;
inline constexpr size_t ranges = 4096;
} // namespace scope_limits

/// \return nothing where the text is no such list
[[nodiscard]] std::optional<std::vector<IndexRange>> layers_from_text(std::string_view text);
[[nodiscard]] std::optional<std::vector<HeadRange>> heads_from_text(std::string_view text);
[[nodiscard]] std::string to_text(const std::vector<IndexRange>& layers);
[[nodiscard]] std::string to_text(const std::vector<HeadRange>& heads);
/// What the two readers take, for messages.
inline constexpr std::string_view
    layers_form = "layers and ranges of layers with commas, ascending (0,3,7-9), or all",
    heads_form =
        "KV heads and ranges of them with commas (0,2-3), of some layers with a colon (10-12:0), or all";

[[nodiscard]] std::string_view to_string(ScopeParts parts);
[[nodiscard]] std::string_view to_string(ScopePositions positions);
inline constexpr size_t num_scope_parts = 3, num_scope_positions = 5;

/// The scope of the KV heads in `heads` ([num_layers * num_kv_heads], 1 = in scope; at least one), in the shortest text.
[[nodiscard]] RefreshScope scope_of_heads(const std::vector<uint8_t>& heads, int64_t num_layers,
                                          int64_t num_kv_heads);

/// "layers 10-24, values, 32 by drift"; empty where it is whole.
[[nodiscard]] std::string scope_text(const RefreshScope& scope);

/// What of a scope a model does not have, for people: "layer 31: the model has layers 0 to 29". Empty: it has all.
[[nodiscard]] std::string why_not_in_model(const RefreshScope& scope, int64_t num_layers,
                                           int64_t num_kv_heads);

} // namespace refreshlab
