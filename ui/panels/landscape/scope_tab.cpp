#include "ui/panels/landscape/scope_tab.h"

#include "ui/base/colour.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/screen_canvas.h"
#include "ui/draw/text.h"
#include "ui/draw/tooltips.h"
#include "ui/draw/widgets.h"
#include "ui/scene/landscape/landscape_of_run.h"
#include "ui/scene/maps/colour_maps.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

namespace {

const char* label_of(ScopeMeasure measure) {
    return measure == ScopeMeasure::alone ? "gained by the part alone" : "missed without the part";
}

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

/// The map of the shown run; null: there is none.
std::shared_ptr<const ScopeMap> map_of(const UiContext& ctx) {
    const auto& state = ctx.status->scope;
    const bool own = state && ctx.recording && state->run_id == ctx.recording->info().id;
    return own ? state->map : nullptr;
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
    ImGui::SetItemTooltip("Nothing of a map that is not whole is kept");
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
        if (ImGui::BeginCombo("##measure", label_of(m_measure))) {
            for (const ScopeMeasure measure : {ScopeMeasure::alone, ScopeMeasure::missed})
                if (ImGui::Selectable(label_of(measure), measure == m_measure)) m_measure = measure;
            ImGui::EndCombo();
        }
        ImGui::SetItemTooltip("What a cell shows, as a share of what the whole refreshes gain");
        ImGui::SameLine();
        const RefreshScope& scope = ctx.drafts.policy().scope;
        ImGui::BeginDisabled(scope.whole_entries());
        if (ImGui::Button("Whole refresh")) take(ctx, RefreshScope{});
        ImGui::EndDisabled();
        ImGui::SetItemTooltip("Takes every layer, KV head and half again");
        ImGui::SameLine();
    }
    draw_compute(ctx, there);
}

void ScopeTab::draw(UiContext& ctx) {
    const auto map = map_of(ctx);
    draw_toolbar(ctx, map != nullptr);
    if (!map) {
        muted_text(ctx,
                   "Which layers, KV heads, keys or values of a refresh are worth sending? The student reads "
                   "this text with "
                   "each part of its refreshes alone, and with all but that part; then KV heads are taken "
                   "greedily. It takes minutes on a model of 100 M parameters.");
        return;
    }
    m_grids.ask({map, m_measure}, false);
    if (m_grids.busy()) ctx.wait_for_jobs();
    const ScopeGrid* grid = m_grids.answer();
    const RefreshScope& scope = ctx.drafts.policy().scope;
    const std::string drafted = scope_text(scope);
    double none = 0, whole = 0;
    for (const ScopeMap::Refresh& refresh : map->refreshes) {
        none += refresh.none;
        whole += refresh.whole;
    }
    const auto n = static_cast<double>(std::max<size_t>(map->refreshes.size(), 1));
    muted_text(ctx,
               fmt::format(
                   "{} refreshes, {} tokens behind each: {:.3f} nats a token without, {:.3f} with all of it. "
                   "A click refreshes that part alone; the policy's scope now: {}.",
                   map->refreshes.size(), map->horizon, none / n, whole / n,
                   drafted.empty() ? "all" : drafted));
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
    const float em = ImGui::GetFontSize(), left = 3.2F * em, top = 1.4F * em;
    constexpr float widest = 5, highest = 3; // of a cell, in ems
    const auto columns = static_cast<float>(grid.columns.size());
    const PixelBox box{
        std::round(place.x + left), std::round(place.y + top),
        std::round(std::min(place.width - left - 0.4F * em, columns * widest * em)),
        std::round(std::min(place.height - top - 1.6F * em, static_cast<float>(grid.layers) * highest * em))};
    if (box.width < 4 * em || box.height < 3 * em) return;
    draw_cells(ctx, grid, box);
    ctx.landmarks.set("scope/map", {box.x, box.y, box.width, box.height});
    hover_map(ctx, grid, box);
}

void ScopeTab::draw_cells(UiContext& ctx, const ScopeGrid& grid, PixelBox box) {
    const ScreenPen pen(ctx, ImGui::GetWindowDrawList());
    const Theme& theme = ctx.theme;
    const auto columns = static_cast<double>(grid.columns.size());
    const double width = static_cast<double>(box.width) / columns,
                 height = static_cast<double>(box.height) / static_cast<double>(grid.layers);
    const ColourScale scale{colour_map(theme.map_amounts), 0, grid.most, false};
    const RefreshScope& scope = ctx.drafts.policy().scope;
    const auto place = [&](int64_t layer, size_t column) {
        const double x = static_cast<double>(box.x) + static_cast<double>(column) * width,
                     y = static_cast<double>(box.y) + static_cast<double>(layer) * height;
        return FigureRect{x, y, width, height};
    };
    pen->canvas.rectangle({static_cast<double>(box.x), static_cast<double>(box.y),
                           static_cast<double>(box.width), static_cast<double>(box.height)},
                          theme.plot_background);
    for (int64_t layer = 0; layer < grid.layers; ++layer)
        for (size_t column = 0; column < grid.columns.size(); ++column)
            if (const ScopeCell& cell = grid.at(layer, column); cell.share)
                pen->canvas.rectangle(place(layer, column), scale(cell.share->share));
    // What the policy refreshes now, where that is not all.
    for (int64_t layer = 0; !scope.whole_entries() && layer < grid.layers; ++layer)
        for (size_t column = 3; column < grid.columns.size(); ++column)
            if (scope.has(layer, static_cast<int64_t>(column) - 3))
                pen->canvas.frame(place(layer, column), {theme.selection, pen->style.line_pt * 1.4});
    pen->canvas.frame({static_cast<double>(box.x), static_cast<double>(box.y), static_cast<double>(box.width),
                       static_cast<double>(box.height)},
                      {theme.plot_border, pen->style.axis_pt});
    const double after_layers = place(0, 3).x;
    pen->canvas.line({after_layers, static_cast<double>(box.y)},
                     {after_layers, static_cast<double>(box.y + box.height)},
                     {theme.plot_border, pen->style.axis_pt * 2});
    for (size_t column = 0; column < grid.columns.size(); ++column) {
        const std::string& name = grid.columns[column];
        const std::string words = column >= 3 && width > 3.4 * pen->style.text_pt ? "head " + name : name;
        pen->canvas.text(
            {place(0, column).x + width / 2, static_cast<double>(box.y) - 0.35 * pen->style.text_pt}, words,
            pen->small(TextStyle::Align::centre));
    }
    const auto every = static_cast<int64_t>(std::ceil(1.3 * pen->style.small_pt / height));
    for (int64_t layer = 0; layer < grid.layers; layer += std::max<int64_t>(every, 1))
        pen->canvas.text({static_cast<double>(box.x) - 0.4 * pen->style.text_pt,
                          place(layer, 0).y + height / 2 + 0.35 * pen->style.small_pt},
                         fmt::format("{}", layer), pen->small(TextStyle::Align::right));
    TextStyle title = pen->text(TextStyle::Align::centre);
    title.upwards = true;
    pen->canvas.text({static_cast<double>(box.x) - 2.2 * pen->style.text_pt,
                      static_cast<double>(box.y) + static_cast<double>(box.height) / 2},
                     "layer", title);
    pen->canvas.text(
        {static_cast<double>(box.x), static_cast<double>(box.y + box.height) + 1.3 * pen->style.text_pt},
        fmt::format("share of the gain, {}: 0 to {}", label_of(m_measure), percent(grid.most)), pen->muted());
}

void ScopeTab::tell_cell(const ScopeCell& cell) const {
    ImGui::TextUnformatted(words_of(cell.part).c_str());
    if (!cell.share) return;
    std::string share = fmt::format("{} of the gain, {}", percent(cell.share->share), label_of(m_measure));
    if (const auto& interval = cell.share->interval)
        share += fmt::format(" ({} to {})", percent(interval->low), percent(interval->high));
    ImGui::TextUnformatted(share.c_str());
    ImGui::TextUnformatted(fmt::format("alone it gains {:+.4f} nats a token", cell.gain).c_str());
    ImGui::TextUnformatted(fmt::format("{} a refresh", format_bytes(std::llround(cell.bytes))).c_str());
    ImGui::TextDisabled("A click refreshes it alone");
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
    if (clicked) take(ctx, scope_of(cell.part));
    if (!begin_plot_tip({box.x, box.y, box.width, box.height})) return;
    tell_cell(cell);
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
    std::vector<ScopeChoice> smallest;
    for (const auto& [keep, n] : grid.smallest) {
        ScopeChoice choice = grid.greedy[n - 1];
        choice.words = fmt::format("{} KV head{} for {}", n, n == 1 ? "" : "s", percent(keep));
        smallest.push_back(std::move(choice));
    }
    if (!smallest.empty()) draw_list(ctx, "##smallest", "smallest scopes", smallest, "kept");
    draw_list(ctx, "##halves", "keys or values", grid.halves, "share");
    draw_list(ctx, "##left out", "left out", grid.left_out, "missed");
    if (!grid.greedy.empty()) draw_list(ctx, "##greedy", "greedy order, so far", grid.greedy, "kept");
}

} // namespace refreshlab::ui
