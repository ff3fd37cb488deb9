#include "engine/remote/status_json.h"

#include "engine/base/error.h"
#include "engine/remote/json_fields.h"
#include "engine/results/scope_map_json.h"

#include <nlohmann/json.hpp>

#include <utility>

namespace refreshlab {

NLOHMANN_JSON_SERIALIZE_ENUM(EngineState, {{EngineState::idle, "idle"},
                                           {EngineState::loading, "loading"},
                                           {EngineState::prefilling, "prefilling"},
                                           {EngineState::running, "running"},
                                           {EngineState::paused, "paused"},
                                           {EngineState::finished, "finished"},
                                           {EngineState::failed, "failed"}})
NLOHMANN_JSON_SERIALIZE_ENUM(PairFact::Verdict, {{PairFact::Verdict::equal, "equal"},
                                                 {PairFact::Verdict::differs, "differs"},
                                                 {PairFact::Verdict::free, "free"}})
NLOHMANN_JSON_SERIALIZE_ENUM(RunOutlook::Part, {{RunOutlook::Part::none, "none"},
                                                {RunOutlook::Part::prompt, "prompt"},
                                                {RunOutlook::Part::teacher, "teacher"},
                                                {RunOutlook::Part::student, "student"},
                                                {RunOutlook::Part::device, "device"},
                                                {RunOutlook::Part::memory, "memory"},
                                                {RunOutlook::Part::other, "other"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ModelSummary, name, dir, device, dtype, hidden, intermediate, parameters,
                                   layers, heads, kv_heads, head_dim, vocab_size, max_position, weight_bytes,
                                   mc_calibrated)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PairFact, name, teacher, student, verdict)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OpenDraft::Token, id, logprob, entropy_bits)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OpenDraft, run_id, first_token, tokens)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RunOutlook, part, problem, note, teacher, student, teacher_bytes,
                                   student_bytes, prompt_tokens, context, memory)

namespace remote {

namespace {

using nlohmann::json;

constexpr auto what = "a status";

/// Fields of a status that are JSON as they are. One list for both directions.
template <class Status, class Visit>
void each_plain_field(Status& s, const Visit& visit) {
    visit("state", s.state);
    visit("message", s.message);
    visit("progress", s.progress);
    visit("answered", s.answered);
    visit("teacher", s.teacher);
    visit("student", s.student);
    visit("pair", s.pair);
    visit("rebuild_mode", s.rebuild_mode);
    visit("note", s.note);
    visit("pace", s.pace);
    visit("tokens_per_second", s.tokens_per_second);
    visit("prefill_ms", s.prefill_ms);
    visit("ttft_ms", s.ttft_ms);
    visit("queued_commands", s.queued_commands);
    visit("cache_bytes_used", s.cache_bytes_used);
    visit("cache_bytes_reserved", s.cache_bytes_reserved);
    visit("stop_reason", s.stop_reason);
    visit("checking", s.checking);
    visit("error", s.error);
    visit("errors", s.errors);
    visit("refusals", s.refusals);
    visit("recorded", s.recorded);
    visit("trace_error", s.trace_error);
}

template <class State, class Visit>
void each_field_of_landscape(State& s, const Visit& visit) {
    visit("run_id", s.run_id);
    visit("computing", s.computing);
    visit("cells_done", s.cells_done);
    visit("cells", s.cells);
    visit("seconds", s.seconds);
}

template <class State, class Visit>
void each_field_of_scope(State& s, const Visit& visit) {
    visit("run_id", s.run_id);
    visit("computing", s.computing);
    visit("rows_done", s.rows_done);
    visit("rows", s.rows);
    visit("taken", s.taken);
    visit("share", s.share);
}

bool has(const json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && !found->is_null();
}

} // namespace

json status_json(const EngineStatus& s, const TokenTable* tokens) {
    json status = json::object();
    each_plain_field(s, into(status));
    status["applied"] = refreshlab::to_json(s.applied);
    if (s.derived) status["derived"] = refreshlab::to_json(*s.derived);
    if (s.exactness) {
        status["exactness"] = refreshlab::to_json(*s.exactness);
        status["exactness_progress"] = s.exactness->progress;
    }
    if (s.landscape) each_field_of_landscape(*s.landscape, into(status["landscape"]));
    if (s.scope) {
        each_field_of_scope(*s.scope, into(status["scope"]));
        if (s.scope->map) status["scope_map"] = measured_json(*s.scope->map);
    }
    if (s.draft) {
        json& draft = status["draft"] = *s.draft;
        json& texts = draft["texts"] = json::array();
        for (const OpenDraft::Token& token : s.draft->tokens) {
            const std::string_view bytes =
                tokens == nullptr ? std::string_view() : tokens->token_bytes(token.id);
            texts.push_back({{"bytes", json::binary({bytes.begin(), bytes.end()})},
                             {"special", tokens != nullptr && tokens->is_special(token.id)}});
        }
    }
    return status;
}

ReadStatus read_status(const json& status) {
    ReadStatus read;
    EngineStatus& s = read.status;
    each_plain_field(s, out_of(status));
    s.applied = run_config_from_json(status.at("applied"), what);
    if (has(status, "derived")) s.derived = derived_facts_from_json(status.at("derived"), what);
    if (has(status, "exactness")) {
        ExactnessReport report = exactness_report_from_json(status.at("exactness"), what);
        status.at("exactness_progress").get_to(report.progress);
        s.exactness = std::make_shared<ExactnessReport>(std::move(report));
    }
    if (has(status, "landscape")) {
        LandscapeState landscape;
        each_field_of_landscape(landscape, out_of(status.at("landscape")));
        s.landscape = std::make_shared<LandscapeState>(std::move(landscape));
    }
    if (has(status, "scope")) {
        ScopeState scope;
        each_field_of_scope(scope, out_of(status.at("scope")));
        if (has(status, "scope_map"))
            scope.map = std::make_shared<ScopeMap>(scope_map_from_json(status.at("scope_map"), what));
        s.scope = std::make_shared<ScopeState>(std::move(scope));
    }
    if (has(status, "draft")) {
        const json& draft = status.at("draft");
        s.draft = std::make_shared<OpenDraft>(draft.get<OpenDraft>());
        const json& texts = draft.at("texts");
        if (texts.size() != s.draft->tokens.size())
            throw Error("reading", what, "a draft has not one text a token");
        for (size_t i = 0; i < texts.size(); ++i) {
            const auto& bytes = texts[i].at("bytes").get_binary();
            read.tokens.push_back({s.draft->tokens[i].id, std::string(bytes.begin(), bytes.end()),
                                   texts[i].at("special").get<bool>()});
        }
    }
    return read;
}

json changed_keys(const json& before, const json& now) {
    json changed = json::object();
    for (const auto& [key, value] : now.items()) {
        const auto old = before.find(key);
        if (old == before.end() || *old != value) changed[key] = value;
    }
    for (const auto& [key, value] : before.items())
        if (!now.contains(key)) changed[key] = nullptr;
    return changed;
}

void apply_keys(json& status, const json& changed) {
    for (const auto& [key, value] : changed.items()) {
        if (value.is_null())
            status.erase(key);
        else
            status[key] = value;
    }
}

json outlook_json(const RunOutlook& outlook) {
    return outlook;
}

RunOutlook read_outlook(const json& json) {
    return json.get<RunOutlook>();
}

} // namespace remote
} // namespace refreshlab
