#include "ui/shell/session_keeping.h"

#include "engine/base/error.h"
#include "ui/dialogs/workspace_files.h"

#include <chrono>
#include <cstdint>
#include <utility>

namespace refreshlab::ui {

namespace {

constexpr double workspace_every_s = 2;

double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int64_t limit_bytes(const ShellState& state) {
    return int64_t{state.settings.autosave_megabytes} * 1'000'000;
}

} // namespace

SessionKeeping::SessionKeeping(ShellState& state)
    : m_state(state) {
    if (!state.options.keeps_session || state.ctx.host.state_folder().empty()) return;
    try {
        m_folder = SessionFolder::create(state.ctx.host.state_folder());
        m_keeper = std::make_unique<RunKeeper>(m_folder->path(), limit_bytes(state));
    } catch (const Error& e) {
        state.say(Toasts::Level::warning, e.what(), false);
    }
}

void SessionKeeping::tend() {
    if (!m_keeper) return;
    m_keeper->set_limit(limit_bytes(m_state));
    if (!m_state.ctx.engine.status()->recorded) m_keeper->watch(m_state.ctx.engine.recording());
    for (std::string& line : m_keeper->news())
        m_state.say(Toasts::Level::warning, std::move(line));
    if (const double now = now_s(); now - m_kept_s >= workspace_every_s) {
        m_kept_s = now;
        m_state.guarded([&] { keep_workspace(); });
    }
}

void SessionKeeping::keep_workspace() {
    // Before the first run or trace there is nothing to come back to.
    if (m_state.runs.tree().runs().empty()) return;
    RunFiles files;
    for (const auto& [id, file] : m_state.restored)
        files[id] = file;
    for (const auto& [id, name] : m_keeper->files())
        files[id] = m_folder->path() / name;
    std::string text = workspace_text(present_workspace(m_state, files), m_folder->workspace());
    if (text == m_text) return;
    m_keeper->write(m_folder->workspace().filename().string(), text);
    m_text = std::move(text);
}

void SessionKeeping::end() {
    m_keeper.reset(); // no thread writes into the folder any more
    if (m_folder) m_folder->remove();
    m_folder.reset();
    for (const auto& folder : m_state.taken)
        folder->remove();
    m_state.taken.clear();
}

} // namespace refreshlab::ui
