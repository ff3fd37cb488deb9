#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::ui {

/// Where things without an item label were drawn in the last frame (a threshold line, a token, a heatmap), in window
/// pixels. Panels write it; GUI tests and pictures of one panel read it. Names: "signals/threshold/entropy_bits",
/// "signals/plot/entropy_bits", "signals/marker/3", "text/token/17", "attention/head", "attention/grid/2/5",
/// "cache/map", "timeline/bar", "panel/Signals".
class Landmarks {
public:
    struct Box {
        float x = 0, y = 0, width = 0, height = 0;
    };
    void set(std::string name, Box box) { m_boxes.emplace_back(std::move(name), box); }
    /// The newest of that name. Hundreds are set in every frame (each token) and few are ever searched. So setting is
    /// cheap, and finding goes through all of them.
    [[nodiscard]] std::optional<Box> find(const std::string& name) const {
        const auto it = std::find_if(m_boxes.rbegin(), m_boxes.rend(),
                                     [&](const auto& box) { return box.first == name; });
        return it == m_boxes.rend() ? std::nullopt : std::optional<Box>(it->second);
    }
    /// Words that are painted and are no item, for tests that must read them ("cache/bytes").
    void set_text(const std::string& name, std::string text) { m_texts[name] = std::move(text); }
    [[nodiscard]] std::string text(const std::string& name) const {
        const auto it = m_texts.find(name);
        return it == m_texts.end() ? std::string() : it->second;
    }
    void clear() { ///< start of a frame
        m_boxes.clear();
        m_texts.clear();
    }

private:
    std::vector<std::pair<std::string, Box>> m_boxes;
    std::map<std::string, std::string> m_texts;
};

} // namespace refreshlab::ui
