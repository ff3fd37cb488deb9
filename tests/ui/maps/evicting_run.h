#pragma once

#include "tests/ui/maps/heatmap_recording.h"

#include <memory>
#include <utility>
#include <vector>

namespace refreshlab::test {

inline CacheEvent cache_event(int64_t step, CacheChange change, int32_t layer, int32_t kv_head,
                              std::vector<PositionRange> positions) {
    CacheEvent e;
    e.step = step;
    e.change = change;
    e.layer = layer;
    e.kv_head = kv_head;
    e.positions = std::move(positions);
    if (change == CacheChange::appended) e.origin = Origin::student;
    return e;
}

/// Two layers with two KV heads, a prompt of 4 and three steps. Layer 0 evicts position 0 after the prompt, KV head 1 of layer 1 at
/// step 2; position 1 is merged away everywhere at step 1; layer 1 does not read position 2 at step 2, and reads it again at 3.
inline std::shared_ptr<Recording> evicting_run() {
    RunInfo info = made_info(4, "00000000000000ab");
    info.config.mode = Mode::student;
    info.config.student_cache = cache_policy_defaults("h2o", "a test");
    info.layers = 2;
    info.heads = 4;
    info.kv_heads = 2;
    info.head_dim = 8;
    info.dtype = "f32";
    auto recording = made_run(info);
    const auto add = [&](CacheEvent e) { recording->add_cache_event(std::move(e)); };
    CacheEvent prompt = cache_event(0, CacheChange::appended, -1, -1, {{0, 4}});
    prompt.bytes = {4 * 128};
    add(prompt);
    add(cache_event(0, CacheChange::evicted, 0, -1, {{0, 1}}));
    for (int64_t step = 1; step <= 3; ++step) {
        add(cache_event(step, CacheChange::appended, -1, -1, {{3 + step, 1}}));
        if (step == 1) add(cache_event(1, CacheChange::merged, -1, -1, {{1, 1}}));
        if (step == 2) {
            add(cache_event(2, CacheChange::evicted, 1, 1, {{0, 1}}));
            add(cache_event(2, CacheChange::kept, 1, -1, {{2, 1}}));
        }
        if (step == 3) add(cache_event(3, CacheChange::attended, 1, -1, {{2, 1}}));
        append_step(*recording);
    }
    return recording;
}

} // namespace refreshlab::test
