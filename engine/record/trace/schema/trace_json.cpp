#include "engine/record/trace/schema/trace_json.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/control/stored_config.h"
#include "engine/record/trace/schema/trace_versions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace refreshlab::trace {

using json = nlohmann::json;

json number_json(double value) {
    if (std::isfinite(value)) return value;
    if (std::isnan(value)) return "nan";
    return value > 0 ? "inf" : "-inf";
}

double number_from_json(const json& value) {
    if (!value.is_string()) return value.get<double>();
    const auto& text = value.get_ref<const std::string&>();
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (text == "-inf") return -std::numeric_limits<double>::infinity();
    return value.get<double>(); // throws
}

namespace {

/// Integer of a key within [min, max]; nlohmann would cut a larger one silently.
int64_t integer(const json& object, const char* key, int64_t min, int64_t max) {
    const json& value = object.at(key);
    const bool fits = value.is_number_integer() &&
                      (!value.is_number_unsigned() ||
                       value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
    const int64_t n = fits ? value.get<int64_t>() : 0;
    if (!fits || n < min || n > max) {
        throw Error("reading", "a run's description",
                    fmt::format("{} is not an integer from {} to {}", key, min, max));
    }
    return n;
}

int32_t integer32(const json& object, const char* key, int32_t min) {
    return static_cast<int32_t>(integer(object, key, min, std::numeric_limits<int32_t>::max()));
}

// Of a model, far above any that there is: readers make room for layers and heads by these numbers.
constexpr int64_t max_layers = 4096, max_heads = 4096, max_planes = int64_t{1} << 20, max_width = 1 << 20,
                  max_vocab = 1 << 22;

json published_to_json(const PublishedSignal& signal) {
    return {{"name", signal.name},
            {"label", signal.label},
            {"unit", signal.unit},
            {"description", signal.description},
            {"cost_hint", signal.cost_hint},
            {"about", static_cast<int>(signal.about)},
            {"min", number_json(signal.min)},
            {"max", number_json(signal.max)},
            {"default_threshold", number_json(signal.default_threshold)},
            {"letter", signal.letter == 0 ? std::string() : std::string(1, signal.letter)},
            {"layered", signal.layered}};
}

PublishedSignal published_from_json(const json& object, const std::string& what) {
    PublishedSignal signal;
    signal.name = object.at("name").get<std::string>();
    signal.label = object.at("label").get<std::string>();
    signal.unit = object.at("unit").get<std::string>();
    signal.description = object.at("description").get<std::string>();
    signal.cost_hint = object.at("cost_hint").get<std::string>();
    signal.about = static_cast<SignalAbout>(integer(object, "about", 0, 2));
    signal.min = number_from_json(object.at("min"));
    signal.max = number_from_json(object.at("max"));
    signal.default_threshold = number_from_json(object.at("default_threshold"));
    const auto letter = object.at("letter").get<std::string>();
    if (letter.size() > 1) throw Error("reading", what, "the letter of a signal is not one character");
    if (!letter.empty()) signal.letter = letter[0];
    signal.layered = object.at("layered").get<bool>();
    return signal;
}

/// The published signals of a trace, as far as this program's own leave them room: a signal that the registry has by now is
/// the registry's, and a letter that it has taken is gone.
std::vector<PublishedSignal> published_of(const json& list, const std::string& what) {
    std::vector<PublishedSignal> published;
    for (const json& object : list) {
        PublishedSignal signal = published_from_json(object, what);
        if (signal_id(signal.name)) continue;
        if (std::ranges::find(signals(), signal.letter, &Signal::letter) != signals().end())
            signal.letter = 0;
        published.push_back(std::move(signal));
    }
    (void)signal_table(published); // throws
    return published;
}

} // namespace

std::string info_to_text(const Recording& recording) {
    const RunInfo& info = recording.info();
    json versions = json::array();
    for (const auto& [name, version] : info.versions)
        versions.push_back({name, version});
    json written = json::array(), published = json::array();
    for (size_t id = 0; id < recording.signals().size(); ++id) {
        if (recording.knows_signal(id)) written.push_back(recording.signals()[id].name);
    }
    for (const PublishedSignal& signal : info.published_signals)
        published.push_back(published_to_json(signal));
    json config = stored_json(info.config); // leaves out what has its default, and this one's was another
    config["capture"]["attention_bytes"] = info.config.capture.attention_bytes;
    return json_text({{"config", std::move(config)},
                      {"rendered_prompt", info.rendered_prompt},
                      {"prompt_ids", info.prompt_ids},
                      {"first_token", info.first_token},
                      {"first_producer", static_cast<int>(info.first_producer)},
                      {"first_logprob", number_json(info.first_logprob)},
                      {"vocab_size", info.vocab_size},
                      {"layers", info.layers},
                      {"heads", info.heads},
                      {"kv_heads", info.kv_heads},
                      {"head_dim", info.head_dim},
                      {"cache_bytes_per_token", info.cache_bytes_per_token},
                      {"ttft_ms", number_json(info.ttft_ms)},
                      {"prefill_ms", number_json(info.prefill_ms)},
                      {"device", info.device},
                      {"dtype", info.dtype},
                      {"threads", info.threads},
                      {"started_at", info.started_at},
                      {"versions", versions},
                      {"text_rule",
                       {{"leading_spaces", info.text_rule.leading_spaces},
                        {"byte_fallback", info.text_rule.byte_fallback}}},
                      {"note", info.note},
                      {"kernel_set", info.kernel_set},
                      {"rebuild", info.rebuild},
                      {"signals", written},
                      {"published_signals", published},
                      {"derived", info.derived ? to_json(*info.derived) : json(nullptr)},
                      {"cache_events", info.has_cache_events}});
}

RunInfo info_from_text(const std::string& text, int64_t version, const std::string& what) {
    const json object = parse_json(text, what);
    RunInfo info;
    info.config = run_config_from_json(object.at("config"), what);
    if (const json& config = object.at("config"); // before schema 11 every key was kept
        !config.contains("capture") || !config.at("capture").contains("attention_bytes"))
        info.config.capture.attention_bytes = 0;
    info.rendered_prompt = object.at("rendered_prompt").get<std::string>();
    info.vocab_size = integer(object, "vocab_size", 0, max_vocab);
    const int64_t max_id = info.vocab_size > 0 ? info.vocab_size - 1 : std::numeric_limits<int32_t>::max();
    for (const json& id : object.at("prompt_ids")) {
        const auto value = id.is_number_integer() ? id.get<int64_t>() : -1;
        if (value < 0 || value > max_id)
            throw Error("reading", what, "a prompt token is outside the vocabulary");
        info.prompt_ids.push_back(static_cast<int32_t>(value));
    }
    info.first_token = static_cast<int32_t>(integer(object, "first_token", -1, max_id));
    info.first_producer = static_cast<Producer>(integer(object, "first_producer", 0, 1));
    info.first_logprob = number_from_json(object.at("first_logprob"));
    info.layers = integer(object, "layers", 0, max_layers);
    info.heads = integer(object, "heads", 0, max_heads);
    info.kv_heads = integer(object, "kv_heads", 0, max_heads);
    if (info.layers * std::max(info.heads, info.kv_heads) > max_planes)
        throw Error("reading", what, "no model has so many layers and heads");
    info.head_dim = integer(object, "head_dim", 0, max_width);
    info.cache_bytes_per_token = integer(object, "cache_bytes_per_token", 0, int64_t{1} << 40);
    info.ttft_ms = number_from_json(object.at("ttft_ms"));
    info.prefill_ms = number_from_json(object.at("prefill_ms"));
    info.device = object.at("device").get<std::string>();
    info.dtype = object.at("dtype").get<std::string>();
    info.threads = integer32(object, "threads", 0);
    info.started_at = object.at("started_at").get<std::string>();
    for (const json& pair : object.at("versions")) {
        info.versions.emplace_back(pair.at(0).get<std::string>(), pair.at(1).get<std::string>());
    }
    info.note = object.at("note").get<std::string>();
    if (version < 3) {
        info.rebuild = info.config.mode == Mode::overfill && info.note.starts_with("rebuild mode");
        info.written_signals = signals_before_schema_3();
        info.has_cache_events = false;
    } else {
        info.kernel_set = object.at("kernel_set").get<std::string>();
        info.rebuild = object.at("rebuild").get<bool>();
        info.written_signals = object.at("signals").get<std::vector<std::string>>();
        info.published_signals = published_of(object.at("published_signals"), what);
        info.has_cache_events = object.at("cache_events").get<bool>();
    }
    if (info.rebuild && info.config.bridge.digest.empty())
        info.config.bridge.digest = no_bridge; // before there were bridges
    if (const auto derived = object.find("derived"); derived != object.end() && !derived->is_null())
        info.derived = derived_facts_from_json(*derived, what);
    if (const auto rule = object.find("text_rule"); rule != object.end()) { // not in traces of the first days
        info.text_rule.leading_spaces = static_cast<int32_t>(integer(*rule, "leading_spaces", 0, 1000));
        info.text_rule.byte_fallback = rule->at("byte_fallback").get<bool>();
    }
    return info;
}

std::string hits_to_text(const std::vector<TriggerHit>& hits) {
    json list = json::array();
    for (const TriggerHit& hit : hits) {
        json object = {{"trigger", hit.trigger},
                       {"signal", hit.signal},
                       {"value", number_json(hit.value)},
                       {"threshold", number_json(hit.threshold)},
                       {"letter", std::string(1, hit.letter)}};
        if (hit.reduce != Reduction::mean) object["reduce"] = to_string(hit.reduce);
        if (hit.reduce == Reduction::layer) object["layer"] = hit.layer;
        list.push_back(std::move(object));
    }
    return json_text(list);
}

std::vector<TriggerHit> hits_from_text(const std::string& text, const std::string& what) {
    std::vector<TriggerHit> hits;
    for (const json& object : parse_json(text, what)) {
        TriggerHit hit;
        hit.trigger = integer32(object, "trigger", -1);
        hit.signal = object.at("signal").get<std::string>();
        hit.value = number_from_json(object.at("value"));
        hit.threshold = number_from_json(object.at("threshold"));
        const auto letter = object.at("letter").get<std::string>();
        if (letter.size() != 1) throw Error("reading", what, "the letter of a trigger is not one character");
        hit.letter = letter[0];
        if (const auto reduce = object.find("reduce"); reduce != object.end()) {
            const auto known = reduction_from_string(reduce->get<std::string>());
            if (!known) throw Error("reading", what, "the reduction of a trigger is unknown");
            hit.reduce = *known;
        }
        if (hit.reduce == Reduction::layer) hit.layer = integer32(object, "layer", 0);
        hits.push_back(std::move(hit));
    }
    return hits;
}

} // namespace refreshlab::trace
