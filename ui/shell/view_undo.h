#pragma once

#include "ui/scene/views/views.h"

#include <map>
#include <string>

namespace refreshlab::ui {

struct ShellState;

/// Makes what a person changes of a view an entry of the one history of changes (Drafts). It looks at the views at the end of a frame,
/// so no control knows of it: what differs from the last frame in which nothing was held is one change. UI thread only.
class ViewUndo {
public:
    /// End of a frame.
    void watch(ShellState& state);
    /// What is shown now was not chosen by a person (another run brings its plots): it is nothing to take back.
    void accept(ShellState& state);

private:
    void watch_all(ShellState& state);
    /// \param panel  title of a further panel; "": `now` is the context's
    void watch_views(ShellState& state, const std::string& panel, const Views& now);

    std::map<std::string, Views, std::less<>> m_seen; ///< by panel
};

} // namespace refreshlab::ui
