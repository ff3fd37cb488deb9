// The staircases in numbers, what was run for real, and the buttons that run it.
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/text.h"
#include "ui/draw/widgets.h"
#include "ui/panels/landscape/landscape_panel.h"
#include "ui/scene/landscape/objective_words.h"
#include "ui/scene/theme/stairs_colours.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

namespace {

void cell(const std::string& words) {
    ImGui::TableNextColumn();
    const float room = ImGui::GetContentRegionAvail().x - text_width(words);
    if (room > 0) ImGui::SetCursorPosX(ImGui::GetCursorPosX() + room);
    ImGui::TextUnformatted(words.c_str());
}

} // namespace

void LandscapePanel::draw_table_row(UiContext& ctx, const ShownStairs& shown) {
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    ImGui::PushID(static_cast<int>(shown.of));
    const float size = std::round(ImGui::GetTextLineHeight() * 0.7F);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float y = at.y + (ImGui::GetTextLineHeight() - size) / 2;
    bool& drawn = ctx.views.landscape.stairs[static_cast<size_t>(shown.of)];
    if (ImGui::InvisibleButton("shown", {size, ImGui::GetTextLineHeight()})) drawn = !drawn;
    ctx.landmarks.set({at.x, y, size, size}, "landscape/shown/{}", static_cast<int>(shown.of));
    ImGui::SetItemTooltip("%s", drawn ? "Drawn; a click hides it" : "Hidden; a click draws it");
    ImDrawList* list = ImGui::GetWindowDrawList();
    if (drawn) list->AddRectFilled({at.x, y}, {at.x + size, y + size}, stairs_colour(ctx.theme, shown.of), 2);
    list->AddRect({at.x, y}, {at.x + size, y + size}, stairs_colour(ctx.theme, shown.of), 2);
    ImGui::SameLine();
    std::string name = shown.name;
    if (shown.of == StairsOf::policy) name = "Policy " + shown.name;
    ImGui::TextUnformatted(name.c_str());
    ImGui::PopID();
    if (!shown.there()) {
        ImGui::SetItemTooltip("%s", shown.why_not.c_str());
        ImGui::TableNextColumn();
        ImGui::TableNextColumn();
        ImGui::TextDisabled("none");
        ImGui::SetItemTooltip("%s", shown.why_not.c_str());
        ImGui::TableNextColumn();
        return;
    }
    const std::string about = shown.exact() ? "" : "~";
    cell(format_thousands(shown.refreshes()));
    cell(about + told_number(shown.objective, shown.told));
    cell(shown.efficiency ? fmt::format("{:.0f} %", 100 * *shown.efficiency) : std::string("-"));
}

/// Runs of this text that were made, with what the landscape said of them.
void LandscapePanel::draw_measured(UiContext& ctx, const Frame& f) {
    for (const MeasuredRun& run : m_measured) {
        ImGui::TableNextRow();
        ImGui::TableNextColumn();
        const bool shown = run.run_id == ctx.recording->info().id;
        ImGui::PushStyleColor(ImGuiCol_Text, shown ? ctx.theme.text : ctx.theme.text_muted);
        ImGui::TextUnformatted(fmt::format("Measured: {}", run.policy).c_str());
        ImGui::SetItemTooltip("A run that read this text: the mean of its recorded losses");
        cell(format_thousands(run.refreshes));
        const double loss = run.loss(f.objective());
        cell(std::isnan(loss) ? std::string("-") : f.told(loss, run.refreshes));
        if (std::isnan(loss))
            ImGui::SetItemTooltip("No teacher pass has read all of its steps: %s is missing in some",
                                  std::string(value_of(f.objective())).c_str());
        const BestAnswer* found = m_bests.answer();
        const auto k = static_cast<size_t>(run.refreshes);
        std::optional<double> share;
        if (found && found->best && k < found->best->size() && !std::isnan(loss))
            share =
                efficiency(value_without_refresh(*f.landscape, f.objective()), loss, (*found->best)[k].loss);
        cell(share ? fmt::format("{:.0f} %", 100 * *share) : std::string("-"));
        ImGui::PopStyleColor();
    }
}

/// What the table says, for tests: the panel may be too small for it.
void LandscapePanel::tell_rows(UiContext& ctx, const Frame& f) const {
    for (const ShownStairs& shown : m_stairs)
        ctx.landmarks.set_text(
            [&] {
                return shown.there()
                           ? fmt::format("{} {}", shown.refreshes(), told_number(shown.objective, shown.told))
                           : shown.why_not;
            },
            "landscape/row/{}", static_cast<int>(shown.of));
    if (m_measured.empty()) return;
    const MeasuredRun& last = m_measured.back();
    ctx.landmarks.set_text(
        [&] { return fmt::format("{} {} {:.9f}", last.policy, last.refreshes, last.loss(f.objective())); },
        "landscape/measured");
}

/// "Policy 2: +0.412   blind 2: +0.047   best 2: +0.030", as far as there is room.
void LandscapePanel::draw_summary(UiContext& ctx, const Frame& f, PixelBox place) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float box = std::round(0.65F * f.em);
    float x = place.x;
    for (const StairsOf of : {StairsOf::policy, StairsOf::blind, StairsOf::best}) {
        const ShownStairs& shown = stairs(of);
        const char* name = of == StairsOf::policy ? "policy" : of == StairsOf::blind ? "blind" : "best";
        const std::string words = shown.there() ? fmt::format("{} {}: {}", name, shown.refreshes(),
                                                              told_number(shown.objective, shown.told))
                                                : fmt::format("{}: none", name);
        const float width = box + 0.4F * f.em + text_width(words);
        if (x > place.x && x + width > place.x + place.width) break;
        const float y = place.y + (ImGui::GetTextLineHeight() - box) / 2;
        list->AddRectFilled({x, y}, {x + box, y + box}, stairs_colour(ctx.theme, of), 2);
        text_at(list, {x + box + 0.4F * f.em, place.y}, ctx.theme.text, words);
        x += width + f.em;
    }
}

void LandscapePanel::draw_run_buttons(UiContext& ctx) {
    ImGui::BeginDisabled(!ctx.best_schedule);
    const std::string best = ctx.best_schedule
                                 ? fmt::format("Run the best {}###run best", ctx.best_schedule->steps.size())
                                 : std::string("Run the best###run best");
    if (accent_button(ctx, best.c_str(), 0)) ctx.run_action("landscape.run_best");
    const ImVec2 low = ImGui::GetItemRectMin(), size = ImGui::GetItemRectSize();
    ctx.landmarks.set("landscape/run_best", {low.x, low.y, size.x, size.y});
    ImGui::EndDisabled();
    if (ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
        ImGui::SetTooltip("%s", ctx.best_schedule
                                    ? "Reads this text again with these refreshes; B shows the run before"
                                    : "The policy refreshes nothing: there is no count to place");
    ImGui::SameLine();
    if (ImGui::Button("Run the policy")) ctx.run_action("landscape.run_policy");
    ImGui::SetItemTooltip("Reads this text again under the policy, to compare");
}

void LandscapePanel::draw_table(UiContext& ctx, const Frame& f) {
    draw_run_buttons(ctx);
    if (ImGui::BeginTable("##stairs", 4, ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_NoPadOuterX)) {
        const float em = f.em;
        ImGui::TableSetupColumn("", ImGuiTableColumnFlags_WidthStretch);
        ImGui::TableSetupColumn("refreshes", ImGuiTableColumnFlags_WidthFixed, 4.6F * em);
        const std::string told(told_label(f.objective()));
        ImGui::TableSetupColumn(told.c_str(), ImGuiTableColumnFlags_WidthFixed, 6.6F * em);
        ImGui::TableSetupColumn("of the best", ImGuiTableColumnFlags_WidthFixed, 5.2F * em);
        ImGui::TableNextRow(ImGuiTableRowFlags_Headers);
        for (const std::string& name :
             {std::string(), std::string("refreshes"), told, std::string("of the best")}) {
            ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
            cell(name);
            ImGui::PopStyleColor();
            if (name == told) ImGui::SetItemTooltip("%s", std::string(told_tip(f.objective())).c_str());
            if (name == "of the best")
                ImGui::SetItemTooltip("Share of the gain that the best placement of as many refreshes has: 0 "
                                      "%% is no better than no refresh");
        }
        for (const ShownStairs& shown : m_stairs)
            draw_table_row(ctx, shown);
        draw_measured(ctx, f);
        ImGui::EndTable();
    }
    if (const ShownStairs& policy = stairs(StairsOf::policy); !policy.there())
        muted_text(ctx, fmt::format("No staircase of the policy {}: {}.", policy.name, policy.why_not));
    if (const auto& drafts = stairs(StairsOf::policy).stairs.drafts; !drafts.empty()) {
        muted_text(ctx, fmt::format("{} drafts: {} (marks on the policy's staircase).",
                                    format_thousands(std::ssize(drafts)), draft_words(drafts)));
        ImGui::SetItemTooltip(
            "From the acceptance of these rows, as if every earlier draft had stayed. A real run would be "
            "cut where a draft ends, and write something else from there");
    }
    if (m_placement && stairs(StairsOf::blind).there())
        muted_text(ctx, fmt::format("Blind, mean over its {} phases: {}; worst {}", m_placement->phases,
                                    f.told(m_placement->mean_loss, m_placement->refreshes),
                                    f.told(m_placement->worst.loss, m_placement->refreshes)));
}

} // namespace refreshlab::ui
