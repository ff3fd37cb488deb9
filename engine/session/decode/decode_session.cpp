#include "engine/session/decode/decode_session.h"

#include "engine/base/error.h"
#include "engine/base/json_text.h"
#include "engine/control/parameters.h"
#include "engine/session/decode/session_impl.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <utility>

namespace refreshlab {

void require_refreshable(Mode mode) {
    if (mode != Mode::overfill)
        throw Error("refreshing", {}, "only mode overfill has a teacher's cache to refresh from");
}

void check_run(const RunConfig& config) {
    check_run_config(config, "the run");
    if (config.prompt.empty()) throw Error("starting a run", "the prompt", "is empty", "give some text");
    for (const auto& [what, text] :
         {std::pair{"the prompt", &config.prompt}, std::pair{"the given text", &config.given_text}}) {
        if (const auto offset = first_invalid_utf8(*text)) {
            throw Error(std::string("reading ") + what, {}, fmt::format("not UTF-8 at byte {}", *offset),
                        "save the text as UTF-8");
        }
    }
    if (!config.task.kind.empty()) static_cast<void>(TaskScorer::create(config.task, config.prompt));
}

void DecodeSession::Impl::log_command(const Command& command) {
    recording->add_command({t + 1, json_text(to_json(command))});
}

DecodeSession::DecodeSession(std::shared_ptr<const ModelPair> pair, RunConfig config,
                             const std::function<bool(double)>& progress, const RunText* known,
                             Execution execution, SignalSources sources, TensorPolicyFactory cache_policy) {
    if (!execution) execution = make_execution(config);
    m_impl = std::make_unique<Impl>(std::move(pair), std::move(config), std::move(execution),
                                    std::move(sources), std::move(cache_policy));
    const kernels::ExecutionScope scope(*m_impl->execution);
    m_impl->start(progress, known);
}

DecodeSession::~DecodeSession() = default;

bool DecodeSession::step() {
    const kernels::ExecutionScope scope(*m_impl->execution);
    return m_impl->step();
}
bool DecodeSession::advance() {
    const kernels::ExecutionScope scope(*m_impl->execution);
    return m_impl->advance();
}
bool DecodeSession::settled() const {
    return m_impl->waiting() && !m_impl->drafting();
}
bool DecodeSession::drafting() const {
    return m_impl->drafting();
}
bool DecodeSession::finished() const {
    return m_impl->finished;
}

void DecodeSession::apply(const command::SetParameter& c) {
    const kernels::ExecutionScope scope(*m_impl->execution);
    Impl& s = *m_impl;
    const CachePolicyConfig before = s.decoder_policy();
    RunConfig next = s.config;
    set_live_parameter(next, c.key, c.value);
    const CachePolicyConfig& after = next.mode == Mode::teacher ? next.teacher_cache : next.student_cache;
    if (!(after == before)) check_cache_policy(after, s.pair->context(), "a cache policy");
    check_policy(next.policy, "the policy");
    check_verification(next, "the run");
    check_scope(next, s.scope_model(), "the run");
    s.check_capture(next.capture);
    s.drop_waiting(); // not before: what is refused must leave no trace
    s.config = std::move(next);
    if (s.cache_policy && !(s.decoder_policy() == before)) s.cache_policy->set_values(s.decoder_policy());
    m_impl->chooser->set_seed(m_impl->config.seed);
    m_impl->log_command(c);
}

void DecodeSession::apply(const command::SetPolicy& c) {
    const kernels::ExecutionScope scope(*m_impl->execution);
    check_policy(c.policy, "the policy");
    check_run_policy(c.policy, m_impl->recording->signals(), m_impl->recording->info().layers, "the policy");
    RunConfig next = m_impl->config;
    next.policy = c.policy;
    check_verification(next, "the run");
    check_scope(next, m_impl->scope_model(), "the run");
    m_impl->drop_waiting();
    m_impl->config.policy = c.policy;
    m_impl->log_command(c);
}

void DecodeSession::apply(const command::RefreshNow& c) {
    const kernels::ExecutionScope scope(*m_impl->execution);
    if (m_impl->finished) throw Error("refreshing", {}, "the run has ended", "rewind it or start a new one");
    require_refreshable(m_impl->config.mode);
    m_impl->drop_waiting();
    m_impl->refresh_requested = true;
    m_impl->log_command(c);
}

void DecodeSession::apply(const command::FullStepNow& c) {
    const kernels::ExecutionScope scope(*m_impl->execution);
    Impl& s = *m_impl;
    if (s.finished)
        throw Error("asking for a full step", {}, "the run has ended", "rewind it or start a new one");
    const bool has_them = s.cache_policy && has_full_steps(s.decoder_policy());
    if (has_them) s.drop_waiting();
    if (!has_them || !s.cache_policy->full_step_now())
        throw Error("asking for a full step of", fmt::format("cache policy {}", s.decoder_policy().policy),
                    "it has none", "refreshkv has them");
    s.log_command(c);
}

void DecodeSession::apply(const command::GiveTokens& c) {
    const kernels::ExecutionScope scope(*m_impl->execution);
    Impl& s = *m_impl;
    if (s.finished) throw Error("giving tokens", {}, "the run has ended", "rewind it or start a new one");
    command::GiveTokens given = c;
    if (given.ids.empty()) {
        if (const auto offset = first_invalid_utf8(c.text))
            throw Error("giving tokens", "the text", fmt::format("not UTF-8 at byte {}", *offset));
        given.ids = s.pair->tokenizer->encode(c.text);
    }
    if (given.ids.empty()) throw Error("giving tokens", "the text", "has no token");
    if (given.ids.size() > command::most_given_tokens)
        throw Error("giving tokens", {},
                    fmt::format("{} tokens are more than the {} that one command may give", given.ids.size(),
                                command::most_given_tokens));
    const int64_t vocabulary = s.recording->info().vocab_size;
    for (const int32_t id : given.ids)
        if (id < 0 || id >= vocabulary)
            throw Error("giving tokens", std::to_string(id),
                        fmt::format("is no token: ids go from 0 to {}", vocabulary - 1));
    given.text = s.pair->tokenizer->decode(given.ids, false);
    if (first_invalid_utf8(given.text)) given.text.clear(); // bytes of a character: the ids say it
    s.drop_waiting();
    // The pending token y_{t+1} is chosen already; the next step chooses the one after it.
    s.chooser->give(s.t + 1, s.prompt_length() + s.t + 1, given.ids);
    s.log_command(given);
}

void DecodeSession::stop() {
    const kernels::ExecutionScope scope(*m_impl->execution);
    m_impl->drop_waiting();
    if (!m_impl->finished) m_impl->finish("cancelled");
}

void DecodeSession::rewind(int64_t step, const Recording* as) {
    const kernels::ExecutionScope scope(*m_impl->execution);
    m_impl->rewind(step, as);
}

void DecodeSession::capture_attention(int64_t position, bool teacher) {
    const kernels::ExecutionScope scope(*m_impl->execution);
    m_impl->capture_attention(position, teacher);
}

void DecodeSession::score() {
    const kernels::ExecutionScope scope(*m_impl->execution);
    m_impl->score();
}
void DecodeSession::save_prompt_cache(const std::filesystem::path& path, CacheForm form) const {
    const c10::InferenceMode guard;
    m_impl->save_prompt(path, form);
}
const RunConfig& DecodeSession::config() const {
    return m_impl->config;
}
at::Tensor DecodeSession::row(int64_t position) const {
    return m_impl->ring && m_impl->ring->holds(position) ? m_impl->ring->row(position) : at::Tensor();
}
std::shared_ptr<Recording> DecodeSession::recording() const {
    return m_impl->published;
}
const KvCache* DecodeSession::student_cache() const {
    return m_impl->student_cache.get();
}
const KvCache* DecodeSession::teacher_cache() const {
    return m_impl->teacher ? &m_impl->teacher->cache() : nullptr;
}
int64_t DecodeSession::splice_watermark() const {
    return m_impl->boundary ? m_impl->boundary->state().splice : m_impl->prompt_length();
}

} // namespace refreshlab
