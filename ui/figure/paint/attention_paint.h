#pragma once

#include "ui/figure/pen.h"
#include "ui/scene/attention/attention_colours.h"
#include "ui/scene/attention/attention_geometry.h"
#include "ui/scene/attention/read_history.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::ui {

// Attention of all heads as small maps, and of one head enlarged: in the panel and in figures.

/// Whether keys that were not read have a colour of their own: in maps of the model that decodes, where a cache policy kept some
/// from being read.
[[nodiscard]] bool marks_unread(const Recording& recording, AttentionOf of, const ReadHistory& history);

/// The heads of a map, in one image.
struct HeadsPicture {
    const AttentionMap& map;
    FigureImage sheet; ///< of heads_image()

    /// The part of the sheet that is this head's window of queries and keys, by its places among the layers and heads of the map.
    [[nodiscard]] FigureImage cells(size_t layer, size_t head) const;
};
/// A head and where it is drawn.
struct PlacedHead {
    size_t layer = 0, head = 0; ///< places in the map's shape
    FigureRect place;
};
/// Each on its ground. \param framed  with a line around each
void paint_heads(const FigurePen& pen, const HeadsPicture& picture, std::span<const PlacedHead> placed,
                 bool framed);
/// "L3" beside the rows and "H5" below the columns. \param chosen  layer and head whose names stand out
void paint_grid_names(const FigurePen& pen, const HeadGrid& grid, const AttentionMap& map,
                      std::optional<std::pair<int32_t, int32_t>> chosen);
/// "L3 H5  0.71" below a cell of a ranking, as much as there is room for.
void paint_rank_name(const FigurePen& pen, const FigureRect& cell, double room, int32_t layer, int32_t head,
                     double value, bool chosen);
/// The ranking by its name and unit: "Focused (nats)".
[[nodiscard]] std::string ranking_words(HeadOrder order);

/// One head of one query, and of the queries before it.
struct HeadPicture {
    const Recording& recording;
    int64_t steps = 0;
    const AttentionMap& map; ///< of this head alone
    FigureImage cells;       ///< of the map, without a part
    const ShownRow& row;     ///< of the shown query
    int64_t query = 0;       ///< the shown one, a position
    AttentionOf of = AttentionOf::student;
    int32_t layer = 0, head = 0;
    bool without_first = false;          ///< position 0 does not set the scale of the strip
    const ReadHistory* unread = nullptr; ///< null: keys that were not read have no colour of their own
    std::optional<int64_t> held = {};    ///< a key that a person holds

    [[nodiscard]] const QueryWindow& window() const { return map.shape().window; }
};
/// Where its parts are.
struct HeadPlaces {
    FigureRect title;                       ///< two lines
    FigureRect strip;                       ///< weights of the shown query; no height where there is no room
    FigureRect map;                         ///< queries down, keys to the right; no height: too small
    double step_tokens = 0, key_tokens = 0; ///< room for tokens left of the map and below it
    bool named = false;                     ///< the upward axis
    double bottom = 0;
    KeyAxis axis; ///< of strip and map
};
/// \param keys  of the window
[[nodiscard]] HeadPlaces head_places(const FigurePen& pen, const FigureRect& place, int64_t keys);
/// Upper edge of a query's row.
[[nodiscard]] double row_top(const HeadPlaces& places, const QueryWindow& window, int64_t query);

/// "Layer 3, head 5   step 12, sea" and below it what this query reads most, the held key first.
void paint_head_title(const FigurePen& pen, const HeadPlaces& places, const HeadPicture& picture);
void paint_strip(const FigurePen& pen, const HeadPlaces& places, const HeadPicture& picture);
void paint_head_map(const FigurePen& pen, const HeadPlaces& places, const HeadPicture& picture);
/// Steps and positions with their tokens: the shown and the held ones first, then as many as keep apart.
void paint_head_axes(const FigurePen& pen, const HeadPlaces& places, const HeadPicture& picture);

} // namespace refreshlab::ui
