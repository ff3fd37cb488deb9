#pragma once

#include "engine/cache/cache_layout.h"
#include "engine/model/forward/layer_hooks.h"
#include "engine/model/forward/rope_table.h"
#include "engine/model/gates/token_gate.h"
#include "engine/policies/cache_policy_config.h"
#include "engine/session/policies/cache_edits.h"
#include "engine/session/policies/query_guess.h"
#include "engine/session/policies/tensor_policy.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace refreshlab {

class Backing;
class CacheState;
class KvCache;
class LlamaModel;
struct ModelConfig;

/// What a run's policy needs of its models beside the cache: trained gates, each on the device of its model (none where the policy asks for
/// no scores: PolicyNeeds), and a profile.
struct PolicyAids {
    std::shared_ptr<const TokenGate> prompt; ///< of the model that reads the prompt
    std::shared_ptr<const TokenGate> steps;  ///< of the model that decodes; null: the policy asks for none
    std::shared_ptr<const CacheProfile> profile =
        nullptr; ///< of the model that reads the prompt; null: the method has none
    TensorPolicyFactory own =
        {}; ///< of a policy that is brought from outside; null: a method of the registry
};

/// Those of a policy whose run has one model, of gates at hand; a profile is even (even_profile()). None where the method has none.
[[nodiscard]] PolicyAids aids_of(const CachePolicyConfig& policy, const ModelGates& at_hand,
                                 const ModelConfig& model);

/// A cache policy in a session: shows it what it needs of each pass, and makes its edits. The model knows no policy, and a policy
/// knows no session. It is a hook of the passes that read the prompt and of every decode step; the last of the hooks, because what
/// it evicts is gone for those after it.
class PolicyRunner final : public LayerHooks {
public:
    /// \param config   checked
    /// \param model    whose cache it is
    /// \param reader   whose passes read the prompt: the model itself, or the teacher that hands its entries over
    /// \param device   of the reader
    /// \param aids     those that the policy asks for                                                    (asserted)
    /// Throws Error{bad_input}: the policy goes by how the prompt is read, and the two have not the same KV geometry or query heads; or it is a policy from
    /// outside, and nobody has brought it.
    PolicyRunner(const CachePolicyConfig& config, const ModelConfig& model, const ModelConfig& reader,
                 at::Device device, int64_t prompt_length, uint64_t seed, PolicyAids aids = {});
    ~PolicyRunner() override;

    [[nodiscard]] const PolicyNeeds& needs() const { return m_needs; }
    /// How the cache must be laid out.
    [[nodiscard]] CacheLayout layout() const;

    /// Before finish_prompt(). Shows the policy what tokens behind the prompt attend to, those of a given text, pseudo or soft tokens, where it
    /// asks for them: a pass of its own over a copy of `cache`, which holds the whole prompt.
    /// \param model    that decodes; outlives this
    /// \param given    that the run will feed after the prompt, where it has a given text
    void foresee(const LlamaModel& model, const KvCache& cache, std::span<const int32_t> prompt,
                 std::span<const int32_t> given);
    /// Before the prompt is read by a pass of both: the column sums that `other` asks for are shown to this policy too, which asks for none
    /// itself. Both want them, and have the same reader                                                     (asserted)
    void share_prompt_sums(const PolicyRunner& other);
    /// Where entries come from that the policy reads and the cache does not hold. Outlives this.
    void set_backing(Backing& backing) { m_backing = &backing; }

    /// Where the policy's scores are told, from now on; before finish_prompt() those of the prompt too. Outlives what follows.
    void set_scores(EntryScores& scores);
    /// The prompt is read, and `cache` holds it: what the policy decided becomes true. The cache outlives this.
    void finish_prompt(KvCache& cache);
    /// Before the pass of a step.
    void begin_step(int64_t step);
    /// After the pass of a step: tells what it read of what is held, where that is other than before (cache events `attended` and
    /// `kept`). Nothing where entries that are not held are read as well: then everything is.
    void tell_read();
    /// After a rewind. \param told  the cache as the recording's events tell it
    void continue_telling(const CacheState& told);
    /// Parameters have changed between two steps. \param config  checked; of the same method
    void set_values(const CachePolicyConfig& config);
    /// CachePolicy::full_step_now().
    [[nodiscard]] bool full_step_now() { return m_policy->full_step_now(); }
    /// Of passes that read the newest token again: they read what its step read, as far as it is still held.
    [[nodiscard]] LayerHooks& again();
    /// These entries were spliced; at least one position.
    void refreshed(const EntrySelection& written);

    /// The policy's state, for rewinds; and back to it.
    [[nodiscard]] std::shared_ptr<const CachePolicy> mark() const;
    void restore(const CachePolicy& mark);
    /// What is edited from now on belongs to this step, an earlier one.
    void back_to_step(int64_t step);

    [[nodiscard]] const CachePolicy& policy() const { return *m_policy; }
    /// Entries that the cache holds, mean over the KV heads; [layers].
    [[nodiscard]] std::vector<float> entries_held() const;
    /// Entries that attention read in the last step, mean over the KV heads; [layers]. absent() where nothing is read.
    [[nodiscard]] const std::vector<float>& entries_read() const { return m_entries_read; }

    // --- LayerHooks ---
    [[nodiscard]] StepUse step_use() const override;
    [[nodiscard]] LayerTaps taps(int64_t layer) const override;
    [[nodiscard]] const HeadPositions* select(const LayerView& view) override;
    void attend(int64_t layer, kernels::AttentionInputs& inputs) override;
    void observe(const LayerView& view) override;

private:
    class Again;
    class Foresight;
    struct Prompt; ///< what was gathered of it
    void borrow_missing(int64_t layer, const HeadPositions& chosen);
    void gather(const LayerView& view);
    void watch(const LayerView& view);
    void show(const PolicyTensors& tensors);

    PolicyContext m_context;
    std::unique_ptr<CachePolicy> m_policy;
    bool m_takes_tensors; ///< m_policy is a TensorPolicy
    PolicyNeeds m_needs;
    bool m_sums_of_other = false; ///< the column sums are those of another runner
    PolicyAids m_aids;
    RopeTable m_reader_rope, m_rope;   ///< rotations that gates are shown
    std::unique_ptr<Prompt> m_prompt;  ///< null once it is finished
    std::vector<int64_t> m_first;      ///< of the rows of an attention call: PolicyNeeds::prompt_band
    std::optional<CacheEdits> m_edits; ///< of the cache, once there is one
    KvCache* m_cache = nullptr;
    EntryScores* m_scores = nullptr;
    Backing* m_backing = nullptr;      ///< null: what is chosen is held
    std::optional<QueryGuess> m_guess; ///< of the model that decodes
    at::Tensor
        m_below; ///< of this step, [1, held hidden width]: what the last layer that attends projected from; undefined: none has yet
    int64_t m_step = 0;
    std::vector<std::optional<HeadPositions>>
        m_chosen;                               ///< per layer, of the last step; nothing: all that is held
    std::vector<std::vector<int64_t>> m_unread; ///< [layers * kv_heads]: held, and told as not read
    std::vector<float> m_entries_read;
    std::unique_ptr<Again> m_again;
};

} // namespace refreshlab
