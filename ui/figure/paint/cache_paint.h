#pragma once

#include "ui/figure/pen.h"
#include "ui/scene/maps/cache_model.h"
#include "ui/scene/text/step_marks.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace refreshlab::ui {

// The cache of the decoding model after a step: in the panel and in figures.

/// The images of a cache's lanes and map. Positions that share a column of an image are drawn as one. What has not changed is not
/// coloured again.
class CacheImages {
public:
    /// What the map shows.
    struct Choice {
        CacheMap map = CacheMap::drift;
        CacheRows rows;      ///< of entries
        bool log = false;    ///< of drift
        double top = 0;      ///< of the scale of drift
        int64_t columns = 0; ///< of an image, at most; > 0
    };
    void update(CacheModel& model, const Choice& choice, const Theme& theme);

    [[nodiscard]] const Choice& choice() const { return m_choice; }
    [[nodiscard]] FigureImage origins() const;
    [[nodiscard]] FigureImage ages() const;
    [[nodiscard]] FigureImage map() const;                ///< without cells where nothing was measured
    [[nodiscard]] int64_t rows() const { return m_rows; } ///< of the map: layers, or KV heads of one; 0: none
    [[nodiscard]] int64_t positions_a_column() const { return m_factor; }
    /// Of entries.
    [[nodiscard]] std::span<const RowCount> held() const { return m_held; }
    [[nodiscard]] const std::array<bool, num_cache_cells>& present() const { return m_present; }
    [[nodiscard]] ColourScale drift_scale(const Theme& theme) const;

private:
    /// Cells, and what they were coloured for.
    struct Image {
        std::vector<uint32_t> rgba;
        std::string look;
        uint64_t revision = 0;
        [[nodiscard]] bool is_old(std::string now);
    };
    void colour_lanes(CacheModel& model, const Theme& theme);
    void colour_drift(CacheModel& model, const Theme& theme);
    void colour_entries(CacheModel& model, const Theme& theme);
    [[nodiscard]] FigureImage image(const Image& of, int64_t rows, std::string_view key) const;

    Choice m_choice;
    Image m_origins, m_ages, m_drift, m_entries;
    int64_t m_length = 0, m_factor = 1, m_rows = 0;
    EntryColours m_cells;
    std::vector<RowCount> m_held;
    std::array<bool, num_cache_cells> m_present{};
};

/// What is drawn.
struct CachePicture {
    const Recording& recording;
    const CacheModel& model;
    const CacheImages& images;
    const StepMarks& marks; ///< of the recording
};

/// Where the parts are.
struct CachePlaces {
    FigureRect origins, ages, map; ///< one below the other, equally wide
    FigureRect held;               ///< right of the map; no width: none
    bool named = true;             ///< the axis has its name: in a low place ticks alone
    [[nodiscard]] double x_of(const CacheModel& model, double position) const {
        return map.x +
               position / static_cast<double>(std::max<int64_t>(1, model.columns().length())) * map.width;
    }
};
/// \param place  of all of them and of the axis \param lanes  of origins and ages too
[[nodiscard]] CachePlaces cache_places(const FigurePen& pen, const FigureRect& place,
                                       const CachePicture& picture, bool lanes = true);

void paint_cache_lanes(const FigurePen& pen, const CachePlaces& places, const CachePicture& picture);
/// The map with the names of its rows; of entries also what each row holds.
void paint_cache_map(const FigurePen& pen, const CachePlaces& places, const CachePicture& picture);
/// The end of the prompt, and how far each refresh has written; where these are many, as ticks.
void paint_cache_marks(const FigurePen& pen, const CachePlaces& places, const CachePicture& picture);
void paint_cache_axis(const FigurePen& pen, const CachePlaces& places, const CachePicture& picture);
/// Bytes against a full cache: a bar, and as many words as there is room for.
void paint_cache_meter(const FigurePen& pen, const FigureRect& line, const CacheMeter& meter);

/// Origins and states that are there, and the scale of ages.
[[nodiscard]] std::vector<LegendEntry> cache_legend(const Theme& theme, const CachePicture& picture);

} // namespace refreshlab::ui
