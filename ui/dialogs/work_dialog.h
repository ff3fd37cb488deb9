#pragma once

#include "ui/draw/path_picker.h"
#include "ui/state/dialog.h"
#include "ui/state/shell_state.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace refreshlab::ui {

/// A dialog with a path, whose work goes on beside the frames. It stays until the work is done: what goes wrong stands beside
/// the path, and nothing typed is lost.
class PathDialog : public Dialog {
public:
    PathDialog(const UiContext& ctx, PathPicker::Want want, const char* kind, const std::string& name,
               std::string extension = {})
        : m_picker(ctx, want, kind, name, std::move(extension)) {}
    void put_aside(ShellState& state) override;
    bool take_escape() override { return std::exchange(m_asking, false); }

protected:
    /// Entry, list, what is wrong, and the buttons. \param go  label of the button: "Save"
    /// \param problem  why it cannot be done now, besides the path's own; empty: it can
    /// \return false to close the dialog. Calls work_on() where the person has said go.
    bool draw_path(ShellState& state, float list_height, const char* go, std::string problem = {});
    /// The same with a list of the server's files of a kind in place of this machine's; a click on one has said go.
    bool draw_offered(ShellState& state, LinkOffers::Part::Kind kind, float list_height);
    /// Begins the work on the path, by start().
    virtual void work_on(ShellState& state, const std::filesystem::path& path) = 0;
    /// As ShellState::start_job(); the dialog waits for it.
    void start(ShellState& state, std::string label, Work work);
    /// For work that somebody else does: how it ends is written there.
    std::shared_ptr<WorkOutcome> begin();
    [[nodiscard]] bool working() const { return m_work && !m_work->done; }

private:
    /// Takes up what became of the work. \return whether it is done, and well
    [[nodiscard]] bool settle();
    void draw_fault(UiContext& ctx) const;
    enum class Answer : uint8_t { none, go, close };
    [[nodiscard]] Answer buttons(const UiContext& ctx, const char* go, const std::string& problem);
    [[nodiscard]] Answer question(const UiContext& ctx);
    [[nodiscard]] bool draw_waiting(const UiContext& ctx);

    PathPicker m_picker;
    std::shared_ptr<WorkOutcome> m_work; ///< under way, or what became of it; null: not begun
    std::string m_fault;                 ///< of the last try
    bool m_asking = false;               ///< whether the file that is there may be replaced
    std::string m_asked_path;
};

} // namespace refreshlab::ui
