#include "app/base/output.h"
#include "app/cli/commands.h"
#include "engine/base/error.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <memory>

#if REFRESHLAB_UI
#include "app/base/assets.h"
#include "app/base/trace_runs.h"
#include "app/figures/table_figures.h"
#include "engine/control/derive/derive_spec.h"
#include "engine/landscape/landscape_store.h"
#include "engine/landscape/objective.h"
#include "engine/record/runs/own_values.h"
#include "engine/record/trace/trace_store.h"
#include "engine/refresh/own_signal.h"
#include "engine/results/scope_map_store.h"
#include "ui/figure/figure_file.h"
#include "ui/figure/run_names.h"
#include "ui/scene/runs/run_metrics.h"
#include "ui/scene/text/event_choice.h"
#include "ui/scene/text/event_table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <span>
#endif

namespace refreshlab::app {

#if REFRESHLAB_UI

namespace {

struct Options {
    std::vector<std::string> traces, runs, names;
    std::string panel, out, size = "84mm", theme = "paper", style, signals, right, signal, of, head, drift,
                            map, objective, measure, columns, sort, only, range;
    std::optional<int64_t> layer;
    std::string format = "svg"; ///< of --all
    bool all = false, rejected = false, notes = false;
    std::optional<int64_t> from, to, step;
};

/// The signal that --signal defines; nothing where it only names one.
std::optional<OwnSignal> defined_signal(const std::string& signal) {
    if (signal.find('=') == std::string::npos) return std::nullopt;
    return own_signal_from_text(signal, "--signal");
}

/// The runs of the traces: the chosen ones in the order of --run, else the newest of each; for a comparison all of a single trace, for a
/// table of runs all of them.
/// \param defined  one more signal of each
std::vector<ui::FigureRun> runs_of(const Options& options, const std::optional<OwnSignal>& defined) {
    std::vector<std::shared_ptr<Recording>> all;
    std::map<const Recording*, RunLabel> label_of;
    std::vector<ui::FigureRun> found;
    std::vector<OwnSignal> own;
    if (defined) own.push_back(*defined);
    const auto add = [&](const std::shared_ptr<Recording>& run) {
        const RunLabel& label = label_of[run.get()];
        found.push_back({with_own_signals(run, own), label.name, label.colour});
    };
    const bool compare = options.panel == "compare", every = options.panel == "runs";
    for (const std::string& trace : options.traces) {
        const auto [runs, labels] = load_labelled_trace(trace);
        if (runs.empty()) throw Error("drawing a figure", trace, "the trace holds no run");
        all.insert(all.end(), runs.begin(), runs.end());
        for (size_t i = 0; i < runs.size(); ++i)
            label_of[runs[i].get()] = labels[i];
        if (!options.runs.empty()) continue;
        for (const auto& run : runs)
            if (run == runs.back() || every || (compare && options.traces.size() == 1)) add(run);
    }
    for (const std::string& id : options.runs)
        add(chosen_run(all, id, "drawing a figure", fmt::format("{}", fmt::join(options.traces, ", "))));
    if (options.names.size() > found.size())
        throw Error("drawing a figure", "--name",
                    fmt::format("{} names for {} runs", options.names.size(), found.size()));
    for (size_t i = 0; i < options.names.size(); ++i)
        found[i].name = options.names[i];
    ui::name_runs(found); // that neither an option nor its trace names
    return found;
}

std::optional<std::pair<int32_t, int32_t>> parse_head(const std::string& text) {
    if (text.empty()) return std::nullopt;
    std::pair<int32_t, int32_t> head{};
    const size_t dot = text.find('.');
    const char* end = text.data() + text.size();
    const bool good = dot != std::string::npos &&
                      std::from_chars(text.data(), text.data() + dot, head.first).ptr == text.data() + dot &&
                      std::from_chars(text.data() + dot + 1, end, head.second).ptr == end;
    if (!good)
        throw Error("reading", "--head",
                    fmt::format("'{}' is not LAYER.HEAD, such as 3.5", visible_text(text, 60)));
    return head;
}

/// Which of the names the text is.
size_t place_of(const char* option, const std::string& text, const std::vector<std::string_view>& names) {
    const auto found = std::ranges::find(names, text);
    if (found != names.end()) return static_cast<size_t>(found - names.begin());
    throw Error("reading", option,
                fmt::format("'{}' is none of {}", visible_text(text, 60), fmt::join(names, ", ")));
}

template <typename T, size_t n>
T parse_name(const char* option, const std::string& text, const std::array<T, n>& values) {
    std::vector<std::string_view> names;
    for (const T value : values)
        names.push_back(to_string(value));
    return values[place_of(option, text, names)];
}

/// Names with commas between them. \param known  those that there are
std::vector<std::string> parse_list(const char* option, const std::string& text,
                                    std::span<const std::string_view> known) {
    std::vector<std::string> names;
    for (size_t at = 0; at <= text.size();) {
        const size_t end = std::min(text.find(',', at), text.size());
        const std::string name = text.substr(at, end - at);
        static_cast<void>(place_of(option, name, {known.begin(), known.end()}));
        names.push_back(name);
        at = end + 1;
    }
    return names;
}

/// What --columns and --sort say of a table.
ui::TableView table_view_of(const Options& options, std::span<const std::string_view> keys) {
    ui::TableView view;
    if (!options.columns.empty()) {
        const auto shown = parse_list("--columns", options.columns, keys);
        for (const std::string_view key : keys)
            if (std::ranges::find(shown, key) == shown.end()) view.hidden.emplace_back(key);
    }
    view.set_order(options.sort);
    if (!view.sorted_by.empty())
        static_cast<void>(place_of("--sort", view.sorted_by, {keys.begin(), keys.end()}));
    return view;
}

/// A range of colours, "0,6". Throws Error{bad_input}.
ui::ValueRange parse_range(const std::string& text) {
    ui::ValueRange range;
    const char *const begin = text.data(), *const end = begin + text.size();
    const size_t comma = text.find(',');
    const bool good = comma != std::string::npos &&
                      std::from_chars(begin, begin + comma, range.min).ptr == begin + comma &&
                      std::from_chars(begin + comma + 1, end, range.max).ptr == end;
    if (!good || !ui::is_usable(range))
        throw Error("reading", "--range",
                    fmt::format("'{}' is not LOW,HIGH with the first number below the second, such as 0,6",
                                visible_text(text, 60)));
    return range;
}

/// The colours of whatever the panel shows.
void set_range(ui::FigureRequest& request, const ui::ValueRange& range) {
    ui::Views& views = request.views;
    const std::string& panel = request.panel;
    if (panel == "text") {
        ui::set_own_range(views.text.ranges, views.text.coloured_by, range);
    } else if (panel == "attention" || panel == "cache" || panel == "drift") {
        if (range.max <= 0)
            throw Error("reading", "--range", fmt::format("the colours of {} end above 0", panel));
        for (const ui::AttentionOf of : ui::attention_sides)
            ui::set_own_range(views.attention.ranges, ui::range_name(of), range);
        ui::set_own_range(views.cache.ranges, to_string(views.cache.quantity), range);
    } else if (panel == "landscape") {
        for (const Objective objective : objectives)
            views.landscape.cells.set_own_range(objective, range);
    } else {
        throw Error("reading", "--range", fmt::format("{} has no scale of colours that can be chosen", panel),
                    "text, attention, cache, drift and landscape have one");
    }
}

/// Which marks a table of events has, and its columns.
ui::EventChoice event_choice_of(const Options& options) {
    ui::EventChoice choice;
    if (!options.only.empty()) {
        std::vector<std::string_view> keys;
        for (const ui::MarkLane lane : ui::mark_lanes)
            keys.push_back(ui::lane_words(lane).key);
        const auto shown = parse_list("--only", options.only, keys);
        for (const ui::MarkLane lane : ui::mark_lanes)
            choice.hidden[static_cast<size_t>(lane)] =
                std::ranges::find(shown, ui::lane_words(lane).key) == shown.end();
    }
    choice.table = table_view_of(options, ui::event_column_keys());
    return choice;
}

ui::FigureRequest request_of(const Options& options) {
    ui::FigureRequest request;
    request.panel = options.panel;
    request.head = parse_head(options.head);
    if (!options.of.empty()) request.views.attention.of = parse_name("--of", options.of, ui::attention_sides);
    if (!options.drift.empty())
        request.views.cache.quantity = parse_name("--drift", options.drift, ui::drift_quantities);
    if (!options.map.empty()) request.views.cache.map = parse_name("--map", options.map, ui::cache_maps);
    request.views.cache.rows.layer = options.layer;
    if (!options.signals.empty()) {
        request.views.signals = ui::parse_plots(options.signals, "--signals");
        request.all_signals = true;
    }
    const auto defined = defined_signal(options.signal);
    if (defined) request.views.signals.choose(defined->name).shown = true;
    if (!options.signal.empty())
        request.views.text.coloured_by = request.views.distribution.signal =
            defined ? defined->name : options.signal;
    request.views.text.rejected = request.views.signals.rejected = options.rejected;
    request.notes = options.notes;
    if (!options.objective.empty()) request.views.landscape.objective = objective_of(options.objective);
    if (!options.measure.empty())
        request.views.landscape.scope =
            ui::scope_measures[place_of("--measure", options.measure, {"alone", "missed"})];
    if (request.panel == "events") request.views.events = event_choice_of(options);
    if (request.panel == "runs") request.views.runs = table_view_of(options, ui::run_table_keys());
    if (!options.range.empty()) set_range(request, parse_range(options.range));
    request.right_axis = options.right;
    request.from = options.from;
    request.to = options.to;
    request.step = options.step;
    request.runs = runs_of(options, defined);
    if (request.panel == "landscape" || request.panel == "frontier" ||
        (request.panel == "text" && request.views.text.coloured_by == ui::gain_colouring))
        request.landscape = load_landscape_of(options.traces.front(), *request.runs.front().recording);
    if (request.panel == "scope")
        request.scope_map =
            load_scope_map_of(options.traces.front(), request.runs.front().recording->info().id);
    return request;
}

void draw_one(const Options& options, const ui::FigureStyle& style, const ui::FigureSize& size,
              const std::filesystem::path& assets) {
    std::filesystem::path table = options.out;
    table.replace_extension(".csv");
    std::vector<NamedFile> inputs{{"--style", options.style}};
    for (const std::string& trace : options.traces)
        inputs.push_back({"TRACE", trace});
    check_outputs(std::vector<NamedFile>{{"-o", options.out}, {"the numbers beside -o", table.string()}},
                  inputs);
    ui::save_figure(request_of(options), style, size, options.out, command_line(), assets);
    say("wrote {} and {}\n", options.out, table.string());
}

/// Every panel that a trace has something for, into folder/TRACE-panel.svg.
void draw_all(const Options& options, const ui::FigureStyle& style, const ui::FigureSize& size,
              const std::filesystem::path& assets) {
    namespace fs = std::filesystem;
    std::error_code error;
    fs::create_directories(options.out, error);
    if (error) throw Error("drawing figures", options.out, error.message());
    for (const std::string& trace : options.traces) {
        Options one = options;
        one.traces = {trace};
        const std::string stem = fs::path(trace).stem().string();
        for (const std::string_view panel : ui::figure_panels()) {
            one.panel = panel;
            one.notes = options.notes && ui::shows_notes(panel);
            one.out = (fs::path(options.out) / fmt::format("{}-{}.{}", stem, panel, options.format)).string();
            try {
                draw_one(one, style, size, assets);
            } catch (const Error& e) {
                // What a run has nothing for is left out; what cannot be written stops.
                if (e.kind() != ErrorKind::bad_input || e.doing() != "drawing a figure") throw;
                say("no {} of {}: {}\n", panel, trace, e.problem());
            }
        }
    }
}

/// Options that say something of runs; tables have none.
void refuse_run_options(const Options& options, const std::string& input) {
    const std::pair<const char*, bool> given[] = {{"--run", !options.runs.empty()},
                                                  {"--name", !options.names.empty()},
                                                  {"--signals", !options.signals.empty()},
                                                  {"--right", !options.right.empty()},
                                                  {"--signal", !options.signal.empty()},
                                                  {"--of", !options.of.empty()},
                                                  {"--head", !options.head.empty()},
                                                  {"--drift", !options.drift.empty()},
                                                  {"--from", options.from.has_value()},
                                                  {"--to", options.to.has_value()},
                                                  {"--step", options.step.has_value()},
                                                  {"--map", !options.map.empty()},
                                                  {"--layer", options.layer.has_value()},
                                                  {"--rejected", options.rejected},
                                                  {"--notes", options.notes},
                                                  {"--objective", !options.objective.empty()},
                                                  {"--range", !options.range.empty()},
                                                  {"--columns", !options.columns.empty()},
                                                  {"--sort", !options.sort.empty()},
                                                  {"--only", !options.only.empty()},
                                                  {"--measure", !options.measure.empty()}};
    for (const auto& [option, is_given] : given)
        if (is_given)
            throw Error("drawing a figure", option,
                        fmt::format("says something of a run, and {} holds tables", input));
}

/// Draws the inputs that hold tables, and takes them out of the list.
void draw_tables(Options& options, const ui::FigureStyle& style, const ui::FigureSize& size,
                 const std::filesystem::path& assets) {
    const auto tables =
        std::ranges::partition(options.traces, [](const std::string& input) { return !holds_tables(input); });
    if (tables.empty()) return;
    refuse_run_options(options, tables.front());
    if (!options.all && options.traces.size() > 1)
        throw Error("drawing a figure", tables.front(), "holds tables, which are drawn alone",
                    "--all draws every figure of every input");
    for (const std::string& input : tables) {
        const TableFigures figures{.input = input,
                                   .name = options.panel,
                                   .out = options.out,
                                   .format = options.all ? options.format : "",
                                   .style_file = options.style};
        draw_table_figures(figures, style, size, assets);
    }
    options.traces.erase(tables.begin(), tables.end());
}

int figure(Options options) {
    const auto size = ui::parse_figure_size(options.size);
    if (options.all)
        static_cast<void>(place_of("--format", options.format, {"svg", "pdf", "png"}));
    else
        static_cast<void>(ui::figure_format(options.out));
    if (options.all && !options.panel.empty())
        throw Error("reading", "--panel", "stands beside --all, which draws every panel");
    for (const auto& [option, text] :
         {std::pair{"--range", &options.range}, std::pair{"--columns", &options.columns},
          std::pair{"--sort", &options.sort}, std::pair{"--only", &options.only}})
        if (options.all && !text->empty())
            throw Error("reading", option,
                        "is of one panel, and stands beside --all, which draws every panel");
    const auto assets = find_assets();
    const auto style = ui::load_figure_style(assets, options.theme, options.style);
    draw_tables(options, style, size, assets);
    if (options.traces.empty()) return 0;
    if (options.panel.empty()) options.panel = "signals";
    options.all ? draw_all(options, style, size, assets) : draw_one(options, style, size, assets);
    return 0;
}

} // namespace

Command add_figure_command(CLI::App& app) {
    auto options = std::make_shared<Options>();
    CLI::App* command =
        app.add_subcommand("figure", "A figure for a paper, as SVG, PDF or PNG; no display needed");
    command
        ->add_option(
            "INPUT", options->traces,
            "Traces (--record, or saved from the window); or tables: a folder of study --out, a file "
            "of sweep")
        ->required();
    command
        ->add_option("-o,--out", options->out,
                     "The figure: FILE.svg, .pdf or .png (300 dpi); its numbers go into FILE.csv")
        ->type_name("FILE")
        ->required();
    command
        ->add_option("--panel", options->panel,
                     fmt::format("{} (default: signals); of tables the name of a figure (default: the first)",
                                 fmt::join(ui::figure_panels(), ", ")))
        ->type_name("NAME");
    command->add_flag("--all", options->all,
                      "Every panel that each trace has something for, every figure of tables; -o is then a "
                      "folder");
    command->add_option("--format", options->format, "With --all: svg, pdf or png (default: svg)")
        ->type_name("KIND");
    command
        ->add_option("--size", options->size,
                     "Width, or width and height: 84mm, 174x60mm, 3.3in, 240pt (default: 84mm)")
        ->type_name("SIZE");
    command->add_option("--theme", options->theme, "paper, or the colours of the window's dark, light, print")
        ->type_name("NAME");
    command
        ->add_option("--style", options->style,
                     "JSON with sizes, colours and maps of your own (docs/howto/figures.md)")
        ->type_name("FILE");
    command
        ->add_option("--run", options->runs,
                     "Ids of runs of the traces (default: the newest of each; compare: all of one trace)")
        ->type_name("ID");
    command
        ->add_option("--name", options->names,
                     "What the legend calls the runs, in their order (default: their names in the trace)")
        ->type_name("TEXT");
    command->add_option("--from", options->from, "First step")->type_name("STEP");
    command->add_option("--to", options->to, "Last step")->type_name("STEP");
    command
        ->add_option("--step", options->step,
                     "Step that a map shows, or whose attention colours a text (default: the last)")
        ->type_name("STEP");
    command
        ->add_option("--signals", options->signals,
                     "signals, compare: which, with commas between them, as in gui --signals")
        ->type_name("LIST");
    command
        ->add_option("--right", options->right,
                     "signals: one more in the first plot, with its axis on the right")
        ->type_name("SIGNAL");
    command
        ->add_option(
            "--signal", options->signal,
            fmt::format(
                "text, distribution: which signal (default: entropy_bits); text also {}, {} or {}. Or one of "
                "your own, computed from what was recorded; signals and compare get one more plot: "
                "\"rise = entropy_bits - mean(entropy_bits, 16)\" (docs/reference/refresh-policies.md)",
                ui::gain_colouring, ui::mean_colouring, ui::head_colouring))
        ->type_name("SIGNAL|NAME=EXPRESSION");
    command->add_flag("--rejected", options->rejected,
                      "text: drafted tokens that verification rejected, struck out; signals: what they had, "
                      "fainter");
    command->add_flag("--notes", options->notes,
                      "signals, text: the run's notes, by number at their steps and in words below");
    command
        ->add_option(
            "--head", options->head,
            "attention: one head, counted from 0 (default: all); text: the head whose attention colours it")
        ->type_name("LAYER.HEAD");
    command->add_option("--of", options->of, "attention: student, teacher or difference")->type_name("WHO");
    command
        ->add_option("--map", options->map,
                     "cache: entries or drift (default: entries where a cache policy was at work)")
        ->type_name("NAME");
    command
        ->add_option("--layer", options->layer,
                     "cache: entries of this layer's KV heads (default: all layers)")
        ->type_name("LAYER");
    command
        ->add_option("--objective", options->objective,
                     "landscape, frontier, text by landscape:gain: judged by loss, kl, rejection or "
                     "tokens_a_pass (default: loss, of a text that the student wrote kl)")
        ->type_name("NAME");
    command
        ->add_option(
            "--measure", options->measure,
            "scope: alone (what a part gains by itself; the default) or missed (what is lost without it)")
        ->type_name("NAME");
    command->add_option("--drift", options->drift, "cache, drift: mean, k, v, k_max or v_max")
        ->type_name("WHAT");
    command
        ->add_option(
            "--range", options->range,
            "text, attention, cache, drift, landscape: the values where colours begin and end; attention "
            "and drift begin at 0, differences at -HIGH (default: what fits)")
        ->type_name("LOW,HIGH");
    command
        ->add_option("--only", options->only,
                     "events: which of refreshes, held_back, cuts, changes, notes, with commas between them "
                     "(default: all)")
        ->type_name("LIST");
    command
        ->add_option("--columns", options->columns,
                     fmt::format("events, runs: which columns; of events {}; of runs {} (default: all)",
                                 fmt::join(ui::event_column_keys(), ", "),
                                 fmt::join(ui::run_table_keys(), ", ")))
        ->type_name("LIST");
    command
        ->add_option("--sort", options->sort,
                     "events, runs: the column that sorts; -COLUMN: from its largest value on")
        ->type_name("COLUMN");
    return [options] { return figure(*options); };
}

#else

Command add_figure_command(CLI::App& app) {
    app.add_subcommand("figure", "A figure for a paper (not part of this build)")->allow_extras();
    return []() -> int {
        throw Error("drawing a figure", {}, "this build draws no figures (REFRESHLAB_UI=OFF)",
                    "refreshlab export writes the numbers", ErrorKind::failure);
    };
}

#endif

} // namespace refreshlab::app
