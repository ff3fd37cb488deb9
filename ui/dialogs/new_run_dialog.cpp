#include "engine/base/error.h"
#include "engine/tasks/prompt_file.h"
#include "engine/text/utf8.h"
#include "ui/dialogs/dialogs.h"
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

class NewRunDialog final : public Dialog {
public:
    explicit NewRunDialog(ShellState& state)
        : m_config(state.ctx.drafts.config()) {
        if (m_config.teacher_dir.empty() && m_config.student_dir.empty()) {
            const auto models = state.ctx.host.assets() / "models";
            m_config.teacher_dir = (models / "llama-tales-teacher").string();
            m_config.student_dir = (models / "llama-tales-student").string();
        }
        m_seed = fmt::format("{}", m_config.seed);
        m_first_prompt = m_config.prompt;
        look_for_task(state);
        state.guarded([&] { m_prompts = read_bundled_prompts(state.ctx.host.assets() / "prompts"); });
    }

    const char* title() const override { return "New run"; }
    float width() const override { return 620; }

    bool draw(ShellState& state) override {
        const UiContext& ctx = state.ctx;
        const float em = ImGui::GetFontSize(), column = em * 7;
        const EngineState now = ctx.status->state;
        if (now == EngineState::running || now == EngineState::paused)
            muted_text(ctx,
                       fmt::format("Prompt, models, mode, device, number type and seed need a new run: the "
                                   "present one ends, {}",
                                   ctx.status->recorded ? "its recording stays in the trace"
                                                        : "and stays under File > Show the run before"));

        label("Prompt", column);
        draw_prompt_chooser(state);
        // In a low window the prompt gives way, so that the buttons stay in sight.
        const float prompt_height =
            std::clamp(ImGui::GetMainViewport()->WorkSize.y * 0.82F - em * 27, em * 3, em * 8);
        ImGui::SetNextItemWidth(-1);
        if (ImGui::IsWindowAppearing()) ImGui::SetKeyboardFocusHere();
        ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, ImVec2(em * 0.5F, em * 0.45F));
        ImGui::InputTextMultiline("##prompt", &m_config.prompt, ImVec2(-1, prompt_height),
                                  ImGuiInputTextFlags_WordWrap);
        if (ImGui::IsItemDeactivatedAfterEdit()) look_for_task(state);
        ImGui::PopStyleVar();
        label("", column);
        muted_text(
            ctx, m_task ? fmt::format("Belongs to the bundled task {}: its tokens are scored right or wrong",
                                      m_task->kind)
                        : std::string("Belongs to no bundled task: tokens are not scored"));
        label("", column);
        ImGui::Checkbox("Use the text as it is, without the model's chat template", &m_config.raw_prompt);

        label("Mode", column);
        constexpr std::pair<Mode, const char*> modes[] = {
            {Mode::overfill, "OverFill: teacher reads, student writes"},
            {Mode::teacher, "Teacher alone"},
            {Mode::student, "Student alone"}};
        ImGui::SetNextItemWidth(em * 20);
        const auto* shown = std::ranges::find(modes, m_config.mode, &std::pair<Mode, const char*>::first);
        if (ImGui::BeginCombo("##mode", shown->second)) {
            for (const auto& [mode, name] : modes)
                if (ImGui::Selectable(name, mode == m_config.mode)) m_config.mode = mode;
            ImGui::EndCombo();
        }
        if (m_config.mode != Mode::student) {
            label("Teacher", column);
            ImGui::SetNextItemWidth(-1);
            ImGui::InputTextWithHint("##teacher", "folder of a Hugging Face Llama checkpoint",
                                     &m_config.teacher_dir, ImGuiInputTextFlags_ElideLeft);
        }
        if (m_config.mode != Mode::teacher) {
            label("Student", column);
            ImGui::SetNextItemWidth(-1);
            ImGui::InputTextWithHint("##student", "folder of a Hugging Face Llama checkpoint",
                                     &m_config.student_dir, ImGuiInputTextFlags_ElideLeft);
        }

        label("Device", column);
        ImGui::SetNextItemWidth(em * 8);
        if (ImGui::BeginCombo("##device", m_config.device.c_str())) {
            for (const char* device : {"auto", "cpu", "cuda", "cuda:0", "cuda:1"})
                if (ImGui::Selectable(device, m_config.device == device)) m_config.device = device;
            ImGui::EndCombo();
        }
        ImGui::SameLine(0, em * 1.5F);
        ImGui::TextUnformatted("Numbers");
        ImGui::SameLine();
        ImGui::SetNextItemWidth(em * 6);
        if (ImGui::BeginCombo("##dtype", std::string(to_string(m_config.dtype)).c_str())) {
            for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16})
                if (ImGui::Selectable(std::string(to_string(dtype)).c_str(), m_config.dtype == dtype))
                    m_config.dtype = dtype;
            ImGui::EndCombo();
        }

        label("At most", column);
        ImGui::SetNextItemWidth(em * 8);
        ImGui::InputInt("##max tokens", &m_config.max_tokens, 0, 0);
        ImGui::SameLine();
        ImGui::TextDisabled("tokens");
        ImGui::SameLine(0, em * 1.5F);
        ImGui::AlignTextToFramePadding();
        ImGui::TextUnformatted("Seed");
        ImGui::SameLine();
        ImGui::SetNextItemWidth(em * 6);
        ImGui::InputText("##seed", &m_seed, ImGuiInputTextFlags_CharsDecimal);
        label("", column);
        muted_text(
            ctx,
            fmt::format("Policy {}, temperature {}, and the other settings stay as they are in the panels",
                        m_config.policy.name, m_config.sampler.temperature));

        const std::string problem = problem_of();
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
        const bool start = accent_button(ctx, "Start", width);
        ImGui::EndDisabled();
        if (start && problem.empty()) {
            state.trace.reset();
            state.trace_name.clear();
            state.wanted_running.reset();
            state.ctx.select_step(std::nullopt);
            look_for_task(state); // the prompt may still be under the cursor
            m_config.task = m_task.value_or(TaskConfig{});
            // A given continuation belongs to its prompt.
            if (m_config.prompt != m_first_prompt) m_config.given_text.clear();
            state.ctx.engine.send(command::StartRun{m_config});
            return false;
        }
        return true;
    }

private:
    static void label(const char* text, float column) {
        ImGui::AlignTextToFramePadding();
        ImGui::TextUnformatted(text);
        ImGui::SameLine(column);
    }

    /// The task that the prompt belongs to, so that its answer can be scored. Reads the prompt files, some milliseconds.
    void look_for_task(ShellState& state) {
        m_task.reset();
        state.guarded([&] { m_task = find_task(m_config.prompt, state.ctx.host.assets() / "prompts"); });
    }

    void draw_prompt_chooser(ShellState& state) {
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
                m_config.prompt = prompt.text;
                look_for_task(state);
            }
        }
        if (open) ImGui::EndMenu();
        if (m_prompts.empty()) ImGui::TextDisabled("None found");
        ImGui::EndPopup();
    }

    /// Why it cannot start; also reads the seed.
    std::string problem_of() {
        if (m_config.prompt.empty()) return "The prompt is empty";
        if (m_config.mode != Mode::student && m_config.teacher_dir.empty())
            return "The teacher's folder is missing";
        if (m_config.mode != Mode::teacher && m_config.student_dir.empty())
            return "The student's folder is missing";
        if (m_config.max_tokens < 1) return "At least one token";
        try {
            set_parameter(m_config, "seed", m_seed);
        } catch (const Error& e) {
            return "Seed: " + e.problem();
        }
        return {};
    }

    RunConfig m_config;
    std::optional<TaskConfig> m_task; ///< of the prompt as it was when it was last looked up
    std::string m_first_prompt;
    std::string m_seed;
    std::vector<BundledPrompt> m_prompts;
};

} // namespace

std::unique_ptr<Dialog> make_new_run_dialog(ShellState& state) {
    return std::make_unique<NewRunDialog>(state);
}

} // namespace refreshlab::ui
