#pragma once

#include "ui/base/latest_answer.h"
#include "ui/base/pixel_box.h"
#include "ui/draw/copy_menu.h"
#include "ui/draw/range_bar.h"
#include "ui/figure/paint/landscape_paint.h"
#include "ui/panels/landscape/scope_tab.h"
#include "ui/panels/panel.h"
#include "ui/scene/landscape/cell_pyramid.h"
#include "ui/scene/landscape/frontier_curves.h"
#include "ui/scene/landscape/frontier_view.h"
#include "ui/scene/landscape/landscape_model.h"
#include "ui/scene/landscape/landscape_of_run.h"
#include "ui/scene/landscape/map_view.h"
#include "ui/scene/landscape/staircases.h"
#include "ui/scene/maps/colour_maps.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// What every possible refresh is worth on the run's text: the triangle as a picture, the staircases of policies on it, and loss
/// against refreshes beside it (docs/howto/landscape.md). Everything that takes longer than a frame is asked of jobs that read a
/// snapshot.
class LandscapePanel final : public Panel {
public:
    [[nodiscard]] std::string_view title() const override { return "Landscape"; }
    [[nodiscard]] std::pair<float, float> size_in_ems() const override { return {64.0F, 38.0F}; }
    void draw(UiContext& ctx) override;

private:
    /// What one frame works with.
    struct Frame {
        const Landscape* landscape = nullptr;
        float em = 0;
        ChosenObjective judged; ///< by what, and why
        double teacher = 0;     ///< teacher_value()
        CellValue cells;        ///< what the picture shows
        [[nodiscard]] Objective objective() const { return judged.objective; }
        /// A schedule's loss as the table says it.
        [[nodiscard]] std::string told(double loss, int64_t refreshes) const;
    };
    struct PyramidQuestion {
        std::shared_ptr<const Landscape> landscape;
        CellValue value;
        friend bool operator==(const PyramidQuestion&, const PyramidQuestion&) = default;
    };
    struct ImageQuestion {
        std::shared_ptr<const CellPyramid> pyramid;
        CellRegion region;
        int64_t texels = 0;
        std::string map;
        double low = 0, high = 1;
        friend bool operator==(const ImageQuestion&, const ImageQuestion&) = default;
    };
    struct ColouredImage {
        CellImage image;
        std::vector<uint32_t> rgba;
    };
    struct StairsKey {
        std::shared_ptr<const Landscape> landscape;
        std::shared_ptr<const std::vector<Schedule>> best;
        RefreshPolicy policy;
        RunRefreshes run;
        Objective objective = Objective::loss;
        friend bool operator==(const StairsKey&, const StairsKey&) = default;
    };

    // landscape_panel.cpp
    static void judge(UiContext& ctx, Frame& f);
    void forget_losses();
    void ask(UiContext& ctx, const Frame& f);
    void ask_stairs(UiContext& ctx, const Frame& f);
    void note_measured(const UiContext& ctx, const Frame& f);
    void draw_tabs();
    void draw_refreshes(UiContext& ctx);
    void draw_parts(UiContext& ctx, const Frame& f);
    void draw_condition(const UiContext& ctx, const Frame& f);
    // landscape_toolbar.cpp
    void draw_empty(UiContext& ctx, float em);
    void draw_toolbar(UiContext& ctx, const Frame& f);
    static void draw_value_choice(UiContext& ctx, const Frame& f);
    static void draw_objective_choice(UiContext& ctx, const Frame& f);
    static void draw_progress(UiContext& ctx, const LandscapeState& state, float width);
    static void draw_compute(UiContext& ctx, const Frame& f);
    [[nodiscard]] const CellSpread& spread() const;
    [[nodiscard]] const std::string& map_name(const Theme& theme) const;
    [[nodiscard]] ColourScale scale(const Theme& theme) const;
    // landscape_map.cpp
    void draw_map(UiContext& ctx, const Frame& f, PixelBox place);
    void ask_image(const UiContext& ctx, PixelBox box);
    int64_t draw_picture(UiContext& ctx, const FigurePen& pen, const CellPlace& place);
    static void draw_map_lines(const UiContext& ctx, const FigurePen& pen, const CellPlace& place);
    void move_map(UiContext& ctx, const Frame& f, PixelBox box);
    void hover_cell(UiContext& ctx, const Frame& f, PixelBox box);
    void tell_cell(UiContext& ctx, const Frame& f, int64_t row, int64_t step);
    [[nodiscard]] std::vector<CopyItem> map_copies(const UiContext& ctx, const Frame& f, PixelBox box) const;
    // landscape_frontier.cpp
    /// What the mouse has done to the frontier plot in a frame.
    enum class FrontierMouse : uint8_t {
        nothing,
        click,
        double_click, ///< on its axes too
        menu,
    };
    void draw_frontier(UiContext& ctx, const Frame& f, PixelBox place);
    void fit_frontier(const Frame& f);
    void set_up_frontier(const Frame& f, PixelBox place);
    [[nodiscard]] FrontierMouse frontier_mouse();
    void answer_mouse(UiContext& ctx, FrontierMouse mouse);
    void draw_frontier_menu(const Frame& f);
    void draw_fit_button(PixelBox plot, float em);
    [[nodiscard]] FrontierPicture frontier_picture(const Frame& f);
    void draw_curves(UiContext& ctx, const Frame& f);
    void hover_frontier(UiContext& ctx, const Frame& f);
    void take_point(UiContext& ctx, const FrontierHit& hit);
    [[nodiscard]] std::string frontier_csv(const Frame& f);
    // landscape_table.cpp
    void draw_table(UiContext& ctx, const Frame& f);
    void draw_summary(UiContext& ctx, const Frame& f, PixelBox place);
    void tell_rows(UiContext& ctx, const Frame& f) const;
    void draw_table_row(UiContext& ctx, const ShownStairs& shown);
    void draw_measured(UiContext& ctx, const Frame& f);
    void draw_run_buttons(UiContext& ctx);

    [[nodiscard]] ShownStairs& stairs(StairsOf of) { return m_stairs[static_cast<size_t>(of)]; }
    [[nodiscard]] const ShownStairs& stairs(StairsOf of) const { return m_stairs[static_cast<size_t>(of)]; }
    static std::shared_ptr<const CellPyramid> make_pyramid(const PyramidQuestion& question);
    static ColouredImage make_image(const ImageQuestion& question);

    bool m_shows_scope = false; ///< the second tab
    ScopeTab m_scope;
    MapView m_view;
    CellColours m_colours; ///< of this frame's picture
    RangeBar m_range_bar;
    AllStairs m_stairs;
    std::optional<StairsKey> m_stairs_key;
    std::optional<BlindPlacement> m_placement; ///< of the policy's count
    LatestAnswer<PyramidQuestion, std::shared_ptr<const CellPyramid>> m_pyramids{make_pyramid};
    LatestAnswer<ImageQuestion, ColouredImage> m_images{make_image};
    LatestAnswer<BestQuestion, BestAnswer> m_bests{find_best};
    LatestAnswer<CountQuestion, CountAnswer> m_counts{answer_count};
    LatestAnswer<FrontierQuestion, std::vector<FrontierCurve>> m_frontiers{frontier_curves};
    std::shared_ptr<const CellPyramid> m_pyramid; ///< the newest answer
    const uint32_t* m_uploaded = nullptr;         ///< the answer that the texture has
    uint64_t m_revision = 0;
    std::vector<MeasuredRun> m_measured; ///< of this text
    std::shared_ptr<const Landscape> m_measured_of;
    Objective m_judged_by = Objective::loss; ///< in the frame before
    CopyMenu m_map_menu;
    FrontierView m_frontier_view;
    bool m_frontier_pressed = false; ///< the button went down on the frontier plot
    bool m_panned = false;           ///< the button went down on the map and has moved since: no click
    std::optional<FrontierHit> m_hit;
};

} // namespace refreshlab::ui
