// What is known of the token under the mouse.
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/candidates.h"
#include "ui/draw/tooltips.h"
#include "ui/panels/text/text_panel.h"
#include "ui/scene/text/text_layout.h"
#include "ui/scene/text/token_label.h"

#include <fmt/format.h>
#include <imgui.h>

#include <string>

namespace refreshlab::ui {

void TextPanel::token_tooltip(UiContext& ctx, int64_t token) {
    if (token < 1 || token > static_cast<int64_t>(m_text.num_tokens()) || !ImGui::BeginTooltip()) return;
    const Recording& recording = *ctx.recording;
    const int64_t step = token - 1;
    const int32_t id = token_chosen(recording, ctx.steps, step);
    ImGui::PushFont(ctx.fonts.medium, 0);
    ImGui::TextUnformatted(token_label(recording.tokens(), id).c_str());
    ImGui::PopFont();
    const char* who = producer_of(recording, token) == Producer::teacher ? "the teacher" : "the student";
    const std::string when =
        step == 0 ? std::string("prefill") : fmt::format("step {}", format_thousands(step));
    std::string line = fmt::format("chosen at {} by {}, position {}, id {}", when, who,
                                   format_thousands(recording.prompt_length() + token - 1), id);
    if (is_pending(ctx, token)) line += ", not yet fed";
    ImGui::TextDisabled("%s", line.c_str());
    if (const std::string gone = gone_text(recording.prompt_length() + token - 1); !gone.empty())
        ImGui::TextDisabled("%s", gone.c_str());
    if (step >= 1) {
        ImGui::Spacing();
        draw_candidates(ctx, step, id);
        ImGui::Spacing();
        signal_rows(ctx, step, SignalRows::plotted, token);
        if (const float gain = m_coloured.by() == ColouredText::By::gain ? m_coloured.value(token) : absent();
            !is_absent(gain))
            ImGui::TextDisabled("a refresh before it would gain %s",
                                format_signal(gain, m_coloured.unit()).c_str());
        describe_marks_at(ctx, step);
    } else {
        ImGui::TextDisabled("ln p %s", format_number(recording.info().first_logprob).c_str());
    }
    ImGui::EndTooltip();
}

} // namespace refreshlab::ui
