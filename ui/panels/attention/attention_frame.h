#pragma once

// Shared by the two files of the Attention panel.
#include "ui/panels/attention/attention_panel.h"
#include "ui/scene/text/token_label.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// What one frame of the panel works with.
struct AttentionPanel::Frame {
    const Recording* recording = nullptr;
    int64_t prompt = 0;                 ///< its length
    int64_t query = 0;                  ///< position of the shown query
    std::vector<int32_t> layers, heads; ///< the visible ones
    float em = 0;
    bool live_engine = false; ///< the shown recording is the engine's: rows can be asked for
    ImVec2 map_min, map_max;  ///< enlarged head, pixels
    int64_t query_keys = 1;   ///< keys on its x axis
    [[nodiscard]] float key_x(double key) const {
        return map_min.x +
               static_cast<float>(key / static_cast<double>(query_keys)) * (map_max.x - map_min.x);
    }
};

namespace attention {

inline std::string label_at(const Recording& recording, int64_t position, size_t max_chars = 24) {
    const int64_t prompt = recording.prompt_length();
    const int32_t id = position < prompt ? recording.info().prompt_ids[static_cast<size_t>(position)]
                                         : recording.token(position - prompt + 1);
    return token_label(recording.tokens(), id, max_chars);
}

inline ImU32 faded(ImU32 colour, float alpha) {
    return (colour & 0x00FFFFFFU) | static_cast<ImU32>(std::lround(255.0F * alpha)) << 24U;
}

inline float text_width(const std::string& text) {
    return ImGui::CalcTextSize(text.data(), text.data() + text.size()).x;
}

inline void text_at(ImDrawList* list, ImVec2 at, ImU32 colour, const std::string& text) {
    list->AddText(ImVec2(std::round(at.x), std::round(at.y)), colour, text.data(), text.data() + text.size());
}

} // namespace attention
} // namespace refreshlab::ui
