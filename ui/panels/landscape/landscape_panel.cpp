#include "ui/panels/landscape/landscape_panel.h"

#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/widgets.h"
#include "ui/scene/landscape/objective_words.h"
#include "ui/scene/maps/heatmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace refreshlab::ui {

namespace {

/// Up to so many tokens it is worked out within the frame that asks for it.
constexpr int64_t at_once_tokens = 700, at_once_schedules = 300;

} // namespace

std::unique_ptr<Panel> make_landscape_panel() {
    return std::make_unique<LandscapePanel>();
}

const CellSpread& LandscapePanel::spread() const {
    static const CellSpread none;
    return m_pyramid ? m_pyramid->spread() : none;
}

std::shared_ptr<const CellPyramid> LandscapePanel::make_pyramid(const PyramidQuestion& question) {
    return std::make_shared<CellPyramid>(question.landscape, question.value);
}

LandscapePanel::ColouredImage LandscapePanel::make_image(const ImageQuestion& question) {
    ColouredImage coloured;
    coloured.image = question.pyramid->image(question.region, question.texels);
    ColourScale scale;
    scale.map = colour_map(question.map);
    scale.min = question.low;
    scale.max = question.high;
    coloured.rgba.resize(coloured.image.values.size());
    colour_values(coloured.image.values, scale, coloured.rgba);
    return coloured;
}

std::string LandscapePanel::Frame::told(double loss, int64_t refreshes) const {
    return told_number(objective(),
                       told_value(objective(), teacher, loss, landscape->num_steps(), refreshes));
}

/// By what, and what the cells show under it.
void LandscapePanel::judge(UiContext& ctx, Frame& f) {
    f.judged = shown_objective(ctx.views.landscape, ctx.usual_objective, f.landscape->info().values);
    f.teacher = teacher_value(*f.landscape, f.objective());
    CellChoice& choice = ctx.views.landscape.cells;
    const auto values = cell_values(*f.landscape, f.objective());
    if (std::ranges::find(values, choice.under(f.objective())) == values.end()) choice.value = {};
    f.cells = choice.under(f.objective());
}

/// Under another objective losses have another axis: none of before is drawn on it.
void LandscapePanel::forget_losses() {
    m_frontier_view.fit();
    m_bests.clear();
    m_counts.clear();
    m_frontiers.clear();
    for (const StairsOf of : {StairsOf::blind, StairsOf::best})
        stairs(of) = {
            .of = of, .name = {}, .why_not = "it is being computed", .stairs = {}, .efficiency = {}};
    m_placement.reset();
}

void LandscapePanel::ask(UiContext& ctx, const Frame& f) {
    const bool at_once = f.landscape->num_tokens() <= at_once_tokens;
    if (m_judged_by != f.objective()) forget_losses();
    m_judged_by = f.objective();
    m_view.show(f.landscape->num_rows());
    m_pyramids.ask({ctx.landscape, f.cells}, at_once);
    if (const auto* pyramid = m_pyramids.answer()) m_pyramid = *pyramid;
    m_colours = cell_colours(f.cells, spread(), ctx.views.landscape.cells.own_range(f.objective()));
    m_bests.ask({ctx.landscape, best_counts(*f.landscape), f.objective()},
                f.landscape->num_tokens() <= at_once_schedules);
    m_frontiers.ask(frontier_question(ctx.landscape, ctx.drafts.policy(), f.objective()), false);
    if (m_pyramids.busy() || m_bests.busy() || m_frontiers.busy()) ctx.wait_for_jobs();
}

/// The run's and the policy's way, exactly and at once; then blind placement and the best schedule of the policy's count.
void LandscapePanel::ask_stairs(UiContext& ctx, const Frame& f) {
    const BestAnswer* found = m_bests.answer();
    const auto best = found ? found->best : nullptr;
    StairsKey key{ctx.landscape, best, ctx.drafts.policy(), refreshes_of(*ctx.recording, ctx.steps),
                  f.objective()};
    if (m_stairs_key != key) {
        const std::span<const Schedule> schedules =
            best ? std::span<const Schedule>(*best) : std::span<const Schedule>();
        stairs(StairsOf::run) = stairs_of_run(*f.landscape, key.run, schedules, f.objective());
        stairs(StairsOf::policy) = stairs_of_policy(*f.landscape, key.policy, schedules, f.objective());
        m_stairs_key = std::move(key);
    }
    m_counts.ask({ctx.landscape, best, compared_count(m_stairs), f.objective()},
                 f.landscape->num_tokens() <= at_once_tokens);
    if (m_counts.busy()) ctx.wait_for_jobs();
    if (const CountAnswer* answer = m_counts.answer()) {
        stairs(StairsOf::blind) = answer->blind;
        stairs(StairsOf::best) = answer->best;
        m_placement = answer->placement;
    }
    name_stairs(m_stairs);
    ctx.best_schedule.reset();
    if (const ShownStairs& shown = stairs(StairsOf::best); shown.there() && shown.refreshes() > 0)
        ctx.best_schedule = Schedule{shown.stairs.refreshes, shown.stairs.loss};
}

/// Finished runs of this text stay in the table, to compare.
void LandscapePanel::note_measured(const UiContext& ctx, const Frame& f) {
    const auto same_text = [&] {
        return m_measured_of && m_measured_of->info().tokens == f.landscape->info().tokens &&
               m_measured_of->info().prompt_ids == f.landscape->info().prompt_ids;
    };
    if (m_measured_of != ctx.landscape) {
        if (!same_text()) {
            m_measured.clear();
            m_frontier_view.fit();
        }
        m_measured_of = ctx.landscape;
    }
    const std::string& id = ctx.recording->info().id;
    const auto known = std::ranges::find(m_measured, id, &MeasuredRun::run_id);
    if (ctx.steps < f.landscape->num_tokens()) return;
    // The teacher's last pass fills values in behind the last step.
    if (known != m_measured.end() && known->back_fills == ctx.recording->back_fills().size()) return;
    auto run = measure_run(*f.landscape, *ctx.recording, ctx.steps);
    if (!run) return;
    if (known != m_measured.end())
        *known = std::move(*run);
    else
        m_measured.push_back(std::move(*run));
    constexpr size_t most = 8;
    if (m_measured.size() > most) m_measured.erase(m_measured.begin());
}

/// What stands under them has no part in their ids.
void LandscapePanel::draw_tabs() {
    if (!ImGui::BeginTabBar("##tabs")) return;
    const auto tab = [](const char* name, const char* tip) {
        const bool shown = ImGui::BeginTabItem(name);
        if (shown) ImGui::EndTabItem();
        ImGui::SetItemTooltip("%s", tip);
        return shown;
    };
    if (tab("Refreshes", "What a refresh is worth at every step, and the best schedules"))
        m_shows_scope = false;
    if (tab("Scope", "Which layers, KV heads, keys or values of a refresh are worth sending"))
        m_shows_scope = true;
    ImGui::EndTabBar();
}

void LandscapePanel::draw(UiContext& ctx) {
    draw_tabs();
    m_shows_scope ? m_scope.draw(ctx) : draw_refreshes(ctx);
}

void LandscapePanel::draw_refreshes(UiContext& ctx) {
    Frame f;
    f.em = ImGui::GetFontSize();
    if (!ctx.landscape || !ctx.recording) return draw_empty(ctx, f.em);
    f.landscape = ctx.landscape.get();
    judge(ctx, f);
    ask(ctx, f);
    ask_stairs(ctx, f);
    note_measured(ctx, f);
    tell_rows(ctx, f);
    draw_toolbar(ctx, f);
    draw_parts(ctx, f);
}

/// The picture beside frontier and table; above them in a narrow panel; alone in a small one.
void LandscapePanel::draw_parts(UiContext& ctx, const Frame& f) {
    const float em = f.em;
    draw_condition(ctx, f);
    const ImVec2 at = ImGui::GetCursorScreenPos(), room = ImGui::GetContentRegionAvail();
    if (room.x < 12 * em || room.y < 7 * em) {
        muted_text(ctx, "Too small for the picture: enlarge this panel");
        return;
    }
    const float gap = std::round(0.8F * em);
    const float table_height =
        std::round(ImGui::GetTextLineHeightWithSpacing() *
                       (6.6F + static_cast<float>(std::min<size_t>(m_measured.size(), 3))) +
                   ImGui::GetFrameHeightWithSpacing());
    const bool low = room.y <= table_height + 9 * em;
    const auto table = [&](PixelBox place) {
        ImGui::SetCursorScreenPos({place.x, place.y});
        if (ImGui::BeginChild("##table", {place.width, place.height})) draw_table(ctx, f);
        ImGui::EndChild();
    };
    if (low && room.x >= 60 * em && room.y >= 10 * em) { // side by side, all three
        const float numbers = std::round(27 * em), left = std::round((room.x - numbers - 2 * gap) * 0.54F);
        draw_map(ctx, f, {at.x, at.y, left, room.y});
        draw_frontier(ctx, f, {at.x + left + gap, at.y, room.x - numbers - left - 2 * gap, room.y});
        return table({at.x + room.x - numbers, at.y, numbers, room.y});
    }
    if (room.x >= 46 * em && room.y >= 13 * em) {
        const float left = std::round(std::clamp(room.y * 1.25F, room.x * 0.42F, room.x * 0.58F));
        draw_map(ctx, f, {at.x, at.y, left, room.y});
        const PixelBox right{at.x + left + gap, at.y, room.x - left - gap, room.y};
        if (low) return table(right);
        draw_frontier(ctx, f, {right.x, right.y, right.width, right.height - table_height});
        return table({right.x, right.y + right.height - table_height, right.width, table_height});
    }
    if (room.y < 26 * em) { // the picture, and its numbers in a line
        const float line = ImGui::GetTextLineHeightWithSpacing();
        draw_summary(ctx, f, {at.x, at.y, room.x, line});
        return draw_map(ctx, f, {at.x, at.y + line, room.x, room.y - line});
    }
    const float map = std::round((room.y - table_height) * 0.58F);
    draw_map(ctx, f, {at.x, at.y, room.x, map});
    draw_frontier(ctx, f, {at.x, at.y + map + gap, room.x, room.y - table_height - map - 2 * gap});
    table({at.x, at.y + room.y - table_height, room.x, table_height});
}

/// What all of it hangs on.
void LandscapePanel::draw_condition(const UiContext& ctx, const Frame& f) {
    const int64_t n = f.landscape->num_tokens();
    std::string words = fmt::format("What refreshes are worth on the {} tokens of this text. With another "
                                    "refresh a free run would have written another text.",
                                    format_thousands(n));
    words += fmt::format(" Judged by {}, {}: {}.", to_string(f.objective()), label_of(f.objective()),
                         f.judged.why);
    const int64_t rows = static_cast<int64_t>(f.landscape->rows().size());
    if (rows < f.landscape->num_rows())
        words += fmt::format(" {} of {} rows are computed; a missing row is drawn as the one above it.",
                             format_thousands(rows), format_thousands(f.landscape->num_rows()));
    muted_text(ctx, words);
}

} // namespace refreshlab::ui
