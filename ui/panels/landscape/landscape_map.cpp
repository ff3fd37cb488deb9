// The triangle as a picture, with the staircases on it.
#include "engine/signals/registry.h"
#include "ui/base/colour.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/screen_canvas.h"
#include "ui/draw/tooltips.h"
#include "ui/figure/paint/landscape_paint.h"
#include "ui/panels/landscape/landscape_panel.h"
#include "ui/scene/text/token_label.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace refreshlab::ui {

namespace {

/// Texels a side of what is in sight; the picture has half as much again around it, so that a small move needs no new one.
constexpr int64_t most_texels = 1024;

std::string signed_amount(double value, std::string_view unit) {
    return fmt::format("{}{} {}", value > 0 ? "+" : "", format_number(value), unit);
}

} // namespace

void LandscapePanel::draw_map(UiContext& ctx, const Frame& f, PixelBox place) {
    const float em = f.em;
    ImDrawList* list = ImGui::GetWindowDrawList();
    const ScreenPen pen(ctx, list);
    const auto left = static_cast<float>(std::ceil(cell_axis_width(pen))),
               below = static_cast<float>(std::ceil(x_axis_height(pen)));
    const PixelBox box{std::round(place.x + left), std::round(place.y + 0.3F * em),
                       std::round(place.width - left - 0.4F * em),
                       std::round(place.height - below - 0.3F * em)};
    if (box.width < 4 * em || box.height < 3 * em) return;
    ask_image(ctx, box);
    const CellPlace cells{figure_rect(box), m_view.left(), m_view.top(), m_view.extent()};
    pen->canvas.rectangle(cells.box, ctx.theme.plot_background);
    pen->canvas.push_clip(cells.box);
    const int64_t block = draw_picture(ctx, pen, cells);
    draw_map_lines(ctx, pen, cells);
    paint_stairs(pen, cells, m_stairs, ctx.views.landscape);
    pen->canvas.pop_clip();
    paint_cell_axes(pen, cells, block);
    for (const ShownStairs& shown : m_stairs)
        if (shown.there() && ctx.views.landscape.shows(shown.of)) {
            const StairCorner last = corners_of(shown.stairs).back();
            ctx.landmarks.set(
                {static_cast<float>(cells.x(last.column)), static_cast<float>(cells.y(last.row)), 1, 1},
                "landscape/stairs/{}", static_cast<int>(shown.of));
        }
    ctx.landmarks.set("landscape/map", {box.x, box.y, box.width, box.height});
    move_map(ctx, f, box);
}

void LandscapePanel::ask_image(const UiContext& ctx, PixelBox box) {
    if (!m_pyramid) return;
    const CellRegion seen = m_view.region();
    const auto pixels = static_cast<int64_t>(std::max(box.width, box.height));
    const int64_t texels = std::min(pixels, most_texels);
    // Regions begin at multiples of a quarter of what is in sight: while a person pans within one, nothing is made anew.
    const auto quarter = std::max<int64_t>(1, (seen.last_row - seen.first_row) / 4);
    const auto wide = [&](int64_t first, int64_t last) {
        return std::pair(std::max<int64_t>(0, (first / quarter - 1) * quarter),
                         std::min(m_pyramid->size(), (last / quarter + 2) * quarter));
    };
    const auto [top, bottom] = wide(seen.first_row, seen.last_row);
    const auto [left, right] = wide(seen.first_column, seen.last_column);
    const CellRegion region{top, bottom, left, right};
    // As many texels as keep a texel's cells as few as in sight.
    const int64_t block = CellPyramid::block_for(seen, texels);
    const int64_t longest = std::max(bottom - top, right - left);
    const ColourScale colours = scale(ctx.theme);
    constexpr int64_t quick = 3000; // cells a side: the finest level reads whole rows
    m_images.ask(
        {m_pyramid, region, (longest + block - 1) / block + 1, map_name(ctx.theme), colours.min, colours.max},
        block > 1 || m_pyramid->size() <= quick);
}

/// \return cells a side that a colour is the mean of
int64_t LandscapePanel::draw_picture(UiContext& ctx, const FigurePen& pen, const CellPlace& place) {
    static const ColouredImage none;
    const ColouredImage* answer = m_images.answer();
    if (m_images.busy()) ctx.wait_for_jobs();
    const ColouredImage& picture = answer ? *answer : none;
    if (m_uploaded != picture.rgba.data()) {
        m_uploaded = picture.rgba.data();
        ++m_revision;
    }
    paint_cells(pen, place, *ctx.landscape, picture.image,
                {.width = picture.image.columns,
                 .height = picture.image.rows,
                 .rgba = picture.rgba,
                 .key = "landscape/map",
                 .revision = m_revision});
    return picture.image.block;
}

/// The step that is looked at, and the one under the mouse, as columns.
void LandscapePanel::draw_map_lines(const UiContext& ctx, const FigurePen& pen, const CellPlace& place) {
    const auto ends = [&](int64_t step) {
        const double x = std::round(place.x(static_cast<double>(step) - 0.5));
        return std::pair(FigurePoint{x, place.box.y}, FigurePoint{x, place.box.bottom()});
    };
    if (ctx.hovered_step) {
        const auto [from, to] = ends(*ctx.hovered_step);
        pen.canvas.line(from, to, {with_alpha(ctx.theme.crosshair, 0.6F), pen.style.axis_pt});
    }
    if (!ctx.live()) {
        const auto [from, to] = ends(ctx.shown_step());
        draw_marked_line(pen, from, to, ctx.theme.selection);
    }
}

/// Wheel, drag, double click; a click that was no drag selects the step.
void LandscapePanel::move_map(UiContext& ctx, const Frame& f, PixelBox box) {
    ImGui::SetCursorScreenPos({box.x, box.y});
    ImGui::SetNextItemAllowOverlap();
    const bool clicked = ImGui::InvisibleButton("map", {box.width, box.height});
    ImGui::SetItemKeyOwner(ImGuiKey_MouseWheelY); // the panel does not scroll under it
    if (m_map_menu.draw("##map menu", [&] { return map_copies(ctx, f, box); })) return;
    const ImGuiIO& io = ImGui::GetIO();
    const auto part_x = [&](float x) { return static_cast<double>((x - box.x) / box.width); };
    const auto part_y = [&](float y) { return static_cast<double>((y - box.y) / box.height); };
    if (ImGui::IsItemHovered() && io.MouseWheel != 0)
        m_view.zoom(part_x(io.MousePos.x), part_y(io.MousePos.y),
                    std::pow(1.25, static_cast<double>(io.MouseWheel)));
    if (ImGui::IsItemActivated()) m_panned = false;
    if (ImGui::IsItemActive() && ImGui::IsMouseDragging(ImGuiMouseButton_Left)) {
        m_panned = true;
        m_view.pan(static_cast<double>(io.MouseDelta.x / box.width),
                   static_cast<double>(io.MouseDelta.y / box.height));
    }
    if (ImGui::IsItemHovered() && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) {
        m_view.fit(f.landscape->num_rows());
        return;
    }
    if (!ImGui::IsItemHovered() || m_panned) return;
    hover_cell(ctx, f, box);
    const auto step = static_cast<int64_t>(std::floor(m_view.column_at(part_x(io.MousePos.x)))) + 1;
    if (clicked && step >= 1 && step <= ctx.steps) ctx.select_step(step);
}

void LandscapePanel::hover_cell(UiContext& ctx, const Frame& f, PixelBox box) {
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    const auto column = static_cast<int64_t>(
                   std::floor(m_view.column_at(static_cast<double>((mouse.x - box.x) / box.width)))),
               row = static_cast<int64_t>(
                   std::floor(m_view.row_at(static_cast<double>((mouse.y - box.y) / box.height))));
    const int64_t step = column + 1;
    if (step < 1 || step > f.landscape->num_steps() || row < 0 || row >= f.landscape->num_rows()) return;
    if (step <= ctx.steps) ctx.next_hovered_step = step;
    if (step <= row) return; // below the diagonal
    if (!begin_plot_tip({box.x, box.y, box.width, box.height})) return;
    tell_cell(ctx, f, row, step);
    end_plot_tip();
}

/// At most eight rows.
void LandscapePanel::tell_cell(UiContext& ctx, const Frame& f, int64_t row, int64_t step) {
    const Landscape& land = *f.landscape;
    const std::vector<int32_t>& text = land.info().tokens;
    const auto token = [&](int64_t t) {
        return token_label(ctx.recording->tokens(), text[static_cast<size_t>(t - 1)], 20);
    };
    const auto line = [](const std::string& words) { ImGui::TextUnformatted(words.c_str()); };
    line(fmt::format("Step {} reads {}, predicts {}", format_thousands(step), token(step), token(step + 1)));
    const int64_t shown = land.row_at_or_below(row);
    line(row == 0 ? std::string("No refresh before")
                  : fmt::format("Last refresh at step {}", format_thousands(row)));
    if (shown != row)
        ImGui::TextDisabled("not computed yet: as after step %s", format_thousands(shown).c_str());
    const double loss = land.loss(shown, step), teacher = land.teacher_loss(step);
    line(fmt::format("Loss {} nats, the teacher's {}", format_number(loss), format_number(teacher)));
    if (f.objective() == Objective::loss) {
        line("Above the teacher " + signed_amount(loss - teacher, "nats"));
    } else {
        CellCosts costs(land, f.objective());
        costs.enter(shown, step - 1);
        const CellValue cost{CellValue::Kind::above_teacher, {}, f.objective()};
        line(fmt::format("{} {}", label_of(cost), format_value(costs.next(step) - f.teacher, unit_of(cost))));
    }
    if (f.cells.kind == CellValue::Kind::signal) {
        if (const auto value = land.value_index(f.cells.signal))
            line(fmt::format("{} {}", label_of(f.cells),
                             format_signal(land.cell(*value, shown, step), unit_of(f.cells))));
    }
    if (step >= land.num_rows() || !land.has_row(step)) return;
    const std::string unit = unit_of(CellValue{CellValue::Kind::gain, {}, f.objective()});
    const auto gain = [&](std::optional<int64_t> horizon) {
        return signed_amount(refresh_gain(land, shown, step, horizon, f.objective()), unit);
    };
    line(fmt::format("A refresh here gains {} in {} steps", gain(gain_horizon),
                     std::min(gain_horizon, land.num_steps() - step)));
    line(fmt::format("and {} to the end", gain(std::nullopt)));
}

std::vector<CopyItem> LandscapePanel::map_copies(const UiContext& ctx, const Frame& f, PixelBox box) const {
    const Landscape& land = *f.landscape;
    const float y = (ImGui::GetIO().MousePos.y - box.y) / box.height;
    const auto under = std::clamp<int64_t>(
        static_cast<int64_t>(std::floor(m_view.row_at(static_cast<double>(y)))), 0, land.num_rows() - 1);
    const int64_t row = land.row_at_or_below(under);
    const bool by_loss = f.objective() == Objective::loss;
    std::string cells = fmt::format("step\ttoken\tloss\tteacher\tabove{}\n",
                                    by_loss ? "" : fmt::format("\t{}", to_string(f.objective())));
    CellCosts costs(land, f.objective());
    costs.enter(row);
    for (int64_t step = row + 1; step <= land.num_steps(); ++step) {
        const double cost = costs.next(step);
        cells += fmt::format(
            "{}\t{}\t{}\t{}\t{}{}\n", step,
            token_label(ctx.recording->tokens(), land.info().tokens[static_cast<size_t>(step)], 24),
            land.loss(row, step), land.teacher_loss(step), land.loss(row, step) - land.teacher_loss(step),
            by_loss ? "" : fmt::format("\t{}", cost));
    }
    std::vector<CopyItem> items{
        {fmt::format("Copy row {} (last refresh at step {})", format_thousands(row), format_thousands(row)),
         std::move(cells)}};
    if (ctx.best_schedule) {
        std::string steps;
        for (const int64_t step : ctx.best_schedule->steps)
            steps += fmt::format("{}{}", steps.empty() ? "" : ", ", step);
        items.push_back({"Copy the best schedule as a policy", fmt::format("{{\"at\": [{}]}}", steps)});
    }
    return items;
}

} // namespace refreshlab::ui
