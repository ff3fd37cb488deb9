// The map of the Cache panel that shows what became of the entries: what a person can do with it, and its numbers.
#include "ui/base/format.h"
#include "ui/base/value_format.h"
#include "ui/draw/screen_canvas.h"
#include "ui/panels/cache/cache_frame.h"
#include "ui/panels/cache/cache_panel.h"
#include "ui/scene/attention/attention_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace refreshlab::ui {

/// Names are buttons: a layer with its KV heads, or all again. The bars beside the rows tell their numbers.
void CachePanel::answer_rows(UiContext& ctx, const Frame& f) {
    f.recording->entry_scores().ask();
    const auto held = f.side->images.held();
    for (size_t i = 0; i < held.size(); ++i) {
        ctx.landmarks.set_text([&] { return fmt::format("{}", held[i].held); }, "cache/held/{}", i);
        ctx.landmarks.set_text([&] { return fmt::format("{}", held[i].attended); }, "cache/attended/{}", i);
    }
    const PixelBox map = pixel_box(f.places.map);
    const PixelBox names{f.bytes.x, map.y, map.x - f.bytes.x, map.height};
    if (held.empty() || names.width < 1 || names.height < 1) return;
    ImGui::SetCursorScreenPos(ImVec2(names.x, names.y));
    if (ImGui::InvisibleButton("row names", ImVec2(names.width, names.height))) {
        if (f.side->rows.layer)
            f.view->rows.layer.reset();
        else
            f.view->rows.layer = row_at(f, ImGui::GetIO().MousePos.y);
    }
    ImGui::SetItemTooltip("%s",
                          f.side->rows.layer ? "Back to all layers" : "Show the KV heads of this layer");
    ctx.landmarks.set(names, "cache/rows");
    if (f.places.held.width > 0) tell_held(f);
}

void CachePanel::tell_held(const Frame& f) const {
    const PixelBox bars = pixel_box(f.places.held);
    ImGui::SetCursorScreenPos(ImVec2(bars.x, bars.y));
    ImGui::InvisibleButton("bars", ImVec2(bars.width, bars.height));
    if (!ImGui::IsItemHovered()) return;
    const int64_t i = row_at(f, ImGui::GetIO().MousePos.y);
    const RowCount& count = f.side->images.held()[static_cast<size_t>(i)];
    const double budget = entry_budget(f.recording->info().config);
    const std::string limit =
        budget > 0 ? fmt::format("\nBudget {} (the line)", format_number(budget)) : std::string();
    ImGui::SetTooltip(
        "%s", fmt::format("{} {}: {} of {} entries held, {} read{}{}",
                          f.side->rows.layer ? "KV head" : "Layer", i, format_number(count.held),
                          format_thousands(f.side->state.cache().length()), format_number(count.attended),
                          f.side->rows.layer ? "" : " (means over the KV heads)", limit)
                  .c_str());
}

/// Exact bytes of the cache that decodes, against one that keeps everything.
void CachePanel::draw_meter(UiContext& ctx, const Frame& f, const FigurePen& pen) const {
    const CacheMeter meter = cache_meter(*f.recording, f.side->state.cache());
    const std::string words = meter_text(meter);
    paint_cache_meter(pen, figure_rect(f.bytes), meter);
    ctx.landmarks.set(f.bytes, "cache/bytes");
    ctx.landmarks.set_text("cache/bytes", words);
    if (ImGui::IsMouseHoveringRect(ImVec2(f.bytes.x, f.bytes.y),
                                   ImVec2(f.bytes.x + f.bytes.width, f.bytes.y + f.bytes.height)) &&
        ImGui::IsWindowHovered())
        ImGui::SetTooltip(
            "%s",
            fmt::format("{}: {}\n{} bytes of keys and values as they are stored, {} bytes of positions and "
                        "places,\n{} bytes in a full cache; {} entries a layer and KV head",
                        f.method, words, format_thousands(meter.held_bytes),
                        format_thousands(meter.index_bytes), format_thousands(meter.full_bytes),
                        format_number(meter.entries))
                .c_str());
}

/// Lines of a tooltip: what became of the entry, and what the shown step paid it.
std::string CachePanel::entry_text(UiContext& ctx, const Frame& f, int64_t row, int64_t position) const {
    const EntryScores& scores = f.recording->entry_scores();
    scores.want(position);
    if (!scores.here(position)) ctx.host.keep_awake(0.2); // the next frame asks the server
    const int64_t layer = f.side->rows.layer.value_or(row), step = f.side->state.columns().step;
    const RunInfo& info = f.recording->info();
    const int64_t numbers = 2 * info.head_dim;
    const CacheJudge judge{f.method, &scores, numbers, numbers * (info.dtype == "f32" ? 4 : 2)};
    std::string text = cell_text(f.side->state.cache(), f.side->rows, row, position, judge);
    const int64_t group = std::max<int64_t>(1, f.recording->info().heads /
                                                   std::max<int64_t>(1, f.side->state.cache().kv_heads()));
    const auto row_of = f.recording->attention(f.recording->prompt_length() + step - 1,
                                               f.recording->info().config.mode == Mode::teacher);
    if (!row_of) return text;
    double sum = 0;
    int64_t n = 0;
    bool exact = true;
    for (int64_t head = 0; head < f.recording->info().heads; ++head) {
        if (f.side->rows.layer && head / group != row) continue;
        const auto row_in = row_of_head(*row_of, static_cast<int32_t>(layer), static_cast<int32_t>(head));
        if (!row_in || position >= row_of->keys) continue;
        const AttentionShare share = share_of_key(*row_of, *row_in, position);
        sum += static_cast<double>(half_to_float(share.share));
        exact = exact && share.exact();
        ++n;
    }
    if (n > 0)
        text += fmt::format("\nAttention of step {}: {}{} (mean of {} heads)", step, exact ? "" : "about ",
                            format_number(sum / static_cast<double>(n)), n);
    return text;
}

} // namespace refreshlab::ui
