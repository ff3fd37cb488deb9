#pragma once

// Shared by the files of the Cache panel.
#include "ui/panels/cache/cache_panel.h"

#include <cstdint>
#include <string>

namespace refreshlab::ui {

/// What one frame of the panel works with: places in pixels.
struct CachePanel::Frame {
    const Recording* recording = nullptr;
    CacheView* view = nullptr; ///< what the person has chosen to see
    CacheMap map = CacheMap::drift;
    float em = 0;
    ImVec2 lanes_min; ///< top left of the first lane
    float x0 = 0, x1 = 0;
    float bars_x1 = 0;       ///< right end of the bars beside the map; x1 where there are none
    bool has_policy = false; ///< the model that decodes has a cache policy
    std::string method;      ///< its name for people
    int64_t rows = 0;        ///< of the map
    float origin_y0 = 0, origin_y1 = 0, age_y0 = 0, age_y1 = 0, drift_y0 = 0, drift_y1 = 0, axis_y = 0,
          bottom = 0;
    int64_t length = 1;

    [[nodiscard]] float x_of(double position) const {
        return x0 + static_cast<float>(position / static_cast<double>(length)) * (x1 - x0);
    }
    /// Lanes of origin and age above, the drift map below them, then axis and bytes.
    void place(ImVec2 at, ImVec2 room, bool bars);
};

} // namespace refreshlab::ui
