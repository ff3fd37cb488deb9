#include "ui/base/colour.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/widgets.h"
#include "ui/panels/panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace refreshlab::ui {

namespace {

constexpr int64_t mean_over = 64; // steps: smooth enough to read, short enough to follow a change

/// Names of the parts for people, in the order of Part.
constexpr std::array<const char*, num_parts> part_labels = {
    "model", "attention", "signals", "MC rows", "sampling", "teacher pass", "splice", "redraw", "other"};

class PerformancePanel final : public Panel {
public:
    std::string_view title() const override { return "Performance"; }

    void draw(UiContext& ctx) override {
        note_parts(ctx);
        const float em = ImGui::GetFontSize(), line = ImGui::GetTextLineHeight();
        const ImVec2 room = ImGui::GetContentRegionAvail();
        const bool refreshes = ctx.steps > 0 && !ctx.recording->refreshes().empty();
        const auto parts = ctx.steps > 0 ? static_cast<int>(std::ranges::count(m_ever, true)) + 1 : 2;
        // Wide and low: times left, numbers right. Else one below the other, the lines as close as the height asks for.
        const bool beside = room.x > em * 38;
        const int below = num_rows + (refreshes ? 1 : 0);
        const auto rows = static_cast<float>(beside ? std::max(parts, below) : parts + below);
        const float spacing = std::clamp((room.y - em - rows * line) / rows, em * 0.04F, em * 0.18F);
        ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing,
                            ImVec2(ImGui::GetStyle().ItemSpacing.x, std::floor(spacing)));
        if (beside && ImGui::BeginTable("##columns", 2, ImGuiTableFlags_SizingStretchSame)) {
            ImGui::TableNextColumn();
            draw_left(ctx);
            ImGui::TableNextColumn();
            draw_numbers(ctx);
            if (refreshes) draw_refreshes(ctx);
            ImGui::EndTable();
        } else if (!beside) {
            draw_left(ctx);
            ImGui::Separator();
            draw_numbers(ctx);
            if (refreshes) draw_refreshes(ctx);
        }
        ImGui::PopStyleVar();
    }
    void recording_changed(UiContext&) override { forget(); }

private:
    static constexpr int num_rows = 7; ///< of draw_numbers, as long as it is narrow

    /// Which parts this run has ever spent time on: the others need no line. Each record is looked at once.
    void note_parts(const UiContext& ctx) {
        if (ctx.steps < m_noted) forget();
        for (; m_noted < ctx.steps; ++m_noted)
            for (size_t part = 0; part < num_parts; ++part)
                m_ever[part] |= ctx.recording->step(m_noted + 1).part_ms[part] > 0;
    }
    void forget() {
        m_ever.fill(false);
        m_noted = 0;
    }

    void draw_left(UiContext& ctx) const {
        if (ctx.steps > 0) {
            draw_parts(ctx);
            return;
        }
        muted_text(ctx, "Times per part appear with the first step");
        if (ctx.run_action && ctx.status->state == EngineState::idle && ImGui::Button("New run..."))
            ctx.run_action("run.new");
    }

    /// Two digits after the point, in a column that does not jump; less than that is "< 0.01", and a long pass has one.
    static std::string fixed_ms(double ms, bool unit = true) {
        const char* after = unit ? " ms" : "";
        if (ms == 0) return "-";
        if (ms < 0.01) return fmt::format("< 0.01{}", after);
        return fmt::format("{:.{}f}{}", ms, ms < 100 ? 2 : ms < 1000 ? 1 : 0, after);
    }

    void draw_parts(UiContext& ctx) const {
        const bool one = !ctx.live();
        const int64_t last = ctx.shown_step(),
                      first = one ? last : std::max<int64_t>(1, last - mean_over + 1);
        std::array<double, num_parts> ms{};
        for (int64_t t = first; t <= last; ++t)
            for (size_t part = 0; part < num_parts; ++part)
                ms[part] += static_cast<double>(ctx.recording->step(t).part_ms[part]);
        double total = 0, longest = 0;
        for (double& value : ms) {
            value /= static_cast<double>(last - first + 1);
            total += value;
            longest = std::max(longest, value);
        }
        const float em = ImGui::GetFontSize(), start = ImGui::GetCursorPosX();
        const float right = content_right(), column = em * 6.7F;
        // In a narrow panel the unit stands in the first line only.
        const bool unit = right - start > ImGui::CalcTextSize("teacher pass< 0.01 ms").x + em;
        const float number = ImGui::CalcTextSize(unit ? "< 0.01 ms" : "< 0.01").x + em * 0.4F;
        std::string of = one ? fmt::format("step {}", format_thousands(last))
                             : fmt::format("mean of {}", format_count(last - first + 1, "step"));
        if (ImGui::CalcTextSize(of.c_str()).x > right - start - number)
            of = one ? "step" : "mean"; // a narrow panel
        ImGui::TextDisabled("%s", of.c_str());
        ImGui::SameLine();
        text_right_aligned(fixed_ms(total), right);
        // The bar keeps clear of the number's column, whatever the panel's width.
        const float room = right - start - column - number; // none left in a very narrow panel: numbers only
        for (size_t part = 0; part < num_parts; ++part) {
            if (!m_ever[part]) continue;
            const auto which = static_cast<Part>(part);
            const bool refresh =
                which == Part::teacher_pass || which == Part::splice || which == Part::redraw;
            ImGui::TextUnformatted(part_labels[part]);
            ImGui::SameLine(std::min(start + column, right - number));
            const ImVec2 at = ImGui::GetCursorScreenPos();
            const float width = longest > 0 ? room * static_cast<float>(ms[part] / longest) : 0;
            const float height = em * 0.62F, top = at.y + (em - height) * 0.5F;
            if (room > em)
                ImGui::GetWindowDrawList()->AddRectFilled(ImVec2(at.x, top),
                                                          ImVec2(at.x + room, top + height),
                                                          with_alpha(ctx.theme.text_muted, 0.10F), 2);
            if (width > 0 && room > em)
                ImGui::GetWindowDrawList()->AddRectFilled(
                    ImVec2(at.x, top), ImVec2(at.x + std::max(1.5F, width), top + height),
                    refresh ? ctx.theme.accent : ctx.theme.signal("entropy_bits"), 2);
            ImGui::PushStyleColor(ImGuiCol_Text, ms[part] > 0 ? ctx.theme.text : ctx.theme.text_muted);
            text_right_aligned(fixed_ms(ms[part], unit), right);
            ImGui::PopStyleColor();
        }
    }

    static void draw_refreshes(UiContext& ctx) {
        const auto& refreshes = ctx.recording->refreshes();
        const size_t count = refreshes.size();
        if (count == 0) return;
        const float em = ImGui::GetFontSize();
        double sum = 0, worst = 0;
        for (size_t i = 0; i < count; ++i) {
            const double ms = ms_of(refreshes[i]);
            sum += ms;
            worst = std::max(worst, ms);
        }
        ImGui::Separator();
        ImGui::TextUnformatted("Refresh spikes");
        ImGui::SameLine();
        ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
        text_right_aligned(fmt::format("mean {} ms, worst {} ms",
                                       format_number(sum / static_cast<double>(count)), format_number(worst)),
                           content_right());
        ImGui::PopStyleColor();
        // The list takes what is left. Where that is nothing, the panel does not scroll for it: its newest are in the tooltip.
        const float line = ImGui::GetTextLineHeightWithSpacing();
        const float rows = std::min(std::floor(ImGui::GetContentRegionAvail().y / line),
                                    std::min(static_cast<float>(count), 8.0F));
        if (rows < std::min(2.0F, static_cast<float>(count))) {
            ImGui::SetItemTooltip("%s", newest_refreshes(refreshes).c_str());
            return;
        }
        if (ImGui::BeginChild("spikes", ImVec2(0, rows * line))) {
            ImGuiListClipper clipper;
            clipper.Begin(static_cast<int>(count));
            while (clipper.Step()) {
                for (int row = clipper.DisplayStart; row < clipper.DisplayEnd; ++row) {
                    const RefreshEvent& event =
                        refreshes[count - 1 - static_cast<size_t>(row)]; // newest first
                    const char letter = event.hits.size() > 1 ? '+'
                                        : event.hits.empty()  ? 'H'
                                                              : event.hits[0].letter;
                    const std::string signal = event.hits.empty() ? std::string() : event.hits[0].signal;
                    ImGui::PushID(row);
                    const bool selected = ctx.selection.step == event.step;
                    const float start = ImGui::GetCursorPosX();
                    if (ImGui::Selectable("##spike", selected)) ctx.select_step(event.step);
                    ImGui::SameLine(start);
                    ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.marker(signal, letter));
                    ImGui::Text("%c", letter);
                    ImGui::PopStyleColor();
                    ImGui::SameLine(start + em * 1.4F);
                    ImGui::TextUnformatted(fmt::format("step {}", format_thousands(event.step)).c_str());
                    ImGui::SameLine(start + em * 6.7F);
                    ImGui::TextDisabled("%s", fmt::format("{} entries", event.spliced).c_str());
                    ImGui::SameLine();
                    text_right_aligned(fmt::format("{} ms", format_number(ms_of(event), true)),
                                       content_right());
                    ImGui::PopID();
                }
            }
        }
        ImGui::EndChild();
    }

    static double ms_of(const RefreshEvent& event) {
        return event.teacher_ms + event.splice_ms + event.redraw_ms;
    }

    template <class Log>
    static std::string newest_refreshes(const Log& refreshes) {
        std::string text;
        for (size_t i = refreshes.size(), shown = 0; i-- > 0 && shown < 10; ++shown) {
            const RefreshEvent& event = refreshes[i];
            text += fmt::format("{}step {}: {} entries, {} ms", text.empty() ? "" : "\n",
                                format_thousands(event.step), event.spliced, format_number(ms_of(event)));
        }
        return text;
    }

    static void draw_numbers(UiContext& ctx) {
        const Host::FrameStats frame = ctx.host.frame_stats();
        const EngineStatus& status = *ctx.status;
        const int64_t now = ctx.recording ? ctx.recording->steps() : 0;
        const std::string median = format_number(frame.cpu_ms_median) + " ms";
        const std::string with_p99 = fmt::format("{}, p99 {} ms", median, format_number(frame.cpu_ms_p99));
        const float room = ImGui::GetContentRegionAvail().x - ImGui::CalcTextSize("Frame CPU").x;
        row(ctx, "Frame CPU",
            ImGui::CalcTextSize(with_p99.c_str()).x + ImGui::GetFontSize() < room ? with_p99 : median);
        if (ImGui::IsItemHovered())
            ImGui::SetTooltip("Drawing %s ms, %s frames/s", format_number(frame.gl_ms).c_str(),
                              format_number(frame.frames_per_second).c_str());
        if (status.tokens_per_second > 0)
            row(ctx, "Decode", fmt::format("{} tokens/s", format_number(status.tokens_per_second)));
        if (status.ttft_ms > 0)
            row(ctx, "First token",
                fmt::format("{} ms, prefill {} ms", format_number(status.ttft_ms),
                            format_number(status.prefill_ms)));
        row(ctx, "Queue", format_count(static_cast<int64_t>(status.queued_commands), "command"));
        row(ctx, "Not yet drawn", fmt::format("{} steps", now - ctx.steps));
        row(ctx, "Display rows skipped", fmt::format("{} steps", ctx.steps_jumped));
        if (ImGui::IsItemHovered())
            ImGui::SetTooltip(
                "Steps that were never the newest one of a frame, because several were made between two\n"
                "frames. The recording and every plot have all of them.");
        std::string memory = format_bytes(ctx.host.memory_bytes());
        if (status.cache_bytes_reserved > 0) {
            const std::string caches = fmt::format(", caches {} of {}", format_bytes(status.cache_bytes_used),
                                                   format_bytes(status.cache_bytes_reserved));
            const float used = ImGui::CalcTextSize(("Memory" + memory + caches).c_str()).x;
            if (used + ImGui::GetFontSize() < ImGui::GetContentRegionAvail().x) memory += caches;
        }
        row(ctx, "Memory", memory);
        if (status.cache_bytes_reserved > 0 && ImGui::IsItemHovered())
            ImGui::SetTooltip("Of the process. Caches: %s in use of %s reserved",
                              format_bytes(status.cache_bytes_used).c_str(),
                              format_bytes(status.cache_bytes_reserved).c_str());
    }

    static void row(const UiContext& ctx, const char* label, const std::string& value) {
        ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_muted);
        ImGui::TextUnformatted(label);
        ImGui::PopStyleColor();
        ImGui::SameLine();
        text_right_aligned(value, content_right());
    }

    std::array<bool, num_parts> m_ever{}; ///< parts that took time in the shown run
    int64_t m_noted = 0;                  ///< records that m_ever has seen
};

} // namespace

std::unique_ptr<Panel> make_performance_panel() {
    return std::make_unique<PerformancePanel>();
}

} // namespace refreshlab::ui
