// The triangle as a picture, with the staircases on it.
#include "engine/signals/registry.h"
#include "ui/base/colour.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/cells.h"
#include "ui/draw/text.h"
#include "ui/draw/tooltips.h"
#include "ui/panels/landscape/landscape_panel.h"
#include "ui/scene/maps/heatmap.h"
#include "ui/scene/text/token_label.h"
#include "ui/theme/stairs_colours.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace refreshlab::ui {

namespace {

/// Texels a side of what is in sight; the picture has half as much again around it, so that a small move needs no new one.
constexpr int64_t most_texels = 1024;

constexpr std::array all_stairs{StairsOf::run, StairsOf::blind, StairsOf::best,
                                StairsOf::policy}; // the last lies on top

std::string signed_nats(double value) {
    return fmt::format("{}{} nats", value > 0 ? "+" : "", format_number(value));
}

int64_t labels_that_fit(float room, float one) {
    return std::max<int64_t>(2, static_cast<int64_t>(room / one));
}

} // namespace

void LandscapePanel::draw_map(UiContext& ctx, const Frame& f, PixelBox place) {
    const float em = f.em, name = std::round(1.15F * em);
    const float left = name + std::round(2.9F * em), below = std::round(1.25F * em) + name;
    const PixelBox box{std::round(place.x + left), std::round(place.y + 0.3F * em),
                       std::round(place.width - left - 0.4F * em),
                       std::round(place.height - below - 0.3F * em)};
    if (box.width < 4 * em || box.height < 3 * em) return;
    ImDrawList* list = ImGui::GetWindowDrawList();
    const ImVec2 low(box.x, box.y), high(box.x + box.width, box.y + box.height);
    list->AddRectFilled(low, high, ctx.theme.plot_background);
    ask_image(ctx, box);
    list->PushClipRect(low, high, true);
    draw_picture(ctx, box);
    draw_diagonal(ctx, box);
    draw_map_lines(ctx, box);
    draw_stairs(ctx, f, box);
    list->PopClipRect();
    list->AddRect(low, high, ctx.theme.plot_border);
    draw_axes(ctx, f, box);
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

void LandscapePanel::draw_picture(UiContext& ctx, PixelBox box) {
    const ColouredImage* picture = m_images.answer();
    if (m_images.busy()) ctx.wait_for_jobs();
    if (picture == nullptr || picture->rgba.empty()) return;
    if (m_uploaded != picture->rgba.data()) {
        m_uploaded = picture->rgba.data();
        ++m_revision;
    }
    const CellImage& image = picture->image;
    const auto place = [&](double row, double column) {
        return ImVec2(box.x + static_cast<float>(m_view.x_of(column)) * box.width,
                      box.y + static_cast<float>(m_view.y_of(row)) * box.height);
    };
    // Rows that are not there yet are hatched; below the diagonal is nothing.
    const auto cells = static_cast<double>(m_pyramid ? m_pyramid->size() : 0);
    ImDrawList* list = ImGui::GetWindowDrawList();
    const auto rows = ctx.landscape->rows();
    if (!ctx.landscape->complete() && !rows.empty()) {
        const double last = static_cast<double>(rows.back()) + 1;
        draw_absent(list, ctx.theme, place(last, last), place(cells, cells));
        list->AddTriangleFilled(place(last, last), place(cells, last), place(cells, cells),
                                ctx.theme.plot_background);
    }
    const ImTextureID texture = ctx.host.texture("landscape/map", static_cast<int>(image.columns),
                                                 static_cast<int>(image.rows), picture->rgba, m_revision);
    draw_cells(
        list, texture,
        place(static_cast<double>(image.region.first_row), static_cast<double>(image.region.first_column)),
        place(static_cast<double>(image.region.last_row), static_cast<double>(image.region.last_column)));
}

/// The edge of the triangle: cells of no difference look like the ground below it. A line of steps where cells are seen one by one.
void LandscapePanel::draw_diagonal(const UiContext& ctx, PixelBox box) const {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const auto place = [&](double row, double column) {
        return ImVec2(box.x + static_cast<float>(m_view.x_of(column)) * box.width,
                      box.y + static_cast<float>(m_view.y_of(row)) * box.height);
    };
    const auto cells = static_cast<double>(ctx.landscape->num_rows());
    const Colour colour = mix(ctx.theme.plot_border, ctx.theme.plot_background, 0.4F);
    constexpr double one_by_one = 120; // cells across the box
    if (m_view.extent() > one_by_one) {
        list->AddLine(place(0, 0), place(cells, cells), colour);
        return;
    }
    const CellRegion seen = m_view.region();
    for (int64_t cell = std::max(seen.first_row, seen.first_column);
         cell < std::min(seen.last_row, seen.last_column); ++cell) {
        const auto at = static_cast<double>(cell);
        list->AddLine(place(at, at), place(at + 1, at), colour);
        list->AddLine(place(at + 1, at), place(at + 1, at + 1), colour);
    }
}

/// The step that is looked at, and the one under the mouse, as columns.
void LandscapePanel::draw_map_lines(UiContext& ctx, PixelBox box) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const auto x_of = [&](int64_t step) {
        return std::round(box.x +
                          static_cast<float>(m_view.x_of(static_cast<double>(step) - 0.5)) * box.width);
    };
    const auto line = [&](int64_t step, Colour colour) {
        const float x = x_of(step);
        list->AddLine({x, box.y}, {x, box.y + box.height}, colour);
    };
    if (ctx.hovered_step) line(*ctx.hovered_step, with_alpha(ctx.theme.crosshair, 0.6F));
    if (!ctx.live()) {
        const float x = x_of(ctx.shown_step());
        draw_marked_line(list, ctx.theme, {x, box.y}, {x, box.y + box.height}, ctx.theme.selection);
    }
}

void LandscapePanel::draw_stairs(UiContext& ctx, const Frame& f, PixelBox box) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float thick = std::max(1.5F, std::round(f.em * 0.13F));
    const auto place = [&](const StairCorner& corner) {
        return ImVec2(box.x + static_cast<float>(m_view.x_of(corner.column)) * box.width,
                      box.y + static_cast<float>(m_view.y_of(corner.row)) * box.height);
    };
    for (const StairsOf of : all_stairs) {
        const ShownStairs& shown = stairs(of);
        if (!shown.there() || !ctx.views.landscape.shows(of)) continue;
        std::vector<ImVec2> points;
        for (const StairCorner& corner : corners_of(shown.stairs))
            points.push_back(place(corner));
        const auto count = static_cast<int>(points.size());
        list->AddPolyline(points.data(), count, with_alpha(ctx.theme.plot_background, 0.8F), thick + 2.5F);
        list->AddPolyline(points.data(), count, stairs_colour(ctx.theme, of), thick);
        ctx.landmarks.set({points.back().x, points.back().y, 1, 1}, "landscape/stairs/{}",
                          static_cast<int>(of));
    }
}

void LandscapePanel::draw_axes(const UiContext& ctx, const Frame& f, PixelBox box) {
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float em = f.em, bottom = box.y + box.height;
    const CellRegion seen = m_view.region();
    for (const int64_t row :
         whole_ticks(seen.first_row, seen.last_row, labels_that_fit(box.height, 2.2F * em))) {
        const auto y =
            std::round(box.y + static_cast<float>(m_view.y_of(static_cast<double>(row) + 0.5)) * box.height);
        if (y < box.y || y > bottom) continue;
        const std::string label = format_thousands(row);
        list->AddLine({box.x - 0.2F * em, y}, {box.x, y}, ctx.theme.plot_border);
        text_at(list, {box.x - 0.35F * em - text_width(label), std::min(y - 0.5F * em, bottom - em)},
                ctx.theme.text_muted, label);
    }
    std::string title = "step";
    const ColouredImage* picture = m_images.answer();
    if (picture && picture->image.block > 1)
        title += fmt::format(", mean of {0} x {0}", picture->image.block);
    const float title_x = box.x + box.width - text_width(title), title_y = bottom + 1.25F * em;
    for (const int64_t step :
         whole_ticks(seen.first_column + 1, seen.last_column + 1, labels_that_fit(box.width, 4 * em))) {
        const auto x =
            std::round(box.x + static_cast<float>(m_view.x_of(static_cast<double>(step) - 0.5)) * box.width);
        if (x < box.x || x > box.x + box.width) continue;
        const std::string label = format_thousands(step);
        list->AddLine({x, bottom}, {x, bottom + 0.2F * em}, ctx.theme.plot_border);
        text_at(
            list,
            {std::min(x - text_width(label) / 2, box.x + box.width - text_width(label)), bottom + 0.25F * em},
            ctx.theme.text_muted, label);
    }
    text_at(list, {title_x, title_y}, ctx.theme.text_muted, title);
    std::string rows = "step of the last refresh";
    if (text_width(rows) > box.height) rows = "last refresh";
    text_upward(list, {box.x - 4.1F * em, (2 * box.y + box.height + text_width(rows)) / 2},
                ctx.theme.text_muted, rows);
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
    line("Above the teacher " + signed_nats(loss - teacher));
    if (const CellValue& cells = ctx.views.landscape.cells.value; cells.kind == CellValue::Kind::signal) {
        if (const auto value = land.value_index(cells.signal))
            line(fmt::format("{} {}", label_of(cells),
                             format_signal(land.cell(*value, shown, step), unit_of(cells))));
    }
    if (step >= land.num_rows() || !land.has_row(step)) return;
    line(fmt::format("A refresh here gains {} in {} steps",
                     signed_nats(refresh_gain(land, shown, step, gain_horizon)),
                     std::min(gain_horizon, land.num_steps() - step)));
    line(fmt::format("and {} to the end", signed_nats(refresh_gain(land, shown, step))));
}

std::vector<CopyItem> LandscapePanel::map_copies(const UiContext& ctx, const Frame& f, PixelBox box) const {
    const Landscape& land = *f.landscape;
    const float y = (ImGui::GetIO().MousePos.y - box.y) / box.height;
    const auto under = std::clamp<int64_t>(
        static_cast<int64_t>(std::floor(m_view.row_at(static_cast<double>(y)))), 0, land.num_rows() - 1);
    const int64_t row = land.row_at_or_below(under);
    std::string cells = "step\ttoken\tloss\tteacher\tabove\n";
    for (int64_t step = row + 1; step <= land.num_steps(); ++step)
        cells += fmt::format(
            "{}\t{}\t{}\t{}\t{}\n", step,
            token_label(ctx.recording->tokens(), land.info().tokens[static_cast<size_t>(step)], 24),
            land.loss(row, step), land.teacher_loss(step), land.loss(row, step) - land.teacher_loss(step));
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
