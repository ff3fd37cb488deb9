// What a frame of the window costs while a run grows: the CPU time of the UI thread at 100, 1,000 and 10,000 steps, one new step
// each frame, every fourth frame none; at 1,000 and 10,000 also under a cache policy that evicts an entry of every KV head at every
// step, each another one. Measured, not judged: machines differ. `make bench-frame` runs it.
#include "app/window/app_window.h"
#include "engine/control/engine_link.h"
#include "engine/policies/cache_policy_config.h"
#include "engine/record/recording/recording.h"
#include "engine/refresh/policy.h"

#include <imgui.h>
#include <nlohmann/json.hpp>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <span>
#include <string>
#include <vector>

using namespace refreshlab;

namespace {

constexpr int64_t prompt_length = 64, layers = 12, heads = 12, kv_heads = 4, vocab = 32000;
constexpr int64_t refresh_every = 64, attention_kept = 160;
constexpr size_t budget = 256; ///< entries of a KV head under the cache policy

class Words final : public TokenTable {
public:
    Words() {
        const char* const parts[] = {" the",      " king", "ing", ",",   ".\n",
                                     " mountain", " was",  " a",  " of", "ly"};
        for (int64_t id = 0; id < vocab; ++id)
            m_words.emplace_back(parts[id % 10]);
    }
    [[nodiscard]] std::string_view token_bytes(int32_t id) const override {
        return m_words[static_cast<size_t>(id)];
    }
    [[nodiscard]] bool is_special(int32_t) const override { return false; }

private:
    std::vector<std::string> m_words;
};

/// A run as a session with a periodic policy, attention (as its default keeps it) and MC dropout would have recorded it.
class Run {
public:
    /// \param evicts  under a cache policy
    explicit Run(bool evicts)
        : m_held(evicts ? static_cast<size_t>(layers * kv_heads) : 0) {
        RunInfo info;
        info.id = "0123456789abcdef";
        info.config.mode = Mode::overfill;
        info.config.policy = preset_policy("entropy");
        info.config.prompt = "A prompt";
        if (evicts) {
            info.config.student_cache = cache_policy_defaults("h2o", "the benchmark");
            info.config.student_cache.values.at("budget") = static_cast<double>(budget);
        }
        info.rendered_prompt = info.config.prompt;
        info.prompt_ids.assign(prompt_length, 1);
        info.first_token = 2;
        info.vocab_size = vocab;
        info.layers = layers;
        info.heads = heads;
        info.kv_heads = kv_heads;
        info.head_dim = 64;
        info.device = "cpu";
        info.dtype = "f32";
        recording = std::make_shared<Recording>(info, std::make_shared<Words>());
    }

    /// \param attention  with the rows of this step
    void step(bool attention) {
        const int64_t t = recording->steps() + 1;
        if (t > 1 && (t - 1) % refresh_every == 0) refresh(t);
        append_to_cache(t);
        if (attention) attend(t);
        StepRecord r;
        r.step = t;
        r.position = prompt_length + t - 1;
        r.token_id = recording->token(t);
        r.next_token_id = static_cast<int32_t>((t * 7919) % vocab);
        r.top_k = 8;
        for (int i = 0; i < 8; ++i) {
            r.top_ids[static_cast<size_t>(i)] = (r.next_token_id + i) % static_cast<int32_t>(vocab);
            r.top_probs[static_cast<size_t>(i)] = 0.5F / static_cast<float>(i + 1);
        }
        r.signals.fill(absent());
        r.part_ms.fill(0.1F);
        for (size_t id = 0; id < signals().size(); ++id)
            if (signals()[id].cost != SignalCost::teacher_pass && !signals()[id].layered)
                r.signals[id] = noise(t, id);
        r.arrival_ms = static_cast<double>(t) * 20;
        LayerValues values;
        const size_t layered = *signal_id("attention_entropy_bits");
        std::vector<float> of_layers;
        for (int64_t layer = 0; layer < layers; ++layer)
            of_layers.push_back(noise(t, static_cast<size_t>(layer)));
        values.set(layered, of_layers);
        r.signals[layered] = layer_mean(of_layers);
        recording->append(r, values);
    }

    std::shared_ptr<Recording> recording;

private:
    static float noise(int64_t t, size_t id) {
        const auto x = static_cast<double>(t) * 0.37 + static_cast<double>(id) * 1.7;
        return static_cast<float>(3 + 2 * std::sin(x) + std::sin(13.7 * x));
    }
    void append_to_cache(int64_t t) {
        CacheEvent event;
        event.step = t == 1 ? 0 : t;
        if (t == 1) {
            event.positions = {{0, prompt_length}};
            event.origin = Origin::teacher_prefill;
            event.change = CacheChange::adopted;
            recording->add_cache_event(event);
        }
        event.step = t;
        event.positions = {{prompt_length + t - 1, 1}};
        event.origin = Origin::student;
        event.change = CacheChange::appended;
        recording->add_cache_event(event);
        for (size_t plane = 0; plane < m_held.size(); ++plane)
            evict(t, plane);
    }
    /// One entry, as scattered as those of a policy that looks at attention.
    void evict(int64_t t, size_t plane) {
        std::vector<int64_t>& held = m_held[plane];
        for (int64_t p = t == 1 ? 0 : prompt_length + t - 1; p < prompt_length + t; ++p)
            held.push_back(p);
        if (held.size() <= budget) return;
        const size_t at = (static_cast<size_t>(t) * 7919 + plane * 104729) % (held.size() - 1);
        CacheEvent event;
        event.step = t;
        event.change = CacheChange::evicted;
        event.layer = static_cast<int32_t>(plane / kv_heads);
        event.kv_head = static_cast<int32_t>(plane % kv_heads);
        event.positions = {{held[at], 1}};
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
        recording->add_cache_event(event);
    }
    void refresh(int64_t t) {
        RefreshEvent event;
        event.step = event.fired_step = t - 1;
        event.id = static_cast<int32_t>(recording->refreshes().size());
        event.hits = {{0, "entropy_bits", 6.5, 6, 'E'}};
        event.automatic = true;
        event.delta = event.spliced = event.pass_tokens = refresh_every;
        event.first_pos = prompt_length + t - 1 - refresh_every;
        event.teacher_ms = 40;
        recording->add_refresh(event);
        CacheEvent spliced;
        spliced.step = t - 1;
        spliced.change = CacheChange::spliced;
        spliced.positions = {{event.first_pos, refresh_every}};
        spliced.origin = Origin::teacher_refresh;
        spliced.refresh_id = event.id;
        recording->add_cache_event(spliced);
        auto drift = std::make_shared<DriftMap>();
        drift->step = t - 1;
        drift->refresh_id = event.id;
        drift->first_pos = event.first_pos;
        drift->positions = refresh_every;
        drift->layers = layers;
        for (auto* map : {&drift->k, &drift->v, &drift->k_max, &drift->v_max})
            for (int64_t i = 0; i < layers * refresh_every; ++i)
                map->push_back(noise(i, map->size()));
        recording->add_drift(std::move(drift));
        std::vector<float> kl;
        for (int64_t i = 0; i < refresh_every - 1; ++i)
            kl.push_back(std::abs(noise(t + i, 3)));
        recording->back_fill(*signal_id("kl_nats"), t - refresh_every, kl);
    }
    void attend(int64_t t) {
        auto rows = std::make_shared<AttentionRows>();
        rows->position = prompt_length + t - 1;
        rows->step = t;
        rows->heads = heads;
        rows->keys = rows->position + 1;
        for (int32_t layer = 0; layer < layers; ++layer)
            rows->layers.push_back(layer);
        const auto layout =
            attention_layout(recording->info().config.capture.attention_bytes, layers, heads, rows->keys);
        rows->edges = layout.edges;
        rows->exact = layout.exact;
        rows->weights.resize(rows->rows() * static_cast<size_t>(rows->stride()));
        rows->exact_keys.resize(rows->rows() * static_cast<size_t>(rows->exact));
        std::vector<uint16_t> whole(static_cast<size_t>(rows->keys));
        for (size_t row = 0, i = 0; row < rows->rows(); ++row) {
            for (uint16_t& weight : whole)
                weight = static_cast<uint16_t>((i++ * 2654435761U) >> 19U);
            const auto kept =
                std::span(rows->weights)
                    .subspan(row * static_cast<size_t>(rows->stride()), static_cast<size_t>(rows->stride()));
            if (rows->every_key())
                std::ranges::copy(whole, kept.begin());
            else
                compact_row(
                    whole, layout, kept,
                    std::span(rows->exact_keys)
                        .subspan(row * static_cast<size_t>(rows->exact), static_cast<size_t>(rows->exact)));
        }
        recording->add_attention(std::move(rows));
    }

    std::vector<std::vector<int64_t>> m_held; ///< [layers * kv_heads], ascending; empty without a policy
};

/// An engine that decodes when it is told to by the benchmark.
class Link final : public EngineLink {
public:
    explicit Link(const Recording& recording) {
        now->state = EngineState::running;
        now->applied = recording.info().config;
        for (ModelSummary* model : {&now->teacher, &now->student}) {
            model->name = "model";
            model->layers = layers;
            model->heads = heads;
            model->kv_heads = kv_heads;
            model->head_dim = 64;
            model->vocab_size = vocab;
        }
    }
    uint64_t send(Command) override { return 0; }
    [[nodiscard]] std::shared_ptr<const EngineStatus> status() const override { return now; }
    [[nodiscard]] std::shared_ptr<const Recording> recording() const override { return shown; }
    void on_news(std::function<void()>) override {}
    [[nodiscard]] RunOutlook outlook(const RunConfig&) const override { return {}; }
    std::shared_ptr<EngineStatus> now = std::make_shared<EngineStatus>();
    std::shared_ptr<const Recording> shown;
};

double cpu_ms() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

nlohmann::json measure(const char* layout, int64_t steps, int frames, bool evicts) {
    Run run(evicts);
    for (int64_t t = 1; t <= steps; ++t)
        run.step(t > steps - attention_kept);
    Link link(*run.recording);
    link.shown = run.recording;
    AppWindow::Options options;
    options.headless = true;
    options.shell.layout = layout;
    options.shell.restore_user_layout = options.shell.first_start_hints = false;
    AppWindow window(link, options);
    for (int i = 0; i < 12; ++i)
        window.frame(); // docking settles, images are made
    std::vector<double> with_step, without;
    for (int i = 0; i < frames; ++i) {
        const bool grows = i % 4 != 3;
        if (grows) run.step(true);
        const double began = cpu_ms();
        window.frame();
        (grows ? with_step : without).push_back(cpu_ms() - began);
    }
    const auto quantile = [](std::vector<double> values, double q) {
        std::ranges::sort(values);
        return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
    };
    return {{"layout", layout},
            {"steps", steps},
            {"cache_policy", evicts ? "h2o" : "full"},
            {"ms_median", quantile(with_step, 0.5)},
            {"ms_p99", quantile(with_step, 0.99)},
            {"ms_median_without_a_new_step", quantile(without, 0.5)},
            {"vertices", ImGui::GetDrawData()->TotalVtxCount},
            {"ui_ms_median", window.frame_stats().cpu_ms_median}};
}

} // namespace

int main(int argc, char** argv) {
    const int frames = argc > 1 ? std::atoi(argv[1]) : 200;
    const std::vector<std::string> only(argv + std::min(argc, 2), argv + argc);
    spdlog::set_default_logger(spdlog::stderr_logger_mt("bench_frame")); // standard output is the JSON alone
    nlohmann::json results = nlohmann::json::array();
    for (const char* layout : {"Explore", "Tune", "Present"}) {
        if (!only.empty() && std::ranges::find(only, layout) == only.end()) continue;
        for (const int64_t steps : {100, 1000, 10000}) {
            for (const bool evicts : {false, true}) {
                if (evicts && steps == 100) continue; // nothing has left by then
                results.push_back(measure(layout, steps, frames, evicts));
                std::fprintf(stderr, "%s\n", results.back().dump().c_str());
            }
        }
    }
    std::printf("%s\n", results.dump(1).c_str());
    return 0;
}
