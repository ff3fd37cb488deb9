#pragma once

#include <map>
#include <optional>
#include <string>

namespace refreshlab::ui {

/// Where things without an item label were drawn in the last frame (a threshold line, a token, a heatmap), in window
/// pixels: panels publish, GUI tests and pictures of one panel read. Names: "signals/threshold/entropy_bits",
/// "signals/plot/entropy_bits", "signals/marker/3", "text/token/17", "attention/head", "attention/grid/2/5",
/// "cache/map", "timeline/bar", "panel/Signals".
class Landmarks {
public:
    struct Box {
        float x = 0, y = 0, width = 0, height = 0;
    };
    void set(std::string name, Box box) { m_boxes[std::move(name)] = box; }
    [[nodiscard]] std::optional<Box> find(const std::string& name) const {
        const auto it = m_boxes.find(name);
        return it == m_boxes.end() ? std::nullopt : std::optional<Box>(it->second);
    }
    void clear() { m_boxes.clear(); } ///< start of a frame

private:
    std::map<std::string, Box> m_boxes;
};

} // namespace refreshlab::ui
