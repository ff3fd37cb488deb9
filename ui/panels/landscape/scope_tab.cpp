#include "ui/panels/landscape/scope_tab.h"

#include "ui/base/colour.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/screen_canvas.h"
#include "ui/draw/text.h"
#include "ui/draw/tooltips.h"
#include "ui/draw/widgets.h"
#include "ui/figure/paint/scope_paint.h"
#include "ui/scene/landscape/landscape_of_run.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

namespace {

std::string percent(double share) {
    return fmt::format("{:.0f} %", 100 * share);
}

/// As the controls of the panel Policy: for the next run, and of a run that goes on for its next refresh.
void take(UiContext& ctx, const RefreshScope& scope) {
    try_edit(ctx, [&] {
        RefreshPolicy policy = ctx.drafts.policy();
        RefreshScope wanted = scope;
        wanted.positions = policy.scope.positions;
        wanted.count = policy.scope.count;
        policy.scope = wanted;
        ctx.drafts.set_policy(ctx.engine, policy);
    });
}

bool computing(const UiContext& ctx) {
    return ctx.status->scope && ctx.status->scope->computing;
}

} // namespace

void ScopeTab::draw_progress(UiContext& ctx, const ScopeState& state) {
    const double share =
        state.rows > 0 ? static_cast<double>(state.rows_done) / static_cast<double>(state.rows) : 0;
    const std::string words =
        state.rows == 0 ? std::string("the teacher reads the text")
        : state.rows_done < state.rows
            ? fmt::format("map {:.0f} %", 100 * share)
            : fmt::format("greedy order: {} KV heads keep {}", state.taken, percent(state.share));
    if (ImGui::Button("Cancel")) ctx.engine.send(command::Stop{});
    ImGui::SetItemTooltip("An unfinished map is not kept");
    ImGui::SameLine();
    ImGui::ProgressBar(static_cast<float>(share), {20 * ImGui::GetFontSize(), ImGui::GetFrameHeight()},
                       words.c_str());
    ctx.host.keep_awake(0.3);
}

void ScopeTab::draw_compute(UiContext& ctx, bool there) {
    if (computing(ctx)) return draw_progress(ctx, *ctx.status->scope);
    const float em = ImGui::GetFontSize();
    const std::string why = why_no_scope_map(ctx.recording.get(), ctx.steps, *ctx.status, ctx.of_engine());
    ImGui::BeginDisabled(!why.empty());
    const char* words = there ? "Measure again" : "Measure the scopes";
    if (there ? ImGui::Button(words) : accent_button(ctx, words, 0)) {
        if (m_every == 0 && m_horizon == command::ComputeScope{}.horizon)
            ctx.run_action("landscape.compute_scope");
        else
            ctx.engine.send(command::ComputeScope{.every = m_every, .horizon = m_horizon});
    }
    ImGui::EndDisabled();
    if (!why.empty() && ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
        ImGui::SetTooltip("%s", why.c_str());
    ImGui::SameLine();
    ImGui::SetNextItemWidth(9 * em);
    ImGui::DragInt("##every", &m_every, 0.2F, 0, 4096,
                   m_every == 0 ? "the run's refreshes" : "every %d tokens", ImGuiSliderFlags_AlwaysClamp);
    ImGui::SetItemTooltip("Which refreshes: where the run had them (every 16 tokens where it had none), or "
                          "every so many tokens");
    ImGui::SameLine();
    ImGui::SetNextItemWidth(7 * em);
    ImGui::DragInt("##horizon", &m_horizon, 0.2F, 1, 256, "%d tokens behind", ImGuiSliderFlags_AlwaysClamp);
    ImGui::SetItemTooltip("Tokens after each refresh whose loss counts");
    if (!there && !why.empty()) muted_text(ctx, why);
}

void ScopeTab::draw_toolbar(UiContext& ctx, bool there) {
    if (there) {
        ImGui::SetNextItemWidth(14 * ImGui::GetFontSize());
        ScopeMeasure& shown = ctx.views.landscape.scope;
        if (ImGui::BeginCombo("##measure", std::string(words_of(shown)).c_str())) {
            for (const ScopeMeasure measure : scope_measures)
                if (ImGui::Selectable(std::string(words_of(measure)).c_str(), measure == shown))
                    shown = measure;
            ImGui::EndCombo();
        }
        ImGui::SetItemTooltip("What a cell shows, as a share of what the whole refreshes gain");
        ImGui::SameLine();
        const RefreshScope& scope = ctx.drafts.policy().scope;
        ImGui::BeginDisabled(scope.whole_entries());
        if (ImGui::Button("Whole refresh")) take(ctx, RefreshScope{});
        ImGui::EndDisabled();
        ImGui::SetItemTooltip("Makes refreshes write every layer, KV head, key and value");
        ImGui::SameLine();
    }
    draw_compute(ctx, there);
}

void ScopeTab::draw(UiContext& ctx) {
    const auto map = ctx.scope_map;
    draw_toolbar(ctx, map != nullptr);
    if (!map) {
        muted_text(ctx,
                   "Which layers, KV heads, keys or values of a refresh are worth sending? The student reads "
                   "this text with "
                   "each part of its refreshes alone, and with all but that part; then KV heads are taken "
                   "greedily. It takes minutes on a model of 100 M parameters.");
        return;
    }
    m_grids.ask({map, ctx.views.landscape.scope}, false);
    if (m_grids.busy()) ctx.wait_for_jobs();
    const ScopeGrid* grid = m_grids.answer();
    const RefreshScope& scope = ctx.drafts.policy().scope;
    const std::string drafted = scope_text(scope);
    muted_text(ctx, fmt::format("{}. A click refreshes that part alone; the policy's scope now: {}.",
                                scope_map_words(*map), drafted.empty() ? "all" : drafted));
    ctx.landmarks.set_text([&] { return drafted; }, "scope/drafted");
    if (grid == nullptr) return;
    if (grid->halves.empty()) {
        muted_text(ctx, "The whole refreshes gain nothing on this text, so there are no shares of it.");
        return;
    }
    const float em = ImGui::GetFontSize();
    const ImVec2 at = ImGui::GetCursorScreenPos(), room = ImGui::GetContentRegionAvail();
    if (room.x < 14 * em || room.y < 6 * em)
        return muted_text(ctx, "Too small for the map: enlarge this panel");
    const float lists = room.x >= 40 * em ? std::clamp(room.x * 0.5F, 24 * em, 34 * em) : 0;
    draw_map(ctx, *grid, {at.x, at.y, room.x - lists - (lists > 0 ? em : 0), room.y});
    if (lists == 0) return;
    ImGui::SetCursorScreenPos({at.x + room.x - lists, at.y});
    if (ImGui::BeginChild("##scopes", {lists, room.y})) draw_lists(ctx, *grid);
    ImGui::EndChild();
}

void ScopeTab::draw_map(UiContext& ctx, const ScopeGrid& grid, PixelBox place) {
    const ScreenPen pen(ctx, ImGui::GetWindowDrawList());
    const float em = ImGui::GetFontSize();
    const auto left = static_cast<float>(scope_map_left(pen)), top = static_cast<float>(scope_map_top(pen));
    constexpr float widest = 5, highest = 3; // of a cell, in ems
    const auto columns = static_cast<float>(grid.columns.size());
    const PixelBox box{
        std::round(place.x + left), std::round(place.y + top),
        std::round(std::min(place.width - left - 0.4F * em, columns * widest * em)),
        std::round(std::min(place.height - top - 1.8F * em, static_cast<float>(grid.layers) * highest * em))};
    if (box.width < 4 * em || box.height < 3 * em) return;
    paint_scope_map(pen, figure_rect(box), grid, ctx.drafts.policy().scope);
    const double below = static_cast<double>(box.y + box.height) + 0.7 * pen->style.text_pt;
    paint_scope_bar(pen, {static_cast<double>(place.x), below, static_cast<double>(place.width), 0}, grid,
                    ctx.views.landscape.scope);
    ctx.landmarks.set("scope/map", {box.x, box.y, box.width, box.height});
    hover_map(ctx, grid, box);
}

/// The greedy order over bytes. A click takes the KV heads up to the point under the mouse.
void ScopeTab::draw_curve(UiContext& ctx, const ScopeGrid& grid, PixelBox place) {
    const ScreenPen pen(ctx, ImGui::GetWindowDrawList());
    const PlotArea area = scope_curve_area(pen, figure_rect(place), grid);
    paint_scope_curve(pen, area, grid, ctx.drafts.policy().scope);
    const PixelBox box = pixel_box(area.rect);
    ctx.landmarks.set("scope/curve", {box.x, box.y, box.width, box.height});
    ImGui::SetCursorScreenPos({box.x, box.y});
    const bool clicked = ImGui::InvisibleButton("##scope curve", {box.width, box.height});
    const double unit = scope_curve_unit(grid).bytes;
    if (ImGui::IsItemHovered()) {
        const auto mouse = static_cast<double>(ImGui::GetIO().MousePos.x);
        const auto nearest = std::ranges::min_element(grid.greedy, {}, [&](const ScopeChoice& choice) {
            return std::abs(area.x(choice.bytes / unit) - mouse);
        });
        if (clicked) take(ctx, nearest->scope);
        if (begin_plot_tip({box.x, box.y, box.width, box.height})) {
            const auto n = nearest - grid.greedy.begin() + 1;
            ImGui::TextUnformatted(fmt::format("{} {} {} of the gain", format_count(n, "KV head"),
                                               n == 1 ? "keeps" : "keep", percent(nearest->share))
                                       .c_str());
            ImGui::TextUnformatted(
                fmt::format("{} a refresh", format_bytes(std::llround(nearest->bytes))).c_str());
            ImGui::TextUnformatted(fmt::format("the last of them: {}", nearest->words).c_str());
            ImGui::TextDisabled("A click refreshes these alone");
            end_plot_tip();
        }
    }
    ImGui::SetCursorScreenPos({place.x, place.y + place.height});
}

void ScopeTab::tell_cell(const UiContext& ctx, const ScopeCell& cell) {
    ImGui::TextUnformatted(words_of(cell.part).c_str());
    if (!cell.share) return;
    std::string share =
        fmt::format("{} of the gain, {}", percent(cell.share->share), words_of(ctx.views.landscape.scope));
    if (const auto& interval = cell.share->interval)
        share += fmt::format(" ({} to {})", percent(interval->low), percent(interval->high));
    ImGui::TextUnformatted(share.c_str());
    ImGui::TextUnformatted(fmt::format("alone it gains {:+.4f} nats a token", cell.gain).c_str());
    ImGui::TextUnformatted(fmt::format("{} a refresh", format_bytes(std::llround(cell.bytes))).c_str());
    ImGui::TextDisabled(cell.part.block < 0
                            ? "A click refreshes it alone"
                            : "A scope has no blocks: refresh.positions chooses among all layers");
}

void ScopeTab::hover_map(UiContext& ctx, const ScopeGrid& grid, PixelBox box) {
    ImGui::SetCursorScreenPos({box.x, box.y});
    const bool clicked = ImGui::InvisibleButton("##scope map", {box.width, box.height});
    if (!ImGui::IsItemHovered()) return;
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    const auto part = [](float at, float from, float length, int64_t count) {
        return std::clamp<int64_t>(static_cast<int64_t>((at - from) / length * static_cast<float>(count)), 0,
                                   count - 1);
    };
    const int64_t layer = part(mouse.y, box.y, box.height, grid.layers),
                  column = part(mouse.x, box.x, box.width, std::ssize(grid.columns));
    const ScopeCell& cell = grid.at(layer, static_cast<size_t>(column));
    if (clicked && cell.part.block < 0) take(ctx, scope_of(cell.part));
    if (!begin_plot_tip({box.x, box.y, box.width, box.height})) return;
    tell_cell(ctx, cell);
    end_plot_tip();
}

void ScopeTab::draw_list(UiContext& ctx, const char* id, const char* title,
                         const std::vector<ScopeChoice>& choices, const char* share_title) {
    const float em = ImGui::GetFontSize();
    if (!ImGui::BeginTable(id, 3, ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_NoPadOuterX)) return;
    ImGui::TableSetupColumn(title, ImGuiTableColumnFlags_WidthStretch);
    ImGui::TableSetupColumn(share_title, ImGuiTableColumnFlags_WidthFixed, 4.5F * em);
    ImGui::TableSetupColumn("a refresh", ImGuiTableColumnFlags_WidthFixed, 5 * em);
    ImGui::TableHeadersRow();
    constexpr size_t most = 100; // more nobody reads
    for (size_t i = 0; i < std::min(choices.size(), most); ++i) {
        const ScopeChoice& choice = choices[i];
        ImGui::TableNextRow();
        ImGui::TableNextColumn();
        ImGui::PushID(static_cast<int>(i));
        const bool chosen = ctx.drafts.policy().scope == choice.scope;
        if (ImGui::Selectable(choice.words.c_str(), chosen, ImGuiSelectableFlags_SpanAllColumns))
            take(ctx, choice.scope);
        ImGui::PopID();
        ImGui::TableNextColumn();
        ImGui::TextUnformatted(percent(choice.share).c_str());
        ImGui::TableNextColumn();
        ImGui::TextUnformatted(format_bytes(std::llround(choice.bytes)).c_str());
    }
    ImGui::EndTable();
}

void ScopeTab::draw_lists(UiContext& ctx, const ScopeGrid& grid) {
    const float em = ImGui::GetFontSize();
    const ImVec2 at = ImGui::GetCursorScreenPos(), room = ImGui::GetContentRegionAvail();
    if (!grid.greedy.empty() && room.y >= 16 * em)
        draw_curve(ctx, grid, {at.x, at.y, room.x, std::clamp(0.35F * room.y, 8 * em, 14 * em)});
    std::vector<ScopeChoice> smallest;
    for (const auto& [keep, n] : grid.smallest) {
        ScopeChoice choice = grid.greedy[n - 1];
        choice.words =
            fmt::format("{} for {}", format_count(static_cast<int64_t>(n), "KV head"), percent(keep));
        smallest.push_back(std::move(choice));
    }
    if (!smallest.empty()) draw_list(ctx, "##smallest", "smallest scopes", smallest, "kept");
    draw_list(ctx, "##halves", "keys or values", grid.halves, "share");
    draw_list(ctx, "##left out", "left out", grid.left_out, "missed");
    if (!grid.greedy.empty()) draw_list(ctx, "##greedy", "greedy order, so far", grid.greedy, "kept");
}

} // namespace refreshlab::ui
