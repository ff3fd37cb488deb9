#include "ui/tour/tour.h"

#include "engine/base/model_path.h"
#include "engine/control/parameters.h"
#include "engine/fetch/published_models.h"
#include "engine/tasks/prompt_file.h"
#include "ui/context/branch.h"
#include "ui/draw/widgets.h"
#include "ui/scene/axes/signal_choice.h"
#include "ui/scene/runs/run_set.h"
#include "ui/tour/bubble_place.h"

#include <fmt/format.h>
#include <imgui_internal.h>

#include <algorithm>
#include <utility>

namespace refreshlab::ui {

namespace {

/// So long a new step looks for its place anew: panels move to the front, and the words have another length.
constexpr int new_frames = 8;

/// Where the open dialog lies; nothing where none is open.
std::optional<PixelBox> dialog_box(const ShellState& state) {
    const std::string title(state.dialog_title());
    const ImGuiWindow* const window = title.empty() ? nullptr : ImGui::FindWindowByName(title.c_str());
    if (window == nullptr || !window->WasActive) return std::nullopt;
    return PixelBox{window->Pos.x, window->Pos.y, window->Size.x, window->Size.y};
}

/// A published model's file by its name; else a path, or "derive:SPEC".
std::string model_named(const Host& host, const std::string& name) {
    const PublishedModel* const model = find_published_model(name);
    return model != nullptr ? (models_folder(host.assets()) / model->file).string() : name;
}

} // namespace

void Tour::begin(const Chapter& chapter, size_t step) {
    end();
    if (chapter.steps.empty()) return;
    const auto live = m_state.runs.live();
    const auto recording = live ? m_state.runs.recording(*live) : nullptr;
    m_before = {.views = m_state.ctx.views,
                .layout = m_state.settings.layout,
                .pace = m_state.settings.pace,
                .live = live,
                .live_steps = recording ? recording->steps() : 0};
    m_chapter = chapter;
    m_phase = Phase::asked;
    m_state.ctx.landmarks.watch();
    step = step < chapter.steps.size() ? step : 0;
    // Where somebody goes on in the middle, the window is as the last step before it began that sets something up.
    size_t from = step;
    while (from > 0 && !chapter.steps[from].set_up)
        --from;
    if (from < step && chapter.steps[from].set_up)
        m_state.guarded([&] { set_up(*chapter.steps[from].set_up); });
    go_to(step);
}

void Tour::end() {
    if (!m_chapter) return;
    const bool finished = m_step + 1 >= m_chapter->steps.size() && m_phase == Phase::told;
    m_state.settings.tour[m_chapter->id] = static_cast<int>(finished ? m_chapter->steps.size() : m_step);
    m_chapter.reset();
    m_bubble.reset();
    m_state.ctx.landmarks.unwatch();
    put_views_back();
    if (m_before.borrowed_layout) {
        m_state.wanted_layout = m_before.layout;
        m_state.wanted_layout_bundled = false;
    }
    if (!m_before.started_run) return;
    m_state.ctx.select_step(std::nullopt);
    m_state.runs.untick_all();
    // The run that was the engine's before is that again, bit for bit; the chapter's runs stay in the panel Runs.
    if (!m_before.live || m_before.live_steps < 1 || m_state.runs.find(*m_before.live) == nullptr)
        m_state.ctx.engine.send(command::Stop{});
    else
        branch_at(m_state.ctx, *m_before.live, m_before.live_steps, std::nullopt, false);
}

void Tour::put_views_back() {
    if (m_state.settings.pace != m_before.pace) m_state.set_pace(m_before.pace);
    const FirstViews first(m_state);
    m_state.ctx.views = m_before.views;
    m_state.views_set = true;
}

void Tour::leave_window() {
    if (!m_chapter) return;
    put_views_back();
    m_state.settings.layout = m_before.layout;
}

void Tour::go_to(size_t step) {
    m_step = step;
    m_new_frames = new_frames;
    m_said.clear();
    const TourStep& now = m_chapter->steps[step];
    m_state.settings.tour[m_chapter->id] = static_cast<int>(step);
    if (now.set_up)
        m_state.guarded([&] { set_up(*now.set_up); }); // a parameter that this policy does not have
    m_panel = now.panel;
    if (m_phase != Phase::preparing) {
        m_phase = Phase::asked;
        remember_facts();
    }
}

void Tour::set_up(const TourSetUp& wanted) {
    m_state.views_set = true;
    if (!wanted.layout.empty()) {
        m_state.store_layout(); // the person's own arrangement, which end() puts up again
        m_state.layout_borrowed = m_before.borrowed_layout = true;
        m_state.wanted_layout = wanted.layout;
        m_state.wanted_layout_bundled = true;
    }
    if (!wanted.coloured_by.empty()) m_state.ctx.views.text.coloured_by = wanted.coloured_by;
    if (!wanted.plots.empty()) m_state.ctx.views.signals = parse_plots(wanted.plots, "the tour");
    if (wanted.starts_run) start_run(wanted);
}

/// On this machine's device and threads; everything else is as the chapter says, so that its numbers are everybody's.
void Tour::start_run(const TourSetUp& wanted) {
    UiContext& ctx = m_state.ctx;
    const RunConfig present = ctx.drafts.next_run();
    const BundledPair bundled = bundled_pair(ctx.host.assets());
    RunConfig run;
    run.device = present.device;
    run.threads = present.threads;
    run.kernels = present.kernels;
    run.teacher_dir = wanted.teacher.empty() ? bundled.teacher : model_named(ctx.host, wanted.teacher);
    run.student_dir = wanted.student.empty() ? bundled.student : model_named(ctx.host, wanted.student);
    run.prompt = wanted.prompt.empty() ? present.prompt : wanted.prompt;
    if (const auto task = find_task(run.prompt, ctx.host.assets() / "prompts")) run.task = *task;
    run.policy = wanted.policy ? *wanted.policy : preset_policy("none");
    if (wanted.student_cache) run.student_cache = *wanted.student_cache;
    if (wanted.teacher_cache) run.teacher_cache = *wanted.teacher_cache;
    for (const auto& [key, value] : wanted.set)
        set_parameter(run, key, value);
    m_before.started_run = true;
    m_state.runs.look_live();
    ctx.select_step(std::nullopt);
    const auto now = ctx.engine.recording();
    m_waits_for = now ? now->info().id : "";
    m_wanted_steps = wanted.steps;
    m_errors = ctx.status->errors;
    m_phase = Phase::preparing;
    if (wanted.pace > 0) m_state.set_pace(wanted.pace);
    m_state.wanted_running = std::nullopt;
    ctx.engine.send(command::StartRun{run, true});
    if (wanted.steps > 0) ctx.engine.send(command::Step{static_cast<int32_t>(wanted.steps)});
    if (wanted.goes_on) ctx.engine.send(command::Resume{});
}

/// The run of the step stands there. A refusal is told by the window; the step is asked all the same.
bool Tour::is_prepared() const {
    const UiContext& ctx = m_state.ctx;
    if (ctx.status->errors != m_errors) return true;
    return ctx.recording && ctx.recording->info().id != m_waits_for && ctx.steps >= m_wanted_steps &&
           ctx.status->state != EngineState::loading && ctx.status->state != EngineState::prefilling;
}

void Tour::remember_facts() {
    m_facts.clear();
    const auto& until = m_chapter->steps[m_step].until;
    std::vector<std::string> names;
    if (until) until->collect_facts(names);
    for (const std::string& name : names)
        if (const auto value = fact(m_state, name)) m_facts[name] = *value;
}

void Tour::advance() {
    if (m_step + 1 < m_chapter->steps.size()) return go_to(m_step + 1);
    m_phase = Phase::told;
    end();
}

std::string Tour::target(const TourMove& move) const {
    return with_facts(m_state, move.target);
}

std::optional<PixelBox> Tour::anchor() const {
    if (!m_chapter) return std::nullopt;
    for (const std::string& name : m_chapter->steps[m_step].anchors)
        if (const auto box = m_state.ctx.landmarks.find(with_facts(m_state, name))) return box;
    return std::nullopt;
}

void Tour::draw() {
    if (!m_chapter) return;
    if (m_phase == Phase::preparing && is_prepared()) {
        m_phase = Phase::asked;
        remember_facts();
    }
    // A layout that is being put up brings panels of its own to the front.
    if (!m_panel.empty() && m_state.wanted_layout.empty() && m_state.front_panels.empty())
        m_state.open_panel(std::exchange(m_panel, {}));
    const TourStep& step = m_chapter->steps[m_step];
    const bool held = ImGui::IsMouseDown(ImGuiMouseButton_Left); // a drag is done when it ends
    if (m_phase == Phase::asked && step.until && !held && step.until->holds(m_state, m_facts)) {
        if (step.then.empty()) return advance();
        m_phase = Phase::told;
        m_said = with_facts(m_state, step.then);
    }
    draw_bubble();
}

void Tour::draw_bubble() {
    UiContext& ctx = m_state.ctx;
    const float em = ImGui::GetFontSize();
    const ImGuiViewport& view = *ImGui::GetMainViewport();
    const PixelBox window{view.WorkPos.x, view.WorkPos.y, view.WorkSize.x, view.WorkSize.y};
    const auto box = anchor();
    if (box) draw_outline(*box);
    const float width = std::clamp(window.width * 0.3F, em * 13, em * 22), gap = em * 0.8F;
    const auto dialog = dialog_box(m_state);
    if (m_bubble && !ImGui::IsMouseDown(ImGuiMouseButton_Left))
        m_bubble = place_bubble(box, m_bubble->width, m_bubble->height, window, gap, dialog,
                                m_new_frames > 0 ? std::nullopt : m_bubble);
    if (m_new_frames > 0) --m_new_frames;
    const PixelBox at = m_bubble.value_or(place_bubble(box, width, em * 9, window, gap, dialog));
    ImGui::SetNextWindowPos(ImVec2(at.x, at.y));
    ImGui::SetNextWindowSizeConstraints(ImVec2(width, 0), ImVec2(width, window.height));
    ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1.0F);
    ImGui::PushStyleVar(ImGuiStyleVar_WindowRounding, em * 0.5F);
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(em, em * 0.8F));
    ImGui::PushStyleColor(ImGuiCol_WindowBg, ImGui::GetStyleColorVec4(ImGuiCol_PopupBg));
    ImGui::PushStyleColor(ImGuiCol_Border, ctx.theme.accent);
    ImGui::Begin("##tour", nullptr,
                 ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoDocking |
                     ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_AlwaysAutoResize |
                     ImGuiWindowFlags_NoFocusOnAppearing | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoNav);
    // Over panels that float, but not over a list or a menu.
    if (!ImGui::IsPopupOpen(nullptr, ImGuiPopupFlags_AnyPopup))
        ImGui::BringWindowToDisplayFront(ImGui::GetCurrentWindow());
    const TourStep& step = m_chapter->steps[m_step];
    draw_words();
    const ImVec2 size = ImGui::GetWindowSize(), pos = ImGui::GetWindowPos();
    m_bubble = {pos.x, pos.y, size.x, size.y};
    ctx.landmarks.set("tour/bubble", *m_bubble);
    draw_buttons(step); // the last thing: it may end the chapter
    ImGui::End();
    ImGui::PopStyleColor(2);
    ImGui::PopStyleVar(3);
}

std::string Tour::words() const {
    if (!m_chapter) return {};
    if (m_phase == Phase::preparing) return "One moment: the run of this step is being made.";
    return m_phase == Phase::told ? m_said : with_facts(m_state, m_chapter->steps[m_step].text);
}

void Tour::draw_words() {
    UiContext& ctx = m_state.ctx;
    muted_text(ctx, fmt::format("{}, {} of {}", m_chapter->title, m_step + 1, m_chapter->steps.size()));
    ImGui::Dummy(ImVec2(0, ImGui::GetFontSize() * 0.1F));
    ImGui::PushTextWrapPos(0);
    ImGui::TextUnformatted(words().c_str());
    ImGui::PopTextWrapPos();
    if (m_phase == Phase::preparing) ctx.host.keep_awake(0.2);
}

void Tour::draw_buttons(const TourStep& step) {
    const float em = ImGui::GetFontSize();
    const bool last = m_step + 1 == m_chapter->steps.size();
    const bool waits = m_phase == Phase::preparing || (m_phase == Phase::asked && step.until);
    ImGui::Dummy(ImVec2(0, em * 0.25F));
    enum class Pressed : uint8_t { none, end, back, next } pressed = Pressed::none;
    if (ImGui::Button("End")) pressed = Pressed::end;
    ImGui::SetItemTooltip(
        "Ends the tour and restores the window as it was. Help > Tour continues at this step");
    ImGui::SameLine();
    ImGui::BeginDisabled(m_step == 0);
    if (ImGui::Button("Back")) pressed = Pressed::back;
    ImGui::EndDisabled();
    const float width = em * 5;
    ImGui::SameLine(content_right() - width);
    if (waits) {
        if (ImGui::Button("Skip", ImVec2(width, 0))) pressed = Pressed::next;
        ImGui::SetItemTooltip("Continues without having done it");
    } else if (accent_button(m_state.ctx, last ? "Done" : "Next", width)) {
        pressed = Pressed::next;
    }
    switch (pressed) {
    case Pressed::none:
        break;
    case Pressed::end:
        end();
        break;
    case Pressed::back:
        m_phase = Phase::asked;
        go_to(m_step - 1);
        break;
    case Pressed::next:
        m_phase = Phase::asked;
        advance();
        break;
    }
}

/// Around what the bubble speaks of, and a line between the two.
void Tour::draw_outline(const PixelBox& anchor) const {
    const UiContext& ctx = m_state.ctx;
    ImDrawList& list = *ImGui::GetForegroundDrawList();
    const float em = ImGui::GetFontSize(), edge = em * 0.25F;
    const ImVec2 low(anchor.x - edge, anchor.y - edge),
        high(anchor.x + anchor.width + edge, anchor.y + anchor.height + edge);
    list.AddRect(low, high, ctx.theme.accent, em * 0.3F, em * 0.12F);
    if (!m_bubble) return;
    const auto nearest = [](float value, float from, float to) {
        return std::clamp(value, from, std::max(from, to));
    };
    const ImVec2 from(nearest(anchor.x + anchor.width / 2, m_bubble->x, m_bubble->x + m_bubble->width),
                      nearest(anchor.y + anchor.height / 2, m_bubble->y, m_bubble->y + m_bubble->height));
    const ImVec2 to(nearest(from.x, low.x, high.x), nearest(from.y, low.y, high.y));
    list.AddLine(from, to, ctx.theme.accent, em * 0.12F);
}

} // namespace refreshlab::ui
