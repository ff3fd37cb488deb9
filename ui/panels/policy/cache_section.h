#pragma once

#include "ui/context/context.h"
#include "ui/draw/cache_controls.h"
#include "ui/draw/path_picker.h"

#include <memory>

namespace refreshlab::ui {

/// The cache policies in the panel Policy: which one each model has, its parameters, files, a full step by hand, and the way to a run
/// of the same prompt with another one. What is live acts at once; everything else waits for the next run (Drafts::next_cache).
class CacheSection {
public:
    void draw(UiContext& ctx);

private:
    void draw_owner(UiContext& ctx, const RunConfig& next, CacheOwner owner, float column);
    void draw_next(UiContext& ctx, const RunConfig& next, CacheOwner owner);
    static void draw_prompt_cache(UiContext& ctx, float column);
    static void draw_full_step(UiContext& ctx, const RunConfig& now);
    void draw_file_menu(UiContext& ctx, CacheOwner owner);
    void draw_file_popup(UiContext& ctx, CacheOwner owner);

    CacheControls m_teacher, m_student;
    std::unique_ptr<PathPicker> m_picker;
    bool m_saving = false, m_open_popup = false;
};

} // namespace refreshlab::ui
