#include "engine/base/error.h"
#include "engine/text/utf8.h"
#include "ui/dialogs/dialogs.h"
#include "ui/dialogs/new_run.h"
#include "ui/dialogs/prompt_files.h"
#include "ui/state/dialog.h"
#include "ui/state/shell_state.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <optional>

namespace refreshlab::ui {

namespace {

void label(const char* text, float column) {
    ImGui::AlignTextToFramePadding();
    ImGui::TextUnformatted(text);
    ImGui::SameLine(column);
}

/// A path to type, and a list of the models that the program knows.
void draw_model(const char* name, const char* id, std::string& path, float column,
                const std::vector<KnownModel>& known) {
    label(name, column);
    const float arrow = ImGui::GetFrameHeight() + ImGui::GetStyle().ItemInnerSpacing.x;
    ImGui::SetNextItemWidth(-arrow);
    ImGui::InputTextWithHint(id, "Hugging Face folder or .gguf file", &path, ImGuiInputTextFlags_ElideLeft);
    ImGui::SameLine(0, ImGui::GetStyle().ItemInnerSpacing.x);
    ImGui::PushID(id);
    if (ImGui::BeginCombo("##known", "", ImGuiComboFlags_NoPreview | ImGuiComboFlags_PopupAlignLeft)) {
        for (const KnownModel& model : known)
            if (ImGui::Selectable(model.name.c_str(), model.path == path)) path = model.path;
        ImGui::EndCombo();
    } else {
        ImGui::SetItemTooltip("Bundled models, and those that `refreshlab models get` has fetched");
    }
    ImGui::PopID();
}

class NewRunDialog final : public Dialog {
public:
    NewRunDialog(ShellState& state, const std::filesystem::path& model)
        : m_run(state.ctx.drafts.config(), state.ctx.host.assets())
        , m_models(known_models(state.ctx.host.assets())) {
        if (!model.empty()) m_run.config.teacher_dir = m_run.config.student_dir = model.string();
        look_for_task(state);
        state.guarded([&] { m_prompts = read_bundled_prompts(state.ctx.host.assets() / "prompts"); });
    }

    const char* title() const override { return "New run"; }
    float width() const override { return 620; }

    bool draw(ShellState& state) override {
        const float column = ImGui::GetFontSize() * 7;
        draw_notice(state.ctx);
        draw_prompt(state, column);
        draw_models(column);
        draw_device(column);
        draw_limits(state.ctx, column);
        return draw_buttons(state);
    }

private:
    void draw_notice(const UiContext& ctx) const;
    void draw_prompt(ShellState& state, float column);
    void draw_prompt_chooser(ShellState& state);
    void draw_models(float column);
    void draw_device(float column);
    void draw_limits(const UiContext& ctx, float column);
    [[nodiscard]] bool draw_buttons(ShellState& state); ///< false: the dialog is done
    void start(ShellState& state);
    void look_for_task(ShellState& state) {
        state.guarded([&] { m_run.look_for_task(); });
    }

    NewRun m_run;
    std::vector<KnownModel> m_models;
    std::vector<BundledPrompt> m_prompts;
};

void NewRunDialog::draw_notice(const UiContext& ctx) const {
    const EngineState now = ctx.status->state;
    if (now == EngineState::running || now == EngineState::paused)
        muted_text(ctx, fmt::format("Prompt, models, mode, device, number type and seed need a new run: the "
                                    "present one ends, {}",
                                    ctx.status->recorded ? "its recording stays in the trace"
                                                         : "and stays under File > Show the run before"));
}

void NewRunDialog::draw_prompt(ShellState& state, float column) {
    const float em = ImGui::GetFontSize();
    label("Prompt", column);
    draw_prompt_chooser(state);
    // In a low window the prompt gives way, so that the buttons stay in sight.
    const float prompt_height =
        std::clamp(ImGui::GetMainViewport()->WorkSize.y * 0.82F - em * 27, em * 3, em * 8);
    ImGui::SetNextItemWidth(-1);
    if (ImGui::IsWindowAppearing()) ImGui::SetKeyboardFocusHere();
    ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, ImVec2(em * 0.5F, em * 0.45F));
    ImGui::InputTextMultiline("##prompt", &m_run.config.prompt, ImVec2(-1, prompt_height),
                              ImGuiInputTextFlags_WordWrap);
    if (ImGui::IsItemDeactivatedAfterEdit()) look_for_task(state);
    ImGui::PopStyleVar();
    label("", column);
    muted_text(state.ctx,
               m_run.task
                   ? fmt::format("Belongs to the bundled task {}: its tokens are scored right or wrong",
                                 m_run.task->kind)
                   : std::string("Belongs to no bundled task: tokens are not scored"));
    label("", column);
    ImGui::Checkbox("Use the text as it is, without the model's chat template", &m_run.config.raw_prompt);
}

void NewRunDialog::draw_prompt_chooser(ShellState& state) {
    if (ImGui::Button("Bundled prompts")) ImGui::OpenPopup("bundled prompts");
    if (!ImGui::BeginPopup("bundled prompts")) return;
    std::string file;
    bool open = false;
    for (const BundledPrompt& prompt : m_prompts) {
        if (prompt.file != file) {
            if (open) ImGui::EndMenu();
            file = prompt.file;
            open = ImGui::BeginMenu(file.c_str());
        }
        if (!open) continue;
        const std::string shown = visible_text(prompt.text, 90);
        if (ImGui::MenuItem(shown.c_str())) {
            m_run.config.prompt = prompt.text;
            look_for_task(state);
        }
    }
    if (open) ImGui::EndMenu();
    if (m_prompts.empty()) ImGui::TextDisabled("None found");
    ImGui::EndPopup();
}

void NewRunDialog::draw_models(float column) {
    const float em = ImGui::GetFontSize();
    label("Mode", column);
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
    if (m_run.config.mode != Mode::student)
        draw_model("Teacher", "##teacher", m_run.config.teacher_dir, column, m_models);
    if (m_run.config.mode != Mode::teacher)
        draw_model("Student", "##student", m_run.config.student_dir, column, m_models);
}

void NewRunDialog::draw_device(float column) {
    const float em = ImGui::GetFontSize();
    label("Device", column);
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
        for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16})
            if (ImGui::Selectable(std::string(to_string(dtype)).c_str(), m_run.config.dtype == dtype))
                m_run.config.dtype = dtype;
        ImGui::EndCombo();
    }
}

void NewRunDialog::draw_limits(const UiContext& ctx, float column) {
    const float em = ImGui::GetFontSize();
    label("At most", column);
    ImGui::SetNextItemWidth(em * 8);
    ImGui::InputInt("##max tokens", &m_run.config.max_tokens, 0, 0);
    ImGui::SameLine();
    ImGui::TextDisabled("tokens");
    ImGui::SameLine(0, em * 1.5F);
    ImGui::AlignTextToFramePadding();
    ImGui::TextUnformatted("Seed");
    ImGui::SameLine();
    ImGui::SetNextItemWidth(em * 6);
    ImGui::InputText("##seed", &m_run.seed, ImGuiInputTextFlags_CharsDecimal);
    label("", column);
    muted_text(ctx,
               fmt::format("Policy {}, temperature {}, and the other settings stay as they are in the panels",
                           m_run.config.policy.name, m_run.config.sampler.temperature));
}

bool NewRunDialog::draw_buttons(ShellState& state) {
    const UiContext& ctx = state.ctx;
    const float em = ImGui::GetFontSize();
    const std::string problem = m_run.problem();
    ImGui::Dummy(ImVec2(0, em * 0.2F));
    if (!problem.empty()) {
        ImGui::AlignTextToFramePadding();
        muted_text(ctx, problem);
        ImGui::SameLine();
    }
    const float width = em * 5.5F;
    ImGui::SetCursorPosX(content_right() - width * 2 - ImGui::GetStyle().ItemSpacing.x);
    if (ImGui::Button("Cancel", ImVec2(width, 0))) return false;
    ImGui::SameLine();
    ImGui::BeginDisabled(!problem.empty());
    const bool pressed = accent_button(ctx, "Start", width);
    ImGui::EndDisabled();
    if (!pressed || !problem.empty()) return true;
    start(state);
    return false;
}

void NewRunDialog::start(ShellState& state) {
    state.trace.reset();
    state.trace_name.clear();
    state.wanted_running.reset();
    state.ctx.select_step(std::nullopt);
    look_for_task(state); // the prompt may still be under the cursor
    state.ctx.engine.send(command::StartRun{m_run.result()});
}

} // namespace

std::unique_ptr<Dialog> make_new_run_dialog(ShellState& state, const std::filesystem::path& model) {
    return std::make_unique<NewRunDialog>(state, model);
}

} // namespace refreshlab::ui
