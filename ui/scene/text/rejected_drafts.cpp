#include "ui/scene/text/rejected_drafts.h"

#include "ui/scene/text/text_layout.h"

#include <algorithm>
#include <utility>

namespace refreshlab::ui {

void RejectedDrafts::clear() {
    m_recording = nullptr;
    m_seen = 0;
    m_before.clear();
}

std::optional<int64_t> RejectedDrafts::update(const Recording& recording) {
    std::optional<int64_t> first;
    if (m_recording != &recording) {
        if (any()) first = 1;
        clear();
        m_recording = &recording;
    }
    for (const size_t count = recording.drafts().size(); m_seen < count; ++m_seen) {
        const DraftEvent& draft = recording.drafts()[m_seen];
        if (draft.instead < 0) continue;
        const int64_t accepted = draft.accepted();
        const int64_t token = draft.first_pos + accepted - recording.prompt_length() + 1;
        std::vector<int32_t>& ids = m_before[token];
        ids.clear();
        for (int64_t i = accepted; i < std::ssize(draft.tokens); ++i)
            ids.push_back(draft.tokens[static_cast<size_t>(i)].token_id);
        first = std::min(token, first.value_or(token));
    }
    return first;
}

bool RejectedDrafts::show(const Recording& recording, bool wanted, int64_t laid_out) {
    const auto changed = update(recording);
    const bool shown = wanted && any(), late = shown && changed && *changed <= laid_out;
    return std::exchange(m_shown, shown) != shown || late;
}

std::span<const int32_t> RejectedDrafts::before(int64_t token) const {
    const auto found = m_before.find(token);
    return found == m_before.end() ? std::span<const int32_t>() : std::span<const int32_t>(found->second);
}

void append_token(TextLayout& layout, const Recording& recording, int32_t id, int64_t token,
                  const RejectedDrafts* rejected) {
    if (id < 0) return;
    if (rejected)
        for (const int32_t gone : rejected->before(token))
            layout.append_aside(recording.tokens().token_bytes(gone), recording.tokens().is_special(gone));
    layout.append(recording.tokens().token_bytes(id), recording.tokens().is_special(id));
}

} // namespace refreshlab::ui
