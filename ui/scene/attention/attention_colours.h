#pragma once

#include "engine/record/recording/recording.h"
#include "ui/scene/attention/attention_map.h"
#include "ui/scene/attention/attention_view.h"
#include "ui/scene/attention/read_history.h"
#include "ui/scene/maps/colour_maps.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

/// How the heads of an attention map become colours. A range widens at once and narrows only on request, so that colours
/// do not flicker.
class AttentionColours {
public:
    static constexpr int log_decades = 3;   ///< a logarithmic scale shows this many below its maximum
    std::string_view theme_map = "viridis"; ///< of weights; outlives this: a map's name of the theme
    std::string_view signed_map = "rdbu";   ///< of differences: blue below zero, red above; the same

    /// What is coloured from now on. The ranges start anew where the old ones say nothing about it: weights after differences, with
    /// position 0 after without.
    void show(const AttentionView& view, AttentionOf of);
    [[nodiscard]] AttentionOf of() const { return m_of; }
    [[nodiscard]] bool own_range() const { return m_own.has_value(); } ///< a person chose it
    /// Name of the map in use.
    [[nodiscard]] std::string_view map_name() const {
        return differences() ? signed_map : m_map.empty() ? theme_map : std::string_view(m_map);
    }
    [[nodiscard]] bool differences() const { return m_of == AttentionOf::difference; }
    void reset_range();
    [[nodiscard]] AttentionScales scales() const { return {m_shared_max, m_head_max}; }
    /// As wide as a panel has them, before follow(). Nothing happens where they are of other heads.
    /// \param heads  that the map will have
    void widen(const AttentionScales& scales, size_t heads);
    /// Widens the ranges to what a map of heads holds.
    void follow(const AttentionMap& heads);

    /// Of one head, by its place among the layers and heads of the map that was followed last.
    [[nodiscard]] ColourScale scale(size_t layer_index, size_t head_index) const;
    /// RGBA of cells under a scale; same sizes (asserted).
    void colour(std::span<const HalfCell> cells, const ColourScale& scale, std::span<uint32_t> rgba) const;
    /// A text that changes with whatever changes a colour.
    [[nodiscard]] std::string key() const;

private:
    AttentionOf m_of = AttentionOf::student;
    AttentionRange m_range = AttentionRange::shared;
    std::optional<double> m_own; ///< upper end of a range of one's own
    bool m_log = true, m_without_first = true;
    std::string m_map;
    size_t m_heads = 0; ///< of a layer
    std::vector<double> m_head_max;
    double m_shared_max = 0;
};

/// All heads of a map as one image, [layers * rows][heads * columns] of cells, RGBA.
/// \param unread  null, or what was read: then cells of nothing but unread keys have this colour
struct UnreadMark {
    const ReadHistory& history;
    int64_t prompt_length = 0;
    uint32_t colour = 0;
};
[[nodiscard]] std::vector<uint32_t> heads_image(const AttentionMap& heads, const AttentionColours& colours,
                                                const UnreadMark* unread = nullptr);

/// Which part of a head's cells is the window itself: the recorded part ends inside the last block of queries and keys.
/// Shares of the image's width and height.
struct CellWindow {
    float u_end = 1, v_begin = 0, v_end = 1;
};
[[nodiscard]] CellWindow cell_window(const AttentionMap& map);

/// The weights of one query in one head, read again only where query, head or model change.
struct ShownRow {
    std::vector<float> weights;          ///< [keys]; empty = not recorded
    std::vector<int32_t> keys;           ///< [keys]: of how many keys each weight is the mean
    std::vector<float> teacher, student; ///< of a difference: what it is made of
    std::vector<TopKey> top;             ///< the strongest of the keys that have a weight of their own
    std::string resolution;              ///< resolution_words()

    void read(const Recording& recording, int64_t query, AttentionOf of, int32_t layer, int32_t head);
    void clear();

private:
    int64_t m_query = -1;
    int32_t m_layer = -1, m_head = -1;
    AttentionOf m_of = AttentionOf::student;
};

/// Why the row of a query is not there, and what would bring it.
struct MissingRow {
    std::string why;
    bool teacher = false;           ///< whose row is missing; of a difference the student's counts first
    int64_t held = 0;               ///< positions that this model has read
    std::optional<int64_t> go_step; ///< the newest step whose row it could read
    bool can_read = false;          ///< a pass over the token would bring it
};
/// \param steps  of the recording, at the start of the frame
[[nodiscard]] MissingRow missing_row(const Recording& recording, int64_t steps, int64_t query,
                                     AttentionOf of);

} // namespace refreshlab::ui
