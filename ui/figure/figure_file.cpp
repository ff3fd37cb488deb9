#include "ui/figure/figure_file.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/control/derive/derive_spec.h"
#include "engine/landscape/landscape_store.h"
#include "engine/text/utf8.h"
#include "ui/base/png_text.h"
#include "ui/figure/canvas/pixels.h"
#include "ui/figure/canvas/svg_canvas.h"
#include "ui/figure/run_origin.h"
#include "ui/scene/tables/table_choice.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace refreshlab::ui {

namespace {

constexpr double png_pixels_per_point = 300.0 / 72.0;
constexpr double least_length = 20 * points_per_mm, most_length = 1000 * points_per_mm;

[[noreturn]] void no_size(std::string_view text, const std::string& problem) {
    throw Error("reading", "--size", fmt::format("'{}' {}", visible_text(std::string(text), 60), problem),
                "a width such as 84mm, 174mm or 3.3in, or a width and a height such as 84x60mm");
}

FigureRect inner(const FigureSize& size, double height) {
    constexpr double margin = 3;
    return {margin, margin, size.width - 2 * margin, height - 2 * margin};
}

double height_with(const Figure& figure, const FigurePen& pen, const FigureSize& size) {
    const double wanted = figure.height(pen, inner(size, 0).width) + 6;
    if (!size.height) return wanted;
    constexpr double least = 0.5; // below that nothing is left for the data
    if (*size.height < least * wanted)
        throw Error("drawing a figure", "--size",
                    fmt::format("{:.0f} mm are too low for it: at this width it needs {:.0f}",
                                *size.height / points_per_mm, std::ceil(least * wanted / points_per_mm)));
    return *size.height;
}

void draw(const Figure& figure, FigureCanvas& canvas, const FigureStyle& style, const FigureSize& size,
          double height) {
    canvas.rectangle({0, 0, size.width, height}, style.theme.plot_background | alpha_mask);
    figure.draw({canvas, style}, inner(size, height));
}

} // namespace

FigureSize parse_figure_size(std::string_view text) {
    FigureSize size;
    double per_unit = points_per_mm;
    std::string_view numbers = text;
    for (const auto& [unit, points] :
         {std::pair{std::string_view("mm"), points_per_mm},
          std::pair{std::string_view("cm"), points_per_mm * 10}, std::pair{std::string_view("in"), 72.0},
          std::pair{std::string_view("pt"), 1.0}})
        if (numbers.ends_with(unit)) {
            per_unit = points;
            numbers.remove_suffix(unit.size());
            break;
        }
    const auto length = [&](std::string_view word) {
        double value = 0;
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
        if (error != std::errc() || end != word.data() + word.size()) no_size(text, "is no size");
        value *= per_unit;
        if (!(value >= least_length && value <= most_length)) no_size(text, "is outside of 20 mm to 1 m");
        return value;
    };
    const size_t cross = numbers.find('x');
    size.width = length(numbers.substr(0, cross));
    if (cross != std::string_view::npos) size.height = length(numbers.substr(cross + 1));
    return size;
}

FigureFormat figure_format(const std::filesystem::path& path) {
    std::string ending = path.extension().string();
    std::ranges::transform(ending, ending.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (ending == ".svg") return FigureFormat::svg;
    if (ending == ".pdf") return FigureFormat::pdf;
    if (ending == ".png") return FigureFormat::png;
    throw Error("drawing a figure", path.string(), "the name does not say which kind of file",
                "end it with .svg, .pdf or .png");
}

FigureOrigin figure_origin(const FigureRequest& request, const std::string& command_line) {
    if (request.runs.empty() && request.table)
        return figure_origin(*shown_plot(*request.table, request.views.file_table),
                             request.table->path.string(), command_line);
    FigureOrigin origin;
    const RunInfo& first = request.runs.front().recording->info();
    const RunConfig& config = first.config;
    origin.title = fmt::format("RefreshLab: {}, {}, policy {}, seed {}", request.panel,
                               pair_name(config.mode == Mode::student ? "" : config.teacher_dir,
                                         config.mode == Mode::teacher ? "" : config.student_dir),
                               config.policy.name, config.seed);
    nlohmann::json runs = nlohmann::json::array();
    for (const FigureRun& run : request.runs) {
        nlohmann::json about = run_origin(*run.recording);
        about["name"] = run.name;
        runs.push_back(std::move(about));
    }
    origin.metadata = json_text({{"program", "RefreshLab"},
                                 {"version", RL_VERSION},
                                 {"panel", request.panel},
                                 {"command_line", command_line},
                                 {"runs", runs}},
                                1);
    origin.date = first.started_at;
    return origin;
}

FigureOrigin figure_origin(const TablePlot& plot, const std::string& source,
                           const std::string& command_line) {
    FigureOrigin origin;
    origin.title = fmt::format("RefreshLab: {}", plot.title.empty() ? plot.name : plot.title);
    origin.metadata = json_text({{"program", "RefreshLab"},
                                 {"version", RL_VERSION},
                                 {"source", source},
                                 {"figure", plots_to_json({plot})["figures"][0]},
                                 {"command_line", command_line}},
                                1);
    return origin;
}

double figure_height(const Figure& figure, const FigureStyle& style, const FigureSize& size,
                     const FigureFonts& fonts) {
    SvgCanvas canvas(size.width, most_length, fonts); // for its text sizes alone
    return std::min(height_with(figure, {canvas, style}, size), most_length);
}

std::string render_figure(const Figure& figure, const FigureStyle& style, const FigureSize& size,
                          FigureFormat format, const FigureOrigin& origin, const FigureFonts& fonts) {
    const double height = figure_height(figure, style, size, fonts);
    if (format == FigureFormat::svg) {
        SvgCanvas canvas(size.width, height, fonts);
        draw(figure, canvas, style, size, height);
        return canvas.finish(origin.title, origin.metadata);
    }
    if (format == FigureFormat::pdf) {
        // Cairo 1.16 has no keys of one's own: the origin goes into the keywords.
        const auto canvas = CairoCanvas::pdf(size.width, height, fonts,
                                             {.title = origin.title,
                                              .subject = "RefreshLab " RL_VERSION,
                                              .keywords = origin.metadata,
                                              .date = origin.date});
        draw(figure, *canvas, style, size, height);
        return canvas->finish();
    }
    const auto canvas = CairoCanvas::pixels(size.width, height, fonts, png_pixels_per_point);
    draw(figure, *canvas, style, size, height);
    const std::string png = with_png_text(canvas->finish(), "Software", "RefreshLab " RL_VERSION);
    return with_png_text(with_png_text(png, "Title", origin.title), "RefreshLab", origin.metadata);
}

CairoCanvas::Image preview_figure(const Figure& figure, const FigureStyle& style, const FigureSize& size,
                                  double pixels_per_point, const FigureFonts& fonts) {
    const double height = figure_height(figure, style, size, fonts);
    const auto canvas = CairoCanvas::pixels(size.width, height, fonts, pixels_per_point);
    draw(figure, *canvas, style, size, height);
    return canvas->image_so_far();
}

void save_figure(const Figure& figure, const FigureOrigin& origin, const FigureStyle& style,
                 const FigureSize& size, const std::filesystem::path& path,
                 const std::filesystem::path& assets) {
    const FigureFormat format = figure_format(path);
    const FigureFonts fonts(assets);
    const std::string bytes = render_figure(figure, style, size, format, origin, fonts);
    std::filesystem::path table = path;
    write_file(table.replace_extension(".csv"), to_csv(figure.table()));
    write_file(path, bytes);
}

void save_figure(const FigureRequest& request, const FigureStyle& style, const FigureSize& size,
                 const std::filesystem::path& path, const std::string& command_line,
                 const std::filesystem::path& assets) {
    static_cast<void>(figure_format(path)); // a name that says nothing is refused before anything is drawn
    save_figure(*make_figure(request), figure_origin(request, command_line), style, size, path, assets);
}

} // namespace refreshlab::ui
