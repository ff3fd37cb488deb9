#pragma once

#include "ui/context/context.h"
#include "ui/draw/path_picker.h"
#include "ui/scene/policy/cache_words.h"

#include <memory>
#include <optional>
#include <string>

namespace refreshlab::ui {

/// Controls of one model's cache policy, made from the registry: the list of methods, and a row for each parameter with its name,
/// unit, range and help. What cannot be is refused in one line under its row, and nothing is changed. Drawn with ImGui.
class CacheControls {
public:
    /// What is shown, and what its values mean.
    struct Subject {
        const RunConfig& config; ///< the policy is that of `owner` in it
        CacheOwner owner = CacheOwner::student;
        int64_t context = 0; ///< positions that a run can reach; 0 = not known
        RunReach reach;      ///< what this run reaches
        /// A run goes on with this method: parameters that it calls live act at once, by Drafts; the others stand apart.
        bool running = false;
    };
    /// The list of methods, `width` pixels wide. \return another policy that was chosen in this frame (chosen_cache)
    [[nodiscard]] static std::optional<CachePolicyConfig> draw_methods(UiContext& ctx, const Subject& of,
                                                                       float width);
    /// The rows, controls from `column` on. \return the policy with what was changed in this frame, apart from live values
    [[nodiscard]] std::optional<CachePolicyConfig> draw_values(UiContext& ctx, const Subject& of,
                                                               float column);
    void forget_fault() { m_fault.clear(); }

private:
    using Change = std::optional<CachePolicyConfig>;
    Change draw_row(UiContext& ctx, const Subject& of, const CacheParameter& parameter, float column);
    Change draw_file(UiContext& ctx, const Subject& of, const CacheFile& file, float column);
    Change draw_number(UiContext& ctx, const Subject& of, const CacheParameter& parameter, double value);
    /// \param live  of the parameter of this key
    Change take(UiContext& ctx, const Subject& of, std::string_view key, bool live, const std::string& text);
    void draw_fault(UiContext& ctx, std::string_view key);

    std::string m_typing, m_text;         ///< key of the entry that is typed in, and what stands there
    std::string m_sliding;                ///< key of the slider that is held
    double m_slid = 0;                    ///< its value, until it is let go of
    std::string m_fault_key, m_fault;     ///< what was refused last, and why
    std::unique_ptr<PathPicker> m_picker; ///< of a file that is chosen; null: none is
};

} // namespace refreshlab::ui
