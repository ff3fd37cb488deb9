#include "ui/scene/views/view_fields.h"

#include "engine/signals/registry.h"

#include <fmt/format.h>

#include <array>
#include <set>

namespace refreshlab::ui {

namespace {

/// The field `member` of the view `view`.
template <auto view, auto member>
ViewField field(std::string_view words) {
    return {words, [](const Views& a, const Views& b) { return ((a.*view).*member) == ((b.*view).*member); },
            [](Views& to, const Views& from) { (to.*view).*member = (from.*view).*member; }};
}

constexpr auto events_table = [](auto& views) -> auto& {
    return views.events.table;
};
constexpr auto runs_table = [](auto& views) -> auto& {
    return views.runs;
};
constexpr auto file_table = [](auto& views) -> auto& {
    return views.file_table.table;
};

/// Which columns of a table are shown. \param Table  the table of views, as one of the two above
template <class Table>
ViewField columns(std::string_view words, Table) {
    return {words, [](const Views& a, const Views& b) { return Table{}(a).hidden == Table{}(b).hidden; },
            [](Views& to, const Views& from) { Table{}(to).hidden = Table{}(from).hidden; }};
}

/// What its rows are sorted by.
template <class Table>
ViewField order(std::string_view words, Table) {
    return {words, [](const Views& a, const Views& b) { return Table{}(a).order() == Table{}(b).order(); },
            [](Views& to, const Views& from) { Table{}(to).set_order(Table{}(from).order()); }};
}

constexpr std::string_view of_plots = "Signals";

/// Plots are one field: which are shown, and how each is.
ViewField plots() {
    return {of_plots, [](const Views& a, const Views& b) { return a.signals == b.signals; },
            [](Views& to, const Views& from) { to.signals = from.signals; }};
}

std::string words_of_plots(const SignalPlots& before, const SignalPlots& after) {
    std::set<std::string> names;
    for (const SignalPlots* plots : {&before, &after})
        for (const auto& [name, choice] : plots->all())
            if (!(before.of(name) == after.of(name))) names.insert(name);
    if (names.empty())
        return std::string(of_plots) + (before.rejected != after.rejected ? ": rejected drafts" : "");
    const std::string& name = *names.begin();
    const PlotChoice &from = before.of(name), &to = after.of(name);
    const char* const what = from.shown != to.shown     ? (to.shown ? "show" : "hide")
                             : from.scale != to.scale   ? "y axis of"
                             : from.beside != to.beside ? "place of"
                                                        : "layers of";
    const auto id = signal_id(name);
    return fmt::format("{}: {} {}{}", of_plots, what, id ? std::string(signals()[*id].label) : name,
                       names.size() > 1 ? ", ..." : "");
}

} // namespace

std::span<const ViewField> view_fields() {
    using A = AttentionView;
    constexpr auto attention = &Views::attention;
    static const std::array fields = {
        plots(),
        field<&Views::text, &TextView::coloured_by>("Text: colours"),
        field<&Views::text, &TextView::origins>("Text: underlines by origin"),
        field<&Views::text, &TextView::rejected>("Text: rejected drafts"),
        field<&Views::text, &TextView::ranges>("Text: colour range"),
        field<attention, &A::of>("Attention: whose"),
        field<attention, &A::range>("Attention: range"),
        field<attention, &A::ranges>("Attention: colour range"),
        field<attention, &A::log>("Attention: logarithmic"),
        field<attention, &A::without_first>("Attention: range without position 0"),
        field<attention, &A::map>("Attention: colours"),
        field<attention, &A::rows>("Attention: queries"),
        field<attention, &A::order>("Attention: order of heads"),
        field<attention, &A::best>("Attention: ranked heads"),
        field<attention, &A::read_missing>("Attention: missing rows are read"),
        field<attention, &A::hidden_layers>("Attention: hidden layers"),
        field<attention, &A::hidden_heads>("Attention: hidden heads"),
        field<&Views::cache, &CacheView::map>("Cache: map"),
        field<&Views::cache, &CacheView::rows>("Cache: rows"),
        field<&Views::cache, &CacheView::quantity>("Cache: quantity"),
        field<&Views::cache, &CacheView::log>("Cache: logarithmic"),
        field<&Views::cache, &CacheView::compared>("Cache: the compared run"),
        field<&Views::cache, &CacheView::ranges>("Cache: colour range"),
        field<&Views::distribution, &DistributionView::signal>("Distribution: signal"),
        field<&Views::distribution, &DistributionView::other>("Distribution: second signal"),
        field<&Views::distribution, &DistributionView::in_sight>("Distribution: steps"),
        field<&Views::distribution, &DistributionView::log>("Distribution: logarithmic"),
        field<&Views::landscape, &LandscapeView::cells>("Landscape: value and range"),
        field<&Views::landscape, &LandscapeView::objective>("Landscape: objective"),
        field<&Views::landscape, &LandscapeView::stairs>("Landscape: staircases"),
        field<&Views::landscape, &LandscapeView::scope>("Landscape: what the scope map shows"),
        field<&Views::events, &EventChoice::hidden>("Events: kinds"),
        columns("Events: columns", events_table),
        order("Events: order", events_table),
        columns("Runs: columns", runs_table),
        order("Runs: order", runs_table),
        field<&Views::file_table, &FileTableView::plot>("Table: plot"),
        field<&Views::file_table, &FileTableView::x>("Table: x"),
        field<&Views::file_table, &FileTableView::y>("Table: y"),
        field<&Views::file_table, &FileTableView::log_x>("Table: logarithmic x"),
        field<&Views::file_table, &FileTableView::log_y>("Table: logarithmic y"),
        field<&Views::file_table, &FileTableView::frontier>("Table: frontier"),
        columns("Table: columns", file_table),
        order("Table: order", file_table),
    };
    return fields;
}

std::vector<size_t> changed_fields(const Views& before, const Views& after) {
    std::vector<size_t> changed;
    const auto fields = view_fields();
    for (size_t i = 0; i < fields.size(); ++i)
        if (!fields[i].same(before, after)) changed.push_back(i);
    return changed;
}

std::string words_of_change(const std::vector<size_t>& fields, const Views& before, const Views& after) {
    if (fields.empty()) return {};
    const std::string_view words = view_fields()[fields.front()].words;
    std::string text = words == of_plots ? words_of_plots(before.signals, after.signals) : std::string(words);
    if (fields.size() > 1) text += ", ...";
    return text;
}

} // namespace refreshlab::ui
