#pragma once

#include "engine/control/run_config.h"
#include "ui/scene/attention/attention_map.h"
#include "ui/scene/attention/head_ranking.h"
#include "ui/scene/axes/own_range.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refreshlab::ui {

/// What one weight of full colour is.
enum class AttentionRange : uint8_t {
    unit,     ///< 0 to 1
    shared,   ///< the largest weight of all heads
    per_head, ///< the largest weight of each head
};
inline constexpr std::array attention_ranges = {AttentionRange::unit, AttentionRange::shared,
                                                AttentionRange::per_head};

/// Upper ends of the colour ranges that a panel has come to: they widen at once and narrow on request alone.
struct AttentionScales {
    double shared = 0;         ///< of all visible heads
    std::vector<double> heads; ///< of each, layer by layer
    friend bool operator==(const AttentionScales&, const AttentionScales&) = default;
};

/// What a person has chosen to see of attention.
struct AttentionView {
    AttentionOf of = AttentionOf::student; ///< where a run has both models
    AttentionRange range = AttentionRange::shared;
    OwnRanges ranges = {};     ///< in place of it, by range_name()
    bool log = true;           ///< of weights; of differences, which have signs: symlog
    bool without_first = true; ///< the range leaves position 0 out, which takes most mass in many heads
    std::string map = {};      ///< name of a colour map for weights; empty: the theme's
    int rows = 64;             ///< queries
    HeadOrder order = HeadOrder::place;
    int best = 12;            ///< heads that a ranking shows
    bool read_missing = true; ///< rows of the teacher are asked for by themselves while nothing runs
    std::vector<int32_t> hidden_layers = {}, hidden_heads = {}; ///< ascending
    std::optional<AttentionScales> scales =
        {}; ///< as the panel shows it: of one run, in no file; nothing: what fits
    friend bool operator==(const AttentionView&, const AttentionView&) = default;
};

/// What own ranges of colours are of: "weight", from 0, or "difference", even about 0.
[[nodiscard]] constexpr std::string_view range_name(AttentionOf of) {
    return of == AttentionOf::difference ? "difference" : "weight";
}

/// Weights may lie beyond the range of colours: one of one's own, or one without position 0.
[[nodiscard]] bool may_lie_beyond(const AttentionView& view, AttentionOf of);

/// Whose attention a run of this mode shows: of one model there is one.
[[nodiscard]] AttentionOf shown_attention(const AttentionView& view, Mode mode);

/// Of `count` layers or heads those that are not hidden, ascending.
[[nodiscard]] std::vector<int32_t> not_hidden(int64_t count, const std::vector<int32_t>& hidden);
void set_hidden(std::vector<int32_t>& hidden, int32_t one, bool hide);

/// The chosen layer and head, or the nearest below that there are and are not hidden; the first where there is none below.
/// \param layers, heads  ascending, not empty
[[nodiscard]] std::pair<int32_t, int32_t> visible_head(std::pair<int32_t, int32_t> chosen,
                                                       const std::vector<int32_t>& layers,
                                                       const std::vector<int32_t>& heads);

/// A view as a person may have left it in a file: numbers that no control offers become the nearest that one does, and a colour map
/// that this version does not have becomes the theme's.
[[nodiscard]] AttentionView sane(AttentionView view);

/// A map about a middle: of differences, not of weights.
[[nodiscard]] bool is_signed_map(std::string_view map);

inline constexpr int query_counts[] = {16, 32, 64, 128, 256};
inline constexpr int ranked_counts[] = {4, 8, 12, 16, 24, 48};

/// "student", "teacher", "difference"; "unit", "shared", "per_head"; "place", "focused", ...: on command lines and in the settings file.
[[nodiscard]] std::string_view to_string(AttentionOf of);
[[nodiscard]] std::string_view to_string(AttentionRange range);
[[nodiscard]] std::string_view to_string(HeadOrder order);

} // namespace refreshlab::ui
