#pragma once

// Shared by the files of the Cache panel.
#include "ui/panels/cache/cache_panel.h"

#include <cstdint>
#include <string>

namespace refreshlab::ui {

/// What one frame of the panel works with: places in pixels.
struct CachePanel::Frame {
    Side* side = nullptr;
    const Recording* recording = nullptr;
    const StepMarks* marks = nullptr; ///< of the recording
    CacheView* view = nullptr;        ///< what the person has chosen to see
    CacheMap map = CacheMap::drift;
    float em = 0;
    bool has_policy = false; ///< the model that decodes has a cache policy
    std::string method;      ///< its name for people
    int64_t length = 1;      ///< positions
    bool lanes = true;       ///< origins and ages are drawn: two low maps leave them out
    CachePlaces places;
    PixelBox bytes; ///< the line below the axis
    float bottom = 0;
};

} // namespace refreshlab::ui
