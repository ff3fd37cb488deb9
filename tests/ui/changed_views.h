#pragma once

#include "ui/scene/views/views.h"

#include <string>
#include <vector>

namespace refreshlab::test {

/// Every choice is another one than the default.
[[nodiscard]] inline ui::Views changed_views() {
    using namespace ui;
    Views views;
    set_shown(views.signals, std::vector<std::string>{"kl_nats"});
    views.text = {.coloured_by = "attention:head",
                  .origins = true,
                  .rejected = true,
                  .ranges = {{"kl_nats", {0.5, 3}}}};
    views.attention = {.of = AttentionOf::difference,
                       .range = AttentionRange::per_head,
                       .ranges = {{"weight", {0, 0.25}}},
                       .log = false,
                       .without_first = false,
                       .map = "cividis",
                       .rows = 128,
                       .order = HeadOrder::off_sink,
                       .best = 24,
                       .read_missing = false,
                       .hidden_layers = {1, 4},
                       .hidden_heads = {0}};
    views.cache = {.map = CacheMap::entries,
                   .rows = {3},
                   .quantity = DriftQuantity::values_max,
                   .log = true,
                   .ranges = {{"k", {0, 2}}},
                   .compared = false};
    views.distribution = {.signal = "kl_nats", .other = "mc_variance", .in_sight = true, .log = false};
    views.landscape = landscape_view(
        {"gain", {{"gain", {-1.5, 1.5}}, {"entropy_bits", {0, 3}}}, {"blind"}, "rejection", "missed"});
    views.events.hidden = {false, true, true, true};
    views.events.table = {.hidden = {"threshold", "ms"}, .sorted_by = "value", .descending = true};
    views.runs = {.hidden = {"kl_nats"}, .sorted_by = "steps", .descending = false};
    views.file_table = {.plot = "*",
                        .x = "bytes",
                        .y = "KL",
                        .log_x = true,
                        .log_y = true,
                        .frontier = false,
                        .table = {.hidden = {"low"}, .sorted_by = "KL", .descending = true}};
    return views;
}

} // namespace refreshlab::test
