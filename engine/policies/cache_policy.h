#pragma once

#include "engine/base/entry_selection.h"
#include "engine/base/head_positions.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace refreshlab {

class CacheValues;
class EntryCodec;
struct CacheProfile;
enum class KvHalf : uint8_t;

/// Numbers [n0][n1][n2], densely; a view that lives as long as the call that brings it. Empty where nobody asked for it.
struct Cube {
    const float* data = nullptr;
    int64_t n0 = 0, n1 = 0, n2 = 0;
    [[nodiscard]] std::span<const float> row(int64_t i, int64_t j) const {
        return {data + (i * n1 + j) * n2, static_cast<size_t>(n2)};
    }
};

/// What a policy may know of the model and the run that it works in.
struct PolicyContext {
    int64_t layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
    int64_t prompt_length = 0;
    uint64_t seed = 0;
    std::shared_ptr<const CacheProfile> profile =
        nullptr;                         ///< of a method that has one (CacheMethod::profile); not null
    std::vector<float> rope_frequencies; ///< [head_dim / 2]; channel c turns with c + head_dim / 2
    std::vector<bool> layer_turns =
        {}; ///< [layers]: whether keys of the layer are turned at all; empty: all are
    [[nodiscard]] bool turns(int64_t layer) const {
        return layer_turns.empty() || layer_turns[static_cast<size_t>(layer)];
    }
    [[nodiscard]] int64_t group() const { return heads / kv_heads; } ///< query heads of a KV head
};

/// What a policy wants to be shown. What it does not ask for is not computed. Keys and values it reads from the cache.
struct PolicyNeeds {
    bool edits =
        true; ///< evicts, merges or rewrites entries; false: every entry stays (interface Select alone)
    int64_t prompt_rows = 0;  ///< attention rows of the last so many prompt queries
    bool prompt_sums = false; ///< attention that each key received from all prompt queries
    bool output_norms =
        false; ///< how large a value is behind the output projection of each query head; of the prompt
    int64_t prompt_queries =
        0; ///< the last so many queries of the prompt, before RoPE where raw_queries is set
    /// Tokens of the prompt see the newest so many entries, their own included; 0: all of them. Not where another model reads the prompt.
    int64_t prompt_band = 0;
    bool row = false;           ///< each step: the attention row of the new token
    bool query = false;         ///< each step: its queries
    bool raw_queries = false;   ///< queries are those before RoPE
    bool rotated_query = false; ///< each step: its queries after RoPE, whatever raw_queries says
    bool future =
        false; ///< attention that a given text will pay, in a run that keeps everything (policy oracle)
    /// Each step, before attention: its queries after RoPE as the layer below lets one expect them
    bool guessed_query = false;
    bool guess_own_norm = false; ///< of it: normalised as the layer does, and not as the one below
    /// So many tokens behind the prompt (its last ones again, in turns) are read in a pass of their own by the model that decodes, and shown
    /// as a future is; their entries are dropped
    int64_t pseudo_tokens = 0;
    /// The soft tokens of the policy's trained gate are read behind the prompt by the model that decodes, and shown as a future is; their
    /// entries are dropped
    bool soft_tokens = false;
    /// The prompt in windows of so many tokens, counted from its end (the first may be shorter): each is embedded as the mean of its tokens'
    /// embeddings, and what read_again() makes of them is read behind the prompt as pseudo tokens are. At most 512 tokens
    int64_t window_embeddings = 0;
    bool prompt_gate =
        false; ///< scores of the policy's trained gate for each token of the prompt (interface Gate)
    bool step_gate = false; ///< each step: the score of the new token
    bool encodes = false;   ///< stores entries in a shorter form: CacheEditor::encode()
    /// What before_attention() chooses may be evicted: it is computed again from its token (interface Backing). Then what is evicted
    /// is a prefix of the sequence, the same in all layers and KV heads                                       (asserted)
    bool recomputes = false;
    /// [layers]: the layer that holds what a layer reads and does not hold itself, at the same positions: itself or a lower one, which holds
    /// every entry (interface Backing). Empty: each reads its own                                             (asserted)
    std::vector<int64_t> reads_layer = {};
    /// Attention reads entries that are not held; then it reads everything.
    [[nodiscard]] bool borrows() const { return recomputes || !reads_layer.empty(); }
};

/// The prompt, as one layer read it: full attention (but for PolicyNeeds::prompt_band), every entry held.
struct PromptView {
    int64_t layer = 0, length = 0;
    Cube rows;    ///< [prompt_rows, heads, length]: the last row is that of the last token
    Cube sums;    ///< [1, heads, length]
    Cube queries; ///< [prompt_queries, heads, head_dim]
    /// [1, heads, length]: ||V_j Wo_q||_1, V_j the value that query head q reads at j, Wo_q its rows of the output projection, of the
    /// model that reads the prompt
    Cube output_norms;
    Cube gate; ///< [1, kv_heads, length]: what the gate of the model that reads the prompt gives each token
};

/// What tokens behind the prompt attend to, those of a given text, pseudo or soft tokens, as one layer saw it in a pass over prompt and text
/// in which nothing was evicted.
struct FutureView {
    int64_t layer = 0;
    int64_t first_pos = 0; ///< of the rows; ascending from call to call of a layer
    Cube rows; ///< [rows, heads, positions]: row i is the query at first_pos + i, 0 behind its own position
};

/// One decode step in one layer. The new token's entry is in the cache already.
struct StepView {
    int64_t layer = 0;
    int64_t position = 0; ///< of the new token
    int64_t step = 0;     ///< 1 = the first after the prompt
    Cube query;           ///< [1, heads, head_dim]
    Cube rotated_query;   ///< [1, heads, head_dim], before attention alone
    /// [1, heads, head_dim], before attention alone: what they would be if the layer read what the one below reads. Empty in the lowest
    /// layer
    Cube guessed_query;
    // --- after attention only ---
    /// [kv_heads]: positions that attention read, ascending; the new one is the last.
    std::span<const std::span<const int64_t>> read;
    Cube gate; ///< [1, kv_heads, 1]: what the gate of the model that decodes gives the new token
    Cube
        row; ///< [1, heads, longest of `read`]: number i of a head belongs to entry i of its KV head's `read`
};

/// What a policy does to a cache: by position, per layer and KV head. Every edit is journalled for rewinds, told as a cache
/// event, and counted. Positions are held and ascend                                                       (asserted)
class CacheEditor {
public:
    CacheEditor() = default;
    CacheEditor(const CacheEditor&) = delete;
    CacheEditor& operator=(const CacheEditor&) = delete;
    virtual ~CacheEditor() = default;

    /// Ascending; valid until the next edit of this layer.
    [[nodiscard]] virtual std::span<const int64_t> held(int64_t layer, int64_t kv_head) const = 0;
    /// [n, head_dim], keys after RoPE; copies.
    [[nodiscard]] virtual std::vector<float> keys(int64_t layer, int64_t kv_head,
                                                  std::span<const int64_t> positions) const = 0;
    [[nodiscard]] virtual std::vector<float> values(int64_t layer, int64_t kv_head,
                                                    std::span<const int64_t> positions) const = 0;

    virtual void evict(int64_t layer, int64_t kv_head, std::span<const int64_t> positions) = 0;
    /// As evict(), for entries whose content went into others.
    virtual void merge_away(int64_t layer, int64_t kv_head, std::span<const int64_t> positions) = 0;
    /// New content of entries, [n, head_dim]; an empty span leaves that half as it is.
    virtual void rewrite(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                         std::span<const float> keys, std::span<const float> values) = 0;
    /// As rewrite(), with content of entries that leave: a refresh does not write these positions any more.
    virtual void merge_into(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                            std::span<const float> keys, std::span<const float> values) {
        rewrite(layer, kv_head, positions, keys, values);
    }
    /// Stores one half of these entries, none of it encoded yet, as one block (interface Codec, entry_codec.h). They are held as
    /// before, and read as what decoding gives. Asked for in PolicyNeeds::encodes                              (asserted)
    virtual void encode(int64_t layer, int64_t kv_head, KvHalf half, std::span<const int64_t> positions,
                        std::shared_ptr<const EntryCodec> codec);

    /// What the method gives these entries where it chooses: a larger number stays, or is read, rather. For people to look at; has no
    /// effect. Told before the choice is made. \param scores  as many as positions
    virtual void score(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                       std::span<const float> scores) {
        (void)layer;
        (void)kv_head;
        (void)positions;
        (void)scores;
    }
    /// False: nobody looks at scores now, and those that take work to tell need not be.
    [[nodiscard]] virtual bool wants_scores() const { return false; }

    /// Evicts all but these.
    void keep(int64_t layer, int64_t kv_head, std::span<const int64_t> positions);
};

/// A number per layer that a policy measures at each step. It becomes a signal of the run: plotted, exported, a trigger.
struct PolicySignal {
    std::string name, label, unit, description;
    double min = 0, max = 0;   ///< usual range; max 0 = open
    std::vector<float> values; ///< [layers], of the step; absent() where a layer was not measured
};

/// One cache policy at work on one model's cache: the interfaces of reference/cache-definitions.md, section 2. A method overrides
/// what it uses. The default of every function does nothing, and that is policy full.
///
/// Order    per layer of the prompt: read_prompt; read_again and read_future where they are asked for; then finish_prompt. Per step and layer: before_attention, attention,
///          after_attention. A layer whose attention a derived student leaves out is never shown.
/// State    lies in the object: clone() of each step is what a rewind goes back to.
/// Threads  one owner.
class CachePolicy {
public:
    CachePolicy() = default;
    CachePolicy& operator=(const CachePolicy&) = delete;
    virtual ~CachePolicy() = default;
    [[nodiscard]] virtual std::unique_ptr<CachePolicy> clone() const = 0;

    [[nodiscard]] virtual PolicyNeeds needs() const { return {}; }

    /// Evict0: what the layer keeps of the prompt.
    virtual void read_prompt(const PromptView& view, CacheEditor& cache) {
        (void)view;
        (void)cache;
    }
    /// \param windows  [1, windows, hidden width] (PolicyNeeds::window_embeddings)
    /// \return positions of the prompt whose tokens are read again behind it
    [[nodiscard]] virtual std::vector<int64_t> read_again(const Cube& windows) {
        (void)windows;
        return {};
    }
    /// Part after part of each layer, between read_prompt() and finish_prompt().
    virtual void read_future(const FutureView& view) { (void)view; }
    /// Evict0 with budgets that need all layers.
    virtual void finish_prompt(CacheEditor& cache) { (void)cache; }

    /// Select, and EvictT where room is made before the new token is read.
    /// \return what attention reads, valid until after_attention(); null: all that is held. The new position is read in any case.
    [[nodiscard]] virtual const HeadPositions* before_attention(const StepView& view, CacheEditor& cache) {
        (void)view;
        (void)cache;
        return nullptr;
    }
    /// EvictT, Merge.
    virtual void after_attention(const StepView& view, CacheEditor& cache) {
        (void)view;
        (void)cache;
    }
    /// A refresh wrote other content into these entries, as far as they are held. \param written  at least one position
    virtual void refreshed(const EntrySelection& written, const CacheEditor& cache) {
        (void)written;
        (void)cache;
    }

    /// Parameters have changed between two steps: those that the method calls live. All are here, each in its range.
    virtual void set_values(const CacheValues& values) { (void)values; }
    /// Asked by hand: every layer reads all that it holds at the next step.
    /// \return whether the policy has such steps
    [[nodiscard]] virtual bool full_step_now() { return false; }

    /// In a fixed order, with the values of the last step.
    [[nodiscard]] virtual std::vector<PolicySignal> signals() const { return {}; }

protected:
    CachePolicy(const CachePolicy&) = default; // of clone() alone
};

} // namespace refreshlab
