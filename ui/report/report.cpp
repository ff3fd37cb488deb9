#include "ui/report/report.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/record/export/export.h"
#include "engine/text/digest.h"
#include "ui/base/markup.h"
#include "ui/figure/figure_file.h"
#include "ui/report/run_data.h"
#include "ui/scene/runs/run_set.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <map>
#include <string_view>

namespace refreshlab::ui {

using nlohmann::json;

namespace {

/// The page's script, in the order in which its parts need each other.
constexpr std::array scripts = {"read.js", "step.js", "text.js", "lanes.js", "plots.js", "page.js"};

/// JSON inside of a script element. An HTML parser looks for the element's end, and for comments, whatever stands between quotes; without
/// '<' it finds neither.
std::string json_in_html(const json& value) {
    std::string text;
    for (const char c : json_text(value)) {
        if (c == '<' || c == '>' || c == '&')
            text += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        else
            text += c;
    }
    return text;
}

/// The landscape and its frontier, on light and on dark ground.
json figures_of(const ReportRun& run, const std::filesystem::path& assets, const FigureFonts& fonts) {
    json figures = json::array();
    if (!run.landscape) return figures;
    FigureRequest request;
    request.runs.push_back({run.recording, run.label.name, run.label.colour});
    request.landscape = run.landscape;
    FigureSize size;
    size.width = 110 * points_per_mm; // two of them side by side on a page, with words that can be read
    for (const auto& [panel, title] : {std::pair{"landscape", "What a refresh at each step is worth"},
                                       std::pair{"frontier", "Loss against refreshes"}}) {
        request.panel = panel;
        try {
            const auto figure = make_figure(request);
            json drawn{{"title", title}};
            for (const char* theme : {"light", "dark"})
                drawn[theme] = render_figure(*figure, load_figure_style(assets, theme), size,
                                             FigureFormat::svg, figure_origin(request, {}), fonts);
            figures.push_back(std::move(drawn));
        } catch (const Error& e) { // a part of a landscape has no frontier: the page says so in its place
            if (e.kind() != ErrorKind::bad_input || e.doing() != "drawing a figure") throw;
            figures.push_back({{"title", title}, {"why", e.problem()}});
        }
    }
    return figures;
}

/// What a reader without scripts sees, and what a search finds.
std::string plain_text(const Report& report) {
    std::string html = "<p>This page draws itself with a script of its own, which is switched off here.</p>";
    for (const ReportRun& run : report.runs)
        html += fmt::format("<h2>{}</h2><p>Prompt</p><pre>{}</pre><p>Text</p><pre>{}</pre>",
                            escaped_markup(run.recording->info().id),
                            escaped_markup(run.recording->info().config.prompt),
                            escaped_markup(generated_text(*run.recording)));
    return html;
}

/// `page` with every {{name}} replaced once: what is put in is not looked at again.
std::string filled(std::string_view page, const std::map<std::string_view, std::string>& values) {
    std::string html;
    for (size_t at = 0; at < page.size();) {
        const size_t begin = page.find("{{", at), end = page.find("}}", begin);
        if (end == std::string_view::npos) return html.append(page.substr(at));
        const auto value = values.find(page.substr(begin + 2, end - begin - 2));
        RL_ASSERT(value != values.end());
        html.append(page.substr(at, begin - at)).append(value->second);
        at = end + 2;
    }
    return html;
}

} // namespace

std::string report_html(const Report& report, const std::filesystem::path& assets) {
    RL_ASSERT(!report.runs.empty());
    const auto folder = assets / "report";
    PageColours colours(load_theme(assets, "light"), load_theme(assets, "dark"));
    const FigureFonts fonts(assets);
    json runs = json::array();
    for (const ReportRun& run : report.runs) {
        json data = run_data(run, report.trace, colours);
        data["figures"] = figures_of(run, assets, fonts);
        data["no_landscape"] = run.no_landscape;
        const Recording& first = *report.runs.front().recording;
        data["changed"] = what_changed(*run.recording, run.recording.get() == &first ? nullptr : &first);
        runs.push_back(std::move(data));
    }
    std::string title = runs.front()["models"];
    title += fmt::format(", {}", report.trace);
    const std::string data = json_in_html({{"trace", report.trace},
                                           {"version", report.version},
                                           {"command_line", report.command_line},
                                           {"title", title},
                                           {"runs", std::move(runs)}});
    std::string script;
    for (const char* file : scripts)
        script += read_file(folder / file, 1 << 20);
    // Scripts and styles without this word do not run: a second wall behind the escaping. Who writes a trace would have to foretell the
    // digest of the page that will hold it.
    Digest digest;
    digest.add(data);
    digest.add(script);
    return filled(read_file(folder / "page.html", 1 << 20),
                  {{"nonce", digest.hex()},
                   {"version", escaped_markup(report.version)},
                   {"title", escaped_markup(title)},
                   {"style", colours.css() + read_file(folder / "page.css", 1 << 20)},
                   {"plain", plain_text(report)},
                   {"data", data},
                   {"script", script}});
}

} // namespace refreshlab::ui
