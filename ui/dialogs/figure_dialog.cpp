// A figure for a paper of what a panel shows, with a preview at the size in which it is printed.
#include "engine/base/error.h"
#include "ui/base/latest_answer.h"
#include "ui/context/figure_request.h"
#include "ui/dialogs/dialogs.h"
#include "ui/dialogs/work_dialog.h"
#include "ui/draw/widgets.h"
#include "ui/figure/figure_file.h"
#include "ui/panels/panel.h"
#include "ui/scene/axes/time_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <memory>

namespace refreshlab::ui {

namespace {

namespace fs = std::filesystem;

struct Width {
    const char* words;
    double mm;
};
constexpr std::array widths = {Width{"one column, 84 mm", 84}, Width{"one and a half, 129 mm", 129},
                               Width{"two columns, 174 mm", 174}};

/// What a preview is of. Two are the same where their keys and views are.
struct Question {
    std::string key; ///< of all but the views
    std::shared_ptr<const FigureRequest> request;
    std::string theme;
    FigureSize size;
    double pixels_per_point = 1;
    fs::path assets;
    ChosenColours colours = {}; ///< of the theme
    /// Of the dialog, which asks one thing after the other: made by the first preview, as fonts take longer than a figure.
    std::shared_ptr<std::unique_ptr<FigureFonts>> fonts = {};
    friend bool operator==(const Question& a, const Question& b) {
        return a.key == b.key && a.colours == b.colours && a.request->views == b.request->views;
    }
};
struct Preview {
    CairoCanvas::Image image;
    std::string problem; ///< why there is none
};

/// With the colours that a person has chosen for that theme.
FigureStyle style_of(const Question& question) {
    FigureStyle style = load_figure_style(question.assets, question.theme);
    use_colours(question.colours, style.theme);
    return style;
}

Preview draw_preview(const Question& question) {
    Preview preview;
    try {
        if (!*question.fonts) *question.fonts = std::make_unique<FigureFonts>(question.assets);
        const auto figure = make_figure(*question.request);
        preview.image = preview_figure(*figure, style_of(question), question.size, question.pixels_per_point,
                                       **question.fonts);
    } catch (const Error& e) {
        preview.problem = e.problem() + (e.hint().empty() ? "" : "; " + e.hint());
    } catch (const std::exception& e) {
        preview.problem = e.what();
    }
    return preview;
}

class FigureDialog final : public PathDialog {
public:
    explicit FigureDialog(ShellState& state)
        : PathDialog(state.ctx, PathPicker::Want::save_file, "figure", "figure.svg") {
        const Panel* const used = state.find_panel(state.used_panel);
        const auto kinds = figure_kinds();
        for (size_t i = 0; i < kinds.size(); ++i)
            if (used != nullptr && used->kind() == kinds[i].panel &&
                (kinds[i].needs != FigureNeeds::other_runs || !state.runs.compared().empty()))
                m_kind = i; // of two the later: runs are ticked to be compared
        for (size_t i = 0; i < kinds.size() && !offered(state, kind()); ++i)
            if (offered(state, kinds[i])) m_kind = i;
    }
    const char* title() const override { return "Export figure"; }
    float width() const override { return 760; }

    bool draw(ShellState& state) override {
        const float em = ImGui::GetFontSize();
        draw_choices(state, em * 6);
        const bool ready = draw_preview_area(state, em * 20);
        muted_text(state.ctx, "FILE.svg, .pdf or .png (300 dpi); its numbers go into FILE.csv beside it");
        return draw_path(state, em * 5, "Export", ready ? "" : m_problem);
    }

private:
    void draw_choices(ShellState& state, float label) {
        const float em = ImGui::GetFontSize();
        label_before("Of", label);
        ImGui::SetNextItemWidth(em * 18);
        if (ImGui::BeginCombo("##of", std::string(kind().words).c_str())) {
            const auto kinds = figure_kinds();
            for (size_t i = 0; i < kinds.size(); ++i)
                if (offered(state, kinds[i]) &&
                    ImGui::Selectable(std::string(kinds[i].words).c_str(), m_kind == i))
                    m_kind = i;
            ImGui::EndCombo();
        }
        if (kind().by_steps) {
            ImGui::SameLine(0, em);
            ImGui::Checkbox("only the steps in sight", &m_in_sight);
        }
        if (can_have_notes(state)) {
            ImGui::SameLine(0, em);
            ImGui::Checkbox("notes", &m_notes);
            ImGui::SetItemTooltip("Numbers at the steps of the run's notes, and their words below");
        }
        label_before("Width", label);
        ImGui::SetNextItemWidth(em * 12);
        if (ImGui::BeginCombo("##width", widths[m_width].words)) {
            for (size_t i = 0; i < widths.size(); ++i)
                if (ImGui::Selectable(widths[i].words, m_width == i)) m_width = i;
            ImGui::EndCombo();
        }
        ImGui::SameLine(0, em);
        ImGui::TextUnformatted("Colours");
        ImGui::SameLine();
        ImGui::SetNextItemWidth(em * 7);
        if (ImGui::BeginCombo("##colours", m_theme.c_str())) {
            for (const char* theme : {"paper", "print", "light", "dark"})
                if (ImGui::Selectable(theme, m_theme == theme)) m_theme = theme;
            ImGui::EndCombo();
        }
    }

    /// There is what the figure needs.
    [[nodiscard]] static bool offered(const ShellState& state, const FigureKind& kind) {
        if (kind.needs == FigureNeeds::other_runs) return state.runs.other().has_value();
        if (kind.needs == FigureNeeds::scope_map) return state.ctx.scope_map != nullptr;
        if (kind.needs == FigureNeeds::table) return state.ctx.tables.shown() != nullptr;
        if (!state.ctx.recording || state.ctx.steps == 0) return false;
        return kind.needs != FigureNeeds::landscape || state.ctx.landscape != nullptr;
    }

    [[nodiscard]] bool can_have_notes(const ShellState& state) const {
        return kind().notes && state.ctx.marks.count(MarkLane::note) > 0;
    }

    [[nodiscard]] const FigureKind& kind() const { return figure_kinds()[m_kind]; }

    [[nodiscard]] Question question(const ShellState& state, double pixels_per_point) const {
        const UiContext& ctx = state.ctx;
        auto request = std::make_shared<FigureRequest>(figure_request(ctx, kind(), m_in_sight));
        request->notes = m_notes && can_have_notes(state);
        const auto chosen = state.settings.colours.find(m_theme);
        const ChosenColours colours =
            chosen == state.settings.colours.end() ? ChosenColours() : chosen->second;
        Question q{.key = {},
                   .request = request,
                   .theme = m_theme,
                   .size = {.width = widths[m_width].mm * points_per_mm, .height = {}},
                   .pixels_per_point = pixels_per_point,
                   .assets = ctx.host.assets(),
                   .colours = colours,
                   .fonts = m_fonts};
        const FigureRequest& r = *q.request;
        const bool growing = ctx.decoding();
        if (r.table) { // another one when its file has changed
            q.key = fmt::format("{} {} {} {} {}", m_kind, m_width, m_theme, pixels_per_point,
                                fmt::ptr(r.table.get()));
            return q;
        }
        std::string runs;
        for (const FigureRun& run : r.runs)
            runs += fmt::format("{} {} {} ", run.recording->info().id, run.name,
                                run.colour.value_or(run_colours));
        if (r.landscape) runs += fmt::format("{} rows ", r.landscape->rows().size());
        if (r.scope_map) runs += fmt::format("{} ", fmt::ptr(r.scope_map.get()));
        runs += policy_to_json(*r.policy).dump();
        // A run that goes on is drawn anew once in a while, not at every step.
        q.key = fmt::format("{} {} {} {} {} {} {} {} {} {} {} {}", m_kind, m_width, m_theme, m_in_sight,
                            pixels_per_point, runs, growing ? ctx.steps / 16 : ctx.steps,
                            growing ? 0 : r.from.value_or(0), growing ? 0 : r.to.value_or(0),
                            growing ? 0 : r.step.value_or(0),
                            r.head ? fmt::format("{}.{}", r.head->first, r.head->second) : "",
                            r.notes ? fmt::format("notes {}", ctx.marks.notes_revision()) : "");
        return q;
    }

    /// \return whether there is something to export
    bool draw_preview_area(ShellState& state, float height) {
        UiContext& ctx = state.ctx;
        m_problem.clear();
        if (!offered(state, kind())) { // it was there when the dialog was opened
            m_problem = "There is nothing to draw";
            return false;
        }
        // The window's type is 16 pixels at 96 dots an inch: there the preview has the size of the print.
        const double scale = static_cast<double>(ImGui::GetFontSize()) / 16,
                     density = std::max(1.0, static_cast<double>(ImGui::GetIO().DisplayFramebufferScale.x)),
                     shown = scale * 96 / 72;
        m_previews.ask(question(state, shown * density), false);
        const Preview* preview = m_previews.answer();
        if (m_previews.busy()) ctx.host.keep_awake(0.1);
        if (ImGui::BeginChild("##preview", {0, height}, ImGuiChildFlags_Borders,
                              ImGuiWindowFlags_HorizontalScrollbar)) {
            if (!preview) {
                muted_text(ctx, "The preview is being drawn");
            } else if (!preview->problem.empty()) {
                ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_error);
                ImGui::TextWrapped("%s", preview->problem.c_str());
                ImGui::PopStyleColor();
            } else {
                if (preview->image.rgba.data() != m_drawn) {
                    m_drawn = preview->image.rgba.data();
                    ++m_revision;
                }
                const ImTextureID texture =
                    ctx.host.texture("figure/preview", preview->image.width, preview->image.height,
                                     preview->image.rgba, m_revision);
                const ImVec2 size(static_cast<float>(preview->image.width / density),
                                  static_cast<float>(preview->image.height / density));
                const float room = ImGui::GetContentRegionAvail().x;
                if (size.x < room)
                    ImGui::SetCursorPosX(ImGui::GetCursorPosX() + std::floor((room - size.x) / 2));
                ImGui::Image(texture, size);
                const ImVec2 low = ImGui::GetItemRectMin();
                ctx.landmarks.set("figure/preview", {low.x, low.y, size.x, size.y});
            }
        }
        ImGui::EndChild();
        // An export does not wait for its preview: it draws the figure itself and says what is wrong.
        if (preview && !preview->problem.empty()) m_problem = preview->problem;
        return m_problem.empty();
    }

    void work_on(ShellState& state, const fs::path& path) override {
        const Question q = question(state, 1);
        start(state, "Exporting " + path.filename().string(),
              [path, q, &state](const std::atomic<bool>&) -> std::function<void()> {
                  save_figure(*q.request, style_of(q), q.size, path, "refreshlab gui", q.assets);
                  return [path, &state] {
                      state.say(Toasts::Level::info, fmt::format("Figure written to {}", path.string()));
                  };
              });
    }

    size_t m_kind = 0, m_width = 0;
    std::string m_theme = "paper", m_problem;
    bool m_in_sight = true, m_notes = false;
    std::shared_ptr<std::unique_ptr<FigureFonts>> m_fonts = std::make_shared<std::unique_ptr<FigureFonts>>();
    LatestAnswer<Question, Preview> m_previews{&draw_preview};
    const uint32_t* m_drawn = nullptr;
    uint64_t m_revision = 0;
};

} // namespace

std::unique_ptr<Dialog> make_figure_dialog(ShellState& state) {
    return std::make_unique<FigureDialog>(state);
}

} // namespace refreshlab::ui
