#include "ui/base/colour.h"
#include "ui/base/format.h"
#include "ui/draw/text_entry.h"
#include "ui/draw/widgets.h"
#include "ui/panels/panel.h"

#include <fmt/format.h>
#include <imgui.h>
#include <implot.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

namespace {

/// Differences are shown by their power of ten: 0 and everything below the floor is one colour, "exact".
constexpr double floor_exponent = -9, top_exponent = 1;

/// "stale_cache" -> "Stale cache"
std::string label_of(std::string_view name) {
    std::string label(name);
    std::replace(label.begin(), label.end(), '_', ' ');
    if (!label.empty()) label[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(label[0])));
    return label;
}

std::string difference_text(double v) {
    if (std::isnan(v)) return "not finite";
    return v == 0 ? "0" : fmt::format("{:.1e}", v);
}

/// The exactness view: what a KV cache promises, held against recomputation, and faults that must be caught.
class ExactnessPanel final : public Panel {
public:
    std::string_view title() const override { return "Exactness"; }

    std::pair<float, float> size_in_ems() const override { return {58.0F, 46.0F}; }

    void draw(UiContext& ctx) override {
        draw_controls(ctx);
        const EngineStatus& status = *ctx.status;
        if (!status.pair.empty()) draw_pair(ctx);
        if (!status.exactness) {
            muted_text(ctx, "With fixed weights a KV cache is exact: cached, chunked, spliced and rewound "
                            "decoding give what a full recomputation gives. Check tests this for the loaded "
                            "models, on this device and dtype. A fault shows what a wrong cache looks like.");
            return;
        }
        const ExactnessReport& report = *status.exactness;
        draw_verdict(ctx, report);
        draw_statements(ctx, report);
        draw_maps(ctx, report);
        draw_latency(ctx, report);
    }

private:
    void draw_controls(UiContext& ctx) {
        const EngineStatus& status = *ctx.status;
        const float em = ImGui::GetFontSize();
        ImGui::BeginDisabled(status.checking);
        ImGui::SetNextItemWidth(em * 12);
        const auto fault = static_cast<size_t>(m_options.fault);
        const std::string shown = fault == 0 ? "No fault" : label_of(cache_fault_names[fault]);
        if (ImGui::BeginCombo("##fault", shown.c_str())) {
            for (size_t i = 0; i < cache_fault_names.size(); ++i) {
                const std::string label = i == 0 ? "No fault" : label_of(cache_fault_names[i]);
                if (ImGui::Selectable(label.c_str(), i == fault))
                    m_options.fault = static_cast<CacheFault>(i);
                tooltip(static_cast<CacheFault>(i));
            }
            ImGui::EndCombo();
        }
        tooltip(m_options.fault);
        ImGui::SameLine();
        ImGui::SetNextItemWidth(em * 5);
        whole_entry("steps", &m_options.steps, 1, 4096);
        ImGui::SameLine();
        ImGui::Checkbox("Latency", &m_options.latency);
        ImGui::SetItemTooltip(
            "Naive and cached latency by step, and the prefill/decode split; takes seconds to minutes");
        ImGui::EndDisabled();
        ImGui::SameLine();
        if (status.checking) {
            if (ImGui::Button("Cancel")) ctx.engine.send(command::Stop{});
            ImGui::SameLine();
            ImGui::ProgressBar(static_cast<float>(status.progress), ImVec2(-1, 0));
            return;
        }
        const bool can = status.state == EngineState::running || status.state == EngineState::paused ||
                         status.state == EngineState::finished;
        ImGui::BeginDisabled(!can);
        if (ImGui::Button("Check")) ctx.engine.send(command::CheckExactness{m_options});
        ImGui::EndDisabled();
        ImGui::SetItemTooltip("%s", can ? "Pauses the run; its recording is not touched"
                                        : "Start a run first: it loads the models");
    }

    static void tooltip(CacheFault fault) {
        if (fault == CacheFault::none || !ImGui::BeginItemTooltip()) return;
        ImGui::PushTextWrapPos(ImGui::GetFontSize() * 24);
        ImGui::TextUnformatted(std::string(description(fault)).c_str());
        ImGui::PopTextWrapPos();
        ImGui::EndTooltip();
    }

    static void draw_pair(UiContext& ctx) {
        const auto& facts = ctx.status->pair;
        const auto differing = std::count_if(facts.begin(), facts.end(), [](const PairFact& f) {
            return f.verdict == PairFact::Verdict::differs;
        });
        const std::string head = differing == 0 ? "Pair check: entries can be spliced###pair"
                                                : "Pair check: rebuild mode, nothing is spliced###pair";
        if (!ImGui::CollapsingHeader(head.c_str(), differing == 0 ? 0 : ImGuiTreeNodeFlags_DefaultOpen))
            return;
        if (!ImGui::BeginTable("##facts", 3, ImGuiTableFlags_RowBg | ImGuiTableFlags_SizingStretchProp))
            return;
        ImGui::TableSetupColumn("");
        ImGui::TableSetupColumn("teacher");
        ImGui::TableSetupColumn("student");
        ImGui::TableHeadersRow();
        for (const PairFact& fact : facts) {
            ImGui::TableNextRow();
            ImGui::TableNextColumn();
            const bool differs = fact.verdict == PairFact::Verdict::differs;
            ImGui::PushStyleColor(ImGuiCol_Text, differs ? ctx.theme.text_error
                                                 : fact.verdict == PairFact::Verdict::free
                                                     ? ctx.theme.text_muted
                                                     : ctx.theme.text);
            ImGui::TextUnformatted((fact.name + (differs ? " (differs)" : "")).c_str());
            ImGui::TableNextColumn();
            ImGui::TextUnformatted(fact.teacher.c_str());
            ImGui::TableNextColumn();
            ImGui::TextUnformatted(fact.student.c_str());
            ImGui::PopStyleColor();
        }
        ImGui::EndTable();
    }

    static void draw_verdict(UiContext& ctx, const ExactnessReport& report) {
        const bool fault = report.options.fault != CacheFault::none, passed = report.passed();
        const bool good = fault ? !passed : passed;
        std::string text;
        if (report.progress < 1) {
            text = "Checking...";
        } else if (fault) {
            text = fmt::format("Fault \"{}\": {}", label_of(to_string(report.options.fault)),
                               passed ? "NOT caught" : "caught");
        } else {
            text = passed ? "Exact: every statement holds" : "NOT exact";
        }
        ImGui::PushStyleColor(ImGuiCol_Text, report.progress < 1 ? ctx.theme.text
                                             : good              ? ctx.theme.text_ok
                                                                 : ctx.theme.text_error);
        ImGui::TextUnformatted(text.c_str());
        ImGui::PopStyleColor();
        ImGui::SameLine();
        ImGui::TextDisabled("%s, %s", report.device.c_str(), report.dtype.c_str());
        for (const std::string& note : report.notes)
            muted_text(ctx, note);
    }

    static void draw_statements(UiContext& ctx, const ExactnessReport& report) {
        if (!ImGui::BeginTable("##statements", 5, ImGuiTableFlags_RowBg | ImGuiTableFlags_SizingFixedFit))
            return;
        ImGui::TableSetupColumn("model");
        ImGui::TableSetupColumn("statement");
        ImGui::TableSetupColumn("max diff");
        ImGui::TableSetupColumn("verdict");
        ImGui::TableSetupColumn("where it is largest", ImGuiTableColumnFlags_WidthStretch);
        ImGui::TableHeadersRow();
        for (const ExactnessCheck& check : report.checks) {
            ImGui::TableNextRow();
            ImGui::TableNextColumn();
            ImGui::TextUnformatted(check.subject.c_str());
            ImGui::TableNextColumn();
            ImGui::TextUnformatted(check.name.c_str());
            ImGui::TableNextColumn();
            if (check.measured) {
                ImGui::TextUnformatted(difference_text(check.max_abs).c_str());
                ImGui::SetItemTooltip("%s", check.tolerance == 0
                                                ? "Bit for bit"
                                                : fmt::format("Tolerance {:.0e}", check.tolerance).c_str());
            } else {
                ImGui::TextDisabled("-");
            }
            ImGui::TableNextColumn();
            ImGui::PushStyleColor(ImGuiCol_Text, !check.measured ? ctx.theme.text_muted
                                                 : check.passed  ? ctx.theme.text_ok
                                                                 : ctx.theme.text_error);
            ImGui::TextUnformatted(!check.measured ? "skipped" : check.passed ? "holds" : "BROKEN");
            ImGui::PopStyleColor();
            ImGui::TableNextColumn();
            ImGui::TextDisabled("%s", check.where.c_str());
            if (!check.where.empty()) ImGui::SetItemTooltip("%s", check.where.c_str());
        }
        ImGui::EndTable();
    }

    /// Cached against naive, layer by step; the larger of K and V.
    static void draw_maps(UiContext& ctx, const ExactnessReport& report) {
        if (report.maps.empty()) return;
        heading(ctx, "Cached against naive: log10 of the largest difference of K and V");
        const float em = ImGui::GetFontSize();
        const auto count = static_cast<float>(report.maps.size());
        const float scale_width = em * 5.5F, spacing = ImGui::GetStyle().ItemSpacing.x;
        const float width = (ImGui::GetContentRegionAvail().x - scale_width - spacing * count) / count;
        const auto map_colours = ImPlotColormap_Viridis;
        ImPlot::PushColormap(map_colours);
        for (const ExactnessMap& map : report.maps) {
            std::vector<double> exponents(map.k.size());
            for (size_t i = 0; i < exponents.size(); ++i) {
                const float larger = std::isnan(map.k[i]) || std::isnan(map.v[i])
                                         ? std::numeric_limits<float>::max()
                                         : std::max(map.k[i], map.v[i]);
                exponents[i] = larger <= 0 ? floor_exponent
                                           : std::clamp(std::log10(static_cast<double>(larger)),
                                                        floor_exponent, top_exponent);
            }
            const float height = em * std::clamp(static_cast<float>(map.layers) * 0.9F + 4.0F, 6.0F, 16.0F);
            if (ImPlot::BeginPlot(fmt::format("{}##map", map.subject).c_str(), ImVec2(width, height),
                                  ImPlotFlags_NoLegend | ImPlotFlags_NoMenus | ImPlotFlags_NoMouseText)) {
                ImPlot::SetupAxes("step", "layer", ImPlotAxisFlags_NoGridLines,
                                  ImPlotAxisFlags_NoGridLines | ImPlotAxisFlags_Invert);
                ImPlot::SetupAxesLimits(0.5, map.steps + 0.5, -0.5, map.layers - 0.5, ImPlotCond_Always);
                ImPlot::SetupAxisFormat(ImAxis_Y1, "%.0f");
                ImPlot::SetupAxisFormat(ImAxis_X1, "%.0f");
                // ImPlot draws row 0 at the top of its bounds, whatever way the axis runs.
                ImPlot::PlotHeatmap("##heat", exponents.data(), map.layers, map.steps, floor_exponent,
                                    top_exponent, nullptr, ImPlotPoint(0.5, map.layers - 0.5),
                                    ImPlotPoint(map.steps + 0.5, -0.5));
                if (ImPlot::IsPlotHovered()) show_cell(map, ImPlot::GetPlotMousePos());
                ImPlot::EndPlot();
            }
            ImGui::SameLine();
        }
        ImPlot::ColormapScale("##scale", floor_exponent, top_exponent, ImVec2(scale_width, em * 9), "%.0f",
                              ImPlotColormapScaleFlags_NoLabel);
        ImPlot::PopColormap();
    }

    static void show_cell(const ExactnessMap& map, const ImPlotPoint& mouse) {
        const auto step = static_cast<int32_t>(std::lround(mouse.x)),
                   layer = static_cast<int32_t>(std::lround(mouse.y));
        if (step < 1 || step > map.steps || layer < 0 || layer >= map.layers) return;
        const auto at =
            static_cast<size_t>(layer) * static_cast<size_t>(map.steps) + static_cast<size_t>(step - 1);
        const auto row = static_cast<size_t>(step - 1);
        ImGui::SetTooltip("step %d, layer %d\nK %s\nV %s\nlogits %s%s", step, layer,
                          difference_text(static_cast<double>(map.k[at])).c_str(),
                          difference_text(static_cast<double>(map.v[at])).c_str(),
                          difference_text(static_cast<double>(map.logits[row])).c_str(),
                          map.same_token[row] != 0 ? "" : "\nanother token would be chosen");
    }

    /// Range of a logarithmic axis around what was put in.
    struct LogRange {
        double low = 1e300, high = 0;
        void see(double v) {
            if (!(v > 0)) return;
            low = std::min(low, v);
            high = std::max(high, v);
        }
        void set(ImAxis axis) const {
            if (high > 0) ImPlot::SetupAxisLimits(axis, low / 1.3, high * 1.3, ImPlotCond_Always);
        }
    };

    /// The colour tells the model, its strength the length.
    static ImVec4 curve_colour(const UiContext& ctx, std::string_view subject, double strength) {
        const ImU32 base = ctx.theme.signal(subject == "teacher" ? "entropy_bits" : "kl_nats");
        return ImGui::ColorConvertU32ToFloat4(
            mix(ctx.theme.plot_background, base, 0.35F + 0.65F * static_cast<float>(strength)));
    }

    static void draw_latency(UiContext& ctx, const ExactnessReport& report) {
        if (report.latency.empty()) return;
        heading(ctx, "Latency: naive and cached by step; prefill and decode by prompt length");
        LogRange ms, tokens, per_token;
        for (const LatencyCurve& curve : report.latency) {
            for (size_t i = 0; i < curve.step.size(); ++i) {
                ms.see(static_cast<double>(curve.naive_ms[i]));
                ms.see(static_cast<double>(curve.cached_ms[i]));
                per_token.see(static_cast<double>(curve.cached_ms[i]));
            }
            tokens.see(curve.length);
            per_token.see(curve.prefill_ms / curve.length);
        }
        const float spacing = ImGui::GetStyle().ItemSpacing.x;
        const ImVec2 size((ImGui::GetContentRegionAvail().x - spacing) / 2, ImGui::GetFontSize() * 15);
        draw_steps(ctx, report, size, ms, tokens.high);
        ImGui::SameLine();
        draw_lengths(ctx, report, size, tokens, per_token);
    }

    static void draw_steps(UiContext& ctx, const ExactnessReport& report, ImVec2 size, const LogRange& ms,
                           double longest) {
        if (!ImPlot::BeginPlot("##steps", size, ImPlotFlags_NoMenus)) return;
        ImPlot::SetupAxes("step (crosses: naive, lines: cached)", "ms");
        ImPlot::SetupAxisLimits(ImAxis_X1, 0, report.options.latency_steps + 1, ImPlotCond_Always);
        ImPlot::SetupAxisScale(ImAxis_Y1, ImPlotScale_Log10);
        ms.set(ImAxis_Y1);
        ImPlot::SetupLegend(ImPlotLocation_East, ImPlotLegendFlags_Outside);
        for (const LatencyCurve& curve : report.latency) {
            const std::vector<float> steps(curve.step.begin(), curve.step.end());
            const std::string label = fmt::format("{} {}", curve.subject, curve.length);
            const auto points = static_cast<int>(steps.size());
            ImPlotSpec line;
            line.LineColor =
                curve_colour(ctx, curve.subject, std::log2(1.0 + curve.length) / std::log2(1.0 + longest));
            line.LineWeight = 2;
            ImPlot::PlotLine(label.c_str(), steps.data(), curve.cached_ms.data(), points, line);
            ImPlotSpec cross;
            cross.Marker = ImPlotMarker_Cross;
            cross.LineColor = cross.MarkerLineColor = line.LineColor;
            ImPlot::PlotScatter(label.c_str(), steps.data(), curve.naive_ms.data(), points, cross);
        }
        ImPlot::EndPlot();
    }

    static void draw_lengths(UiContext& ctx, const ExactnessReport& report, ImVec2 size,
                             const LogRange& tokens, const LogRange& per_token) {
        if (!ImPlot::BeginPlot("##lengths", size, ImPlotFlags_NoMenus)) return;
        ImPlot::SetupAxes("prompt tokens", "ms per token");
        ImPlot::SetupAxisScale(ImAxis_X1, ImPlotScale_Log10);
        ImPlot::SetupAxisScale(ImAxis_Y1, ImPlotScale_Log10);
        tokens.set(ImAxis_X1);
        per_token.set(ImAxis_Y1);
        ImPlot::SetupLegend(ImPlotLocation_East, ImPlotLegendFlags_Outside);
        for (const char* subject : {"teacher", "student"}) {
            std::vector<double> length, prefill, decode;
            for (const LatencyCurve& curve : report.latency) {
                if (curve.subject != subject || curve.cached_ms.empty()) continue;
                double sum = 0;
                for (const float step_ms : curve.cached_ms)
                    sum += static_cast<double>(step_ms);
                length.push_back(curve.length);
                prefill.push_back(curve.prefill_ms / curve.length);
                decode.push_back(sum / static_cast<double>(curve.cached_ms.size()));
            }
            if (length.empty()) continue;
            const auto points = static_cast<int>(length.size());
            ImPlotSpec spec;
            spec.LineWeight = 2;
            spec.Marker = ImPlotMarker_Circle;
            spec.LineColor = curve_colour(ctx, subject, 0.3);
            ImPlot::PlotLine(fmt::format("{} prefill", subject).c_str(), length.data(), prefill.data(),
                             points, spec);
            spec.Marker = ImPlotMarker_Square;
            spec.LineColor = curve_colour(ctx, subject, 1);
            ImPlot::PlotLine(fmt::format("{} decode", subject).c_str(), length.data(), decode.data(), points,
                             spec);
        }
        ImPlot::EndPlot();
    }

    ExactnessOptions m_options;
};

} // namespace

std::unique_ptr<Panel> make_exactness_panel() {
    return std::make_unique<ExactnessPanel>();
}

} // namespace refreshlab::ui
