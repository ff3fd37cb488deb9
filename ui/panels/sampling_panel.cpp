#include "ui/panels/panel.h"
#include "ui/widgets/widgets.h"

#include <fmt/format.h>

namespace refreshlab::ui {

namespace {

class SamplingPanel final : public Panel {
public:
    std::string_view title() const override { return "Sampling"; }

    void draw(UiContext& ctx) override {
        const float column = ImGui::GetFontSize() * 6.5F;
        const RunConfig& config = ctx.drafts.config();
        heading(ctx, "Choosing the next token");
        parameter_row(ctx, "sampler.temperature", column,
                      config.sampler.temperature == 0 ? "0: always the most likely token" : "");
        if (config.sampler.temperature > 0) {
            parameter_row(ctx, "sampler.top_k", column, config.sampler.top_k == 0 ? "0: off" : "");
            parameter_row(ctx, "sampler.top_p", column, config.sampler.top_p >= 1 ? "1: off" : "");
            parameter_row(ctx, "sampler.min_p", column, config.sampler.min_p <= 0 ? "0: off" : "");
        }
        parameter_row(ctx, "seed", column);
        muted_text(ctx, "Valid from the next step, and recorded with it");

        heading(ctx, "MC dropout");
        parameter_row(ctx, "mc.measure", column, "", "Measure");
        parameter_row(ctx, "mc.samples", column, "", "Passes");
        parameter_row(ctx, "mc.p", column,
                      config.mc.p < 0 ? "negative: the value of the training, else 0.1" : "", "Dropout p");
        parameter_row(ctx, "mc.every", column, "", "Every");
        std::string cost = fmt::format("{} extra rows every {} tokens", config.mc.samples, config.mc.every);
        if (!config.mc.measure) cost = "Off, unless a trigger asks for it";
        muted_text(ctx, cost);
        if (!ctx.status->student.name.empty() && !ctx.status->student.mc_calibrated) {
            ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.accent_ink);
            ImGui::PushTextWrapPos(0);
            ImGui::TextUnformatted("Uncalibrated: the student was trained without dropout");
            ImGui::PopTextWrapPos();
            ImGui::PopStyleColor();
        }

        heading(ctx, "Teacher");
        parameter_row(ctx, "shadow", column, "", "Shadow KL");
        muted_text(ctx, "A complete live KL curve; the teacher reads every token, about 3 times the time");

        heading(ctx, "Recording");
        parameter_row(ctx, "capture.attention", column, "", "Attention");
        parameter_row(ctx, "capture.top_k", column, "", "Candidates");
    }
};

} // namespace

std::unique_ptr<Panel> make_sampling_panel() {
    return std::make_unique<SamplingPanel>();
}

} // namespace refreshlab::ui
