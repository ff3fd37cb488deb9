#include "engine/base/error.h"
#include "engine/text/utf8.h"
#include "ui/base/value_format.h"
#include "ui/dialogs/dialogs.h"
#include "ui/dialogs/model_choice.h"
#include "ui/dialogs/new_run.h"
#include "ui/dialogs/prompt_files.h"
#include "ui/draw/cache_controls.h"
#include "ui/draw/text_entry.h"
#include "ui/draw/widgets.h"
#include "ui/state/dialog.h"
#include "ui/state/shell_state.h"

#include <fmt/format.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace refreshlab::ui {

namespace {

using Part = RunOutlook::Part;

class NewRunDialog final : public Dialog {
public:
    NewRunDialog(ShellState& state, const std::filesystem::path& model)
        : m_state(state)
        , m_run(state.ctx.drafts.next_run(), state.ctx.host.assets())
        , m_models(state) {
        if (model.empty()) take_up_unfinished();
        if (!model.empty()) m_run.config.teacher_dir = m_run.config.student_dir = model.string();
        look_for_task();
        state.guarded([&] { m_prompts = read_bundled_prompts(state.ctx.host.assets() / "prompts"); });
    }
    ~NewRunDialog() override {
        m_state.refusals_in_dialog = false;
        if (!m_run.looking()) return;
        // The engine is still being asked: the frames do not wait for that.
        auto run = std::make_shared<NewRun>(std::move(m_run));
        m_state.orphans.push_back(
            std::async(std::launch::async, [run = std::move(run)]() mutable { run.reset(); }));
    }

    const char* title() const override { return "New run"; }
    float width() const override { return 740; }

    bool draw(ShellState&) override {
        if (m_ticket) return draw_start();
        // The last answer stays until the next one is there: nothing moves under the mouse meanwhile.
        if (const RunOutlook* news = m_run.outlook(m_state.ctx.engine, ImGui::GetTime())) m_outlook = *news;
        if (m_run.looking()) m_state.ctx.host.keep_awake(0.3);
        const float column = ImGui::GetFontSize() * 7;
        draw_notice();
        draw_prompt(column);
        draw_models(column);
        draw_cache_policy(column);
        draw_device(column);
        draw_limits(column);
        draw_costs(column);
        return draw_buttons();
    }
    void put_aside(ShellState&) override { m_state.unfinished_run = {m_run.config, m_run.seed}; }

private:
    void take_up_unfinished() {
        if (!m_state.unfinished_run) return;
        m_run.config = m_state.unfinished_run->config;
        m_run.seed = m_state.unfinished_run->seed;
        m_taken_up = true;
    }
    void draw_notice();
    void draw_prompt(float column);
    void draw_prompt_chooser();
    void draw_models(float column);
    void draw_recent_pairs();
    void draw_bridge(float column);
    void draw_cache_policy(float column);
    void draw_device(float column);
    void draw_limits(float column);
    void draw_costs(float column);
    [[nodiscard]] bool at_fault(Part part) const { return m_outlook && m_outlook->part == part; }
    void draw_fault(Part part, float column);
    void draw_about(const std::string& line, float column);
    [[nodiscard]] bool draw_buttons(); ///< false: the dialog is done
    [[nodiscard]] bool draw_start();
    void start();
    void look_for_almanac();
    void look_for_task() {
        m_state.guarded([&] { m_run.look_for_task(); });
    }

    ShellState& m_state;
    NewRun m_run;
    ModelChoice m_models;
    CacheControls m_cache_controls;
    std::vector<PromptGroup> m_prompts;
    std::optional<RunOutlook> m_outlook; ///< the last one
    bool m_taken_up = false;             ///< it began with what was typed before
    std::optional<uint64_t> m_ticket;    ///< of the start that the engine is working on
    uint64_t m_errors = 0;               ///< refusals before that
    std::string m_refusal;               ///< of the last start
};

void NewRunDialog::draw_notice() {
    const UiContext& ctx = m_state.ctx;
    const EngineState now = ctx.status->state;
    if (now == EngineState::running || now == EngineState::paused)
        muted_text(ctx, fmt::format("Prompt, models, mode, device, number type and seed need a new run: the "
                                    "present one ends, {}",
                                    ctx.status->recorded
                                        ? "its recording stays in the trace"
                                        : "and stays in the panel Runs; File > Show the other run"));
    if (!m_taken_up) return;
    ImGui::AlignTextToFramePadding();
    muted_text(ctx, "As you left it");
    ImGui::SameLine();
    if (ImGui::SmallButton("Begin with the present run")) {
        m_state.unfinished_run.reset();
        m_run.config = ctx.drafts.next_run();
        m_run.seed = fmt::format("{}", m_run.config.seed);
        m_taken_up = false;
        look_for_task();
    }
}

/// What is wrong with a field, under it.
void NewRunDialog::draw_fault(Part part, float column) {
    if (!at_fault(part)) return;
    label_before("", column);
    ImGui::PushStyleColor(ImGuiCol_Text, m_state.ctx.theme.text_error);
    ImGui::TextWrapped("%s", m_outlook->problem.c_str());
    ImGui::PopStyleColor();
    const ImVec2 low = ImGui::GetItemRectMin(), size = ImGui::GetItemRectSize();
    m_state.ctx.landmarks.set("dialog/fault", {low.x, low.y, size.x, size.y});
}

void NewRunDialog::draw_about(const std::string& line, float column) {
    label_before("", column);
    muted_text(m_state.ctx, line.empty() ? " " : line);
}

void NewRunDialog::draw_prompt(float column) {
    const float em = ImGui::GetFontSize();
    label_before("Prompt", column);
    draw_prompt_chooser();
    // In a low window the prompt gives way, so that the buttons stay in sight.
    const float prompt_height =
        std::clamp(ImGui::GetMainViewport()->WorkSize.y * 0.82F - em * 34, em * 3, em * 8);
    ImGui::SetNextItemWidth(-1);
    if (ImGui::IsWindowAppearing()) ImGui::SetKeyboardFocusHere();
    ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, ImVec2(em * 0.5F, em * 0.45F));
    text_area("##prompt", &m_run.config.prompt, ImVec2(-1, prompt_height));
    if (ImGui::IsItemDeactivatedAfterEdit()) look_for_task();
    ImGui::PopStyleVar();
    draw_fault(Part::prompt, column);
    look_for_almanac();
    label_before("", column);
    std::string about =
        m_run.task ? fmt::format("Belongs to the bundled task {}: its tokens are scored right or wrong",
                                 m_run.task->kind)
                   : std::string("Belongs to no bundled task: tokens are not scored");
    if (m_outlook && m_outlook->prompt_tokens > 0)
        about += fmt::format("; {} of {} tokens", format_thousands(m_outlook->prompt_tokens),
                             format_thousands(m_outlook->context));
    muted_text(m_state.ctx, about);
    label_before("", column);
    ImGui::Checkbox("Use the text as it is, without the model's chat template", &m_run.config.raw_prompt);
}

/// The task's facts are a file of the engine's machine: the server's of the same name.
void NewRunDialog::look_for_almanac() {
    UiContext& ctx = m_state.ctx;
    m_run.almanac_there.clear();
    if (!ctx.status->link || !m_run.task || m_run.task->almanac.empty()) return;
    ctx.wants_offers = true;
    if (ctx.offers == nullptr) return;
    const std::string name = std::filesystem::path(m_run.task->almanac).filename().string();
    for (const LinkOffers::Part& part : ctx.offers->parts)
        if (part.kind == LinkOffers::Part::Kind::almanac &&
            std::filesystem::path(part.path).filename() == name)
            m_run.almanac_there = part.path;
}

void NewRunDialog::draw_prompt_chooser() {
    if (ImGui::Button("Bundled prompts")) ImGui::OpenPopup("bundled prompts");
    if (!ImGui::BeginPopup("bundled prompts")) return;
    for (const PromptGroup& group : m_prompts) {
        const bool open = ImGui::BeginMenu(group.title.c_str());
        if (!open) continue;
        if (!group.line.empty()) ImGui::TextDisabled("%s", group.line.c_str());
        for (const std::string& prompt : group.prompts) {
            if (!ImGui::MenuItem(visible_text(prompt, 90).c_str())) continue;
            m_run.config.prompt = prompt;
            look_for_task();
        }
        ImGui::EndMenu();
    }
    if (m_prompts.empty()) ImGui::TextDisabled("None found");
    ImGui::EndPopup();
}

void NewRunDialog::draw_models(float column) {
    const float em = ImGui::GetFontSize();
    label_before("Mode", column);
    constexpr std::pair<Mode, const char*> modes[] = {
        {Mode::overfill, "OverFill: teacher reads, student writes"},
        {Mode::teacher, "Teacher alone"},
        {Mode::student, "Student alone"}};
    ImGui::SetNextItemWidth(em * 20);
    const auto* shown = std::ranges::find(modes, m_run.config.mode, &std::pair<Mode, const char*>::first);
    if (ImGui::BeginCombo("##mode", shown->second)) {
        for (const auto& [mode, name] : modes)
            if (ImGui::Selectable(name, mode == m_run.config.mode)) m_run.config.mode = mode;
        ImGui::EndCombo();
    }
    draw_recent_pairs();
    if (m_run.config.mode != Mode::student) {
        label_before("Teacher", column);
        m_models.draw("##teacher", m_run.config.teacher_dir);
        draw_fault(Part::teacher, column);
        if (!at_fault(Part::teacher)) draw_about(m_outlook ? m_outlook->teacher : "", column);
    }
    if (m_run.config.mode != Mode::teacher) {
        label_before("Student", column);
        m_models.draw("##student", m_run.config.student_dir, m_run.config.mode == Mode::overfill);
        draw_fault(Part::student, column);
        if (!at_fault(Part::student)) draw_about(m_outlook ? m_outlook->student : "", column);
    }
    draw_bridge(column);
    if (at_fault(Part::none) && !m_outlook->note.empty()) draw_about(m_outlook->note, column);
}

/// Of a pair that has use for one, or of a run that names one.
void NewRunDialog::draw_bridge(float column) {
    std::string& path = m_run.config.bridge.path;
    const bool differs =
        m_outlook && (m_outlook->note.starts_with("rebuild mode") || m_outlook->note.starts_with("bridge:"));
    if (m_run.config.mode != Mode::overfill || (!differs && path.empty())) return;
    label_before("Bridge", column);
    text_entry("##bridge", &path, ImGuiInputTextFlags_ElideLeft, "the one beside the student");
    ImGui::SetItemTooltip(
        "A file of refreshlab train bridge, which maps the teacher's entries to this student's.\n"
        "Empty: the one beside the student. none: rebuild mode.");
}

void NewRunDialog::draw_recent_pairs() {
    // Of a server those that it offers: others may be this machine's.
    auto pairs = m_state.settings.recent_pairs;
    std::erase_if(pairs, [&](const auto& pair) {
        return (!pair.first.empty() && !m_models.is_offered(pair.first)) ||
               (!pair.second.empty() && !m_models.is_offered(pair.second));
    });
    if (pairs.empty()) return;
    ImGui::SameLine();
    if (ImGui::Button("Recent pairs")) ImGui::OpenPopup("recent pairs");
    if (!ImGui::BeginPopup("recent pairs")) return;
    for (size_t i = 0; i < pairs.size(); ++i) {
        const auto& [teacher, student] = pairs[i];
        ImGui::PushID(static_cast<int>(i));
        if (ImGui::MenuItem(pair_name(teacher, student).c_str())) {
            m_run.config.teacher_dir = teacher;
            m_run.config.student_dir = student;
        }
        ImGui::SetItemTooltip("%s\n%s", teacher.c_str(), student.c_str());
        ImGui::PopID();
    }
    ImGui::EndPopup();
}

/// Of the model that decodes; of the other one only where there is a policy to be taken away.
void NewRunDialog::draw_cache_policy(float column) {
    RunConfig& config = m_run.config;
    const float em = ImGui::GetFontSize();
    const RunOutlook unknown;
    for (const CacheOwner owner : {CacheOwner::teacher, CacheOwner::student}) {
        const bool acts = deciding_owner(config.mode) == owner;
        if (!acts && (cache_of(config, owner).is_full() || config.mode != Mode::overfill)) continue;
        label_before(acts ? "Cache policy" : "Teacher's", column);
        const RunOutlook& outlook = m_outlook ? *m_outlook : unknown;
        const CacheControls::Subject of{config, owner, outlook.context,
                                        reach_of(config, outlook.prompt_tokens, outlook.context), false};
        ImGui::PushID(static_cast<int>(owner));
        auto changed = CacheControls::draw_methods(m_state.ctx, of, em * 12);
        if (changed) m_cache_controls.forget_fault();
        const std::string words = cache_words(cache_of(config, owner));
        ImGui::SameLine();
        ImGui::BeginDisabled(cache_of(config, owner).values.empty());
        if (ImGui::Button("Parameters")) ImGui::OpenPopup("cache parameters");
        ImGui::EndDisabled();
        if (ImGui::BeginPopup("cache parameters")) {
            ImGui::Dummy(ImVec2(em * 26, 0)); // lines break where this ends
            if (auto values = m_cache_controls.draw_values(m_state.ctx, of, em * 9))
                changed = std::move(values);
            ImGui::EndPopup();
        }
        if (const size_t comma = words.find(", "); comma != std::string::npos) {
            ImGui::SameLine();
            ImGui::TextDisabled("%s", words.c_str() + comma + 2);
        }
        if (changed) cache_of(config, owner) = *changed;
        ImGui::PopID();
    }
}

void NewRunDialog::draw_device(float column) {
    const float em = ImGui::GetFontSize();
    label_before("Device", column);
    ImGui::SetNextItemWidth(em * 8);
    if (ImGui::BeginCombo("##device", m_run.config.device.c_str())) {
        for (const char* device : {"auto", "cpu", "cuda", "cuda:0", "cuda:1"})
            if (ImGui::Selectable(device, m_run.config.device == device)) m_run.config.device = device;
        ImGui::EndCombo();
    }
    ImGui::SameLine(0, em * 1.5F);
    ImGui::TextUnformatted("Numbers");
    ImGui::SameLine();
    ImGui::SetNextItemWidth(em * 6);
    if (ImGui::BeginCombo("##dtype", std::string(to_string(m_run.config.dtype)).c_str())) {
        for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::native})
            if (ImGui::Selectable(std::string(to_string(dtype)).c_str(), m_run.config.dtype == dtype))
                m_run.config.dtype = dtype;
        ImGui::EndCombo();
    }
    draw_fault(Part::device, column);
}

void NewRunDialog::draw_limits(float column) {
    const float em = ImGui::GetFontSize();
    label_before("At most", column);
    ImGui::SetNextItemWidth(em * 8);
    const Parameter& limit = *find_parameter("max_tokens");
    whole_entry("##max tokens", &m_run.config.max_tokens, static_cast<int>(limit.min),
                static_cast<int>(limit.max));
    ImGui::SameLine();
    ImGui::TextDisabled("tokens");
    ImGui::SameLine(0, em * 1.5F);
    ImGui::AlignTextToFramePadding();
    ImGui::TextUnformatted("Seed");
    ImGui::SameLine();
    ImGui::SetNextItemWidth(em * 6);
    ImGui::InputText("##seed", &m_run.seed, ImGuiInputTextFlags_CharsDecimal);
}

/// What it will hold and how fast it may be, before anything is loaded.
void NewRunDialog::draw_costs(float column) {
    UiContext& ctx = m_state.ctx;
    draw_fault(Part::memory, column);
    draw_fault(Part::other, column);
    if (!at_fault(Part::memory)) {
        const bool known = m_outlook && !m_outlook->memory.empty();
        for (size_t i = 0; i < (known ? m_outlook->memory.size() : 1); ++i) {
            label_before(i == 0 ? "Memory" : "", column);
            muted_text(ctx, known             ? m_outlook->memory[i]
                            : m_run.looking() ? "looking at the models"
                                              : "not known");
        }
    }
    if (at_fault(Part::none) && !m_run.looking()) {
        const ImVec2 low = ImGui::GetItemRectMin(), size = ImGui::GetItemRectSize();
        ctx.landmarks.set("dialog/outlook", {low.x, low.y, size.x, size.y});
    }
    label_before("Speed", column);
    const std::string speed = m_outlook ? speed_text(m_run.config, *m_outlook, *ctx.status) : "";
    muted_text(ctx, speed.empty() ? "not known before a run" : speed);
    label_before("", column);
    muted_text(ctx,
               fmt::format("Policy {}, temperature {}, and the other settings stay as they are in the panels",
                           m_run.config.policy.name, m_run.config.sampler.temperature));
}

bool NewRunDialog::draw_buttons() {
    const UiContext& ctx = m_state.ctx;
    const float em = ImGui::GetFontSize();
    std::string problem = m_run.problem();
    if (problem.empty() && m_outlook && m_outlook->part != Part::none)
        problem = "What is wrong is said above, beside its field";
    ImGui::Dummy(ImVec2(0, em * 0.2F));
    if (!m_refusal.empty()) {
        ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_error);
        ImGui::TextWrapped("%s", m_refusal.c_str());
        ImGui::PopStyleColor();
    }
    if (!problem.empty()) {
        ImGui::AlignTextToFramePadding();
        muted_text(ctx, problem);
        ImGui::SameLine();
    }
    const float width = em * 5.5F;
    ImGui::SetCursorPosX(content_right() - width * 2 - ImGui::GetStyle().ItemSpacing.x);
    if (ImGui::Button("Cancel", ImVec2(width, 0))) {
        m_state.unfinished_run.reset(); // given up in so many words
        return false;
    }
    ImGui::SameLine();
    ImGui::BeginDisabled(!problem.empty());
    const bool pressed = accent_button(ctx, "Start", width);
    ImGui::EndDisabled();
    if (pressed && problem.empty()) start();
    return true;
}

void NewRunDialog::start() {
    m_refusal.clear();
    m_errors = m_state.ctx.engine.status()->errors;
    look_for_task(); // the prompt may still be under the cursor
    m_state.wanted_running.reset();
    m_state.refusals_in_dialog = true;
    for (const CacheOwner owner : {CacheOwner::teacher, CacheOwner::student}) // nothing else waits for it
        m_state.ctx.drafts.set_next_cache(owner, cache_of(m_run.config, owner));
    m_ticket = m_state.ctx.engine.send(command::StartRun{m_run.result()});
}

/// While the engine loads: what it reads, and Cancel. A start that is refused brings the fields back, with the reason.
bool NewRunDialog::draw_start() {
    const EngineStatus& status = *m_state.ctx.status;
    const bool refused = status.errors > m_errors && status.answered >= *m_ticket;
    const bool begun = status.state == EngineState::prefilling || status.answered >= *m_ticket;
    if (refused) {
        m_refusal = status.error;
        m_ticket.reset();
        m_state.refusals_in_dialog = false;
        return true;
    }
    if (begun) {
        m_state.unfinished_run.reset();
        m_state.put_aside.reset();
        m_state.runs.look_live();
        m_state.ctx.select_step(std::nullopt);
        const RunConfig run = m_run.result();
        remember_pair(m_state.settings, run.mode == Mode::student ? "" : run.teacher_dir,
                      run.mode == Mode::teacher ? "" : run.student_dir);
        return false;
    }
    const float em = ImGui::GetFontSize(), width = em * 5.5F;
    m_state.ctx.host.keep_awake(0.3);
    ImGui::TextUnformatted(status.message.empty() ? "Loading" : status.message.c_str());
    ImGui::ProgressBar(
        static_cast<float>(std::clamp(status.progress, 0.0, 1.0)),
        ImVec2(content_right() - ImGui::GetCursorPosX() - width - em, ImGui::GetFrameHeight()));
    ImGui::SameLine();
    ImGui::SetCursorPosX(content_right() - width);
    if (ImGui::Button("Cancel", ImVec2(width, 0))) m_state.ctx.engine.send(command::Stop{});
    return true;
}

} // namespace

std::unique_ptr<Dialog> make_new_run_dialog(ShellState& state, const std::filesystem::path& model) {
    return std::make_unique<NewRunDialog>(state, model);
}

} // namespace refreshlab::ui
