// What a panel paints is what its figure prints: the same cells, colours, words and curves, under every setting of the views. The
// window's painting is heard (UiContext::painted) and held against the figure of the window's own request.
#include "tests/gui/painted.h"
#include "tests/gui/robot.h"
#include "ui/base/value_format.h"
#include "ui/scene/axes/signal_choice.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab::gui {

namespace {

/// A panel as large as a person has it who makes a figure of it.
void show(Robot& r, const char* panel) {
    r.window().resize(1900, 1200);
    r.frames(60); // the layout is fitted when the border rests
    r.te->WindowFocus((std::string("//") + panel).c_str());
    r.frames(3);
}
void go_back(Robot& r) {
    r.window().resize(1280, 800);
    r.frames(60);
}

void the_cache_is_printed_as_it_is_painted(Robot& r) {
    RunConfig run = r.config(60);
    run.policy = preset_policy("periodic");
    run.policy.triggers[0].threshold = 8;
    run.student_cache = cache_policy_defaults("h2o", "a test");
    run.student_cache.values["budget"] = 16;
    r.start(run, 20);
    show(r, "Cache");
    ui::CacheView& view = r.ctx().views.cache;
    const ui::CacheView before = view;
    for (const auto layer :
         {std::optional<int64_t>(), std::optional<int64_t>(0), std::optional<int64_t>(2)}) {
        view = {.map = ui::CacheMap::entries, .rows = {layer}};
        const RecordedCanvas screen = painted(r), paper = printed(r, "cache");
        GUI_CHECK(same_cells(screen, paper, "origin"));
        GUI_CHECK(same_cells(screen, paper, "age"));
        GUI_CHECK(same_cells(screen, paper, "entries"));
        GUI_CHECK(fills(screen, "held") == fills(paper, "held"));
        GUI_CHECK(words(screen, "bytes").size() == 1 && words(paper, "bytes").size() == 1);
    }
    for (const ui::DriftQuantity quantity : ui::drift_quantities)
        for (const bool log : {false, true}) {
            view = {.map = ui::CacheMap::drift, .quantity = quantity, .log = log};
            const RecordedCanvas screen = painted(r), paper = printed(r, "cache");
            GUI_CHECK(same_cells(screen, paper, "drift"));
            GUI_CHECK(screen.lines_of("refreshes").size() == paper.lines_of("refreshes").size());
            GUI_CHECK(screen.lines_of("refreshes").size() > 1); // the end of the prompt, and refreshes
        }
    // A range of one's own is that of the paper.
    const RecordedCanvas fitting = painted(r);
    ui::set_own_range(view.ranges, to_string(view.quantity), ui::ValueRange{0, 0.01});
    const RecordedCanvas narrow = painted(r);
    GUI_CHECK(!same_cells(narrow, fitting, "drift") && same_cells(narrow, printed(r, "cache"), "drift"));
    // Of an earlier step too: what the panel's scale has widened to stays, in the window and on paper.
    view = {.map = ui::CacheMap::drift};
    r.frames(2);
    const double top = view.top.value();
    r.ctx().select_step(9);
    const RecordedCanvas screen = painted(r), paper = printed(r, "cache");
    GUI_CHECK(view.top == top && same_cells(screen, paper, "drift"));
    r.ctx().select_step(std::nullopt);
    view = before;
    go_back(r);
}

void the_text_is_printed_as_it_is_painted(Robot& r) {
    RunConfig run = r.config(60);
    run.policy = preset_policy("periodic");
    run.policy.triggers[0].threshold = 5;
    run.policy.on_fire = OnFire::redraw;
    run.capture.attention = true;
    r.start(run, 16);
    show(r, "Text");
    ui::TextView& view = r.ctx().views.text;
    const ui::TextView before = view;
    for (const std::string& by :
         {std::string("entropy_bits"), std::string("top1_hit"), std::string("logprob"),
          std::string(ui::mean_colouring), std::string(ui::head_colouring)})
        for (const bool origins : {false, true}) {
            view.coloured_by = by;
            view.origins = origins;
            const RecordedCanvas screen = painted(r), paper = printed(r, "text");
            auto on_screen = words(screen, "tokens");
            const auto print = words(paper, "tokens");
            GUI_CHECK(on_screen.size() == print.size() + 1); // paper has no token that nobody has read
            on_screen.pop_back();
            GUI_CHECK(on_screen == print);
            // The pending token has no colour; it may stand over an origin's line, which it has not either.
            GUI_CHECK(fills(screen, "tokens") == fills(paper, "tokens") ||
                      fills(screen, "tokens").size() == fills(paper, "tokens").size() + 1);
            GUI_CHECK(words(screen, "flags") == words(paper, "flags"));
            GUI_CHECK(fills(screen, "flags") == fills(paper, "flags"));
        }
    view = before;
    r.frames(2);
    const auto fitting = fills(painted(r), "tokens");
    ui::set_own_range(view.ranges, view.coloured_by, ui::ValueRange{1, 2});
    GUI_CHECK(fills(painted(r), "tokens") != fitting);
    GUI_CHECK(fills(painted(r), "tokens") == fills(printed(r, "text"), "tokens"));
    view = before;
    go_back(r);
}

void rejected_drafts_are_printed_as_they_are_painted(Robot& r) {
    RunConfig run = r.config(60);
    run.policy = preset_policy("speculative");
    run.sampler.temperature = 1.2;
    r.start(run, 40);
    show(r, "Text");
    ui::TextView& view = r.ctx().views.text;
    const ui::TextView before = view;
    GUI_CHECK(painted(r).texts_of("rejected").empty());
    view.rejected = true;
    const RecordedCanvas screen = painted(r), paper = printed(r, "text");
    GUI_CHECK(!words(screen, "rejected").empty() && words(screen, "rejected") == words(paper, "rejected"));
    GUI_CHECK(fills(screen, "rejected") == fills(paper, "rejected"));
    // A click on a token still selects its step.
    const auto token = r.box("text/token/20");
    r.click(token);
    GUI_CHECK(r.ctx().selection.step == 19);
    view = before;
    go_back(r);
}

void attention_is_printed_as_it_is_painted(Robot& r) {
    RunConfig run = r.config(60);
    run.policy = preset_policy("none");
    run.prompt = "The sea"; // so short that neither the window nor paper puts keys together
    run.capture.attention = true;
    r.start(run, 12);
    show(r, "Attention");
    ui::AttentionView& view = r.ctx().views.attention;
    const ui::AttentionView before = view;
    const RunInfo& info = r.recording()->info();
    for (const ui::AttentionRange range :
         {ui::AttentionRange::unit, ui::AttentionRange::shared, ui::AttentionRange::per_head})
        for (const bool log : {false, true})
            for (const bool without_first : {false, true}) {
                view.range = range;
                view.log = log;
                view.without_first = without_first;
                view.hidden_layers = log ? std::vector<int32_t>{1} : std::vector<int32_t>{};
                const RecordedCanvas screen = painted(r), grid = printed(r, "attention"),
                                     head = printed(r, "attention", true);
                int compared = 0;
                for (int32_t layer = 0; layer < info.layers; ++layer)
                    for (int32_t h = 0; h < info.heads; ++h) {
                        const std::string id = "head_" + std::to_string(layer) + "_" + std::to_string(h);
                        const bool hidden = log && layer == 1;
                        GUI_CHECK(screen.images_of(id).size() == (hidden ? 0U : 1U));
                        if (hidden) continue;
                        GUI_CHECK(same_cells(screen, grid, id));
                        ++compared;
                    }
                GUI_CHECK(compared > 0);
                GUI_CHECK(same_cells(screen, head, "map"));
                // Bars lower than a pixel are none, so their number depends on the height; scale and colour do not.
                GUI_CHECK(words(screen, "strip") == words(head, "strip") && !words(head, "strip").empty());
                GUI_CHECK(fills(screen, "strip").size() > 1 && fills(head, "strip").size() > 1);
                GUI_CHECK(fills(screen, "strip").back() == fills(head, "strip").back());
            }
    view.hidden_layers.clear();
    view.order = ui::HeadOrder::focused;
    view.best = 4;
    const RecordedCanvas screen = painted(r), paper = printed(r, "attention");
    std::vector<std::string> ranked, print;
    for (const auto& image : screen.images)
        if (image.group.starts_with("head_")) ranked.push_back(image.group);
    for (const auto& image : paper.images)
        if (image.group.starts_with("head_")) print.push_back(image.group);
    GUI_CHECK(ranked.size() == 4 && ranked == print);
    view = before;
    go_back(r);
}

void distribution_is_printed_as_it_is_painted(Robot& r) {
    RunConfig run = r.config(120);
    run.policy = preset_policy("entropy");
    r.start(run, 60);
    show(r, "Distribution");
    ui::DistributionView& view = r.ctx().views.distribution;
    const ui::DistributionView before = view;
    const auto kinds_of = [](const std::vector<ui::Colour>& all) {
        return std::set<ui::Colour>(all.begin(), all.end());
    };
    for (const bool log : {false, true})
        for (const char* other : {"", "varentropy_bits2"}) {
            view = {.signal = "entropy_bits", .other = other, .log = log};
            const RecordedCanvas screen = painted(r), paper = printed(r, "distribution");
            const std::string_view group = *other ? "cells" : "bars";
            GUI_CHECK(!fills(screen, group).empty());
            if (*other == 0) // pale, and where the threshold fires full: whatever the width of a bar
                GUI_CHECK(kinds_of(fills(screen, group)) == kinds_of(fills(paper, group)));
            GUI_CHECK(paper.lines_of("thresholds").size() == 1);
        }
    view = before;
    go_back(r);
}

/// Headings of the plots in the order in which they stand.
std::vector<std::string> headings_on_screen(Robot& r) {
    const auto title = [](const Signal& signal) { return ui::with_unit(signal.label, signal.unit); };
    std::vector<std::pair<float, std::string>> plots;
    for (const Signal& signal : r.ctx().signals()) {
        const auto plot = r.find("signals/plot/" + std::string(signal.name));
        if (!plot) continue;
        std::string words = title(signal);
        for (const Signal& other : r.ctx().signals())
            if (const auto right = r.find("signals/right/" + std::string(other.name));
                right && right->y == plot->y)
                words += " (left), " + title(other) + " (right)";
        plots.emplace_back(plot->y, words);
    }
    std::ranges::sort(plots);
    std::vector<std::string> words;
    for (auto& [y, heading] : plots)
        words.push_back(std::move(heading));
    return words;
}

/// The same of a figure: what reads like one, in the order in which it is drawn.
std::vector<std::string> headings_on_paper(Robot& r, const RecordedCanvas& paper) {
    std::vector<std::string> words;
    for (const auto& text : paper.texts)
        for (const Signal& signal : r.ctx().signals()) {
            const std::string title = ui::with_unit(signal.label, signal.unit);
            const bool legend = std::ranges::any_of(paper.texts, [&](const auto& other) {
                return other.words.find(title + " (left)") != std::string::npos ||
                       other.words.find(title + " (right)") != std::string::npos;
            });
            if (text.words.starts_with(title + " (left)") || (text.words == title && !legend))
                words.push_back(text.words);
        }
    return words;
}

/// How high a signal's threshold stands in its plot, 0 .. 1 from below: says what the axis shows.
double height_on_screen(Robot& r, const std::string& name) {
    const auto line = r.box("signals/threshold/" + name), plot = r.box("signals/plot/" + name);
    return static_cast<double>((plot.y + plot.height - line.y - line.height / 2) / plot.height);
}
double height_on_paper(const RecordedCanvas& paper, const std::string& name) {
    const auto lines = paper.lines_of("threshold_" + name);
    GUI_CHECK(!lines.empty());
    const auto plot =
        std::ranges::find_if(paper.frames, [&](const auto& frame) { return frame.group == "plot_" + name; });
    GUI_CHECK(plot != paper.frames.end());
    return (plot->rect.bottom() - lines.back().points.back().y) / plot->rect.height;
}

void signals_are_printed_as_they_are_shown(Robot& r) {
    RunConfig run = r.config(80);
    run.capture.attention_entropy = true;
    r.start(run, 60);
    show(r, "Signals");
    ui::SignalPlots& plots = r.ctx().views.signals;
    const ui::SignalPlots before = plots;
    const auto compare = [&] {
        r.frames(3);
        const RecordedCanvas screen = painted(r), paper = printed(r, "signals");
        const auto shown = headings_on_screen(r);
        GUI_CHECK(!shown.empty() && shown == headings_on_paper(r, paper));
        if (r.find("signals/threshold/entropy_bits") && r.find("signals/plot/entropy_bits"))
            GUI_CHECK(std::abs(height_on_screen(r, "entropy_bits") - height_on_paper(paper, "entropy_bits")) <
                      0.02);
        return std::pair(screen, paper);
    };
    for (const char* list : {"entropy_bits", "kl_nats,entropy_bits,logprob", "entropy_bits+top1_prob",
                             "logprob+entropy_bits,top1_surprisal_bits"})
        for (const ui::AxisScale scale : ui::axis_scales) {
            plots = ui::parse_plots(list, "a test");
            plots.choose("entropy_bits").scale = scale;
            compare();
        }
    // Layers: all of them as the same cells, one as the same numbers.
    plots = ui::parse_plots("attention_entropy_bits.strip,entropy_bits", "a test");
    const auto [screen, paper] = compare();
    GUI_CHECK(same_cells(screen, paper, "strip"));
    plots = before;
    r.frames(2);
    go_back(r);
}

} // namespace

std::vector<Case> painted_cases() {
    return {
        {"figure", "EX2 EX4 the cache is printed as it is painted", the_cache_is_printed_as_it_is_painted},
        {"figure", "EX2 EX4 the text is printed as it is painted", the_text_is_printed_as_it_is_painted},
        {"figure", "TX5 EX2 rejected drafts are struck out on request",
         rejected_drafts_are_printed_as_they_are_painted},
        {"figure", "EX2 EX4 attention is printed as it is painted", attention_is_printed_as_it_is_painted},
        {"figure", "EX2 EX4 signals are printed as they are shown", signals_are_printed_as_they_are_shown},
        {"figure", "EX2 EX4 distributions are printed as they are painted",
         distribution_is_printed_as_it_is_painted},
    };
}

} // namespace refreshlab::gui
