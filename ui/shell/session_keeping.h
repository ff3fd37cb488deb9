#pragma once

#include "engine/record/keep/run_keeper.h"
#include "engine/record/keep/session_folder.h"
#include "ui/state/shell_state.h"

#include <memory>
#include <string>

namespace refreshlab::ui {

/// Keeps the session of the window in a folder of the state folder while it is open: runs that are in no file as traces, the rest as a
/// workspace. After a kill the next start offers it. UI thread only; files are written by the thread of RunKeeper.
class SessionKeeping {
public:
    /// Begins where options.keeps_session says so; a folder that cannot be made is a line of the log, and nothing is kept.
    explicit SessionKeeping(ShellState& state);
    /// Between frames, as often as the loop comes round: also while none is drawn. Cost: a lock; every two seconds the workspace as text.
    void tend();
    /// The window closes in good order: what was kept for the next start goes, with the sessions that were restored.
    void end();

private:
    void keep_workspace();

    ShellState& m_state;
    std::unique_ptr<SessionFolder> m_folder;
    std::unique_ptr<RunKeeper> m_keeper; ///< null: nothing is kept
    double m_kept_s = 0;                 ///< when the workspace was last looked at (seconds of steady_clock)
    std::string m_text;                  ///< of it, as it was kept
};

} // namespace refreshlab::ui
