// The cache of a prompt as a file: saved from the engine's run, and gone on from in a new one.
#include "ui/dialogs/dialogs.h"
#include "ui/dialogs/work_dialog.h"
#include "ui/draw/widgets.h"
#include "ui/panels/panel.h"

#include <fmt/format.h>

#include <utility>

namespace refreshlab::ui {

namespace {

constexpr const char* cache_extension = ".safetensors";

/// Waits for the engine's answer to one command; a refusal stands in the dialog.
class PromptCacheDialog : public PathDialog {
public:
    using PathDialog::PathDialog;
    ~PromptCacheDialog() override {
        if (m_state != nullptr) m_state->refusals_in_dialog = false;
    }

protected:
    void ask(ShellState& state, Command command, std::string done) {
        m_state = &state;
        m_done = std::move(done);
        m_errors = state.ctx.status->errors;
        state.refusals_in_dialog = true;
        m_outcome = begin();
        m_ticket = state.ctx.engine.send(std::move(command));
    }
    /// Before the dialog is drawn.
    void look(ShellState& state) {
        if (!m_outcome || state.ctx.status->answered < m_ticket) return;
        if (state.ctx.status->errors > m_errors)
            m_outcome->fault = state.ctx.status->error;
        else
            state.say(Toasts::Level::info, m_done);
        m_outcome->done = true;
        m_outcome.reset();
        state.refusals_in_dialog = false;
    }

private:
    ShellState* m_state = nullptr;
    std::shared_ptr<WorkOutcome> m_outcome; ///< of the command under way
    uint64_t m_ticket = 0, m_errors = 0;
    std::string m_done; ///< what is said then
};

class SavePromptCacheDialog final : public PromptCacheDialog {
public:
    explicit SavePromptCacheDialog(const UiContext& ctx)
        : PromptCacheDialog(ctx, PathPicker::Want::save_file, "cache",
                            std::string("prompt") + cache_extension, cache_extension) {}
    const char* title() const override { return "Save the prompt's cache"; }
    bool draw(ShellState& state) override {
        look(state);
        muted_text(state.ctx, "Keys and values of the prompt that the engine's run has read: another run of "
                              "the same model continues from them.");
        ImGui::Checkbox("exact###exact", &m_exact);
        ImGui::SetItemTooltip("The cache's own numbers, so that a run from them has the bits of this one; "
                              "else four bits for a number");
        return draw_path(state, ImGui::GetFontSize() * 12, "Save");
    }

private:
    void work_on(ShellState& state, const std::filesystem::path& path) override {
        ask(state, command::SavePromptCache{path.string(), m_exact},
            "The prompt's cache is saved as " + path.string());
    }
    bool m_exact = false;
};

class FromPromptCacheDialog final : public PromptCacheDialog {
public:
    explicit FromPromptCacheDialog(const UiContext& ctx)
        : PromptCacheDialog(ctx, PathPicker::Want::open_file, "cache", "", cache_extension) {}
    const char* title() const override { return "Continue from a saved cache"; }
    bool draw(ShellState& state) override {
        look(state);
        muted_text(state.ctx, "Its prompt is not read again. Models, mode and settings are those of the next "
                              "run; a cache of another model is refused.");
        if (state.ctx.status->link)
            return draw_offered(state, LinkOffers::Part::Kind::prompt_cache, ImGui::GetFontSize() * 14);
        return draw_path(state, ImGui::GetFontSize() * 14, "Run");
    }

private:
    void work_on(ShellState& state, const std::filesystem::path& path) override {
        RunConfig run = state.ctx.drafts.next_run();
        run.prompt.clear(); // the one that was saved
        run.given_text.clear();
        run.given_ids.clear();
        run.task = {};
        run.prompt_cache = path.string();
        state.keep_to_compare();
        ask(state, command::StartRun{run}, "The run continues from " + path.filename().string());
    }
};

} // namespace

std::unique_ptr<Dialog> make_save_prompt_cache_dialog(ShellState& state) {
    return std::make_unique<SavePromptCacheDialog>(state.ctx);
}
std::unique_ptr<Dialog> make_from_prompt_cache_dialog(ShellState& state) {
    return std::make_unique<FromPromptCacheDialog>(state.ctx);
}

} // namespace refreshlab::ui
