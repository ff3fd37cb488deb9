#include "tests/engine/record/random_recording.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace refreshlab::test {

ByteTokens::ByteTokens() {
    for (int32_t id = 0; id < 256; ++id)
        m_bytes.emplace_back(1, static_cast<char>(id));
    for (int32_t id = 256; id < 298; ++id)
        m_bytes.push_back(fmt::format(" w\u00f6rd{},\"", id));
    m_bytes.emplace_back("<|begin|>");
    m_bytes.emplace_back("<|end|>");
}

std::string_view ByteTokens::token_bytes(int32_t id) const {
    return id >= 0 && id < vocab ? std::string_view(m_bytes[static_cast<size_t>(id)]) : std::string_view();
}

Grower::Grower(uint64_t seed)
    : random(seed) {}

int64_t Grower::uniform(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
}

float Grower::any_float() {
    switch (uniform(0, 9)) {
    case 0:
        return std::numeric_limits<float>::quiet_NaN();
    case 1:
        return -std::numeric_limits<float>::quiet_NaN();
    case 2:
        return std::numeric_limits<float>::infinity();
    case 3:
        return -std::numeric_limits<float>::infinity();
    case 4:
        return -0.0F;
    case 5:
        return std::numeric_limits<float>::denorm_min() * static_cast<float>(uniform(1, 1000));
    case 6:
        return static_cast<float>(uniform(-5, 5)); // integral: SQLite may store it another way
    default:
        return std::bit_cast<float>(static_cast<uint32_t>(random()) & 0xBF7FFFFFU); // finite, any size
    }
}

std::shared_ptr<Recording> Grower::start(int64_t attention_megabytes) {
    RunInfo info;
    info.id = fmt::format("{:016x}", random());
    info.config.prompt = "Once\nupon \"a\" time, \u00e9\u4e16";
    info.config.seed = uint64_t{1} << 63U | 5U;
    info.config.mode = Mode::overfill;
    info.config.policy.name = "entropy";
    Trigger trigger;
    trigger.signal = "entropy_bits";
    trigger.threshold = 0.1;
    info.config.policy.triggers.push_back(trigger);
    info.config.capture.attention_megabytes = attention_megabytes;
    info.rendered_prompt = "<|begin|>" + info.config.prompt;
    const int64_t length = uniform(1, 20);
    for (int64_t i = 0; i < length; ++i)
        info.prompt_ids.push_back(static_cast<int32_t>(uniform(0, vocab - 1)));
    info.first_token = static_cast<int32_t>(uniform(0, 297));
    info.first_logprob = -0.1;
    info.vocab_size = vocab;
    info.layers = 3;
    info.heads = 4;
    info.kv_heads = 2;
    info.head_dim = 8;
    info.cache_bytes_per_token = 384;
    info.ttft_ms = 12.5;
    info.prefill_ms = 11.25;
    info.device = "cpu";
    info.dtype = "f32";
    info.threads = 2;
    info.started_at = "2025-01-02T03:04:05Z";
    info.versions = {{"refreshlab", "0.1.0"}, {"libtorch", "2.11.0"}};
    info.note = "a note";
    info.kernel_set = "portable";
    info.rebuild = true;
    PublishedSignal kept;
    kept.name = "kept_positions";
    kept.label = "Kept positions";
    kept.unit = "tokens";
    kept.description = "Positions that are kept.";
    kept.max = 4096;
    kept.letter = 'Q';
    kept.layered = true;
    PublishedSignal bytes;
    bytes.name = "cache_megabytes";
    bytes.label = "Cache";
    bytes.unit = "MB";
    bytes.description = "Bytes that the cache holds, \"payload\".";
    bytes.cost_hint = "a pass over the positions";
    info.published_signals = {kept, bytes};
    return std::make_shared<Recording>(std::move(info), std::make_shared<ByteTokens>());
}

void Grower::boundary(Recording& recording, int64_t t) {
    const int64_t length = recording.prompt_length();
    if (uniform(0, 5) == 0)
        recording.add_command({t, fmt::format(R"({{"set":"entropy.threshold","value":"{}"}})", t)});
    if (t > 1 && uniform(0, 3) == 0) { // a teacher pass fills values of earlier steps
        const size_t signal =
            static_cast<size_t>(uniform(0, static_cast<int64_t>(recording.signals().size()) - 1));
        const int64_t first = uniform(1, t - 1);
        std::vector<float> values;
        for (int64_t step = first; step < t; ++step) {
            const bool missing = uniform(0, 4) == 0;
            values.push_back(missing ? absent() : any_float());
            if (!is_absent(values.back())) written.push_back({t, step, signal, values.back()});
        }
        recording.back_fill(signal, first, values);
        PassEvent pass;
        pass.step = t;
        pass.first_pos = length + first - 1;
        pass.tokens = t - first;
        pass.probe = uniform(0, 1) == 1;
        pass.shadow = uniform(0, 1) == 1;
        pass.kl_nats = uniform(0, 1) == 1 ? any_float() : absent();
        pass.ms = 3.5;
        recording.add_pass(pass);
    }
    if (uniform(0, 6) == 0) {
        RefreshEvent event;
        event.step = t;
        event.fired_step = uniform(std::max<int64_t>(1, t - 5), t);
        event.id = static_cast<int32_t>(recording.refreshes().size());
        event.hits = {{0, "entropy_bits", 0.1 + static_cast<double>(t), 0.1, 'E'}, {-1, "", 0, 0, 'H'}};
        if (uniform(0, 1) == 1) event.hits[0].reduce = static_cast<Reduction>(uniform(0, 3));
        if (event.hits[0].reduce == Reduction::layer) event.hits[0].layer = 2;
        event.automatic = uniform(0, 1) == 1;
        event.delta = uniform(0, t);
        event.first_pos = length;
        event.spliced = uniform(0, event.delta);
        if (uniform(0, 1) == 1) event.bytes_sent = uniform(0, 1'000'000);
        event.pass_tokens = uniform(0, t);
        event.on_fire = static_cast<OnFire>(uniform(0, 3));
        event.token_before = static_cast<int32_t>(uniform(0, 299));
        event.token_after = static_cast<int32_t>(uniform(0, 299));
        event.kl_nats = uniform(0, 1) == 1 ? any_float() : absent();
        event.mean_drift = uniform(0, 1) == 1 ? any_float() : absent();
        event.teacher_ms = 1.0 / 3.0;
        event.splice_ms = 0.25;
        recording.add_refresh(event);
        {
            DraftEvent draft;
            draft.step = t;
            draft.refresh_id = event.id;
            draft.first_pos = length + uniform(0, t);
            const int64_t drafted = uniform(1, 6), accepted = uniform(0, drafted);
            for (int64_t i = 0; i < drafted; ++i)
                draft.tokens.push_back({static_cast<int32_t>(uniform(0, 299)), i != accepted, any_float(),
                                        any_float(), uniform(0, 3) == 0 ? absent() : any_float()});
            draft.instead = accepted < drafted ? static_cast<int32_t>(uniform(0, 299)) : -1;
            draft.rejected_read = uniform(0, drafted - accepted);
            draft.rejected_ms = 0.75;
            draft.teacher_ms = 1.5;
            recording.add_draft(std::move(draft));
        }
        auto drift = std::make_shared<DriftMap>();
        drift->step = t;
        drift->refresh_id = event.id;
        drift->first_pos = length;
        drift->positions = t;
        drift->layers = 3;
        for (auto* values : {&drift->k, &drift->v, &drift->k_max, &drift->v_max}) {
            for (int64_t i = 0; i < drift->positions * drift->layers; ++i)
                values->push_back(any_float());
        }
        recording.add_drift(std::move(drift));
    }
    cache_events(recording, t);
    if (attention && uniform(0, 2) == 0) {
        auto rows = std::make_shared<AttentionRows>();
        rows->position = length + uniform(0, t) - 1;
        rows->step = rows->position - length + 1;
        rows->teacher = uniform(0, 3) == 0;
        rows->heads = 4;
        rows->keys = rows->position + 1;
        if (uniform(0, 1) == 0) rows->edges = bin_edges(rows->keys, uniform(1, 4));
        rows->layers = {0, 2};
        if (!rows->every_key() && rows->edges[1] > 1 &&
            uniform(0, 1) == 0) { // the first bin's first and last key
            rows->exact = 2;
            for (int64_t row = 0; row < 2 * rows->heads; ++row) {
                rows->exact_keys.push_back(0);
                rows->exact_keys.push_back(rows->edges[1] - 1);
            }
        }
        for (int64_t i = 0; i < 2 * rows->heads * rows->stride(); ++i)
            rows->weights.push_back(static_cast<uint16_t>(random()));
        recording.add_attention(std::move(rows));
    }
}

void Grower::cache_events(Recording& recording, int64_t t) {
    const int64_t newest = recording.prompt_length() + t - 1;
    if (t == 1) {
        CacheEvent prefill;
        prefill.positions = {{0, recording.prompt_length()}};
        prefill.origin = Origin::teacher_prefill;
        prefill.change = CacheChange::adopted;
        prefill.bytes = {newest * 64};
        recording.add_cache_event(prefill);
    }
    for (const bool teacher : {false, true}) {
        if (teacher && uniform(0, 3) == 0) continue;
        CacheEvent append;
        append.step = t;
        append.teacher = teacher;
        append.positions = {{newest, 1}};
        append.origin = teacher ? Origin::teacher_decode : Origin::student;
        append.bytes = {(newest + 1) * 64};
        recording.add_cache_event(append);
    }
    if (newest < 4 || uniform(0, 3) != 0) return;
    CacheEvent event;
    event.step = t;
    event.change = static_cast<CacheChange>(uniform(2, 9));
    event.positions = {{uniform(0, 1), 1}, {2, uniform(1, newest - 2)}};
    if (uniform(0, 1) == 1) event.positions.pop_back();
    event.origin = static_cast<Origin>(uniform(0, 6));
    event.refresh_id = static_cast<int32_t>(uniform(-1, t));
    event.layer = static_cast<int32_t>(uniform(-1, 2));
    event.kv_head = static_cast<int32_t>(uniform(-1, 1));
    if (uniform(0, 2) == 0) event.bytes = {uniform(0, 1 << 20), uniform(0, 1 << 20), uniform(0, 1 << 20)};
    if (uniform(0, 2) == 0) event.bytes = {uniform(0, 1 << 20)};
    recording.add_cache_event(event);
}

void Grower::record(Recording& recording, int64_t t) {
    StepRecord record;
    record.step = t;
    record.position = recording.prompt_length() + t - 1;
    record.token_id = recording.token(t);
    record.next_token_id = static_cast<int32_t>(uniform(0, 297));
    record.producer = static_cast<Producer>(uniform(0, 1));
    record.next_producer = static_cast<Producer>(uniform(0, 1));
    record.top_k = static_cast<uint8_t>(uniform(0, max_top_k));
    for (size_t i = 0; i < record.top_k; ++i) {
        record.top_ids[i] = static_cast<int32_t>(uniform(0, 299));
        record.top_probs[i] = any_float();
    }
    record.signals.fill(absent());
    for (size_t id = 0; id < recording.signals().size(); ++id) {
        if (uniform(0, 2) == 0) continue;
        record.signals[id] = any_float();
        written.push_back({t, t, id, record.signals[id]});
    }
    for (float& ms : record.part_ms)
        ms = static_cast<float>(uniform(0, 1000)) / 7.0F;
    record.arrival_ms = 20.0 + static_cast<double>(t) * 1.1;
    LayerValues layers;
    const auto known = recording.signals();
    for (size_t id = 0; id < known.size(); ++id) {
        if (!known[id].layered || is_absent(record.signals[id])) continue;
        std::vector<float> values;
        for (int64_t layer = 0; layer < recording.info().layers; ++layer)
            values.push_back(uniform(0, 4) == 0 ? absent() : any_float());
        layers.set(id, values);
    }
    recording.append(record, layers);
}

void Grower::grow(Recording& recording, int64_t steps) {
    for (int64_t i = 0; i < steps; ++i) {
        const int64_t t = recording.steps() + 1;
        boundary(recording, t);
        record(recording, t);
    }
}

void Grower::finish(Recording& recording, bool by_end_token) {
    const int64_t t = recording.steps() + 1;
    StepRecord last;
    last.step = t;
    last.position = recording.prompt_length() + t - 1;
    last.token_id = recording.token(t);
    last.signals.fill(absent());
    if (by_end_token) {
        last.next_token_id = 299;
    } else {
        last.fed = false;
    }
    recording.append(last);
    const size_t signal = 0; // a closing pass fills what is missing
    const float value = any_float();
    written.push_back({t + 1, t, signal, value});
    recording.back_fill(signal, t, std::span(&value, 1));
    recording.set_end({by_end_token ? "stop_token" : "max_tokens", 1234.5, std::nullopt, std::nullopt});
    recording.set_end(
        {by_end_token ? "stop_token" : "max_tokens", 1234.5, 3.25, -std::numeric_limits<double>::infinity()});
}

float value_behind(const std::vector<Written>& written, int64_t k, int64_t step, size_t signal) {
    float value = absent();
    for (const Written& w : written) {
        if (w.known <= k && w.step == step && w.signal == signal) value = w.value;
    }
    return value;
}

bool same_bits(float a, float b) {
    if (std::isnan(a) && std::isnan(b)) return is_absent(a) == is_absent(b);
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

TemporaryFolder::TemporaryFolder() {
    std::string name = std::string(RL_BUILD_DIR) + "/record_test_XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder: " + name);
    m_path = name;
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(m_path, ignored);
}

std::vector<std::string> TemporaryFolder::files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(m_path))
        names.push_back(entry.path().filename());
    std::ranges::sort(names);
    return names;
}

} // namespace refreshlab::test
