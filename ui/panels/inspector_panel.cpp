#include "ui/base/value_format.h"
#include "ui/context/branch.h"
#include "ui/draw/candidates.h"
#include "ui/draw/offer_run.h"
#include "ui/draw/text_entry.h"
#include "ui/draw/tooltips.h"
#include "ui/panels/panel.h"
#include "ui/scene/runs/run_set.h"
#include "ui/scene/text/token_label.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <string>
#include <utility>

namespace refreshlab::ui {
namespace {

/// Everything that is known of the shown step, standing still: what tooltips have no room for. Select a step to hold it here.
class InspectorPanel final : public Panel {
public:
    [[nodiscard]] std::string_view title() const override { return "Inspector"; }
    [[nodiscard]] std::pair<float, float> size_in_ems() const override { return {22.0F, 34.0F}; }
    void draw(UiContext& ctx) override;

private:
    static void heading(const UiContext& ctx, const char* text, const std::string& token);
    static void group(const UiContext& ctx, int64_t step, SignalAbout about, const char* name);
    void draw_branch(UiContext& ctx, int64_t step, int32_t chosen);

    std::string m_typed; ///< what the step shall choose instead
};

void InspectorPanel::heading(const UiContext& ctx, const char* text, const std::string& token) {
    ImGui::Spacing();
    ImGui::PushFont(ctx.fonts.medium, 0);
    ImGui::TextUnformatted(text);
    ImGui::PopFont();
    if (token.empty()) return;
    ImGui::SameLine();
    ImGui::TextUnformatted(token.c_str());
}

void InspectorPanel::group(const UiContext& ctx, int64_t step, SignalAbout about, const char* name) {
    ImGui::PushID(name);
    signal_rows(ctx, step, SignalRows::all, {}, about);
    ImGui::PopID();
}

/// The candidates, and a word of one's own: either begins a branch in which this step chooses it.
void InspectorPanel::draw_branch(UiContext& ctx, int64_t step, int32_t chosen) {
    const auto run = ctx.runs.looked_at();
    const bool can = run && chosen >= 0 && why_no_branch(ctx, *run, step - 1).empty();
    const auto branch = [&](command::GiveTokens give) {
        branch_at(ctx, *run, step - 1, std::move(give), true);
    };
    if (const auto picked = draw_candidates(ctx, step, chosen, can)) branch({.ids = {*picked}, .text = {}});
    if (!can) return;
    const float em = ImGui::GetFontSize();
    ImGui::SetNextItemWidth(std::max(em * 6, ImGui::GetContentRegionAvail().x - em * 6));
    const bool entered =
        text_entry("##typed", &m_typed, ImGuiInputTextFlags_EnterReturnsTrue, "another word");
    ImGui::SetItemTooltip("Continues from here with these words, as a branch. A space is put before the word "
                          "if the chosen token begins with one.");
    ImGui::SameLine();
    ImGui::BeginDisabled(m_typed.empty());
    const bool pressed = ImGui::Button("Branch");
    ImGui::EndDisabled();
    ImGui::SetItemTooltip("The previous run stays: B shows it");
    if (m_typed.empty() || !(entered || pressed)) return;
    const bool spaced = ctx.recording->tokens().token_bytes(chosen).starts_with(' ');
    branch({.ids = {}, .text = (spaced && !m_typed.starts_with(' ') ? " " : "") + m_typed});
    m_typed.clear();
}

void InspectorPanel::draw(UiContext& ctx) {
    if (!ctx.recording || ctx.steps == 0)
        return offer_run(ctx, "What is known of a step appears here as soon as a run makes its first.");
    const int64_t step = ctx.shown_step();
    const Recording& recording = *ctx.recording;
    const StepRecord& record = recording.step(step);
    ImGui::TextUnformatted(
        fmt::format("Step {} of {}", format_thousands(step), format_thousands(ctx.steps)).c_str());
    ImGui::SameLine();
    ImGui::TextDisabled("%s", ctx.live() ? ctx.newest() : "selected");
    heading(ctx, "Token read", token_label(recording.tokens(), record.token_id));
    ImGui::TextDisabled("position %s, id %d, by %s", format_thousands(record.position).c_str(),
                        record.token_id,
                        record.producer == Producer::teacher ? "the teacher" : "the student");
    group(ctx, step, SignalAbout::token, "token");
    const int32_t chosen = token_chosen(recording, ctx.steps, step);
    heading(ctx, "Token chosen", chosen >= 0 ? token_label(recording.tokens(), chosen) : std::string("none"));
    group(ctx, step, SignalAbout::next_token, "next");
    draw_branch(ctx, step, chosen);
    if (any_signal_rows(ctx, step, SignalAbout::session)) {
        heading(ctx, "Caches", {});
        group(ctx, step, SignalAbout::session, "session");
    }
    describe_marks_at(ctx, step);
}

} // namespace

std::unique_ptr<Panel> make_inspector_panel() {
    return std::make_unique<InspectorPanel>();
}

} // namespace refreshlab::ui
