#include "engine/cache/kv_cache.h"

#include "engine/base/check.h"
#include "engine/cache/coded_pool.h"
#include "engine/cache/layer_pool.h"
#include "kernels/cpu/convert_rows.h"
#include "kernels/cpu/cpu_tensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

namespace refreshlab {

namespace {

/// What a change replaced. Written once and never changed, so clones share the tensors.
struct JournalEntry {
    enum class Kind : uint8_t {
        columns, ///< positions [first_pos, first_pos + size()) of all layers: origins, and entries of a dense cache
        taken,   ///< entries of one KV head that are held no more
        changed, ///< entries of one KV head that were other ones, or stored otherwise
    };
    Kind kind = Kind::columns;
    int64_t step = 0;
    int64_t first_pos = 0;
    at::Tensor k,
        v; ///< [layers, kv_heads, n, head_dim] on the CPU, cache dtype; undefined where no entry changed
    std::vector<Origin> origins;
    std::vector<int32_t> refresh_ids;
    int64_t layer = 0, kv_head = 0;
    std::vector<int64_t> positions; ///< ascending
    SavedEntries saved;             ///< of `positions`
    std::vector<int64_t> blended;   ///< those of them that a splice could write before, and not after

    [[nodiscard]] int64_t size() const {
        return kind == Kind::columns ? std::ssize(origins) : std::ssize(positions);
    }
    /// What stays when positions >= new_length are dropped.
    [[nodiscard]] int64_t size_below(int64_t new_length) const {
        if (kind == Kind::columns) return std::clamp<int64_t>(new_length - first_pos, 0, size());
        return std::ranges::lower_bound(positions, new_length) - positions.begin();
    }
    void cut(int64_t n) {
        if (n == size()) return;
        origins.resize(kind == Kind::columns ? static_cast<size_t>(n) : 0);
        refresh_ids.resize(origins.size());
        positions.resize(kind == Kind::columns ? 0 : static_cast<size_t>(n));
        if (k.defined() && n > 0) {
            k = k.narrow(2, 0, n).clone(at::MemoryFormat::Contiguous);
            v = v.narrow(2, 0, n).clone(at::MemoryFormat::Contiguous);
        }
        if (saved.rows.defined() && n > 0)
            saved.rows = saved.rows.narrow(1, 0, n).clone(at::MemoryFormat::Contiguous);
    }
};

/// An edit that was not told yet.
struct Edit {
    CacheChange change;
    int64_t layer, kv_head;
    std::vector<int64_t> positions;
};

std::vector<PositionRange> ranges_of(std::span<const int64_t> positions) {
    std::vector<PositionRange> ranges;
    for (const int64_t position : positions) {
        if (!ranges.empty() && ranges.back().first + ranges.back().n == position) {
            ++ranges.back().n;
        } else {
            ranges.push_back({position, 1});
        }
    }
    return ranges;
}

/// rows of [n, kv_heads, head_dim] into [kv_heads, capacity, head_dim] at column `first`, rounded to its dtype. A decode step writes
/// a few hundred bytes per layer: there a strided copy_ costs microseconds.
void copy_columns(const at::Tensor& storage, const at::Tensor& rows, int64_t first) {
    const int64_t n = rows.size(0);
    namespace cpu = kernels::cpu;
    if (!cpu::has_element_type(storage) || !cpu::has_element_type(rows) ||
        (rows.size(2) > 1 && rows.stride(2) != 1)) {
        storage.narrow(1, first, n).copy_(rows.transpose(0, 1));
        return;
    }
    cpu::Conversion c;
    c.from_type = cpu::element_type(rows);
    c.from_stride = rows.stride(0);
    c.to_type = cpu::element_type(storage);
    c.to_stride = storage.stride(1);
    c.rows = n;
    c.width = rows.size(2);
    auto* const to = static_cast<std::byte*>(storage.mutable_data_ptr());
    for (int64_t h = 0; h < rows.size(1); ++h) {
        c.from = cpu::element(rows, h * rows.stride(1));
        c.to = to + (h * storage.stride(0) + first * storage.stride(1)) * cpu::element_bytes(c.to_type);
        cpu::convert_rows(c);
    }
}

} // namespace

struct KvCache::Impl {
    Impl(std::array<int64_t, 4> shape, at::ScalarType type, at::Device where)
        : layers(shape[0])
        , kv_heads(shape[1])
        , capacity(shape[2])
        , head_dim(shape[3])
        , dtype(type)
        , device(where) {}

    int64_t layers, kv_heads, capacity, head_dim;
    at::Tensor k, v; ///< dense: [layers, kv_heads, capacity, head_dim]; else undefined
    std::vector<at::Tensor> layer_k, layer_v;      ///< views of each layer of them
    std::vector<std::unique_ptr<EntryPool>> pools; ///< pooled, coded: [layers]
    CacheLayout layout = CacheLayout::dense;
    at::ScalarType dtype;
    at::Device device;
    int64_t length = 0;
    std::vector<int64_t> written;     ///< per layer: columns written since the last commit
    std::vector<Origin> origins;      ///< [length]
    std::vector<int32_t> refresh_ids; ///< [length]
    std::vector<int64_t> every;       ///< 0, 1, 2, ...: what a head of a dense cache holds
    std::vector<std::vector<int64_t>>
        blended; ///< of a pool's heads, [layers * kv_heads]: what splices leave alone, ascending
    std::vector<JournalEntry> journal;
    std::vector<Edit> edits;                    ///< not told yet
    int64_t lender = -1;                        ///< layer with borrowed entries; -1 = none
    std::vector<std::vector<int64_t>> borrowed; ///< of its KV heads
    mutable DecodeScratch scratch;              ///< of a coded cache; what entries() gives
    std::function<void(CacheEvent)> listener;
    int32_t quiet = 0; ///< Quiet objects alive

    [[nodiscard]] bool pooled() const { return !pools.empty(); }
    [[nodiscard]] int64_t entry_bytes() const {
        return 2 * head_dim * static_cast<int64_t>(c10::elementSize(dtype));
    }
    [[nodiscard]] int64_t layer_bytes(int64_t layer) const {
        return pooled() ? pools[static_cast<size_t>(layer)]->bytes_used() : entry_bytes() * kv_heads * length;
    }
    /// As an event tells it: one number where all layers hold the same.
    [[nodiscard]] std::vector<int64_t> told_bytes() const {
        std::vector<int64_t> bytes;
        for (int64_t layer = 0; layer < layers; ++layer)
            bytes.push_back(layer_bytes(layer));
        if (std::ranges::all_of(bytes, [&](int64_t b) { return b == bytes[0]; })) bytes.resize(1);
        return bytes;
    }
    void tell(CacheChange change, int64_t first_pos, int64_t n, Origin origin, int32_t refresh = -1) const {
        if (!listener || quiet > 0 || n == 0) return;
        CacheEvent event;
        event.change = change;
        event.positions = {{first_pos, n}};
        event.origin = origin;
        event.refresh_id = refresh;
        event.bytes = pooled() ? told_bytes() : std::vector{layer_bytes(0)};
        listener(std::move(event));
    }

    /// Edits of the same positions in every KV head, or in every KV head of a layer, are one event.
    void tell_edits() {
        const std::vector<Edit> made = std::exchange(edits, {});
        if (!listener || quiet > 0 || made.empty()) return;
        const auto same = [&](size_t a, size_t b) {
            return made[a].change == made[b].change && made[a].positions == made[b].positions;
        };
        const auto heads = static_cast<size_t>(kv_heads);
        const auto whole_layer = [&](size_t i) { // edits [i, i + heads) are those of one layer, head by head
            if (i + heads > made.size()) return false;
            for (size_t h = 0; h < heads; ++h) {
                const Edit& edit = made[i + h];
                if (edit.layer != made[i].layer || edit.kv_head != static_cast<int64_t>(h) || !same(i, i + h))
                    return false;
            }
            return true;
        };
        bool all = made.size() == heads * static_cast<size_t>(layers);
        for (size_t i = 0; i < made.size() && all; i += heads)
            all = whole_layer(i) && made[i].layer == static_cast<int64_t>(i / heads) && same(0, i);
        for (size_t i = 0; i < made.size();) {
            const bool layer = !all && whole_layer(i);
            CacheEvent event;
            event.change = made[i].change;
            event.layer = all ? -1 : static_cast<int32_t>(made[i].layer);
            event.kv_head = all || layer ? -1 : static_cast<int32_t>(made[i].kv_head);
            event.positions = ranges_of(made[i].positions);
            event.bytes = all ? told_bytes() : std::vector{layer_bytes(made[i].layer)};
            listener(std::move(event));
            i += all ? made.size() : layer ? heads : 1;
        }
    }

    /// Columns that hold nothing read as NaN, so that any use of them shows in the logits.
    void poison(int64_t first_pos, int64_t n) {
#ifdef NDEBUG
        (void)first_pos;
        (void)n;
#else
        if (n == 0 || pooled()) return; // free slots of a pool are always poisoned
        k.narrow(2, first_pos, n).fill_(std::numeric_limits<double>::quiet_NaN());
        v.narrow(2, first_pos, n).fill_(std::numeric_limits<double>::quiet_NaN());
#endif
    }

    JournalEntry& push_journal(int64_t step) {
        RL_ASSERT(journal.empty() || step >= journal.back().step);
        JournalEntry& entry = journal.emplace_back();
        entry.step = step;
        return entry;
    }
    void journal_columns(int64_t step, int64_t first_pos, int64_t n, bool with_columns) {
        JournalEntry& entry = push_journal(step);
        entry.first_pos = first_pos;
        if (with_columns) {
            entry.k = k.narrow(2, first_pos, n).to(at::kCPU).clone(at::MemoryFormat::Contiguous);
            entry.v = v.narrow(2, first_pos, n).to(at::kCPU).clone(at::MemoryFormat::Contiguous);
        }
        entry.origins.assign(origins.begin() + first_pos, origins.begin() + first_pos + n);
        entry.refresh_ids.assign(refresh_ids.begin() + first_pos, refresh_ids.begin() + first_pos + n);
    }
    void erase_from(int64_t layer, int64_t first_pos) {
        for (int64_t head = 0; head < kv_heads; ++head) {
            const auto all = pool(layer).positions(head);
            const std::vector<int64_t> gone(std::ranges::lower_bound(all, first_pos), all.end());
            pool(layer).erase(head, gone);
        }
    }
    [[nodiscard]] EntryPool& pool(int64_t layer) {
        return *pools[static_cast<size_t>(layer)];
    }
    [[nodiscard]] std::vector<int64_t>& blended_of(int64_t layer, int64_t kv_head) {
        return blended[static_cast<size_t>(layer * kv_heads + kv_head)];
    }
    /// \return the entry, null where none is needed
    JournalEntry* journal_entries(int64_t step, JournalEntry::Kind kind, int64_t layer, int64_t kv_head,
                                  std::span<const int64_t> positions) {
        if (step == 0) return nullptr; // no rewind goes behind the prompt
        JournalEntry& entry = push_journal(step);
        entry.kind = kind;
        entry.layer = layer;
        entry.kv_head = kv_head;
        entry.positions.assign(positions.begin(), positions.end());
        entry.saved = pool(layer).save(kv_head, positions);
        return &entry;
    }

    void undo(const JournalEntry& entry) {
        if (entry.kind == JournalEntry::Kind::columns) {
            const int64_t n = entry.size();
            if (entry.k.defined()) {
                k.narrow(2, entry.first_pos, n).copy_(entry.k);
                v.narrow(2, entry.first_pos, n).copy_(entry.v);
            }
            std::copy(entry.origins.begin(), entry.origins.end(), origins.begin() + entry.first_pos);
            std::copy(entry.refresh_ids.begin(), entry.refresh_ids.end(),
                      refresh_ids.begin() + entry.first_pos);
            return;
        }
        pool(entry.layer).restore(entry.kv_head, entry.positions, entry.saved);
        if (entry.blended.empty()) return;
        std::vector<int64_t>& marks = blended_of(entry.layer, entry.kv_head);
        std::vector<int64_t> left;
        std::ranges::set_difference(marks, entry.blended, std::back_inserter(left));
        marks = std::move(left);
    }

    /// Entries about dropped positions must go: undoing them later would overwrite columns written since.
    void clip_journal(int64_t new_length) {
        for (JournalEntry& entry : journal)
            entry.cut(entry.size_below(new_length));
        std::erase_if(journal, [](const JournalEntry& entry) { return entry.size() == 0; });
    }

    /// The teacher's columns over those that are held and hold nothing of others.
    void splice_held(const KvCache& teacher, int64_t first_pos, int64_t n, int64_t step) {
        for (int64_t layer = 0; layer < layers; ++layer) {
            for (int64_t head = 0; head < kv_heads; ++head) {
                const std::vector<int64_t> positions = spliced(layer, head, first_pos, n, false);
                if (positions.empty()) continue;
                journal_entries(step, JournalEntry::Kind::changed, layer, head, positions);
                const at::Tensor index = at::tensor(positions, at::kLong).to(teacher.device());
                pool(layer).overwrite(head, positions,
                                      at::stack({teacher.keys(layer)[head].index_select(0, index),
                                                 teacher.values(layer)[head].index_select(0, index)}));
            }
        }
    }
    /// Held positions of [first_pos, first_pos + n) that are blended, or that are not.
    [[nodiscard]] std::vector<int64_t> spliced(int64_t layer, int64_t head, int64_t first_pos, int64_t n,
                                               bool are_blended) {
        const auto all = pool(layer).positions(head);
        const std::vector<int64_t>& marks = blended_of(layer, head);
        std::vector<int64_t> positions;
        std::copy_if(std::ranges::lower_bound(all, first_pos), std::ranges::lower_bound(all, first_pos + n),
                     std::back_inserter(positions),
                     [&](int64_t p) { return std::ranges::binary_search(marks, p) == are_blended; });
        return positions;
    }
    void return_borrowed() {
        for (size_t head = 0; head < borrowed.size(); ++head)
            pool(lender).erase(static_cast<int64_t>(head), borrowed[head]);
        borrowed.clear();
        lender = -1;
    }
    void tell_left_alone(int64_t first_pos, int64_t n, int32_t refresh) {
        if (!listener || quiet > 0 || !pooled()) return;
        for (int64_t layer = 0; layer < layers; ++layer) {
            for (int64_t head = 0; head < kv_heads; ++head) {
                const std::vector<int64_t> positions = spliced(layer, head, first_pos, n, true);
                if (positions.empty()) continue;
                CacheEvent event;
                event.change = CacheChange::skipped;
                event.layer = static_cast<int32_t>(layer);
                event.kv_head = static_cast<int32_t>(head);
                event.positions = ranges_of(positions);
                event.origin = Origin::skipped;
                event.refresh_id = refresh;
                event.bytes = {layer_bytes(layer)};
                listener(std::move(event));
            }
        }
    }
    void write_entries(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                       const at::Tensor& rows, int64_t step, bool blend) {
        RL_ASSERT(pooled());
        JournalEntry* entry = journal_entries(step, JournalEntry::Kind::changed, layer, kv_head, positions);
        if (blend) {
            std::vector<int64_t>& marks = blended_of(layer, kv_head);
            std::vector<int64_t> fresh, all;
            std::ranges::set_difference(positions, marks, std::back_inserter(fresh));
            std::ranges::set_union(marks, positions, std::back_inserter(all));
            marks = std::move(all);
            if (entry != nullptr) entry->blended = std::move(fresh);
        }
        pool(layer).overwrite(kv_head, positions, rows);
    }
};

KvCache::KvCache(int64_t layers, int64_t kv_heads, int64_t capacity, int64_t head_dim, at::ScalarType dtype,
                 at::Device device, CacheLayout layout)
    : m_impl(std::make_unique<Impl>(std::array{layers, kv_heads, capacity, head_dim}, dtype, device)) {
    RL_ASSERT(layers > 0 && kv_heads > 0 && capacity > 0 && head_dim > 0);
    if (layout == CacheLayout::dense) {
        const auto options = at::TensorOptions().dtype(dtype).device(device);
        m_impl->k = at::empty({layers, kv_heads, capacity, head_dim}, options);
        m_impl->v = at::empty({layers, kv_heads, capacity, head_dim}, options);
        m_impl->layer_k = m_impl->k.unbind(0);
        m_impl->layer_v = m_impl->v.unbind(0);
        m_impl->poison(0, capacity);
    } else {
        for (int64_t layer = 0; layer < layers; ++layer) {
            if (layout == CacheLayout::coded) {
                m_impl->pools.push_back(std::make_unique<CodedPool>(kv_heads, head_dim, dtype, device));
            } else {
                m_impl->pools.push_back(std::make_unique<LayerPool>(kv_heads, head_dim, dtype, device));
            }
        }
        m_impl->blended.resize(static_cast<size_t>(layers * kv_heads));
    }
    m_impl->layout = layout;
    m_impl->written.assign(static_cast<size_t>(layers), 0);
    m_impl->origins.reserve(static_cast<size_t>(capacity));
    m_impl->refresh_ids.reserve(static_cast<size_t>(capacity));
    m_impl->every.resize(static_cast<size_t>(capacity));
    std::iota(m_impl->every.begin(), m_impl->every.end(), 0);
}

KvCache::~KvCache() = default;

int64_t KvCache::num_layers() const {
    return m_impl->layers;
}
int64_t KvCache::num_kv_heads() const {
    return m_impl->kv_heads;
}
int64_t KvCache::capacity() const {
    return m_impl->capacity;
}
int64_t KvCache::head_dim() const {
    return m_impl->head_dim;
}
int64_t KvCache::length() const {
    return m_impl->length;
}
at::ScalarType KvCache::dtype() const {
    return m_impl->dtype;
}
at::Device KvCache::device() const {
    return m_impl->device;
}
CacheLayout KvCache::layout() const {
    return m_impl->layout;
}

LayerEntries KvCache::entries(int64_t layer) const {
    if (!m_impl->pooled()) return {keys(layer), values(layer), {}};
    return m_impl->pool(layer).attended(m_impl->scratch);
}

std::span<const int64_t> KvCache::held(int64_t layer, int64_t kv_head) const {
    RL_ASSERT(layer >= 0 && layer < num_layers() && kv_head >= 0 && kv_head < num_kv_heads());
    const auto at_layer = static_cast<size_t>(layer);
    if (m_impl->pooled()) return m_impl->pools[at_layer]->positions(kv_head);
    return std::span(m_impl->every).first(static_cast<size_t>(length() + m_impl->written[at_layer]));
}

std::vector<int64_t> KvCache::columns(int64_t layer, int64_t kv_head,
                                      std::span<const int64_t> positions) const {
    if (m_impl->pooled()) return m_impl->pool(layer).columns(kv_head, positions);
    RL_ASSERT(positions.empty() || positions.back() < std::ssize(held(layer, kv_head)));
    return {positions.begin(), positions.end()};
}

at::Tensor KvCache::keys(int64_t layer) const {
    RL_ASSERT(!m_impl->pooled());
    return m_impl->layer_k.at(static_cast<size_t>(layer));
}
at::Tensor KvCache::values(int64_t layer) const {
    RL_ASSERT(!m_impl->pooled());
    return m_impl->layer_v.at(static_cast<size_t>(layer));
}

at::Tensor KvCache::keys(int64_t first_pos, int64_t n) const {
    RL_ASSERT(!m_impl->pooled() && first_pos >= 0 && n >= 0 && first_pos + n <= length());
    return m_impl->k.narrow(2, first_pos, n);
}

at::Tensor KvCache::values(int64_t first_pos, int64_t n) const {
    RL_ASSERT(!m_impl->pooled() && first_pos >= 0 && n >= 0 && first_pos + n <= length());
    return m_impl->v.narrow(2, first_pos, n);
}

void KvCache::write(int64_t layer, const at::Tensor& k, const at::Tensor& v) {
    const c10::InferenceMode guard;
    RL_ASSERT(layer >= 0 && layer < num_layers());
    RL_ASSERT(k.dim() == 3 && k.size(1) == num_kv_heads() && k.size(2) == head_dim());
    RL_ASSERT(v.sizes() == k.sizes());
    const int64_t n = k.size(0);
    RL_ASSERT(length() + n <= capacity());
    if (m_impl->pooled()) {
        if (m_impl->written[static_cast<size_t>(layer)] > 0)
            m_impl->erase_from(layer, length()); // of a pass that was given up
        m_impl->pool(layer).append(length(), k, v);
    } else {
        copy_columns(keys(layer), k, length());
        copy_columns(values(layer), v, length());
    }
    m_impl->written[static_cast<size_t>(layer)] = n;
}

void KvCache::commit(int64_t n, Origin origin) {
    RL_ASSERT(n >= 0 && length() + n <= capacity());
    RL_ASSERT(std::all_of(m_impl->written.begin(), m_impl->written.end(), [n](int64_t w) { return w == n; }));
    std::fill(m_impl->written.begin(), m_impl->written.end(), 0);
    m_impl->origins.insert(m_impl->origins.end(), static_cast<size_t>(n), origin);
    m_impl->refresh_ids.insert(m_impl->refresh_ids.end(), static_cast<size_t>(n), -1);
    m_impl->length += n;
    m_impl->tell(CacheChange::appended, length() - n, n, origin);
    m_impl->tell_edits();
}

void KvCache::splice(const KvCache& teacher, int64_t first_pos, int64_t n, int32_t refresh, int64_t step) {
    const c10::InferenceMode guard;
    RL_ASSERT(first_pos >= 0 && n >= 0);
    RL_ASSERT(first_pos + n <= length() && first_pos + n <= teacher.length());
    RL_ASSERT(&teacher != this);
    RL_ASSERT(teacher.num_layers() == num_layers() && teacher.num_kv_heads() == num_kv_heads());
    // Another dtype would mean rounding, and a spliced column must be the teacher's bit for bit.
    RL_ASSERT(teacher.head_dim() == head_dim() && teacher.dtype() == dtype());
    if (n == 0) return;
    m_impl->journal_columns(step, first_pos, n, !m_impl->pooled());
    if (m_impl->pooled()) {
        m_impl->splice_held(teacher, first_pos, n, step);
    } else {
        m_impl->k.narrow(2, first_pos, n).copy_(teacher.keys(first_pos, n));
        m_impl->v.narrow(2, first_pos, n).copy_(teacher.values(first_pos, n));
    }
    std::fill_n(m_impl->origins.begin() + first_pos, n, Origin::teacher_refresh);
    std::fill_n(m_impl->refresh_ids.begin() + first_pos, n, refresh);
    m_impl->tell(CacheChange::spliced, first_pos, n, Origin::teacher_refresh, refresh);
    m_impl->tell_left_alone(first_pos, n, refresh);
}

void KvCache::mark_skipped(int64_t first_pos, int64_t n, int32_t refresh, int64_t step) {
    const c10::InferenceMode guard;
    RL_ASSERT(first_pos >= 0 && n >= 0 && first_pos + n <= length());
    if (n == 0) return;
    m_impl->journal_columns(step, first_pos, n, false);
    std::fill_n(m_impl->origins.begin() + first_pos, n, Origin::skipped);
    std::fill_n(m_impl->refresh_ids.begin() + first_pos, n, refresh);
    m_impl->tell(CacheChange::skipped, first_pos, n, Origin::skipped, refresh);
}

void KvCache::mark_rebuilt(int64_t first_pos, int32_t refresh) {
    RL_ASSERT(first_pos >= 0 && first_pos < length());
    m_impl->tell(CacheChange::rebuilt, first_pos, length() - first_pos, origin(first_pos), refresh);
}

void KvCache::set_listener(std::function<void(CacheEvent)> listener) {
    m_impl->listener = std::move(listener);
}

KvCache::Quiet::Quiet(KvCache& cache)
    : m_cache(cache) {
    ++m_cache.m_impl->quiet;
}
KvCache::Quiet::~Quiet() {
    --m_cache.m_impl->quiet;
}

void KvCache::adopt_prefix(const KvCache& other, int64_t n) {
    const c10::InferenceMode guard;
    RL_ASSERT(length() == 0 && &other != this);
    RL_ASSERT(n >= 0 && n <= other.length() && n <= capacity());
    RL_ASSERT(other.num_layers() == num_layers() && other.num_kv_heads() == num_kv_heads());
    RL_ASSERT(other.head_dim() == head_dim() && other.dtype() == dtype());
    if (n == 0) return;
    if (m_impl->pooled()) {
        for (int64_t layer = 0; layer < num_layers(); ++layer) {
            const auto rows = [n](const at::Tensor& columns) {
                return columns.narrow(1, 0, n).transpose(0, 1);
            };
            m_impl->pool(layer).append(0, rows(other.keys(layer)), rows(other.values(layer)));
        }
    } else {
        m_impl->k.narrow(2, 0, n).copy_(other.keys(0, n));
        m_impl->v.narrow(2, 0, n).copy_(other.values(0, n));
    }
    m_impl->origins.assign(other.m_impl->origins.begin(), other.m_impl->origins.begin() + n);
    m_impl->refresh_ids.assign(other.m_impl->refresh_ids.begin(), other.m_impl->refresh_ids.begin() + n);
    m_impl->length = n;
    for (int64_t first = 0; first < n;) { // one event for each stretch of one origin
        int64_t end = first + 1;
        while (end < n && origin(end) == origin(first))
            ++end;
        m_impl->tell(CacheChange::adopted, first, end - first, origin(first));
        first = end;
    }
}

void KvCache::truncate(int64_t new_length) {
    const c10::InferenceMode guard;
    RL_ASSERT(new_length >= 0 && new_length <= length());
    m_impl->poison(new_length, length() - new_length);
    m_impl->return_borrowed(); // of a pass that was given up
    for (int64_t layer = 0; layer < std::ssize(m_impl->pools); ++layer)
        m_impl->erase_from(layer, new_length);
    for (std::vector<int64_t>& marks : m_impl->blended)
        marks.erase(std::ranges::lower_bound(marks, new_length), marks.end());
    m_impl->edits.clear(); // of a pass that was given up
    m_impl->origins.resize(static_cast<size_t>(new_length));
    m_impl->refresh_ids.resize(static_cast<size_t>(new_length));
    std::fill(m_impl->written.begin(), m_impl->written.end(), 0);
    const int64_t dropped = length() - new_length;
    m_impl->length = new_length;
    m_impl->clip_journal(new_length);
    m_impl->tell(CacheChange::dropped, new_length, dropped, Origin::none);
}

void KvCache::rewind(int64_t step, int64_t new_length) {
    const c10::InferenceMode guard;
    RL_ASSERT(new_length >= 0 && new_length <= length());
    const Quiet quiet(*this);
    m_impl->return_borrowed();
    while (!m_impl->journal.empty() && m_impl->journal.back().step > step) {
        m_impl->undo(m_impl->journal.back());
        m_impl->journal.pop_back();
    }
    truncate(new_length);
}

Origin KvCache::origin(int64_t position) const {
    RL_ASSERT(position >= 0 && position < length());
    return m_impl->origins[static_cast<size_t>(position)];
}

std::span<const Origin> KvCache::origins() const {
    return m_impl->origins;
}
std::span<const int32_t> KvCache::refresh_ids() const {
    return m_impl->refresh_ids;
}

void KvCache::evict(int64_t layer, int64_t kv_head, std::span<const int64_t> positions, int64_t step,
                    CacheChange change) {
    const c10::InferenceMode guard;
    RL_ASSERT(m_impl->pooled() && (change == CacheChange::evicted || change == CacheChange::merged));
    if (positions.empty()) return;
    m_impl->journal_entries(step, JournalEntry::Kind::taken, layer, kv_head, positions);
    m_impl->edits.push_back({change, layer, kv_head, {positions.begin(), positions.end()}});
    m_impl->pool(layer).erase(kv_head, positions); // last: `positions` may lie in it
}

at::Tensor KvCache::read(int64_t layer, int64_t kv_head, std::span<const int64_t> positions) const {
    if (m_impl->pooled()) return m_impl->pool(layer).read(kv_head, positions);
    const at::Tensor index = at::tensor(columns(layer, kv_head, positions), at::kLong).to(device());
    return at::stack(
               {keys(layer)[kv_head].index_select(0, index), values(layer)[kv_head].index_select(0, index)})
        .cpu();
}

KvCache::Columns KvCache::held_columns(int64_t first_pos, int64_t n) const {
    RL_ASSERT(first_pos >= 0 && n >= 0 && first_pos + n <= length());
    Columns columns;
    const std::array<int64_t, 4> sizes{num_layers(), num_kv_heads(), n, head_dim()};
    columns.held = at::zeros({sizes[0], sizes[1], n}, at::TensorOptions().dtype(at::kBool).device(device()));
    columns.k = at::zeros(sizes, at::TensorOptions().dtype(dtype()).device(device()));
    columns.v = at::zeros_like(columns.k);
    for (int64_t layer = 0; layer < num_layers(); ++layer) {
        for (int64_t head = 0; head < num_kv_heads(); ++head) {
            const auto all = held(layer, head);
            std::vector<int64_t> places(std::ranges::lower_bound(all, first_pos),
                                        std::ranges::lower_bound(all, first_pos + n));
            if (places.empty()) continue;
            const at::Tensor rows = read(layer, head, places).to(device());
            for (int64_t& place : places)
                place -= first_pos;
            const at::Tensor index = at::tensor(places, at::kLong).to(device());
            columns.k[layer][head].index_copy_(0, index, rows[0]);
            columns.v[layer][head].index_copy_(0, index, rows[1]);
            columns.held[layer][head].index_fill_(0, index, true);
        }
    }
    return columns;
}

void KvCache::overwrite(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                        const at::Tensor& rows, int64_t step) {
    const c10::InferenceMode guard;
    m_impl->write_entries(layer, kv_head, positions, rows, step, false);
}
void KvCache::merge_into(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                         const at::Tensor& rows, int64_t step) {
    const c10::InferenceMode guard;
    m_impl->write_entries(layer, kv_head, positions, rows, step, true);
}

void KvCache::encode(int64_t layer, int64_t kv_head, KvHalf half, std::span<const int64_t> positions,
                     std::shared_ptr<const EntryCodec> codec, int64_t step) {
    const c10::InferenceMode guard;
    RL_ASSERT(layout() == CacheLayout::coded);
    if (positions.empty()) return;
    m_impl->journal_entries(step, JournalEntry::Kind::changed, layer, kv_head, positions);
    m_impl->edits.push_back({CacheChange::encoded, layer, kv_head, {positions.begin(), positions.end()}});
    m_impl->pool(layer).encode(kv_head, half, positions, std::move(codec));
}

void KvCache::borrow(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                     const at::Tensor& rows) {
    const c10::InferenceMode guard;
    RL_ASSERT(m_impl->pooled() && (m_impl->lender < 0 || m_impl->lender == layer));
    m_impl->lender = layer;
    m_impl->borrowed.resize(static_cast<size_t>(num_kv_heads()));
    std::vector<int64_t>& of_head = m_impl->borrowed[static_cast<size_t>(kv_head)];
    RL_ASSERT(of_head.empty());
    of_head.assign(positions.begin(), positions.end());
    m_impl->pool(layer).insert(kv_head, positions, rows);
}
void KvCache::give_back(int64_t layer) {
    const c10::InferenceMode guard;
    if (m_impl->lender == layer) m_impl->return_borrowed();
}

void KvCache::note_read(int64_t layer, int64_t kv_head, std::span<const int64_t> positions, bool read) {
    if (positions.empty()) return;
    RL_DEBUG_ASSERT(std::ranges::includes(held(layer, kv_head), positions));
    m_impl->edits.push_back({read ? CacheChange::attended : CacheChange::kept,
                             layer,
                             kv_head,
                             {positions.begin(), positions.end()}});
}

void KvCache::tell_edits() {
    m_impl->tell_edits();
}

int64_t KvCache::bytes_reserved() const {
    int64_t bytes = m_impl->pooled() ? 0 : static_cast<int64_t>(m_impl->k.nbytes() + m_impl->v.nbytes());
    for (const auto& pool : m_impl->pools)
        bytes += pool->bytes_reserved();
    return bytes;
}
int64_t KvCache::bytes_used() const {
    int64_t bytes = 0;
    for (int64_t layer = 0; layer < num_layers(); ++layer)
        bytes += layer_bytes(layer);
    return bytes;
}
int64_t KvCache::layer_bytes(int64_t layer) const {
    return m_impl->layer_bytes(layer);
}
int64_t KvCache::index_bytes() const {
    int64_t bytes = 0;
    for (const auto& pool : m_impl->pools)
        bytes += pool->index_bytes();
    return bytes;
}
int64_t KvCache::metadata_bytes() const {
    int64_t bytes = 0;
    for (const auto& pool : m_impl->pools)
        bytes += pool->metadata_bytes();
    return bytes;
}
int64_t KvCache::scratch_bytes() const {
    return m_impl->scratch.bytes();
}

int64_t KvCache::journal_bytes() const {
    int64_t bytes = 0;
    for (const JournalEntry& entry : m_impl->journal) {
        const size_t each =
            entry.kind == JournalEntry::Kind::columns ? sizeof(Origin) + sizeof(int32_t) : sizeof(int64_t);
        bytes += entry.size() * static_cast<int64_t>(each);
        if (entry.saved.rows.defined()) bytes += static_cast<int64_t>(entry.saved.rows.nbytes());
        for (const CodedBlocks& blocks : entry.saved.blocks)
            for (const auto& block : blocks)
                bytes += std::ssize(block->bytes->payload) + std::ssize(block->bytes->metadata);
        if (entry.k.defined()) bytes += static_cast<int64_t>(entry.k.nbytes() + entry.v.nbytes());
    }
    return bytes;
}

std::unique_ptr<KvCache> KvCache::clone() const {
    auto copy = std::make_unique<KvCache>(num_layers(), num_kv_heads(), capacity(), head_dim(), dtype(),
                                          device(), layout());
    if (m_impl->pooled()) {
        copy->m_impl->pools.clear();
        for (const auto& pool : m_impl->pools)
            copy->m_impl->pools.push_back(pool->clone());
        copy->m_impl->blended = m_impl->blended;
        copy->m_impl->origins = m_impl->origins;
        copy->m_impl->refresh_ids = m_impl->refresh_ids;
        copy->m_impl->length = length();
    } else {
        copy->adopt_prefix(*this, length());
    }
    copy->m_impl->journal = m_impl->journal;
    return copy;
}

} // namespace refreshlab
