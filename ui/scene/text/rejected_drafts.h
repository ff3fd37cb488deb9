#pragma once

#include "engine/record/recording/recording.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace refreshlab::ui {

class TextLayout;

/// Drafted tokens that verification rejected, by the token that stands where the first of them stood. They are no tokens of the run.
class RejectedDrafts {
public:
    void clear(); ///< before another recording is shown
    /// Cost: the drafts that are new.
    /// \return the first token before which there are others now; nothing where all is as it was
    std::optional<int64_t> update(const Recording& recording);
    /// Ids of those that stood in the place of y_token and behind it; empty where nothing was rejected there.
    [[nodiscard]] std::span<const int32_t> before(int64_t token) const;
    [[nodiscard]] bool any() const { return !m_before.empty(); }

    /// Brings them up to date for a layout of `laid_out` tokens. \param wanted  by the view
    /// \return the layout has to be made anew: they come or go, or a draft came a moment after the token that stands in its place
    [[nodiscard]] bool show(const Recording& recording, bool wanted, int64_t laid_out);
    /// For append_token(); null: they are not shown.
    [[nodiscard]] const RejectedDrafts* shown() const { return m_shown ? this : nullptr; }

private:
    const Recording* m_recording = nullptr; ///< compared only
    size_t m_seen = 0;
    std::map<int64_t, std::vector<int32_t>> m_before;
    bool m_shown = false;
};

/// Appends y_token, behind what was rejected in its place. Nothing for an id below 0.
/// \param rejected  null: that is not shown
void append_token(TextLayout& layout, const Recording& recording, int32_t id, int64_t token,
                  const RejectedDrafts* rejected);

} // namespace refreshlab::ui
