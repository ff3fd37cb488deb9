// The line above the picture: which value, its scale, what computes it; and the panel while there is no landscape.
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/text.h"
#include "ui/draw/widgets.h"
#include "ui/panels/landscape/landscape_panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

namespace {

/// "12 s", "4 min".
std::string duration(double seconds) {
    if (seconds < 1) return "less than a second";
    if (seconds < 90) return fmt::format("{} s", format_thousands(std::llround(seconds)));
    if (seconds < 5400) return fmt::format("{} min", format_thousands(std::llround(seconds / 60)));
    return fmt::format("{} h", format_number(seconds / 3600));
}

/// Bar of a computation, and what there is beside it or in its place.
constexpr float progress_ems = 11, cancel_ems = 6, compute_ems = 10;

/// The shown run has written more than the landscape has.
bool is_longer(const UiContext& ctx, const Landscape& landscape) {
    return std::min(ctx.recording->num_tokens(), ctx.steps + 1) > landscape.num_tokens();
}

/// Its cells lack what an objective is read from: it was computed with other values.
bool lacks_objectives(const Landscape& landscape) {
    return !std::ranges::all_of(objectives, [&](Objective o) { return tells(landscape.info().values, o); });
}

/// The shown run's own computation.
bool computes_this(const UiContext& ctx) {
    const auto& state = ctx.status->landscape;
    return state && state->computing;
}

} // namespace

const std::string& LandscapePanel::map_name(const Theme& theme) const {
    return m_colours.has_signs ? theme.map_signed : theme.map_amounts;
}

ColourScale LandscapePanel::scale(const Theme& theme) const {
    return {colour_map(map_name(theme)), m_colours.range.min, m_colours.range.max, false};
}

void LandscapePanel::draw_empty(UiContext& ctx, float em) {
    if (computes_this(ctx)) {
        muted_text(ctx, "The teacher reads the text, then the first rows come.");
        draw_progress(ctx, *ctx.status->landscape, 14 * em);
        return;
    }
    if (!ctx.why_no_landscape.empty()) {
        ImGui::PushTextWrapPos(0);
        ImGui::TextUnformatted(ctx.why_no_landscape.c_str());
        ImGui::PopTextWrapPos();
    }
    muted_text(ctx, "What would every possible refresh be worth on this text? The landscape computes it: "
                    "loss, KL and acceptance of every step for every "
                    "place of the last refresh. So the best placement of any number of refreshes is known, "
                    "and how far a policy is from it.");
    ImGui::Dummy({0, em * 0.2F});
    const bool of_engine = ctx.of_engine();
    const std::string why = why_not_computed(ctx.recording.get(), ctx.steps, *ctx.status, of_engine);
    ImGui::BeginDisabled(!why.empty());
    if (accent_button(ctx, "Compute the landscape", 0)) ctx.run_action("landscape.compute");
    const ImVec2 low = ImGui::GetItemRectMin(), size = ImGui::GetItemRectSize();
    ctx.landmarks.set("landscape/compute", {low.x, low.y, size.x, size.y});
    ImGui::EndDisabled();
    if (!why.empty()) {
        muted_text(ctx, why);
        if (ctx.decoding() && ImGui::Button("Pause")) ctx.run_action("run.play_pause");
        return;
    }
    const LandscapeCost cost = landscape_cost(*ctx.recording, ctx.steps, *ctx.status);
    std::string words = fmt::format("{} tokens: {} cells, about {} of memory", format_thousands(cost.tokens),
                                    format_thousands(cost.cells), format_bytes(cost.bytes));
    if (cost.most_seconds > 0) words += fmt::format(", at most {} (estimate)", duration(cost.most_seconds));
    muted_text(ctx, words);
}

void LandscapePanel::draw_progress(UiContext& ctx, const LandscapeState& state, float width) {
    const double share =
        state.cells > 0 ? static_cast<double>(state.cells_done) / static_cast<double>(state.cells) : 0;
    std::string words = fmt::format("{:.0f} %", share * 100);
    if (share > 0.02) words += ", " + duration(state.seconds / share * (1 - share)) + " left";
    if (ImGui::Button("Cancel")) ctx.engine.send(command::Stop{});
    ImGui::SetItemTooltip("Keeps the rows that are there; Compute continues with them");
    ImGui::SameLine();
    ImGui::ProgressBar(static_cast<float>(share), {width, ImGui::GetFrameHeight()}, words.c_str());
    ctx.host.keep_awake(0.3);
}

void LandscapePanel::draw_compute(UiContext& ctx, const Frame& f) {
    if (computes_this(ctx)) return draw_progress(ctx, *ctx.status->landscape, progress_ems * f.em);
    const bool longer = is_longer(ctx, *f.landscape), lacks = lacks_objectives(*f.landscape);
    const std::string why = why_not_computed(ctx.recording.get(), ctx.steps, *ctx.status, ctx.of_engine());
    // A run that reads the landscape's text again only grows into it.
    ImGui::BeginDisabled(!why.empty());
    if (ImGui::Button(f.landscape->complete() ? "Compute again" : "Compute the rest"))
        ctx.run_action("landscape.compute");
    ImGui::EndDisabled();
    if (ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
        ImGui::SetTooltip(
            "%s", !why.empty() ? why.c_str()
                  : longer     ? "The run has written more since"
                  : lacks ? "Its cells lack what some objectives are read from: all rows are computed anew"
                          : "The rows that are there are kept");
}

void LandscapePanel::draw_value_choice(UiContext& ctx, const Frame& f) {
    const std::string current = label_of(f.cells);
    ImGui::SetNextItemWidth(std::min(ImGui::GetContentRegionAvail().x, 14 * f.em));
    if (!ImGui::BeginCombo("##value", current.c_str(), ImGuiComboFlags_HeightLarge)) {
        ImGui::SetItemTooltip("What the picture's cells show");
        return;
    }
    for (const CellValue& value : cell_values(*f.landscape, f.objective()))
        if (ImGui::Selectable(with_unit(label_of(value), unit_of(value)).c_str(), value == f.cells))
            ctx.views.landscape.cells.value = {value.kind, value.signal};
    ImGui::EndCombo();
}

/// By the names of `landscape --objective`.
void LandscapePanel::draw_objective_choice(UiContext& ctx, const Frame& f) {
    std::optional<Objective>& chosen = ctx.views.landscape.objective;
    const std::string name(to_string(f.objective()));
    const auto why = [&] {
        return fmt::format("What schedules are judged by: {}, {}\n{}", name, label_of(f.objective()),
                           f.judged.why);
    };
    ImGui::SetNextItemWidth(9 * f.em);
    if (!ImGui::BeginCombo("##objective", fmt::format("by {}", name).c_str())) {
        ImGui::SetItemTooltip("%s", why().c_str());
        return;
    }
    const ChosenObjective& usual = ctx.usual_objective;
    if (ImGui::Selectable(fmt::format("as the text asks for: {}", to_string(usual.objective)).c_str(),
                          !chosen))
        chosen.reset();
    ImGui::SetItemTooltip("%s", usual.why.c_str());
    for (const Objective objective : objectives) {
        const std::string missing = why_untold(f.landscape->info().values, objective);
        const std::string words = fmt::format("{}: {}", to_string(objective), label_of(objective));
        ImGui::BeginDisabled(!missing.empty());
        if (ImGui::Selectable(with_unit(words, unit_of(objective)).c_str(), chosen == objective))
            chosen = objective;
        ImGui::EndDisabled();
        if (!missing.empty() && ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
            ImGui::SetTooltip("Not of this landscape: %s. Computing it again adds them", missing.c_str());
    }
    ImGui::EndCombo();
}

/// What has no room in the first line goes into the next; only the words of the colours are then left out (their tooltip has them).
void LandscapePanel::draw_toolbar(UiContext& ctx, const Frame& f) {
    const auto room = [] { // right of the last item
        return ImGui::GetWindowPos().x + content_right() - ImGui::GetItemRectMax().x -
               ImGui::GetStyle().ItemSpacing.x;
    };
    const auto begin = [&](float width) {
        if (room() >= width) ImGui::SameLine();
    };
    const auto button = [&](const char* words, const char* tip) {
        begin(text_width(words) + 2 * ImGui::GetStyle().FramePadding.x);
        const bool pressed = ImGui::Button(words);
        ImGui::SetItemTooltip("%s", tip);
        return pressed;
    };
    draw_value_choice(ctx, f);
    ctx.landmarks.set_text([&] { return label_of(f.cells); }, "landscape/value");
    ImGui::SameLine();
    draw_objective_choice(ctx, f);
    ctx.landmarks.set_text([&] { return fmt::format("{}: {}", to_string(f.objective()), f.judged.why); },
                           "landscape/objective");
    ImGui::SameLine();
    const std::string key = key_of(f.cells);
    m_range_bar.draw(ctx, ctx.views.landscape.cells.ranges,
                     {.name = "landscape",
                      .of = key,
                      .scale = scale(ctx.theme),
                      .kind = m_colours.has_signs ? RangeKind::has_signs : RangeKind::free,
                      .below = m_colours.below,
                      .above = m_colours.above,
                      .words = words_of(m_colours),
                      .unit = unit_of(f.cells),
                      .all = spread().extent()},
                     7 * f.em);
    if (m_colours.own &&
        button("Automatic", "You have set this range, and it is kept. This restores the automatic range"))
        ctx.views.landscape.cells.set_own_range(f.objective(), std::nullopt);
    if (!m_view.whole() && button("Whole", "Shows the whole triangle (double click)"))
        m_view.fit(f.landscape->num_rows());
    if (const bool computing = computes_this(ctx); computing || !f.landscape->complete() ||
                                                   is_longer(ctx, *f.landscape) ||
                                                   lacks_objectives(*f.landscape)) {
        begin((computing ? progress_ems + cancel_ems : compute_ems) * f.em);
        draw_compute(ctx, f);
    }
    const std::string words = words_of(m_colours);
    ctx.landmarks.set_text("landscape/range", words);
    if (room() < text_width(words)) return;
    ImGui::SameLine();
    ImGui::AlignTextToFramePadding();
    ImGui::TextDisabled("%s", words.c_str());
}

} // namespace refreshlab::ui
