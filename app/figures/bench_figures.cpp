#include "app/figures/bench_figures.h"

#include "engine/base/error.h"

#if REFRESHLAB_UI
#include "app/base/assets.h"
#include "app/base/output.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "ui/figure/figure_file.h"
#include "ui/scene/axes/auto_range.h"
#include "ui/scene/series/distribution.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>
#endif

namespace refreshlab::app {

#if REFRESHLAB_UI

namespace {

using ui::FigurePen;
using ui::FigurePoint;
using ui::FigureRect;

struct Curve {
    std::string name;
    std::vector<FigurePoint> points; ///< ascending x
    bool marks = true;               ///< a square on each point
};

/// Curves over one pair of axes, y from 0.
class CurvesFigure final : public ui::Figure {
public:
    CurvesFigure(std::string x_title, std::string y_title, std::vector<Curve> curves, bool bars = false)
        : m_x(std::move(x_title))
        , m_y(std::move(y_title))
        , m_curves(std::move(curves))
        , m_bars(bars) {}

    double height(const FigurePen& pen, double width) const override {
        return std::min(width * 0.6, 170.0) + pen.text_line() * 3.4;
    }

    void draw(const FigurePen& pen, const FigureRect& place) const override {
        std::vector<ui::LegendEntry> entries;
        for (size_t i = 0; i < m_curves.size(); ++i)
            entries.push_back({m_curves[i].name, colour(pen, i)});
        const double legend =
            m_curves.size() > 1 ? draw_legend(pen, {place.x, place.y}, place.width, entries) + 3 : 4;
        ui::PlotArea area = range();
        const double high = place.height - legend - pen.text_line() * 2.2;
        const double labels = y_labels_width(pen, area.y, high);
        area.rect = {place.x + labels + pen.style.text_pt * 1.4, place.y + legend, 0, high};
        area.rect.width = place.right() - area.rect.x - 4;
        draw_plot_ground(pen, area);
        for (size_t i = 0; i < m_curves.size(); ++i)
            draw_curve(pen, area, m_curves[i], colour(pen, i));
        pen.canvas.frame(area.rect, {pen.style.theme.plot_border, pen.style.axis_pt});
        draw_y_axis(pen, area, m_y, labels);
        draw_value_x_axis(pen, area, m_x);
    }

    DataTable table() const override {
        DataTable table{{"curve", m_x, m_y}, {}};
        for (const Curve& curve : m_curves)
            for (const FigurePoint& point : curve.points)
                table.rows.push_back({curve.name, fmt::format("{}", point.x), fmt::format("{}", point.y)});
        return table;
    }

private:
    [[nodiscard]] static ui::Colour colour(const FigurePen& pen, size_t i) {
        return pen.style.runs[i % pen.style.runs.size()];
    }

    [[nodiscard]] ui::PlotArea range() const {
        ui::PlotArea area;
        double top = 0, left = 1e300, right = -1e300;
        for (const Curve& curve : m_curves)
            for (const FigurePoint& point : curve.points) {
                top = std::max(top, point.y);
                left = std::min(left, point.x);
                right = std::max(right, point.x);
            }
        const double margin = std::max((right - left) * 0.04, 1e-6);
        area.x_min = left - margin;
        area.x_max = right + margin;
        area.y.min = 0;
        area.y.max = top > 0 ? top * 1.08 : 1;
        return area;
    }

    void draw_curve(const FigurePen& pen, const ui::PlotArea& area, const Curve& curve,
                    ui::Colour of_curve) const {
        const ui::FigureGroup group(pen.canvas, m_bars ? "bars" : "curve");
        std::vector<FigurePoint> line;
        for (const FigurePoint& point : curve.points)
            line.push_back(area.at(point.x, point.y));
        if (m_bars) {
            const double wide = line.size() > 1 ? (line[1].x - line[0].x) : 4;
            for (const FigurePoint& at : line)
                pen.canvas.rectangle({at.x - wide / 2, at.y, wide, area.rect.bottom() - at.y}, of_curve);
            return;
        }
        pen.canvas.polyline(line, {of_curve, pen.style.line_pt});
        if (!curve.marks) return;
        for (const FigurePoint& at : line)
            pen.canvas.rectangle({at.x - 1.5, at.y - 1.5, 3, 3}, of_curve);
    }

    std::string m_x, m_y;
    std::vector<Curve> m_curves;
    bool m_bars;
};

std::unique_ptr<ui::Figure> latency_figure(const bench::BenchReport& report) {
    if (report.refreshed_step_ms.empty()) return nullptr;
    std::vector<double> sorted = report.refreshed_step_ms;
    std::ranges::sort(sorted);
    const ui::Histogram bins = ui::histogram(sorted, 60);
    Curve counts{.name = "steps", .points = {}};
    for (size_t i = 0; i < bins.counts.size(); ++i)
        counts.points.push_back({bins.centre(i), bins.counts[i]});
    return std::make_unique<CurvesFigure>("step (ms)", "steps", std::vector{counts}, true);
}

std::unique_ptr<ui::Figure> decode_figure(const bench::BenchReport& report) {
    std::map<std::string, Curve> curves;
    for (const bench::DecodeSpeed& d : report.decode) {
        curves[d.mode].name = d.mode;
        curves[d.mode].points.push_back({static_cast<double>(d.prompt), d.tokens_per_second.median});
    }
    if (curves.empty()) return nullptr;
    std::vector<Curve> list;
    for (auto& [mode, curve] : curves)
        list.push_back(std::move(curve));
    return std::make_unique<CurvesFigure>("prompt (tokens)", "tokens/s", std::move(list));
}

std::unique_ptr<ui::Figure> refresh_figure(const bench::BenchReport& report) {
    if (report.refresh.empty()) return nullptr;
    std::vector<Curve> curves = {{.name = "added to the step", .points = {}},
                                 {.name = "teacher pass", .points = {}},
                                 {.name = "floor by bytes", .points = {}, .marks = false}};
    for (const bench::RefreshCost& cost : report.refresh) {
        const auto delta = static_cast<double>(cost.delta);
        curves[0].points.push_back({delta, cost.added_ms.median});
        curves[1].points.push_back({delta, cost.teacher_ms.median});
        if (cost.floor_ms > 0) curves[2].points.push_back({delta, cost.floor_ms});
    }
    if (curves[2].points.empty()) curves.pop_back();
    return std::make_unique<CurvesFigure>("delta (tokens)", "ms", std::move(curves));
}

} // namespace

void draw_bench_figures(const bench::BenchReport& report, const std::filesystem::path& folder) {
    const auto assets = find_assets();
    const ui::FigureFonts fonts(assets);
    const ui::FigureStyle style = ui::load_figure_style(assets, "paper");
    const std::pair<const char*, std::unique_ptr<ui::Figure>> figures[] = {
        {"latency", latency_figure(report)},
        {"decode", decode_figure(report)},
        {"refresh", refresh_figure(report)}};
    for (const auto& [name, figure] : figures) {
        if (!figure) continue;
        const ui::FigureOrigin origin{.title = fmt::format("RefreshLab benchmark: {}", name),
                                      .metadata = json_text({{"program", "RefreshLab"},
                                                             {"command_line", command_line()},
                                                             {"cpu", report.machine.cpu},
                                                             {"dtype", report.setup.dtype},
                                                             {"threads", report.setup.threads}},
                                                            1),
                                      .date = report.setup.date};
        write_file(folder / (std::string(name) + ".csv"), to_csv(figure->table()));
        write_file(folder / (std::string(name) + ".svg"),
                   ui::render_figure(*figure, style, {}, ui::FigureFormat::svg, origin, fonts));
    }
}

#else

void draw_bench_figures(const bench::BenchReport&, const std::filesystem::path& folder) {
    throw Error("drawing figures", folder.string(), "this program was built without the window");
}

#endif

} // namespace refreshlab::app
