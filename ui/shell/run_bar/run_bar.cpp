#include "ui/base/colour.h"
#include "ui/base/value_format.h"
#include "ui/draw/text_entry.h"
#include "ui/draw/widgets.h"
#include "ui/shell/parts.h"
#include "ui/shell/run_bar/action_button.h"
#include "ui/shell/run_bar/run_numbers.h"
#include "ui/shell/run_bar/strip_fit.h"
#include "ui/state/shell_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace refreshlab::ui {

namespace {

constexpr int pace_rank = 9;

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
    void add_pace();
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
        whole_entry("##steps at once", &m_state.settings.steps_at_once, 1, most_steps_at_once);
        ImGui::SetItemTooltip("Steps to make at once");
    });
    if (const auto& link = m_ctx.status->link; link && !link->driving)
        add_action(1, spacing(), "run.take_wheel", "Take the wheel", {Icon::none, true});
    add_pace();
    if (m_state.refreshes_when_asked && m_ctx.recording &&
        m_ctx.recording->refreshes().size() > *m_state.refreshes_when_asked)
        m_state.refreshes_when_asked.reset();
    const ButtonLook refresh{Icon::refresh, true, m_state.refreshes_when_asked.has_value()};
    const std::string key = roomy() ? m_ctx.key_of("run.refresh_now") : std::string();
    const float beside = key.empty() ? 0 : m_em * 0.5F + ImGui::CalcTextSize(key.c_str()).x;
    add(3, apart, button_width("Refresh now", refresh) + beside, false, [this, refresh, key] {
        action_button(m_state, "run.refresh_now", "Refresh now", refresh);
        if (key.empty()) return;
        ImGui::SameLine(0, m_em * 0.5F);
        ImGui::AlignTextToFramePadding();
        ImGui::TextDisabled("%s", key.c_str());
    });
    const bool selected = m_ctx.selection.step.has_value() && m_ctx.steps > 0;
    add_action(6, apart, "run.rewind",
               selected ? fmt::format("Rewind to {}", format_thousands(m_ctx.shown_step())) : "Rewind",
               {Icon::none, false, false, roomy() ? button_width("Rewind to 0000", {}) : 0});
    const EngineState now = m_ctx.status->state;
    if (now == EngineState::finished || now == EngineState::failed)
        add_action(5, spacing(), "run.restart", "Start again", {});
    if (now == EngineState::finished && m_state.find_action("run.without_refresh")->enabled(m_ctx))
        add_action(9, spacing(), "run.without_refresh",
                   std::ranges::any_of(m_ctx.drafts.policy().triggers, &Trigger::enabled)
                       ? "Same run without refresh"
                       : "Same run with refresh",
                   {});
}

/// Tokens a second, or as fast as it goes.
void RunBar::add_pace() {
    const float width = padded("200 a second") + m_em;
    add(pace_rank, m_em * 0.6F, width, false, [this, width] {
        ImGui::SetNextItemWidth(width);
        if (ImGui::BeginCombo("##pace", pace_text(m_state.settings.pace).c_str(),
                              ImGuiComboFlags_HeightLarge)) {
            for (const double pace : {1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 0.0})
                if (ImGui::Selectable(pace > 0 ? pace_text(pace).c_str() : "as fast as it goes",
                                      pace == m_state.settings.pace))
                    m_state.set_pace(pace);
            ImGui::EndCombo();
        } else {
            ImGui::SetItemTooltip(
                "Tokens a second of a run; [ half, ] twice as many. Steps asked for one by one do not wait");
        }
    });
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
        const auto numbers = run_numbers(m_state);
        for (size_t i = 0; i < numbers.size(); ++i)
            add(numbers[i].rank, i == 0 ? apart : m_em * Number::apart_em, numbers[i].width, false,
                [this, number = numbers[i]] {
                    for (const auto& [text, colour] : number.words) {
                        if (&text != &number.words[0].first) ImGui::SameLine(0, m_em * Number::apart_em);
                        ImGui::AlignTextToFramePadding();
                        ImGui::PushStyleColor(ImGuiCol_Text, colour);
                        ImGui::TextUnformatted(text.c_str());
                        ImGui::PopStyleColor();
                        if (ImGui::IsItemHovered(ImGuiHoveredFlags_DelayShort))
                            ImGui::SetTooltip("%s", number.help.c_str());
                    }
                });
    }
    if (m_state.runs.away()) {
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
    const bool plain = !m_ctx.present_mode && !m_state.runs.away();
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
    const std::string live = m_ctx.live() ? std::string(m_ctx.newest())
                                          : fmt::format("Step {}", format_thousands(m_ctx.shown_step()));
    const float live_width = std::max(padded(live.c_str()) + m_em, roomy() ? padded("Step 00000") + m_em : 0);
    add(0, m_em, live_width, true, [this, live, live_width] {
        const bool goes_on = m_ctx.live() && m_ctx.decoding();
        ImGui::PushStyleColor(ImGuiCol_Text, goes_on ? m_ctx.theme.text_ok : m_ctx.theme.text);
        const int colours = goes_on ? 2 : 1; // the button changes it
        if (colours == 2) ImGui::PushStyleColor(ImGuiCol_Button, with_alpha(m_ctx.theme.text_ok, 0.10F));
        const bool is_live = m_ctx.live();
        if (ImGui::Button(fmt::format("{}###select.live", live).c_str(), ImVec2(live_width, 0)))
            m_state.run("select.live");
        ImGui::PopStyleColor(colours);
        const ImVec2 low = ImGui::GetItemRectMin(), high = ImGui::GetItemRectMax();
        if (goes_on)
            ImGui::GetWindowDrawList()->AddCircleFilled(ImVec2(low.x + m_em * 0.55F, (low.y + high.y) * 0.5F),
                                                        m_em * 0.22F, m_ctx.theme.text_ok);
        m_ctx.landmarks.set("runbar/live", {low.x, low.y, high.x - low.x, high.y - low.y});
        ImGui::SetItemTooltip("%s",
                              is_live ? "All panels show the newest step" : "Back to the newest step (L)");
    });
    if (m_ctx.present_mode)
        add(8, spacing(), padded("Leave Present"), true, [this] {
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
    // The one that is least missed is last: at three times the size the list is longer than the window and scrolls.
    for (const bool least : {false, true})
        for (size_t i = 0; i < m_parts.size(); ++i)
            if (!shown[i] && (m_parts[i].rank == pace_rank) == least) m_parts[i].draw();
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
    ctx.landmarks.set_panel("Run bar", {view.WorkPos.x, y, view.WorkSize.x, height});
    RunBar(state, view.WorkSize.x).draw();
    ImGui::End();
    ImGui::PopStyleColor();
    ImGui::PopStyleVar();
    return height;
}

} // namespace refreshlab::ui
