#include "engine/record/runs/rebuild.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/context/branch.h"
#include "ui/draw/offer_run.h"
#include "ui/draw/table_sync.h"
#include "ui/draw/text.h"
#include "ui/draw/text_entry.h"
#include "ui/panels/panel.h"
#include "ui/scene/policy/what_if_preview.h"
#include "ui/scene/runs/run_rows.h"
#include "ui/scene/runs/run_set.h"
#include "ui/scene/theme/run_colours.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::ui {
namespace {

/// Every run of the window as a tree: which one is live, which one is looked at, which ones are compared, and their numbers.
class RunsPanel final : public Panel {
public:
    [[nodiscard]] std::string_view title() const override { return "Runs"; }
    [[nodiscard]] std::pair<float, float> size_in_ems() const override { return {48.0F, 18.0F}; }
    void draw(UiContext& ctx) override;

private:
    static void draw_toolbar(UiContext& ctx);
    void draw_table(UiContext& ctx);
    void draw_row(UiContext& ctx, const RunTree::Row& row);
    void draw_name(UiContext& ctx, const RunNode& run, int depth, ImVec2 at, float width);
    void draw_entry(UiContext& ctx, const RunNode& run);
    static void draw_numbers(const RunSet::Run& run);
    static void draw_estimate(UiContext& ctx, const RunNode& node, const RunSet::Run& run);
    void draw_menu(UiContext& ctx, const RunNode& run);
    static void tooltip(const UiContext& ctx, const RunNode& run);

    TableSync m_table;
    std::optional<RunKey> m_renamed; ///< its name is being edited
    std::optional<RunKey> m_shown;   ///< the one looked at in the last frame
    std::optional<RunKey> m_removed; ///< wanted in this frame: carried out once every row is drawn
    std::string m_typed;
    int m_entry_frames = 0; ///< that the entry has been there
};

// Places of the columns: the tick, then those of run_table_keys(), the estimate among them before the numbers.
constexpr int place_tick = 0, place_name = 1, place_change = 2, place_estimate = 3,
              num_places = 3 + static_cast<int>(num_run_columns);
constexpr int place_of(RunColumn column) {
    return column == RunColumn::name ? place_name : place_estimate + static_cast<int>(column);
}
/// \param place  of the names or of numbers
constexpr RunColumn column_at(int place) {
    return place == place_name ? RunColumn::name : static_cast<RunColumn>(place - place_estimate);
}

/// What the view calls them.
std::array<std::string_view, num_places> keys_of_places() {
    std::array<std::string_view, num_places> keys{"", "", "change", "estimate"};
    for (size_t i = 0; i < num_run_columns; ++i)
        keys[static_cast<size_t>(place_of(static_cast<RunColumn>(i)))] =
            run_column_key(static_cast<RunColumn>(i));
    return keys;
}

/// Some run has an estimate beside it.
bool any_estimate(const RunSet& runs) {
    return std::ranges::any_of(runs.tree().runs(), [&](const RunNode& node) {
        const RunSet::Run* run = runs.find(node.key);
        return run && run->estimate;
    });
}

constexpr const char* dash = "-";

void RunsPanel::draw(UiContext& ctx) {
    if (ctx.runs.tree().runs().empty())
        return offer_run(ctx, "Every run appears here, with its branches, as soon as one has begun.");
    draw_toolbar(ctx);
    draw_table(ctx);
}

void RunsPanel::draw_toolbar(UiContext& ctx) {
    const auto runs = static_cast<int64_t>(ctx.runs.tree().runs().size());
    const size_t compared = ctx.runs.compared().size();
    ImGui::AlignTextToFramePadding();
    ImGui::TextUnformatted(format_count(runs, "run").c_str());
    ImGui::SameLine();
    ImGui::BeginDisabled(compared == 0);
    if (ImGui::Button("Untick all")) ctx.runs.untick_all();
    ImGui::EndDisabled();
    if (ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
        ImGui::SetTooltip("%s", compared > 0 ? "Shows only the shown run"
                                             : "Tick a run to draw it over the shown one");
    ImGui::SameLine();
    if (ImGui::Button("Open trace...")) ctx.run_action("file.open_trace");
    ImGui::SetItemTooltip("Its runs come into this list");
    ImGui::SameLine();
    if (ImGui::Button("Save all...")) ctx.run_action("file.save_runs");
    ImGui::SetItemTooltip("Every run of this list into one trace, with its tree");
}

void RunsPanel::draw_table(UiContext& ctx) {
    constexpr ImGuiTableFlags flags =
        ImGuiTableFlags_Sortable | ImGuiTableFlags_SortTristate | ImGuiTableFlags_RowBg |
        ImGuiTableFlags_Resizable | ImGuiTableFlags_ScrollX | ImGuiTableFlags_ScrollY |
        ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_Hideable | ImGuiTableFlags_NoSavedSettings;
    const float em = ImGui::GetFontSize();
    constexpr int columns = num_places;
    if (!ImGui::BeginTable("##runs", columns, flags)) return;
    const bool narrow = ImGui::GetWindowWidth() < 26 * em;
    ImGui::TableSetupScrollFreeze(2, 1);
    ImGui::TableSetupColumn("##tick",
                            ImGuiTableColumnFlags_NoSort | ImGuiTableColumnFlags_NoResize |
                                ImGuiTableColumnFlags_NoHide,
                            ImGui::GetFrameHeight() * 0.8F);
    ImGui::TableSetupColumn(run_column_name(RunColumn::name), ImGuiTableColumnFlags_NoHide,
                            narrow ? std::max(8.5F * em, 0.6F * ImGui::GetWindowWidth()) : 12.0F * em);
    ImGui::TableSetupColumn("Change", ImGuiTableColumnFlags_NoSort, em * (narrow ? 6.0F : 9.0F));
    ImGui::TableSetupColumn("Estimate", ImGuiTableColumnFlags_NoSort |
                                            (any_estimate(ctx.runs) ? ImGuiTableColumnFlags_None
                                                                    : ImGuiTableColumnFlags_Disabled));
    for (size_t i = 1; i < num_run_columns; ++i)
        ImGui::TableSetupColumn(run_column_name(static_cast<RunColumn>(i)),
                                ImGuiTableColumnFlags_PreferSortDescending);
    m_table.follow(ctx.views.runs, keys_of_places());
    ImGui::TableNextRow(ImGuiTableRowFlags_Headers);
    for (int i = 0; i < columns; ++i) {
        if (!ImGui::TableSetColumnIndex(i)) continue;
        ImGui::TableHeader(ImGui::TableGetColumnName(i));
        if (i == place_change)
            ImGui::SetItemTooltip(
                "What differs from the run that it branches from, or else from the run above it");
        else if (i == place_estimate)
            ImGui::SetItemTooltip("What was expected of the run when \"Verify this threshold\" began it: the "
                                  "policy on the values that another run had recorded");
        else if (i >= place_name)
            ImGui::SetItemTooltip("%s", run_column_meaning(column_at(i)));
    }
    for (const RunTree::Row& row : run_rows(ctx.runs, ctx.views.runs))
        draw_row(ctx, row);
    ImGui::EndTable();
    if (const auto key = std::exchange(m_removed, std::nullopt)) ctx.runs.remove(*key);
}

void RunsPanel::draw_row(UiContext& ctx, const RunTree::Row& row) {
    const RunNode node = *ctx.runs.tree().find(row.key); // a name may change below
    const RunSet::Run& run = *ctx.runs.find(row.key);
    ImGui::TableNextRow();
    ImGui::PushID(static_cast<int>(node.key));
    const bool shown = ctx.runs.looked_at() == node.key;
    if (ImGui::TableSetColumnIndex(place_name)) {
        const ImVec2 at = ImGui::GetCursorScreenPos();
        const float width = ImGui::GetContentRegionAvail().x;
        if (m_renamed == node.key) {
            draw_entry(ctx, node);
        } else {
            // The whole row: the tick, which comes after it, lies over it.
            if (ImGui::Selectable("##row", shown,
                                  ImGuiSelectableFlags_SpanAllColumns | ImGuiSelectableFlags_AllowOverlap |
                                      ImGuiSelectableFlags_AllowDoubleClick)) {
                ctx.runs.look_at(node.key);
                if (ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) {
                    m_renamed = node.key;
                    m_typed = node.name;
                    m_entry_frames = 0;
                }
            }
            // A run that just came to be shown comes in sight: a new one stands below all others.
            if (shown && std::exchange(m_shown, node.key) != node.key && !ImGui::IsItemVisible())
                ImGui::SetScrollHereY(0.5F);
            ctx.landmarks.set({at.x, at.y, width, ImGui::GetTextLineHeight()}, "runs/row/{}", node.key);
            if (ImGui::IsItemHovered(ImGuiHoveredFlags_DelayNormal)) tooltip(ctx, node);
            draw_menu(ctx, node);
            draw_name(ctx, node, row.depth, at, width);
        }
    }
    if (ImGui::TableSetColumnIndex(place_tick)) {
        bool ticked = run.ticked;
        ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, {0, 0});
        const ImVec2 at = ImGui::GetCursorScreenPos();
        if (ImGui::Checkbox("##ticked", &ticked)) ctx.runs.tick(node.key, ticked);
        ctx.landmarks.set({at.x, at.y, ImGui::GetItemRectSize().x, ImGui::GetItemRectSize().y},
                          "runs/tick/{}", node.key);
        ImGui::SetItemTooltip("Compared: drawn over the shown run");
        ImGui::PopStyleVar();
    }
    draw_numbers(run);
    draw_estimate(ctx, node, run);
    if (ImGui::TableSetColumnIndex(place_change)) {
        const std::string change = node.parent
                                       ? fmt::format("at {}{}{}", format_thousands(node.fork_step + 1),
                                                     node.change.empty() ? "" : ": ", node.change)
                                       : node.change;
        ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
        ImGui::TextUnformatted(change.empty() ? dash : change.c_str());
        ImGui::PopStyleColor();
    }
    ImGui::PopID();
}

/// The place in the tree, the colour, the name, and whether it is live.
void RunsPanel::draw_name(UiContext& ctx, const RunNode& run, int depth, ImVec2 at, float width) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float em = ImGui::GetFontSize(), line = ImGui::GetTextLineHeight(), size = em * 0.62F;
    // Deep trees give their indentation up before their names.
    const float indent = std::min(static_cast<float>(depth) * em * 0.9F, width * 0.35F);
    float x = at.x + indent;
    const float middle = at.y + line / 2;
    if (depth > 0) {
        const float from = x - em * 0.55F;
        list->AddLine({from, at.y}, {from, middle}, ctx.theme.text_muted);
        list->AddLine({from, middle}, {x - 2, middle}, ctx.theme.text_muted);
    }
    list->AddRectFilled({x, middle - size / 2}, {x + size, middle + size / 2},
                        run_colour(ctx.theme, run.colour), size * 0.25F);
    x += size + em * 0.4F;
    float right = at.x + width;
    const bool live = run.standing == RunStanding::live;
    if (live || run.standing == RunStanding::file) {
        const char* word = live ? "live" : "file";
        const float left = right - text_width(word);
        // The name comes first: the tooltip has this word too.
        if (x + text_width(run.name) + em * 0.4F <= left) {
            text_at(list, {left, at.y}, live ? ctx.theme.accent_ink : ctx.theme.text_muted, word);
            right = left - em * 0.4F;
        }
    }
    const std::string name = shortened(run.name, right - x);
    text_at(list, {x, at.y}, ctx.theme.text, name);
    ctx.landmarks.set({x, at.y, right - x, line}, "runs/name/{}", run.key);
    ctx.landmarks.set_text([&] { return name; }, "runs/name/{}", run.key);
}

/// In place of the row's name. Enter or a click elsewhere takes it, Esc leaves the old one.
void RunsPanel::draw_entry(UiContext& ctx, const RunNode& run) {
    if (m_entry_frames == 0) ImGui::SetKeyboardFocusHere();
    ImGui::SetNextItemWidth(-1);
    ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, {ImGui::GetStyle().FramePadding.x, 0});
    const bool entered = text_entry("##name", &m_typed,
                                    ImGuiInputTextFlags_EnterReturnsTrue | ImGuiInputTextFlags_AutoSelectAll);
    ImGui::PopStyleVar();
    const bool left = ++m_entry_frames > 2 && !ImGui::IsItemActive();
    const bool escaped = ImGui::IsKeyPressed(ImGuiKey_Escape, false);
    if ((entered || left) && !escaped) ctx.runs.rename(run.key, m_typed);
    if (entered || left || escaped) m_renamed.reset();
}

void RunsPanel::draw_numbers(const RunSet::Run& run) {
    const RunNumbers& numbers = run.metrics.numbers();
    for (size_t i = 1; i < num_run_columns; ++i) {
        const auto column = static_cast<RunColumn>(i);
        if (!ImGui::TableSetColumnIndex(place_of(column))) continue;
        const std::string text = run_number_words(numbers, column);
        // Right-aligned: digits of one place stand below each other.
        const float room = ImGui::GetContentRegionAvail().x - text_width(text);
        if (room > 0) ImGui::SetCursorPosX(ImGui::GetCursorPosX() + room);
        ImGui::TextUnformatted(text.c_str());
    }
}

/// What was expected of it; the tooltip has what came of it.
void RunsPanel::draw_estimate(UiContext& ctx, const RunNode& node, const RunSet::Run& run) {
    if (!ImGui::TableSetColumnIndex(place_estimate)) return;
    if (!run.estimate) {
        ImGui::TextUnformatted(dash);
        return;
    }
    const ImVec2 at = ImGui::GetCursorScreenPos();
    ImGui::TextUnformatted(what_if_outcome(run.estimate->expected).c_str());
    const ImVec2 size = ImGui::GetItemRectSize();
    ctx.landmarks.set({at.x, at.y, size.x, size.y}, "runs/estimate/{}", node.key);
    if (ImGui::IsItemHovered())
        ImGui::SetTooltip("%s", outcome_text(*run.estimate, run.metrics.numbers()).c_str());
}

void RunsPanel::draw_menu(UiContext& ctx, const RunNode& run) {
    if (!ImGui::BeginPopupContextItem("##menu")) return;
    const auto entry = [](const char* label, const std::string& why_not) {
        const bool chosen = ImGui::MenuItem(label, nullptr, false, why_not.empty());
        if (!why_not.empty() && ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
            ImGui::SetTooltip("%s", why_not.c_str());
        return chosen;
    };
    const auto recording = ctx.runs.recording(run.key);
    const bool live = ctx.runs.live() == run.key;
    const int64_t newest = newest_reached(*recording);
    if (entry("Show", {})) ctx.runs.look_at(run.key);
    if (entry(ctx.runs.ticked(run.key) ? "Do not compare" : "Compare", {}))
        ctx.runs.tick(run.key, !ctx.runs.ticked(run.key));
    if (entry("Rename", {})) {
        m_renamed = run.key;
        m_typed = run.name;
        m_entry_frames = 0;
    }
    ImGui::Separator();
    std::string why = live ? "It is the live run: Play continues it" : why_at_its_end(*recording);
    if (why.empty()) why = why_no_branch(ctx, run.key, newest);
    if (entry("Continue from its end", why)) branch_at(ctx, run.key, newest, {}, false);
    const int64_t step = std::clamp<int64_t>(ctx.shown_step(), 0, newest);
    if (entry(fmt::format("Branch after step {}", format_thousands(step)).c_str(),
              why_no_branch(ctx, run.key, step)))
        branch_at(ctx, run.key, step, {}, false);
    ImGui::Separator();
    if (entry("Export figure...", {})) {
        ctx.runs.look_at(run.key);
        ctx.run_action("export.figure");
    }
    if (entry("Remove from the list", live ? "It is the live run" : "")) m_removed = run.key;
    ImGui::EndPopup();
}

void RunsPanel::tooltip(const UiContext& ctx, const RunNode& run) {
    const auto recording = ctx.runs.recording(run.key);
    if (!recording || !ImGui::BeginTooltip()) return;
    const RunInfo& info = recording->info();
    ImGui::PushTextWrapPos(ImGui::GetFontSize() * 28);
    ImGui::TextUnformatted(run.name.c_str());
    const std::string origin = run.parent
                                   ? fmt::format("branch of {} after step {}", ctx.runs.name(*run.parent),
                                                 format_thousands(run.fork_step))
                                   : std::string();
    for (const std::string& line :
         {origin, run.change, fmt::format("policy {}, seed {}", info.config.policy.name, info.config.seed),
          fmt::format("{}, {} {}", to_string(run.standing), info.device, info.dtype),
          fmt::format("run {}, {}", info.id, info.started_at)})
        if (!line.empty()) ImGui::TextDisabled("%s", line.c_str());
    if (const RunSet::Run* known = ctx.runs.find(run.key); known && known->estimate)
        ImGui::TextUnformatted(outcome_text(*known->estimate, known->metrics.numbers()).c_str());
    ImGui::PopTextWrapPos();
    ImGui::EndTooltip();
}

} // namespace

std::unique_ptr<Panel> make_runs_panel() {
    return std::make_unique<RunsPanel>();
}

} // namespace refreshlab::ui
