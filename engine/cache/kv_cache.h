#pragma once

#include "engine/base/entry_selection.h"
#include "engine/cache/cache_layout.h"
#include "engine/cache/entry_pool.h"
#include "engine/cache/pool_lists.h"
#include "engine/record/recording/cache_event.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace refreshlab {

struct ColumnDistances;
namespace kernels {
class DeviceCacheWork;
}

/// Keys and values of one model, addressed by absolute position (prompt included, from 0).
///
/// Storage  dense: K, V [layers, kv_heads, capacity, head_dim], dtype and device of the model; allocated once, never moved;
///          in builds without NDEBUG, positions >= length() hold NaN. pooled: grows and shrinks with what is held. coded: the same,
///          with blocks that codecs made; attention decodes what it reads, on a device from a scratch of one layer.
///          Keys are stored after RoPE of their own position.
/// Length   positions of the sequence that were fed, held or not. What a layer's head holds of them is held().
/// Threads  owned by the decode thread; const reads from elsewhere are not safe either.
/// Copying  deleted; clone() says what it costs.
/// Source   reference/refresh.md, section 9 (cache contract).
class KvCache {
public:
    /// \param work  of this device and geometry: a dense cache is spliced, rewound and measured by its kernels. Null: by ATen
    KvCache(int64_t layers, int64_t kv_heads, int64_t capacity, int64_t head_dim, at::ScalarType dtype,
            at::Device device, CacheLayout layout = CacheLayout::dense,
            std::shared_ptr<kernels::DeviceCacheWork> work = {});
    KvCache(const KvCache&) = delete;
    KvCache& operator=(const KvCache&) = delete;
    ~KvCache();

    [[nodiscard]] int64_t num_layers() const;
    [[nodiscard]] int64_t num_kv_heads() const;
    [[nodiscard]] int64_t head_dim() const;
    [[nodiscard]] int64_t capacity() const;
    /// Positions of the context that it is made for: its capacity, or what the cache had whose prefix it adopted, room for other
    /// columns left out. RoPE may depend on it (RopeScaling::by_context).
    [[nodiscard]] int64_t context() const;
    void set_context(int64_t positions); ///< before the first column
    [[nodiscard]] int64_t length() const;
    [[nodiscard]] at::ScalarType dtype() const;
    [[nodiscard]] at::Device device() const;

    [[nodiscard]] CacheLayout layout() const;
    /// Of a coded cache: decoded, until the next call.
    [[nodiscard]] LayerEntries entries(int64_t layer) const;
    /// Positions that a KV head holds, ascending; those of a pass under way included. Valid until the next change.
    [[nodiscard]] std::span<const int64_t> held(int64_t layer, int64_t kv_head) const;

    /// Columns of LayerEntries where these positions of a KV head stand; all held, ascending (asserted).
    [[nodiscard]] std::vector<int64_t> columns(int64_t layer, int64_t kv_head,
                                               std::span<const int64_t> positions) const;

    /// One layer's whole storage, [kv_heads, capacity, head_dim]; a view. Dense (asserted), as the next ones.
    [[nodiscard]] at::Tensor keys(int64_t layer) const;
    [[nodiscard]] at::Tensor values(int64_t layer) const;
    /// Columns [first_pos, first_pos + n) of all layers, [layers, kv_heads, n, head_dim]; a view.
    [[nodiscard]] at::Tensor keys(int64_t first_pos, int64_t n) const;
    [[nodiscard]] at::Tensor values(int64_t first_pos, int64_t n) const;

    /// Writes one layer's columns at [length(), length() + n), and does not change the length: first all layers of a
    /// pass write, then commit() changes it once. k, v: [n, kv_heads, head_dim], any float dtype (rounded on store).
    void write(int64_t layer, const at::Tensor& k, const at::Tensor& v);
    /// A kernel has written columns [length(), length() + n) of all layers in place, of a dense cache (asserted): instead of write().
    void note_written(int64_t n);
    // --- decode steps whose kernels write a pooled cache themselves (asserted), instead of write() ---
    /// Position length() is in the lists of all layers and KV heads from now on; the step's kernels write its keys and values. From the first
    /// such step on, what is evicted is off the lists at once, and taken out by the next step's kernels, journalled bits and all.
    void begin_listed_step();
    [[nodiscard]] std::span<const kernels::KeyList> lists(int64_t layer) const; ///< as in LayerEntries
    /// What the kernels take. \param holds  (cache, version, list_capacity): they have these lists, and edits of them are enough
    [[nodiscard]] PoolLists tell_kernels(const std::function<bool(uint64_t, uint64_t, int64_t)>& holds);
    /// The kernels have ended. \param rows  [leaving, 2, head_dim]: what they took out
    void kernels_are_done(const void* rows);

    /// Every layer has written n columns: length() += n, with this origin.
    void commit(int64_t n, Origin origin);

    /// Overwrites positions [first_pos, first_pos + n) with those of `teacher` (dense; same positions, all layers, K and V) as
    /// far as they are still held: what was evicted stays evicted (reference/cache-definitions.md, section 12). Origin teacher_refresh, refresh id `refresh`. Old columns go to the undo journal first, marked with `step`.
    /// Copies bits; devices may differ; on a GPU the host waits for nothing. first_pos + n <= length() and <= teacher.length(); `step` is never below that of
    /// an entry still in the journal                                                                     (asserted)
    /// Cost: one pass over 2 * layers * kv_heads * n * head_dim elements. \return bytes of the entries that were written, as the teacher stores them
    int64_t splice(const KvCache& teacher, int64_t first_pos, int64_t n, int32_t refresh, int64_t step);
    /// The same of a selection: what it leaves out of its positions stays as it is and is told as skipped. Their origin is
    /// EntrySelection::position_origin(). No position, or no KV head: nothing happens.
    int64_t splice(const KvCache& teacher, const EntrySelection& selection, int32_t refresh, int64_t step);
    /// Marks [first_pos, first_pos + n), student-made, as passed over by a splice (journalled as well).
    void mark_skipped(int64_t first_pos, int64_t n, int32_t refresh, int64_t step);
    /// Copies columns [0, n) of `other` into an empty cache, with their origins (the hand-over of OverFill).
    void adopt_prefix(const KvCache& other, int64_t n);

    /// Entries of one KV head, all held: [2, n, head_dim], K then V, decoded, on the host; a copy.
    [[nodiscard]] at::Tensor read(int64_t layer, int64_t kv_head, std::span<const int64_t> positions) const;
    /// Drift of columns [first_pos, first_pos + n), n > 0, against those of `teacher`; both dense, of one geometry and dtype (asserted).
    /// Waits for the device.
    [[nodiscard]] ColumnDistances distances(const KvCache& teacher, int64_t first_pos, int64_t n) const;
    /// Columns [first_pos, first_pos + n) of all layers as far as they are held, and which these are. Copies.
    struct Columns {
        at::Tensor k, v; ///< [layers, kv_heads, n, head_dim]; 0 where an entry is not held
        at::Tensor held; ///< [layers, kv_heads, n] bool
    };
    [[nodiscard]] Columns held_columns(int64_t first_pos, int64_t n) const;

    // --- edits of a cache policy; not dense (asserted) ---
    /// Positions of one KV head are held no more: gone, or merged into others. All held, ascending (asserted). Journalled with
    /// `step`, except step 0: no rewind goes behind the prompt.
    void evict(int64_t layer, int64_t kv_head, std::span<const int64_t> positions, int64_t step,
               CacheChange change = CacheChange::evicted);
    /// Writes them; journalled. rows: as of read()
    void overwrite(int64_t layer, int64_t kv_head, std::span<const int64_t> positions, const at::Tensor& rows,
                   int64_t step);
    /// As overwrite(), and no later splice writes these entries: they hold what others were (reference/cache-definitions.md, section 12).
    /// A splice tells them as skipped.
    void merge_into(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                    const at::Tensor& rows, int64_t step);
    /// Stores one half of these entries, none of it encoded (asserted), as a block; coded (asserted). Journalled.
    void encode(int64_t layer, int64_t kv_head, KvHalf half, std::span<const int64_t> positions,
                std::shared_ptr<const EntryCodec> codec, int64_t step);
    /// Entries that are not held stand in the cache until give_back(): neither journalled nor told. Of one layer at a time (asserted).
    void borrow(int64_t layer, int64_t kv_head, std::span<const int64_t> positions, const at::Tensor& rows);
    void give_back(int64_t layer);
    /// Tells that attention reads these entries again, or that they are held and no more read; both by the next tell_edits(). All
    /// held, ascending (asserted). Nothing of the cache changes.
    void note_read(int64_t layer, int64_t kv_head, std::span<const int64_t> positions, bool read);
    /// Edits made during a pass are told after its commit(); this tells those that were made between passes.
    void tell_edits();

    /// Drops positions >= new_length, from the journal as well: a later rewind() does not bring them back. Does not undo
    /// splices of the columns that stay.
    void truncate(int64_t new_length);
    /// Undoes every journalled change marked with a step > `step`, newest first, then truncates to new_length: the
    /// columns are again those that step `step` left behind, bit for bit.
    void rewind(int64_t step, int64_t new_length);

    /// Of a position as a whole: what a selective splice wrote of it in some layers and KV heads is teacher_partly; the events say which.
    [[nodiscard]] Origin origin(int64_t position) const;
    [[nodiscard]] std::span<const Origin> origins() const;      ///< [length()]
    [[nodiscard]] std::span<const int32_t> refresh_ids() const; ///< [length()], -1 = never spliced
    [[nodiscard]] int64_t bytes_reserved() const;               ///< of K and V
    /// Of the entries held as they are stored: 2 * head_dim elements each, or what a codec made of them, metadata included.
    [[nodiscard]] int64_t bytes_used() const;
    [[nodiscard]] int64_t metadata_bytes() const; ///< scales and the like, part of bytes_used()
    [[nodiscard]] int64_t
    scratch_bytes() const; ///< what layers of a coded cache on a device are decoded into, beside bytes_used()
    [[nodiscard]] int64_t layer_bytes(int64_t layer) const; ///< the same of one layer
    [[nodiscard]] int64_t
    index_bytes() const; ///< positions and places of a pool's entries; 0 of a dense cache
    /// Copies on the host. A block that is still in use counts as well.
    [[nodiscard]] int64_t journal_bytes() const;

    /// Is told of every change: commit, adopt_prefix, splice, mark_skipped, mark_rebuilt, truncate, edits. The
    /// listener adds step and owner. rewind() tells nothing: it takes changes back, and so does the fork of the
    /// recording.
    void set_listener(std::function<void(CacheEvent)> listener);
    /// Tells that positions [first_pos, length()) hold entries that were computed again (rebuild mode).
    void mark_rebuilt(int64_t first_pos, int32_t refresh);
    /// While it lives, no change is told: for passes that are no part of the run, and for parts of a change that is
    /// told as a whole.
    class Quiet {
    public:
        explicit Quiet(KvCache& cache);
        ~Quiet();
        Quiet(const Quiet&) = delete;
        Quiet& operator=(const Quiet&) = delete;

    private:
        KvCache& m_cache;
    };

    /// A deep copy, journal included, without the listener. Cost: bytes_reserved() of memory, bytes_used() copied. Journal entries
    /// never change once written, so the copies share them. \param room  so many positions more than this cache has room for
    [[nodiscard]] std::unique_ptr<KvCache> clone(int64_t room = 0) const;

private:
    struct Impl;
    std::unique_ptr<Impl> m_impl;
};

} // namespace refreshlab
