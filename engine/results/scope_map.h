#pragma once

#include "engine/refresh/scope.h"
#include "engine/results/bootstrap.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// A part of what a refresh writes, as a map asks for it.
struct ScopePart {
    /// Of what a row of the map is one; each kind covers all of delta.
    enum class Kind : uint8_t {
        half,       ///< keys or values, everywhere
        layer,      ///< a layer
        layer_half, ///< keys or values of a layer
        head,       ///< a KV head of a layer
        block,      ///< positions [block, block + 1) / blocks of delta, the oldest first, in a layer
    } kind = Kind::half;
    int32_t layer = -1, kv_head = -1, block = -1; ///< -1: of all
    ScopeParts parts = ScopeParts::both;

    friend bool operator==(const ScopePart&, const ScopePart&) = default;
};
inline constexpr size_t num_scope_kinds = 5;
[[nodiscard]] std::string_view to_string(ScopePart::Kind kind);

/// Where in the cache refreshes pay, on a given text: losses of the student over the next `horizon` tokens after each of some refreshes, where
/// one part alone of delta is refreshed, and where all but that part is. Before each refresh the student stands as after a whole one at the
/// boundary in front (the first: on the teacher's prompt). Losses are nats a token.
struct ScopeMap {
    int64_t layers = 0, kv_heads = 0, blocks = 0, horizon = 0;
    int64_t entry_bytes = 0; ///< K and V of one position in one KV head, as the teacher stores them

    struct Refresh {
        int64_t boundary = 0, delta = 0; ///< step; positions that it writes
        double none = 0, whole = 0,
               teacher = 0; ///< without it, with all of it, and the teacher's own on these tokens
        [[nodiscard]] double gain() const { return none - whole; }
        friend bool operator==(const Refresh&, const Refresh&) = default;
    };
    std::vector<Refresh> refreshes;

    struct Reading {
        ScopePart part;
        std::vector<double> alone, without; ///< losses, [refreshes]
        friend bool operator==(const Reading&, const Reading&) = default;
    };
    std::vector<Reading> readings;

    /// KV heads in the order in which a greedy choice takes them, and the losses with all so far.
    struct Taken {
        int32_t layer = 0, kv_head = 0;
        std::vector<double> loss; ///< [refreshes]
        friend bool operator==(const Taken&, const Taken&) = default;
    };
    std::vector<Taken> taken;
    friend bool operator==(const ScopeMap&, const ScopeMap&) = default;

    [[nodiscard]] double mean_delta() const;
    /// Of a part, a refresh in the mean.
    [[nodiscard]] double bytes_of(const ScopePart& part) const;
};

/// A share of what the whole refreshes gain, sum over sum, with its interval where there are refreshes enough (bootstrap_share()).
struct GainShare {
    double share = 0;
    std::optional<Interval> interval;
};
/// What these losses [refreshes] gain over none, nats a token, the mean over refreshes; with its interval (bootstrap_mean()).
struct MeanGain {
    double gain = 0;
    std::optional<Interval> interval;
};
[[nodiscard]] MeanGain mean_gain(const ScopeMap& map, const std::vector<double>& losses,
                                 const BootstrapOptions& options = {});
/// Of losses [refreshes]: (none - loss) / (none - whole). Nothing where the whole refreshes gain nothing.
[[nodiscard]] std::optional<GainShare> gain_share(const ScopeMap& map, const std::vector<double>& losses,
                                                  const BootstrapOptions& options = {});
/// What is lost without a part: (loss - whole) / (none - whole).
[[nodiscard]] std::optional<GainShare> lost_share(const ScopeMap& map, const std::vector<double>& losses,
                                                  const BootstrapOptions& options = {});

/// The fewest KV heads of the greedy order that keep `share` of the gain; nothing where it does not get there.
[[nodiscard]] std::optional<size_t> heads_for(const ScopeMap& map, double share);
/// The scope of the first n of them.
[[nodiscard]] RefreshScope scope_of_taken(const ScopeMap& map, size_t n);
/// "--set refresh.layers=10-24 --set refresh.kv_heads=..."; empty for a whole scope.
[[nodiscard]] std::string scope_flags(const RefreshScope& scope);

} // namespace refreshlab
