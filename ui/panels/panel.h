#pragma once

#include "ui/context/context.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace refreshlab::ui {

/// One dockable panel: a file or a folder in ui/panels/ and one line in panels.cpp.
class Panel {
public:
    virtual ~Panel() = default;
    /// Window title and stable id ("Signals"); also its name in layouts and in pictures of one panel.
    [[nodiscard]] virtual std::string_view title() const = 0;
    /// Width and height of its window before a person or a layout has given it another, in font sizes.
    [[nodiscard]] virtual std::pair<float, float> size_in_ems() const { return {26.0F, 22.0F}; }
    /// Of a panel that no bundled layout has: the panel beside whose tab it comes up at first; empty: it floats.
    [[nodiscard]] virtual std::string_view tab_beside() const { return {}; }
    /// Inside the panel's window. An exception ends this panel's frame with a message, not the program.
    virtual void draw(UiContext& ctx) = 0;
    /// Its kind: the title of the first panel of that kind.
    [[nodiscard]] virtual std::string_view kind() const { return title(); }
    /// Of a further panel of a kind: what it keeps, of which only its kind's view counts. Null of the first one, whose view is the
    /// context's.
    [[nodiscard]] virtual Views* own_views() { return nullptr; }
    /// Puts the panel's own view into `views` and keeps what was there; once more, and all is as before. Nothing where it has none.
    virtual void exchange_view(Views& views) { static_cast<void>(views); }
    /// When a new recording arrives (run started, rewound, opened): drop what was cached of the old one.
    virtual void recording_changed(UiContext&) {}
};

/// A kind of panel.
struct PanelKind {
    std::string_view title;
    std::unique_ptr<Panel> (*make)() = nullptr;
    void (*swap_views)(Views& a, Views& b) =
        nullptr; ///< of this kind alone; null: it has no view, so one panel of it is enough
};
/// In menu order.
[[nodiscard]] std::span<const PanelKind> panel_kinds();
/// The first panel of each kind, in menu order.
[[nodiscard]] std::vector<std::unique_ptr<Panel>> make_panels();

inline constexpr int most_of_a_kind = 3;
/// "Signals 2".
[[nodiscard]] std::string title_of_another(const PanelKind& kind, int number);
/// A further panel of a kind, with a view of its own beside those that the others have; null where the title is none of those (an unknown
/// kind, a kind without views, a number beyond 2 .. most_of_a_kind).
/// \param view  what it shows at first
[[nodiscard]] std::unique_ptr<Panel> make_another(std::string_view title, const Views& view);

// One factory per panel, each implemented in its own file.
[[nodiscard]] std::unique_ptr<Panel> make_text_panel();
[[nodiscard]] std::unique_ptr<Panel> make_signals_panel();
[[nodiscard]] std::unique_ptr<Panel> make_policy_panel();
[[nodiscard]] std::unique_ptr<Panel> make_sampling_panel();
[[nodiscard]] std::unique_ptr<Panel> make_measure_panel();
[[nodiscard]] std::unique_ptr<Panel> make_inspector_panel();
[[nodiscard]] std::unique_ptr<Panel> make_attention_panel();
[[nodiscard]] std::unique_ptr<Panel> make_landscape_panel();
[[nodiscard]] std::unique_ptr<Panel> make_cache_panel();
[[nodiscard]] std::unique_ptr<Panel> make_distribution_panel();
[[nodiscard]] std::unique_ptr<Panel> make_events_panel();
[[nodiscard]] std::unique_ptr<Panel> make_performance_panel();
[[nodiscard]] std::unique_ptr<Panel> make_exactness_panel();
[[nodiscard]] std::unique_ptr<Panel> make_log_panel();
[[nodiscard]] std::unique_ptr<Panel> make_notes_panel();
[[nodiscard]] std::unique_ptr<Panel> make_runs_panel();
[[nodiscard]] std::unique_ptr<Panel> make_table_panel();
[[nodiscard]] std::unique_ptr<Panel> make_timeline_panel();

} // namespace refreshlab::ui
