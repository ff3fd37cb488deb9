#include "ui/draw/widgets.h"
#include "ui/panels/panel.h"

#include <fmt/format.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <cctype>

namespace refreshlab::ui {

namespace {

bool contains(std::string_view text, std::string_view part) {
    const auto same = [](char a, char b) {
        return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
    };
    return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

const char* level_name(Toasts::Level level) {
    return level == Toasts::Level::error ? "error" : level == Toasts::Level::warning ? "warning" : "info";
}

std::string line_text(const Toasts::Line& line) {
    const std::string times = line.repeats > 1 ? fmt::format(" ({} times)", line.repeats) : std::string();
    return fmt::format("{:8.1f} s  {:7}  {}{}", line.time_s, level_name(line.level), line.text, times);
}

class LogPanel final : public Panel {
public:
    std::string_view title() const override { return "Log"; }

    void draw(UiContext& ctx) override {
        const float em = ImGui::GetFontSize();
        const float copy = ImGui::CalcTextSize("Copy").x + ImGui::GetStyle().FramePadding.x * 2;
        ImGui::SetNextItemWidth(em * 6);
        constexpr const char* filters[] = {"all", "warnings", "errors"};
        ImGui::Combo("##level", &m_level, filters, 3);
        ImGui::SameLine();
        ImGui::SetNextItemWidth(
            std::max(em * 3, ImGui::GetContentRegionAvail().x - copy - ImGui::GetStyle().ItemSpacing.x));
        ImGui::InputTextWithHint("##filter", "Filter", &m_filter);
        ImGui::SameLine();
        const bool copy_now = ImGui::Button("Copy");
        ImGui::SetItemTooltip("Copies the lines that are shown");

        std::vector<const Toasts::Line*> shown;
        for (const Toasts::Line& line : ctx.toasts.lines())
            if (static_cast<int>(line.level) >= m_level && contains(line.text, m_filter))
                shown.push_back(&line);
        if (copy_now) {
            std::string all;
            for (const Toasts::Line* line : shown)
                all += line_text(*line) + "\n";
            ImGui::SetClipboardText(all.c_str());
        }
        if (ImGui::BeginChild("lines", ImVec2(0, 0), ImGuiChildFlags_None,
                              ImGuiWindowFlags_HorizontalScrollbar)) {
            const bool at_end = ImGui::GetScrollY() >= ImGui::GetScrollMaxY() - 1;
            if (shown.empty())
                muted_text(ctx,
                           m_filter.empty() && m_level == 0 ? "Nothing to report yet" : "No line matches");
            ImGuiListClipper clipper;
            clipper.Begin(static_cast<int>(shown.size()));
            while (clipper.Step())
                for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i)
                    draw_line(ctx, *shown[static_cast<size_t>(i)], em);
            if (at_end) ImGui::SetScrollHereY(1); // stays at the newest line until somebody scrolls up
        }
        ImGui::EndChild();
    }

private:
    static void draw_line(const UiContext& ctx, const Toasts::Line& line, float em) {
        const ImU32 colour = line.level == Toasts::Level::error     ? ctx.theme.text_error
                             : line.level == Toasts::Level::warning ? ctx.theme.accent_ink
                                                                    : ctx.theme.text;
        ImGui::TextDisabled("%s", fmt::format("{:.1f} s", line.time_s).c_str());
        ImGui::SameLine(em * 4);
        ImGui::PushStyleColor(ImGuiCol_Text, colour);
        ImGui::TextUnformatted(line.text.c_str());
        ImGui::PopStyleColor();
        if (line.repeats > 1) {
            ImGui::SameLine();
            ImGui::TextDisabled("%s", fmt::format("{} times", line.repeats).c_str());
        }
        if (ImGui::IsItemHovered(ImGuiHoveredFlags_DelayNormal))
            ImGui::SetTooltip("%s", line_text(line).c_str());
    }

    int m_level = 0;
    std::string m_filter;
};

} // namespace

std::unique_ptr<Panel> make_log_panel() {
    return std::make_unique<LogPanel>();
}

} // namespace refreshlab::ui
