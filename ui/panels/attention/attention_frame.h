#pragma once

// Shared by the files of the Attention panel.
#include "ui/base/colour.h"
#include "ui/panels/attention/attention_panel.h"
#include "ui/scene/attention/attention_geometry.h"

#include <cstdint>
#include <vector>

namespace refreshlab::ui {

/// What one frame of the panel works with.
struct AttentionPanel::Frame {
    const Recording* recording = nullptr;
    AttentionView* view = nullptr;      ///< what the person has chosen to see
    int64_t prompt = 0;                 ///< its length
    int64_t query = 0;                  ///< position of the shown query
    std::vector<int32_t> layers, heads; ///< the visible ones
    float em = 0;
    Colour unread = 0;        ///< of keys that were not read
    bool live_engine = false; ///< the shown recording is the engine's: rows can be asked for
    HeadPlaces places;        ///< of the enlarged head
};

/// Characters of a token in tooltips and titles.
inline constexpr size_t attention_label_chars = 24;

} // namespace refreshlab::ui
