#pragma once

#include "engine/control/command.h"
#include "engine/control/engine_link.h"
#include "engine/record/recording/recording.h"
#include "engine/session/pair/model_pair.h"
#include "engine/session/pair/run_execution.h"
#include "engine/session/parts/signal_source.h"
#include "engine/session/policies/tensor_policy.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

namespace refreshlab {

/// Signals that whoever asks for a run measures in it, beside those of the run's own components.
using SignalSources = std::vector<std::shared_ptr<SignalSource>>;

class KvCache;
enum class CacheForm : uint8_t;
struct RunText;

/// What can be said about a run before anything is loaded: prompt not empty and UTF-8, max_tokens, policy. Throws
/// Error{bad_input}.
void check_run(const RunConfig& config);
/// Throws Error{bad_input} in modes where a refresh by hand has no teacher's cache to read from.
void require_refreshable(Mode mode);

/// One run, one step at a time; single-threaded and deterministic: configuration + seed + commands with their steps give
/// the same recording again, bit for bit, on the same device, dtype and thread count (which on the CPU does not matter).
/// Step order, watermarks and what a refresh does: reference/refresh.md, sections 2 and 3.
class DecodeSession {
public:
    /// Tokenizes, prefills, hands the cache over, chooses y_1. Throws Error{bad_input}: prompt empty, not UTF-8, longer
    /// than the context, bad parameters; Error "cancelled" when progress says so.
    /// Error{failure} when caches and working space do not fit into what the device has left.
    /// \param known  feed exactly these ids: those of prepare_run(), or a recording's (a template may print the date, a
    ///               tokenizer may be newer); null: they are made here
    /// \param execution  threads and kernel set of everything that the session computes; null: make_execution(config)
    /// \param sources  none of them null; what they publish must go together (signal_table())
    /// \param cache_policy  makes the decoder's, where that is brought from outside; null: one of the registry
    DecodeSession(std::shared_ptr<const ModelPair> pair, RunConfig config,
                  const std::function<bool(double fraction)>& progress = {}, const RunText* known = nullptr,
                  Execution execution = {}, SignalSources sources = {},
                  TensorPolicyFactory cache_policy = {});
    ~DecodeSession();
    DecodeSession(const DecodeSession&) = delete;
    DecodeSession& operator=(const DecodeSession&) = delete;

    /// One step: exactly one record. False, and nothing happens, when the run is finished. The last step of a run of N
    /// tokens only records y_N; a run that draws an end token ends with the step that drew it.
    bool step();
    /// A part of a step, for somebody who watches: of a draft that goes on (OnFire::verify) one token, which is no record yet; else as
    /// step(). Numbers are those of step(). Whatever is applied while a draft goes on gives up what was drafted, and acts from the newest step on.
    /// \return whether a record came; false as well where the run is finished
    bool advance();
    [[nodiscard]] bool
    settled() const; ///< steps of a draft that stay wait: the next advance() only lets one out
    [[nodiscard]] bool drafting() const; ///< a draft goes on between two calls of advance()
    /// y_{steps + 2} and what follows it, as far as the draft has come; empty where none goes on.
    [[nodiscard]] std::vector<OpenDraft::Token> draft() const;
    [[nodiscard]] bool finished() const;

    /// Applies a parameter or a policy from the next step on, or asks for a refresh at the next boundary; logged.
    void apply(const command::SetParameter& c);
    void apply(const command::SetPolicy& c);
    void apply(const command::RefreshNow& c);
    /// Throws Error{bad_input} where no cache policy has full steps.
    void apply(const command::FullStepNow& c);
    /// Throws Error{bad_input}: an id outside of the vocabulary, a text without a token, more than most_given_tokens.
    void apply(const command::GiveTokens& c);
    /// Ends the run here (stop_reason cancelled).
    void stop();

    /// Back to the state after step k (0 = just prefilled): caches bit for bit, a forked recording with its own id.
    /// Settings stay as they are now: what differs from the recorded ones is logged as commands at step k.
    /// \param as  null, or a recording of these very steps (asserted for their tokens), such as the trace that was made again: the
    ///            branch is then forked from it, with its times
    void rewind(int64_t step, const Recording* as = nullptr);

    /// Attention of the query at `position` over the columns as they are now, for the panel; stored in the recording.
    void capture_attention(int64_t position, bool teacher);
    /// Teacher rows that are still missing, then teacher-PPL and tail log-prob into the recording's end.
    void score();

    /// The cache of the prompt as a file that another run goes on from (RunConfig::prompt_cache); the run stays as it is. Throws Error:
    /// a cache policy has not kept it whole, the run itself went on from such a file, the file cannot be written.
    void save_prompt_cache(const std::filesystem::path& path, CacheForm form) const;

    [[nodiscard]] const RunConfig& config() const;
    [[nodiscard]] std::shared_ptr<Recording> recording() const;
    [[nodiscard]] const KvCache* student_cache() const; ///< null in mode teacher
    [[nodiscard]] const KvCache* teacher_cache() const; ///< null in mode student without a teacher pass
    [[nodiscard]] int64_t splice_watermark() const;     ///< P
    /// The decoder's row of logits at this position, [vocab] fp32 on its device; a view of a ring, good until the next step. Undefined where
    /// the run does not keep it: mode overfill keeps the newest positions of the text.
    [[nodiscard]] at::Tensor row(int64_t position) const;

private:
    struct Impl;
    std::unique_ptr<Impl> m_impl;
};

} // namespace refreshlab
