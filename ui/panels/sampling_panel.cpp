#include "ui/draw/widgets.h"
#include "ui/panels/panel.h"

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
    }
};

} // namespace

std::unique_ptr<Panel> make_sampling_panel() {
    return std::make_unique<SamplingPanel>();
}

} // namespace refreshlab::ui
