#include "engine/cache/kv_cache.h"

#include "engine/base/check.h"

#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace refreshlab {

namespace {

/// What a splice or a mark replaced. Written once and never changed, so clones share the tensors.
struct JournalEntry {
    int64_t step = 0;
    int64_t first_pos = 0;
    at::Tensor k, v; ///< [layers, kv_heads, n, head_dim] on the CPU, cache dtype; undefined for mark_skipped
    std::vector<Origin> origins;
    std::vector<int32_t> refresh_ids;

    [[nodiscard]] int64_t size() const { return static_cast<int64_t>(origins.size()); }
};

/// rows of [n, kv_heads, head_dim] into [kv_heads, capacity, head_dim] at column `first`. A decode step writes a few
/// hundred bytes per layer, so the plain loop matters more than bandwidth: a strided copy_ costs microseconds.
void copy_columns(at::Tensor storage, const at::Tensor& rows, int64_t first) {
    const int64_t n = rows.size(0);
    const int64_t heads = rows.size(1);
    const int64_t head_dim = rows.size(2);
    const bool plain = storage.is_cpu() && rows.is_cpu() && rows.scalar_type() == storage.scalar_type() &&
                       (head_dim == 1 || rows.stride(2) == 1);
    if (!plain) {
        storage.narrow(1, first, n).copy_(rows.transpose(0, 1));
        return;
    }
    const auto element = static_cast<size_t>(storage.element_size());
    auto* to = static_cast<std::byte*>(storage.mutable_data_ptr());
    const auto* from = static_cast<const std::byte*>(rows.const_data_ptr());
    const size_t bytes = element * static_cast<size_t>(head_dim);
    for (int64_t h = 0; h < heads; ++h) {
        for (int64_t r = 0; r < n; ++r) {
            std::memcpy(to + element *
                                 static_cast<size_t>(h * storage.stride(0) + (first + r) * storage.stride(1)),
                        from + element * static_cast<size_t>(r * rows.stride(0) + h * rows.stride(1)), bytes);
        }
    }
}

} // namespace

struct KvCache::Impl {
    at::Tensor k, v; ///< [layers, kv_heads, capacity, head_dim]
    int64_t length = 0;
    std::vector<int64_t> written;     ///< per layer: columns written since the last commit
    std::vector<Origin> origins;      ///< [length]
    std::vector<int32_t> refresh_ids; ///< [length]
    std::vector<JournalEntry> journal;
    std::function<void(CacheEvent)> listener;
    int32_t quiet = 0; ///< Quiet objects alive

    [[nodiscard]] int64_t layer_bytes() const {
        return 2 * k.size(1) * k.size(3) * length * static_cast<int64_t>(k.element_size());
    }
    void tell(CacheChange change, int64_t first_pos, int64_t n, Origin origin, int32_t refresh = -1) const {
        if (!listener || quiet > 0 || n == 0) return;
        CacheEvent event;
        event.change = change;
        event.positions = {{first_pos, n}};
        event.origin = origin;
        event.refresh_id = refresh;
        event.bytes = {layer_bytes()};
        listener(std::move(event));
    }

    /// Columns that hold nothing read as NaN, so that any use of them shows in the logits.
    void poison(int64_t first_pos, int64_t n) {
#ifdef NDEBUG
        (void)first_pos;
        (void)n;
#else
        if (n == 0) return;
        k.narrow(2, first_pos, n).fill_(std::numeric_limits<double>::quiet_NaN());
        v.narrow(2, first_pos, n).fill_(std::numeric_limits<double>::quiet_NaN());
#endif
    }

    void push_journal(int64_t step, int64_t first_pos, int64_t n, bool with_columns) {
        RL_ASSERT(journal.empty() || step >= journal.back().step);
        JournalEntry entry;
        entry.step = step;
        entry.first_pos = first_pos;
        if (with_columns) {
            entry.k = k.narrow(2, first_pos, n).to(at::kCPU).clone(at::MemoryFormat::Contiguous);
            entry.v = v.narrow(2, first_pos, n).to(at::kCPU).clone(at::MemoryFormat::Contiguous);
        }
        entry.origins.assign(origins.begin() + first_pos, origins.begin() + first_pos + n);
        entry.refresh_ids.assign(refresh_ids.begin() + first_pos, refresh_ids.begin() + first_pos + n);
        journal.push_back(std::move(entry));
    }

    void undo(const JournalEntry& entry) {
        const int64_t n = entry.size();
        if (entry.k.defined()) {
            k.narrow(2, entry.first_pos, n).copy_(entry.k);
            v.narrow(2, entry.first_pos, n).copy_(entry.v);
        }
        std::copy(entry.origins.begin(), entry.origins.end(), origins.begin() + entry.first_pos);
        std::copy(entry.refresh_ids.begin(), entry.refresh_ids.end(), refresh_ids.begin() + entry.first_pos);
    }

    /// Entries about dropped positions must go: undoing them later would overwrite columns written since.
    void clip_journal(int64_t new_length) {
        for (JournalEntry& entry : journal) {
            const int64_t keep = std::clamp<int64_t>(new_length - entry.first_pos, 0, entry.size());
            if (keep == entry.size()) continue;
            entry.origins.resize(static_cast<size_t>(keep));
            entry.refresh_ids.resize(static_cast<size_t>(keep));
            if (entry.k.defined() && keep > 0) {
                entry.k = entry.k.narrow(2, 0, keep).clone(at::MemoryFormat::Contiguous);
                entry.v = entry.v.narrow(2, 0, keep).clone(at::MemoryFormat::Contiguous);
            }
        }
        std::erase_if(journal, [](const JournalEntry& entry) { return entry.size() == 0; });
    }
};

KvCache::KvCache(int64_t layers, int64_t kv_heads, int64_t capacity, int64_t head_dim, at::ScalarType dtype,
                 at::Device device)
    : m_impl(std::make_unique<Impl>()) {
    RL_ASSERT(layers > 0 && kv_heads > 0 && capacity > 0 && head_dim > 0);
    const auto options = at::TensorOptions().dtype(dtype).device(device);
    m_impl->k = at::empty({layers, kv_heads, capacity, head_dim}, options);
    m_impl->v = at::empty({layers, kv_heads, capacity, head_dim}, options);
    m_impl->written.assign(static_cast<size_t>(layers), 0);
    m_impl->origins.reserve(static_cast<size_t>(capacity));
    m_impl->refresh_ids.reserve(static_cast<size_t>(capacity));
    m_impl->poison(0, capacity);
}

KvCache::~KvCache() = default;

int64_t KvCache::num_layers() const {
    return m_impl->k.size(0);
}
int64_t KvCache::num_kv_heads() const {
    return m_impl->k.size(1);
}
int64_t KvCache::capacity() const {
    return m_impl->k.size(2);
}
int64_t KvCache::head_dim() const {
    return m_impl->k.size(3);
}
int64_t KvCache::length() const {
    return m_impl->length;
}
at::ScalarType KvCache::dtype() const {
    return m_impl->k.scalar_type();
}
at::Device KvCache::device() const {
    return m_impl->k.device();
}

at::Tensor KvCache::keys(int64_t layer) const {
    return m_impl->k.select(0, layer);
}
at::Tensor KvCache::values(int64_t layer) const {
    return m_impl->v.select(0, layer);
}

at::Tensor KvCache::keys(int64_t first_pos, int64_t n) const {
    RL_ASSERT(first_pos >= 0 && n >= 0 && first_pos + n <= length());
    return m_impl->k.narrow(2, first_pos, n);
}

at::Tensor KvCache::values(int64_t first_pos, int64_t n) const {
    RL_ASSERT(first_pos >= 0 && n >= 0 && first_pos + n <= length());
    return m_impl->v.narrow(2, first_pos, n);
}

void KvCache::write(int64_t layer, const at::Tensor& k, const at::Tensor& v) {
    const c10::InferenceMode guard;
    RL_ASSERT(layer >= 0 && layer < num_layers());
    RL_ASSERT(k.dim() == 3 && k.size(1) == num_kv_heads() && k.size(2) == head_dim());
    RL_ASSERT(v.sizes() == k.sizes());
    const int64_t n = k.size(0);
    RL_ASSERT(length() + n <= capacity());
    copy_columns(keys(layer), k, length());
    copy_columns(values(layer), v, length());
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
    m_impl->push_journal(step, first_pos, n, true);
    m_impl->k.narrow(2, first_pos, n).copy_(teacher.keys(first_pos, n));
    m_impl->v.narrow(2, first_pos, n).copy_(teacher.values(first_pos, n));
    std::fill_n(m_impl->origins.begin() + first_pos, n, Origin::teacher_refresh);
    std::fill_n(m_impl->refresh_ids.begin() + first_pos, n, refresh);
    m_impl->tell(CacheChange::spliced, first_pos, n, Origin::teacher_refresh, refresh);
}

void KvCache::mark_skipped(int64_t first_pos, int64_t n, int32_t refresh, int64_t step) {
    const c10::InferenceMode guard;
    RL_ASSERT(first_pos >= 0 && n >= 0 && first_pos + n <= length());
    if (n == 0) return;
    m_impl->push_journal(step, first_pos, n, false);
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
    m_impl->k.narrow(2, 0, n).copy_(other.keys(0, n));
    m_impl->v.narrow(2, 0, n).copy_(other.values(0, n));
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

int64_t KvCache::bytes_reserved() const {
    return static_cast<int64_t>(m_impl->k.nbytes() + m_impl->v.nbytes());
}
int64_t KvCache::bytes_used() const {
    return bytes_reserved() / capacity() * length();
}

int64_t KvCache::journal_bytes() const {
    int64_t bytes = 0;
    for (const JournalEntry& entry : m_impl->journal) {
        bytes += entry.size() * static_cast<int64_t>(sizeof(Origin) + sizeof(int32_t));
        if (entry.k.defined()) bytes += static_cast<int64_t>(entry.k.nbytes() + entry.v.nbytes());
    }
    return bytes;
}

std::unique_ptr<KvCache> KvCache::clone() const {
    auto copy =
        std::make_unique<KvCache>(num_layers(), num_kv_heads(), capacity(), head_dim(), dtype(), device());
    copy->adopt_prefix(*this, length());
    copy->m_impl->journal = m_impl->journal;
    return copy;
}

} // namespace refreshlab
