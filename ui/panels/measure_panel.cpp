#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/widgets.h"
#include "ui/panels/panel.h"

#include <fmt/format.h>

namespace refreshlab::ui {

namespace {

/// What is measured beside the decode, what it costs, and what a recording keeps.
class MeasurePanel final : public Panel {
public:
    std::string_view title() const override { return "Measure"; }

    void draw(UiContext& ctx) override {
        const float column = ImGui::GetFontSize() * 6.5F;
        const RunConfig& config = ctx.drafts.config();
        heading(ctx, "MC dropout");
        parameter_row(ctx, "mc.measure", column, "", "Measure");
        parameter_row(ctx, "mc.samples", column, "", "Passes");
        parameter_row(ctx, "mc.p", column, config.mc.p < 0 ? "where the checkpoint says none: 0.1" : "",
                      "Dropout p");
        parameter_row(ctx, "mc.every", column, "", "Every");
        std::string cost = fmt::format("{} every {}", format_count(config.mc.samples, "extra row"),
                                       format_count(config.mc.every, "token"));
        if (!config.mc.measure) cost = "Off, unless a trigger asks for it";
        muted_text(ctx, cost);
        if (!ctx.status->student.name.empty() && !ctx.status->student.mc_calibrated) {
            ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.accent_ink);
            ImGui::PushTextWrapPos(0);
            ImGui::TextUnformatted("Uncalibrated: the student was trained without dropout");
            ImGui::PopTextWrapPos();
            ImGui::PopStyleColor();
        }

        heading(ctx, "Shadow teacher");
        parameter_row(ctx, "shadow", column, "", "Shadow KL");
        muted_text(ctx, "A complete live KL curve; the teacher reads every token, about 3 times the time");

        heading(ctx, "Recording");
        parameter_row(ctx, "capture.attention", column, "", "Attention");
        parameter_row(ctx, "capture.layers", column, "", "Of layers");
        parameter_row(ctx, "capture.attention_bytes", column, "", "Of a step");
        parameter_row(ctx, "capture.attention_bins", column, "", "Numbers a row");
        if (ctx.recording) {
            const Recording::AttentionBytes bytes = ctx.recording->attention_bytes();
            const int64_t most = ctx.recording->info().config.capture.attention_megabytes << 20;
            if (bytes.newest > 0)
                muted_text(ctx,
                           fmt::format("{} kept, {} for the newest token; above {} the oldest are deleted",
                                       format_bytes(static_cast<int64_t>(bytes.kept)),
                                       format_bytes(static_cast<int64_t>(bytes.newest)), format_bytes(most)));
        }
        parameter_row(ctx, "capture.top_k", column, "", "Candidates");
    }
};

} // namespace

std::unique_ptr<Panel> make_measure_panel() {
    return std::make_unique<MeasurePanel>();
}

} // namespace refreshlab::ui
