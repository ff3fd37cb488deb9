#pragma once

#include "ui/draw/path_picker.h"
#include "ui/panels/panel.h"
#include "ui/panels/policy/cache_section.h"
#include "ui/panels/policy/find_threshold.h"
#include "ui/scene/policy/trigger_results.h"
#include "ui/scene/policy/trigger_state.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace refreshlab::ui {

/// The refresh policy as cards, one a trigger, with preset, action and budget (development/ui.md, PO1-PO6). Everything goes
/// through Drafts.
class PolicyPanel final : public Panel {
public:
    [[nodiscard]] std::string_view title() const override { return "Policy"; }
    void recording_changed(UiContext&) override { m_results.clear(); }
    void draw(UiContext& ctx) override;

private:
    // policy_panel.cpp
    void draw_preset(UiContext& ctx, const RefreshPolicy& policy);
    void draw_preset_list(UiContext& ctx, const RefreshPolicy& policy, float menu);
    void draw_file_popup(UiContext& ctx, const RefreshPolicy& policy);
    static void draw_add(UiContext& ctx, const RefreshPolicy& policy);
    static void draw_combine(UiContext& ctx, const RefreshPolicy& policy);
    static void draw_action(UiContext& ctx, const RefreshPolicy& policy);
    static void draw_budget(UiContext& ctx, const RefreshPolicy& policy);
    // trigger_card.cpp
    void draw_card(UiContext& ctx, const RefreshPolicy& policy, size_t index, const TriggerState& state);
    void draw_result(UiContext& ctx, size_t index, const Trigger& trigger);
    void draw_foot(UiContext& ctx, size_t index, const std::string& state, const std::string& cost);
    void draw_find_button(UiContext& ctx, size_t index, const char* label);

    std::unique_ptr<PathPicker> m_picker;
    bool m_saving = false;
    FindThreshold m_find;
    CacheSection m_caches;
    TriggerResults m_results; ///< of the shown run
};

} // namespace refreshlab::ui
