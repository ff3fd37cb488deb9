#pragma once

#include "ui/base/pixel_box.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refreshlab::ui {

/// Where things without an item label were drawn in the last frame (a threshold line, a token, a heatmap), in window
/// pixels. Panels write it; GUI tests read it. Names: "signals/threshold/entropy_bits", "signals/plot/entropy_bits",
/// "signals/marker/3", "text/token/17", "attention/head", "attention/grid/2/5", "cache/map", "timeline/bar", "panel/Signals".
/// Nothing is kept, and no name is put together, before somebody watches. Only the places of the panels are always known: a
/// picture of one panel needs them.
class Landmarks {
public:
    using Box = PixelBox;
    void watch() { ++m_watchers; }   ///< from the next frame on
    void unwatch() { --m_watchers; } ///< of the same watcher

    /// In front of all names from now on: of a further panel of a kind, "2/".
    void set_prefix(std::string prefix) { m_prefix = std::move(prefix); }
    [[nodiscard]] const std::string& prefix() const { return m_prefix; }

    void set(std::string_view name, Box box) {
        if (m_watchers > 0) m_boxes.emplace_back(named(name), box);
    }
    /// The same of a name with numbers in it: set(box, "text/token/{}", 17).
    template <class... Args>
    void set(Box box, fmt::format_string<Args...> name, Args&&... args) {
        if (m_watchers > 0) m_boxes.emplace_back(named(fmt::format(name, std::forward<Args>(args)...)), box);
    }
    void set_panel(const std::string& title, Box box) { m_panels[title] = box; }

    /// The newest of that name. Hundreds are set in every frame (each token) and few are ever searched. So setting is
    /// cheap, and finding goes through all of them.
    [[nodiscard]] std::optional<Box> find(const std::string& name) const {
        constexpr std::string_view panel_prefix = "panel/";
        if (name.starts_with(panel_prefix)) return panel(name.substr(panel_prefix.size()));
        const auto it = std::find_if(m_boxes.rbegin(), m_boxes.rend(),
                                     [&](const auto& box) { return box.first == name; });
        return it == m_boxes.rend() ? std::nullopt : std::optional<Box>(it->second);
    }
    [[nodiscard]] std::optional<Box> panel(const std::string& title) const {
        const auto it = m_panels.find(title);
        return it == m_panels.end() ? std::nullopt : std::optional(it->second);
    }
    /// Words that are painted and are no item, for tests that must read them ("cache/bytes").
    void set_text(std::string_view name, std::string_view text) {
        if (m_watchers > 0) m_texts[named(name)] = text;
    }
    /// \param make  gives the words; called only where somebody watches
    template <class Make, class... Args>
    requires std::is_invocable_v<Make>
    void set_text(Make&& make, fmt::format_string<Args...> name, Args&&... args) {
        if (m_watchers > 0) m_texts[named(fmt::format(name, std::forward<Args>(args)...))] = make();
    }
    [[nodiscard]] std::string text(const std::string& name) const {
        const auto it = m_texts.find(name);
        return it == m_texts.end() ? std::string() : it->second;
    }
    void clear() { ///< start of a frame
        m_boxes.clear();
        m_texts.clear();
        m_panels.clear();
    }

private:
    [[nodiscard]] std::string named(std::string_view name) const {
        return std::string(m_prefix).append(name);
    }

    int m_watchers = 0;
    std::string m_prefix;
    std::vector<std::pair<std::string, Box>> m_boxes;
    std::map<std::string, Box> m_panels; ///< by title
    std::map<std::string, std::string> m_texts;
};

/// Names are of a part, "compared/", for as long as it lives.
class LandmarkPrefix {
public:
    LandmarkPrefix(Landmarks& landmarks, std::string_view part)
        : m_landmarks(landmarks)
        , m_before(landmarks.prefix()) {
        m_landmarks.set_prefix(m_before + std::string(part));
    }
    ~LandmarkPrefix() { m_landmarks.set_prefix(m_before); }
    LandmarkPrefix(const LandmarkPrefix&) = delete;
    LandmarkPrefix& operator=(const LandmarkPrefix&) = delete;

private:
    Landmarks& m_landmarks;
    std::string m_before;
};

} // namespace refreshlab::ui
