// Controls of the Attention panel: whose attention, the scale, what is shown.
#include "ui/base/format.h"
#include "ui/draw/text.h"
#include "ui/panels/attention/attention_frame.h"
#include "ui/panels/attention/attention_panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace refreshlab::ui {
namespace {

void draw_chooser(const char* label, int64_t count, std::vector<int32_t>& hidden) {
    ImGui::PushID(label);
    ImGui::TextUnformatted(label);
    ImGui::SameLine(5 * ImGui::GetFontSize());
    if (ImGui::SmallButton("All")) hidden.clear();
    ImGui::SameLine();
    const bool none = ImGui::SmallButton("None");
    for (int32_t i = 0; i < count; ++i) {
        if (none) set_hidden(hidden, i, true);
        if (i % 8 != 0) ImGui::SameLine();
        bool on = !std::ranges::binary_search(hidden, i);
        if (ImGui::Checkbox(fmt::format("{}", i).c_str(), &on)) set_hidden(hidden, i, !on);
    }
    ImGui::PopID();
}

/// Place of `one` in `all`; the first where it is not there.
size_t place_of(const std::vector<int32_t>& all, int32_t one) {
    const auto found = std::ranges::find(all, one);
    return found == all.end() ? 0 : static_cast<size_t>(found - all.begin());
}

} // namespace

void AttentionPanel::draw_model_choice(const Frame& f) {
    const Mode mode = f.recording->info().config.mode;
    const AttentionOf shown = shown_attention(*f.view, mode);
    ImGui::BeginDisabled(mode != Mode::overfill);
    ImGui::SetNextItemWidth(6.8F * f.em);
    constexpr std::array names{"Student", "Teacher", "Difference"};
    if (ImGui::BeginCombo("##model", names[static_cast<size_t>(shown)])) {
        for (const AttentionOf of : attention_sides)
            if (ImGui::Selectable(names[static_cast<size_t>(of)], of == shown)) f.view->of = of;
        ImGui::EndCombo();
    }
    ImGui::EndDisabled();
    ImGui::SetItemTooltip(
        mode == Mode::overfill
            ? "Whose attention is shown; the difference is teacher - student, over the same keys.\n"
              "The teacher's is read on request."
            : "This run has one model only.");
}

void AttentionPanel::draw_toolbar(UiContext& ctx, Frame& f) {
    draw_model_choice(f);
    ImGui::SameLine();
    ImGui::Checkbox("Log", &f.view->log);
    ImGui::SetItemTooltip(
        "%s",
        m_colours.differences()
            ? "Logarithmic colours on both sides of 0, linear right about it (symlog)"
            : fmt::format("Logarithmic colours, over {} decades", AttentionColours::log_decades).c_str());
    ImGui::SameLine();
    if (ImGui::Button("Options")) ImGui::OpenPopup("attention options");
    draw_options(f);
    if (ImGui::GetContentRegionAvail().x > 36 * f.em) {
        ImGui::SameLine();
        draw_order_choice(f);
    }
    ImGui::SameLine();
    draw_scale(ctx, f);
}

/// In which order heads stand, and how many of a ranking.
void AttentionPanel::draw_order_choice(const Frame& f) {
    ImGui::SetNextItemWidth(10 * f.em);
    if (ImGui::BeginCombo("##order", std::string(head_order_label(f.view->order)).c_str())) {
        for (const HeadOrder order : head_orders)
            if (ImGui::Selectable(std::string(head_order_label(order)).c_str(), order == f.view->order))
                f.view->order = order;
        ImGui::EndCombo();
    }
    ImGui::SetItemTooltip("All heads by layer, or the first of a ranking over the shown queries.\n"
                          "The sink is position 0; differences need the rows of both models.");
    if (f.view->order == HeadOrder::place) return;
    ImGui::SameLine();
    ImGui::SetNextItemWidth(4 * f.em);
    if (ImGui::BeginCombo("##best", fmt::format("{}", f.view->best).c_str())) {
        for (const int best : ranked_counts)
            if (ImGui::Selectable(fmt::format("{}", best).c_str(), best == f.view->best)) f.view->best = best;
        ImGui::EndCombo();
    }
    ImGui::SetItemTooltip("Heads that are shown");
}

/// The scale of what is enlarged; in the default, shared range it is everybody's.
void AttentionPanel::draw_scale(UiContext& ctx, const Frame& f) {
    using Range = AttentionRange;
    const ColourScale scale =
        m_colours.scale(place_of(f.layers, ctx.selection.layer), place_of(f.heads, ctx.selection.head));
    const Range range = f.view->range;
    const bool own = m_colours.own_range(), beyond = may_lie_beyond(*f.view, m_colours.of());
    std::string note = own                      ? "own"
                       : range == Range::unit   ? "fixed"
                       : range == Range::shared ? "shared"
                                                : "this head";
    if (f.view->log && m_colours.differences()) note += ", symlog";
    if (!own && range != Range::unit && f.view->without_first) note += ", without position 0";
    if (m_range_bar.draw(ctx, f.view->ranges,
                         {.name = "attention",
                          .of = range_name(m_colours.of()),
                          .scale = scale,
                          .kind = m_colours.differences() ? RangeKind::has_signs : RangeKind::from_zero,
                          .below = beyond && m_colours.differences(),
                          .above = beyond,
                          .words = note,
                          .widens = range != Range::unit},
                         7 * f.em))
        m_colours.reset_range();
    ctx.landmarks.set_text([&] { return fmt::format("{}, up to {}", note, format_number(scale.max)); },
                           "attention/range");
    ImGui::SameLine();
    if (ImGui::GetContentRegionAvail().x > text_width(note)) {
        ImGui::AlignTextToFramePadding();
        ImGui::TextDisabled("%s", note.c_str());
    } else {
        ImGui::NewLine();
    }
}

void AttentionPanel::draw_range_options(const Frame& f) {
    using Range = AttentionRange;
    ImGui::SeparatorText("Colour range");
    const auto choice = [&](const char* label, Range range, const char* help) {
        if (ImGui::RadioButton(label, !m_colours.own_range() && f.view->range == range)) {
            f.view->range = range;
            set_own_range(f.view->ranges, range_name(m_colours.of()), std::nullopt);
        }
        ImGui::SetItemTooltip("%s", help);
    };
    choice("0 to 1", Range::unit, "The same for every run.");
    choice("Largest weight of all heads", Range::shared, "One scale for the whole grid.");
    choice("Largest weight of each head", Range::per_head, "Heads cannot be compared by colour.");
    if (m_colours.own_range()) ImGui::TextDisabled("One of your own: the colour bar changes it");
    ImGui::BeginDisabled(f.view->range == Range::unit || m_colours.own_range());
    ImGui::Checkbox("Range without position 0", &f.view->without_first);
    ImGui::SetItemTooltip("Many heads put most of their weight there.");
    if (ImGui::Button("Fit range")) m_colours.reset_range();
    ImGui::SetItemTooltip(
        "The range widens by itself and narrows only here, so that colours do not flicker.");
    ImGui::EndDisabled();
}

void AttentionPanel::draw_options(const Frame& f) {
    if (!ImGui::BeginPopup("attention options")) return;
    draw_range_options(f);
    ImGui::SeparatorText("Heads");
    draw_order_choice(f);
    ImGui::SeparatorText("Shown");
    ImGui::Checkbox("Read missing rows of the teacher", &f.view->read_missing);
    ImGui::SetItemTooltip("One pass of the teacher for each row of the map, while nothing runs");
    ImGui::SetNextItemWidth(7 * f.em);
    if (ImGui::BeginCombo("Queries", fmt::format("{}", f.view->rows).c_str())) {
        for (const int rows : query_counts)
            if (ImGui::Selectable(fmt::format("{}", rows).c_str(), rows == f.view->rows)) f.view->rows = rows;
        ImGui::EndCombo();
    }
    ImGui::SetNextItemWidth(7 * f.em);
    const bool differences = m_colours.differences();
    ImGui::BeginDisabled(differences);
    const bool by_theme = differences || f.view->map.empty();
    if (ImGui::BeginCombo("Colours", by_theme ? "of the theme" : f.view->map.c_str())) {
        if (ImGui::Selectable("of the theme", f.view->map.empty())) f.view->map.clear();
        for (const std::string_view name : colour_map_names())
            if (!is_signed_map(name) && ImGui::Selectable(std::string(name).c_str(), name == f.view->map))
                f.view->map = name;
        ImGui::EndCombo();
    }
    ImGui::EndDisabled();
    draw_chooser("Layers", f.recording->info().layers, f.view->hidden_layers);
    draw_chooser("Heads", f.recording->info().heads, f.view->hidden_heads);
    ImGui::EndPopup();
}

} // namespace refreshlab::ui
