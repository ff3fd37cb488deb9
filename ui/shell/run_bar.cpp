#include "ui/base/colour.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/shell/parts.h"
#include "ui/shell/strip_fit.h"
#include "ui/state/shell_state.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace refreshlab::ui {

namespace {

enum class Icon { none, play, pause, step, refresh };

void draw_icon(Icon icon, ImVec2 centre, float size, ImU32 colour) {
    ImDrawList& draw = *ImGui::GetWindowDrawList();
    const float h = size * 0.5F;
    switch (icon) {
    case Icon::none:
        break;
    case Icon::play:
        draw.AddTriangleFilled(ImVec2(centre.x - h * 0.75F, centre.y - h),
                               ImVec2(centre.x - h * 0.75F, centre.y + h), ImVec2(centre.x + h, centre.y),
                               colour);
        break;
    case Icon::pause:
        draw.AddRectFilled(ImVec2(centre.x - h * 0.8F, centre.y - h),
                           ImVec2(centre.x - h * 0.2F, centre.y + h), colour, 1);
        draw.AddRectFilled(ImVec2(centre.x + h * 0.2F, centre.y - h),
                           ImVec2(centre.x + h * 0.8F, centre.y + h), colour, 1);
        break;
    case Icon::step:
        draw.AddTriangleFilled(ImVec2(centre.x - h * 0.8F, centre.y - h),
                               ImVec2(centre.x - h * 0.8F, centre.y + h),
                               ImVec2(centre.x + h * 0.4F, centre.y), colour);
        draw.AddRectFilled(ImVec2(centre.x + h * 0.5F, centre.y - h),
                           ImVec2(centre.x + h * 0.9F, centre.y + h), colour, 1);
        break;
    case Icon::refresh: {
        constexpr float pi = 3.14159265F;
        draw.PathArcTo(centre, h * 0.85F, -pi * 0.35F, pi * 1.35F, 20);
        draw.PathStroke(colour, std::max(1.2F, size * 0.15F));
        const ImVec2 tip(centre.x + h * 0.85F * std::cos(-pi * 0.35F),
                         centre.y + h * 0.85F * std::sin(-pi * 0.35F));
        draw.AddTriangleFilled(ImVec2(tip.x - h * 0.75F, tip.y - h * 0.15F),
                               ImVec2(tip.x + h * 0.35F, tip.y - h * 0.55F),
                               ImVec2(tip.x + h * 0.2F, tip.y + h * 0.6F), colour);
        break;
    }
    }
}

struct ButtonLook {
    Icon icon = Icon::none;
    bool accent = false;
    bool pending = false; ///< hollow: asked for, not done yet
    float min_width = 0;  ///< so that a changing label does not move its neighbours
};

float button_width(const std::string& label, const ButtonLook& look) {
    const float icon = look.icon == Icon::none ? 0 : ImGui::GetFontSize() * 1.25F;
    return std::max(look.min_width,
                    ImGui::CalcTextSize(label.c_str()).x + icon + ImGui::GetStyle().FramePadding.x * 2.4F);
}

/// A button for one action of the table; `label` may say more than the table does ("Rewind to 171").
void action_button(ShellState& state, const char* id, const std::string& label, const ButtonLook& look) {
    const Action* action = state.find_action(id);
    if (!action) return;
    UiContext& ctx = state.ctx;
    const ImGuiStyle& style = ImGui::GetStyle();
    const float em = ImGui::GetFontSize(), icon_width = look.icon == Icon::none ? 0 : em * 1.25F;
    const bool enabled = ShellState::enabled(*action, ctx);
    const float width = button_width(label, look);
    const bool filled = look.accent && !look.pending;
    ImU32 ink = ctx.theme.text;
    int colours = 0;
    if (look.accent) {
        const ImU32 base = filled ? ctx.theme.accent : with_alpha(ctx.theme.accent, 0.12F);
        ImGui::PushStyleColor(ImGuiCol_Button, base);
        ImGui::PushStyleColor(ImGuiCol_ButtonHovered, mix(base, IM_COL32_WHITE, 0.15F));
        ImGui::PushStyleColor(ImGuiCol_ButtonActive, mix(base, IM_COL32_BLACK, 0.12F));
        colours = 3;
        ink = filled ? ctx.theme.accent_text : ctx.theme.accent_ink;
    }
    ImGui::BeginDisabled(!enabled);
    if (ImGui::Button(fmt::format("###{}", id).c_str(), ImVec2(width, 0))) state.run(*action);
    ImGui::PopStyleColor(colours);
    const ImVec2 low = ImGui::GetItemRectMin(), high = ImGui::GetItemRectMax();
    const float alpha = enabled ? 1.0F : style.DisabledAlpha;
    const ImU32 colour = with_alpha(ink, alpha);
    const float text_width = ImGui::CalcTextSize(label.c_str()).x;
    float x = low.x + (high.x - low.x - text_width - icon_width) * 0.5F;
    if (look.icon != Icon::none)
        draw_icon(look.icon, ImVec2(x + em * 0.4F, (low.y + high.y) * 0.5F), em * 0.72F, colour);
    x += icon_width;
    ImGui::GetWindowDrawList()->AddText(ImVec2(x, low.y + style.FramePadding.y), colour, label.c_str());
    if (look.accent && look.pending)
        ImGui::GetWindowDrawList()->AddRect(low, high, ctx.theme.accent, style.FrameRounding, 1.5F);
    ImGui::EndDisabled();
    if (ImGui::IsItemHovered(ImGuiHoveredFlags_ForTooltip | ImGuiHoveredFlags_AllowWhenDisabled)) {
        const std::string keys = shortcut_text(action->shortcut);
        if (!enabled && action->why_disabled)
            ImGui::SetTooltip("%s", action->why_disabled(ctx).c_str());
        else if (keys.empty())
            ImGui::SetTooltip("%s", action->help.c_str());
        else
            ImGui::SetTooltip("%s\n%s", action->help.c_str(), keys.c_str());
    }
    const char* name = std::string_view(id).find('.') == std::string_view::npos
                           ? id
                           : id + std::string_view(id).find('.') + 1;
    ctx.landmarks.set(fmt::format("runbar/{}", name), {low.x, low.y, high.x - low.x, high.y - low.y});
}

/// Numbers of the run bar, most wanted first: the last ones go when the window is narrow.
struct Number {
    std::string text, help;
    ImU32 colour;
    float width; ///< of the widest text it will have soon, so that the strip does not jitter
};

std::vector<Number> run_numbers(const ShellState& state) {
    const UiContext& ctx = state.ctx;
    std::vector<Number> numbers;
    const auto add = [&](std::string text, std::string help, ImU32 colour, const char* widest) {
        const float width = std::max(ImGui::CalcTextSize(text.c_str()).x, ImGui::CalcTextSize(widest).x);
        numbers.push_back({std::move(text), std::move(help), colour, width});
    };
    const int32_t max_tokens = ctx.recording && state.trace ? ctx.recording->info().config.max_tokens
                                                            : ctx.status->applied.max_tokens;
    const std::string all = format_thousands(std::max<int64_t>(max_tokens, ctx.steps));
    add(fmt::format("step {} / {}", format_thousands(ctx.shown_step()), all),
        ctx.live() ? "The newest step and the tokens asked for"
                   : "The selected step and the tokens asked for",
        ctx.theme.text, fmt::format("step {0} / {0}", all).c_str());
    if (!ctx.recording) return numbers;
    const bool refreshing =
        ctx.recording->info().config.mode == Mode::overfill; // else there is nothing to count
    const size_t refreshes = ctx.recording->refreshes().size();
    if (refreshing)
        add(fmt::format("{} {}", refreshes, refreshes == 1 ? "refresh" : "refreshes"),
            "Splices so far, by hand included", ctx.theme.accent_ink, "00 refreshes");
    const double tps = state.trace ? 0 : ctx.status->tokens_per_second;
    if (tps > 0)
        add(fmt::format("{} tokens/s", format_number(tps)), "Decode speed over the last 64 tokens",
            ctx.theme.text, "0000 tokens/s");
    if (refreshing && ctx.steps > 0)
        add(fmt::format("{} per 1,000", format_number(1000.0 * static_cast<double>(refreshes) /
                                                      static_cast<double>(ctx.steps))),
            "Refreshes per 1,000 tokens", ctx.theme.text_muted, "00.0 per 1,000");
    if (refreshing && state.decode_ms > 0)
        add(fmt::format("+{} % time", format_number(100 * state.refresh_ms / state.decode_ms)),
            "Time of teacher passes and splices against the rest of the decode", ctx.theme.text_muted,
            "+00.0 % time");
    return numbers;
}

/// Something that takes long: loading, prefilling, a job.
struct Progress {
    float fraction; ///< negative: the length is unknown
    std::string text;
    std::function<void()> cancel;
    int job = -1; ///< its index; -1 is the engine
};

/// Those that have taken longer than 200 ms (RB8).
std::vector<Progress> run_progress(ShellState& state) {
    constexpr double patience = 0.2; // seconds
    const EngineStatus& status = *state.ctx.status;
    const double now = ImGui::GetTime();
    const bool busy = status.state == EngineState::loading || status.state == EngineState::prefilling;
    if (!busy)
        state.busy_since_s = -1;
    else if (state.busy_since_s < 0)
        state.busy_since_s = now;
    std::vector<Progress> list;
    if (busy && now - state.busy_since_s > patience)
        list.push_back({static_cast<float>(std::clamp(status.progress, 0.0, 1.0)),
                        status.message.empty() ? std::string(to_string(status.state)) : status.message,
                        [&state] { state.run("run.stop"); }});
    for (size_t i = 0; i < state.jobs.size(); ++i)
        if (const Job& job = state.jobs[i]; now - job.started_s >= patience)
            list.push_back({static_cast<float>(-now), job.label, [flag = job.cancelled] { *flag = true; },
                            static_cast<int>(i)});
    if (!list.empty()) state.ctx.host.keep_awake(0.3);
    return list;
}

/// A piece of the run bar: in the strip where there is room, else in the popup of its "..." button.
struct Part {
    int rank;    ///< importance, 0 first
    float gap;   ///< before it
    float width; ///< of what draw() draws
    bool at_end; ///< stands at the right end
    std::function<void()> draw;
};

/// The bar of one frame: its parts from left to right, then which of them fit.
class RunBar {
public:
    RunBar(ShellState& state, float width)
        : m_state(state)
        , m_ctx(state.ctx)
        , m_em(ImGui::GetFontSize())
        , m_width(width) {}

    void draw() {
        add_controls();
        add_numbers();
        add_right_end();
        place();
    }

private:
    /// From here on a changing label keeps its widest width, so that nothing moves beside it.
    [[nodiscard]] bool roomy() const { return m_width > 40 * m_em; }
    [[nodiscard]] float spacing() const { return ImGui::GetStyle().ItemSpacing.x; }
    [[nodiscard]] float padded(const char* text) const {
        return ImGui::CalcTextSize(text).x + 2 * ImGui::GetStyle().FramePadding.x;
    }
    void add(int rank, float gap, float width, bool at_end, std::function<void()> draw) {
        m_parts.push_back({rank, gap, width, at_end, std::move(draw)});
    }
    void add_action(int rank, float gap, const char* id, const std::string& label, const ButtonLook& look) {
        add(rank, gap, button_width(label, look), false,
            [this, id, label, look] { action_button(m_state, id, label, look); });
    }

    void add_controls();
    void add_numbers();
    void add_right_end();
    void place();
    void draw_rest(const std::vector<bool>& shown, float right);

    ShellState& m_state;
    UiContext& m_ctx;
    float m_em, m_width;
    std::vector<Part> m_parts;
};

void RunBar::add_controls() {
    const float apart = m_em * 1.3F; // between groups
    const bool running = m_state.running();
    add_action(0, 0, "run.play_pause", running ? "Pause" : "Play",
               {running ? Icon::pause : Icon::play, false, false, button_width("Pause", {Icon::pause})});
    add_action(2, spacing(), "run.step", "Step", {Icon::step});
    const float entry = m_em * 2.9F, inner = m_em * 0.3F;
    add(10, spacing(), button_width("Step", {}) + inner + entry, false, [this, entry, inner] {
        action_button(m_state, "run.step_n", "Step", {});
        ImGui::SameLine(0, inner);
        ImGui::SetNextItemWidth(entry);
        int& steps = m_state.settings.steps_at_once;
        if (ImGui::InputInt("##steps at once", &steps, 0, 0)) steps = std::clamp(steps, 1, 100000);
        ImGui::SetItemTooltip("Steps to make at once (Shift+.)");
    });
    if (m_state.refreshes_when_asked && m_ctx.recording &&
        m_ctx.recording->refreshes().size() > *m_state.refreshes_when_asked)
        m_state.refreshes_when_asked.reset();
    const ButtonLook refresh{Icon::refresh, true, m_state.refreshes_when_asked.has_value()};
    const float key = roomy() ? m_em * 0.5F + ImGui::CalcTextSize("R").x : 0;
    add(3, apart, button_width("Refresh now", refresh) + key, false, [this, refresh, key] {
        action_button(m_state, "run.refresh_now", "Refresh now", refresh);
        if (key <= 0) return;
        ImGui::SameLine(0, m_em * 0.5F);
        ImGui::AlignTextToFramePadding();
        ImGui::TextDisabled("R");
    });
    const bool selected = m_ctx.selection.step.has_value() && m_ctx.steps > 0;
    add_action(6, apart, "run.rewind", selected ? fmt::format("Rewind to {}", m_ctx.shown_step()) : "Rewind",
               {Icon::none, false, false, roomy() ? button_width("Rewind to 0000", {}) : 0});
    const EngineState now = m_ctx.status->state;
    if (now == EngineState::finished || now == EngineState::failed)
        add_action(5, spacing(), "run.restart", "Start again", {});
}

void RunBar::add_numbers() {
    const float apart = m_em * 1.3F;
    const auto progress = run_progress(m_state);
    const float bar = roomy() ? m_em * 17 : m_em * 8, cancel = padded("Cancel");
    for (const Progress& one : progress)
        add(1, apart, bar + spacing() + cancel, false, [this, bar, one] {
            if (one.job >= 0) ImGui::PushID(one.job);
            ImGui::PushStyleColor(ImGuiCol_PlotHistogram, with_alpha(m_ctx.theme.accent, 0.45F));
            ImGui::ProgressBar(one.fraction, ImVec2(bar, ImGui::GetFrameHeight()), one.text.c_str());
            ImGui::PopStyleColor();
            ImGui::SetItemTooltip("%s", one.text.c_str());
            ImGui::SameLine();
            if (ImGui::Button("Cancel")) one.cancel();
            if (one.job >= 0) ImGui::PopID();
        });
    // While something is under way its bar has their place. Step and refreshes come before seed and temperature, which
    // stand in Sampling as well.
    if (progress.empty()) {
        constexpr int ranks[] = {4, 8, 13, 14, 15};
        const auto numbers = run_numbers(m_state);
        for (size_t i = 0; i < numbers.size(); ++i)
            add(ranks[std::min<size_t>(i, 4)], i == 0 ? apart : m_em * 1.1F, numbers[i].width, false,
                [number = numbers[i]] {
                    ImGui::AlignTextToFramePadding();
                    ImGui::PushStyleColor(ImGuiCol_Text, number.colour);
                    ImGui::TextUnformatted(number.text.c_str());
                    ImGui::PopStyleColor();
                    if (ImGui::IsItemHovered(ImGuiHoveredFlags_DelayShort))
                        ImGui::SetTooltip("%s", number.help.c_str());
                });
    }
    if (m_state.trace) {
        // Without a run of the engine there is nothing live to go back to.
        const char* label = m_ctx.engine.recording() ? "Back to the live run" : "Close trace";
        add(7, apart, padded(label), false, [this, label] {
            if (ImGui::Button(fmt::format("{}###close trace", label).c_str()))
                m_state.run("file.close_trace");
        });
    }
}

/// Temperature and seed, live or selected step, way out of Present.
void RunBar::add_right_end() {
    // From the back of a room nobody reads them, and the numbers of the run need the place.
    const bool plain = !m_ctx.present_mode && !m_state.trace;
    if (plain && m_ctx.drafts.number("sampler.temperature")) {
        const float entry = m_em * 3.4F, inner = m_em * 0.4F;
        add(11, m_em, ImGui::CalcTextSize("T").x + inner + entry, true, [this, entry, inner] {
            ImGui::AlignTextToFramePadding();
            ImGui::TextDisabled("T");
            ImGui::SetItemTooltip("Temperature; 0 = always the most likely token");
            ImGui::SameLine(0, inner);
            const Parameter* parameter = find_parameter("sampler.temperature");
            NumberStyle number;
            number.slider_max = parameter ? parameter->slider_max : 2;
            number.max = parameter ? parameter->max : 10;
            number_entry(m_ctx, "temperature", "sampler.temperature", entry, number);
        });
    }
    if (const auto seed = plain ? m_ctx.drafts.value("seed") : std::nullopt) {
        const std::string text = fmt::format("seed {}", *seed);
        const float width = ImGui::CalcTextSize(text.c_str()).x;
        add(12, m_em, width, true, [this, text, width] {
            ImGui::AlignTextToFramePadding();
            if (ImGui::Selectable(text.c_str(), false, 0, ImVec2(width, 0))) m_state.focus_panel = "Sampling";
            ImGui::SetItemTooltip("Opens Sampling");
        });
    }
    const std::string live =
        m_ctx.live() ? (m_state.trace ? "Newest" : "Live") : fmt::format("Step {}", m_ctx.shown_step());
    const float live_width = std::max(padded(live.c_str()) + m_em, roomy() ? padded("Step 00000") + m_em : 0);
    add(0, m_em, live_width, true, [this, live, live_width] {
        ImGui::PushStyleColor(ImGuiCol_Text, m_ctx.live() ? m_ctx.theme.text_ok : m_ctx.theme.text);
        const int colours = m_ctx.live() ? 2 : 1; // the button changes it
        if (colours == 2) ImGui::PushStyleColor(ImGuiCol_Button, with_alpha(m_ctx.theme.text_ok, 0.10F));
        const bool is_live = m_ctx.live();
        if (ImGui::Button(fmt::format("{}###select.live", live).c_str(), ImVec2(live_width, 0)))
            m_state.run("select.live");
        ImGui::PopStyleColor(colours);
        const ImVec2 low = ImGui::GetItemRectMin(), high = ImGui::GetItemRectMax();
        if (is_live)
            ImGui::GetWindowDrawList()->AddCircleFilled(ImVec2(low.x + m_em * 0.55F, (low.y + high.y) * 0.5F),
                                                        m_em * 0.22F, m_ctx.theme.text_ok);
        m_ctx.landmarks.set("runbar/live", {low.x, low.y, high.x - low.x, high.y - low.y});
        ImGui::SetItemTooltip("%s",
                              is_live ? "All panels show the newest step" : "Back to the newest step (L)");
    });
    if (m_ctx.present_mode)
        add(9, spacing(), padded("Leave Present"), true, [this] {
            if (ImGui::Button("Leave Present")) m_state.run("view.layout.explore");
        });
}

void RunBar::place() {
    const float edge = m_em * 0.65F, more = padded("...") + spacing();
    std::vector<StripPart> parts;
    for (const Part& part : m_parts)
        parts.push_back({part.width + part.gap, part.rank});
    const std::vector<bool> shown = fit_strip(parts, m_width - 2 * edge, more);
    const float y = ImGui::GetCursorPosY();
    float x = edge, end = m_width - edge;
    bool first = true;
    for (size_t i = 0; i < m_parts.size(); ++i) {
        if (!shown[i] || m_parts[i].at_end) continue;
        x += first ? 0 : m_parts[i].gap;
        first = false;
        ImGui::SetCursorPos({x, y});
        m_parts[i].draw();
        x += m_parts[i].width;
    }
    std::vector<std::pair<size_t, float>> placed; // from the right to the left
    for (size_t i = m_parts.size(); i-- > 0;) {
        if (!shown[i] || !m_parts[i].at_end) continue;
        end -= m_parts[i].width;
        placed.emplace_back(i, end);
        end -= m_parts[i].gap;
    }
    if (std::ranges::find(shown, false) != shown.end()) {
        ImGui::SetCursorPos({end - more + spacing(), y});
        if (ImGui::Button("...")) ImGui::OpenPopup("##more");
        const ImVec2 low = ImGui::GetItemRectMin(), high = ImGui::GetItemRectMax();
        m_ctx.landmarks.set("runbar/more", {low.x, low.y, high.x - low.x, high.y - low.y});
        ImGui::SetItemTooltip("What the window has no room for");
        draw_rest(shown, high.x);
    }
    for (auto it = placed.rbegin(); it != placed.rend(); ++it) { // Tab walks from left to right
        ImGui::SetCursorPos({it->second, y});
        m_parts[it->first].draw();
    }
}

/// The parts that are not shown, one below the other, under the bar.
void RunBar::draw_rest(const std::vector<bool>& shown, float right) {
    const ImGuiViewport& view = *ImGui::GetMainViewport();
    const float top = ImGui::GetWindowPos().y + ImGui::GetWindowSize().y,
                bottom = view.WorkPos.y + view.WorkSize.y;
    ImGui::SetNextWindowPos({right, top}, ImGuiCond_Always, {1, 0});
    ImGui::SetNextWindowSizeConstraints({0, 0}, {view.WorkSize.x, std::max(m_em * 4, bottom - top)});
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(m_em * 0.7F, m_em * 0.6F));
    const bool open = ImGui::BeginPopup("##more");
    ImGui::PopStyleVar();
    if (!open) return;
    for (size_t i = 0; i < m_parts.size(); ++i)
        if (!shown[i]) m_parts[i].draw();
    ImGui::EndPopup();
}

} // namespace

float draw_run_bar(ShellState& state, float y) {
    UiContext& ctx = state.ctx;
    const ImGuiViewport& view = *ImGui::GetMainViewport();
    const float em = ImGui::GetFontSize();
    const float padding = em * 0.45F, height = ImGui::GetFrameHeight() + padding * 2;
    ImGui::SetNextWindowPos(ImVec2(view.WorkPos.x, y));
    ImGui::SetNextWindowSize(ImVec2(view.WorkSize.x, height));
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(em * 0.65F, padding));
    ImGui::PushStyleColor(ImGuiCol_WindowBg, ImGui::GetStyleColorVec4(ImGuiCol_WindowBg));
    ImGui::Begin("Run bar", nullptr,
                 ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoDocking |
                     ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoMove |
                     ImGuiWindowFlags_NoBringToFrontOnFocus);
    ctx.landmarks.set("panel/Run bar", {view.WorkPos.x, y, view.WorkSize.x, height});
    RunBar(state, view.WorkSize.x).draw();
    ImGui::End();
    ImGui::PopStyleColor();
    ImGui::PopStyleVar();
    return height;
}

} // namespace refreshlab::ui
