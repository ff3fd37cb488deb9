#include "engine/cache/kv_cache.h"

#include "engine/base/check.h"
#include "engine/cache/kv_cache_impl.h"

#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace refreshlab {

void KvCache::Impl::set_origin(int64_t first_pos, int64_t n, Origin origin, int32_t refresh) {
    std::fill_n(origins.begin() + first_pos, n, origin);
    std::fill_n(refresh_ids.begin() + first_pos, n, refresh);
}

void KvCache::Impl::journal_columns(int64_t step, int64_t first_pos, int64_t n, KeptColumns kept) {
    ReplacedColumns old;
    old.first_pos = first_pos;
    old.kept = std::move(kept);
    old.origins.assign(origins.begin() + first_pos, origins.begin() + first_pos + n);
    old.refresh_ids.assign(refresh_ids.begin() + first_pos, refresh_ids.begin() + first_pos + n);
    journal.add(step, std::move(old));
}

void KvCache::Impl::undo(const ReplacedColumns& old) {
    if (!old.kept.empty()) dense.put_back(old.first_pos, std::ssize(old.origins), old.kept);
    std::ranges::copy(old.origins, origins.begin() + old.first_pos);
    std::ranges::copy(old.refresh_ids, refresh_ids.begin() + old.first_pos);
}

void KvCache::Impl::undo(const ReplacedEntries& old) {
    pools[old.layer].restore(old.kv_head, old.positions, old.saved);
    pools.unblend(old.layer, old.kv_head, old.blended);
}

ReplacedSelection KvCache::Impl::replaced_by(std::span<const int64_t> positions) const {
    ReplacedSelection old;
    for (const int64_t position : positions) {
        old.positions.push_back(position);
        old.origins.push_back(origins[static_cast<size_t>(position)]);
        old.refresh_ids.push_back(refresh_ids[static_cast<size_t>(position)]);
    }
    return old;
}

void KvCache::Impl::check_teacher([[maybe_unused]] const KvCache& student, const KvCache& teacher,
                                  int64_t end) const {
    RL_ASSERT(end <= length && end <= teacher.length());
    RL_ASSERT(&teacher != &student && !teacher.m_impl->pooled());
    RL_ASSERT(teacher.num_layers() == layers && teacher.num_kv_heads() == kv_heads);
    // Another dtype would mean rounding, and a spliced column must be the teacher's bit for bit.
    RL_ASSERT(teacher.head_dim() == head_dim && teacher.dtype() == dtype);
}

void KvCache::Impl::undo(const ReplacedSelection& old) {
    if (!old.kept.empty()) dense.put_back(old.positions, old.kept);
    for (size_t i = 0; i < old.positions.size(); ++i) {
        origins[static_cast<size_t>(old.positions[i])] = old.origins[i];
        refresh_ids[static_cast<size_t>(old.positions[i])] = old.refresh_ids[i];
    }
}

void KvCache::Impl::splice_dense(const DenseColumns& teacher, int64_t first_pos, int64_t n, int64_t step) {
    for (const int64_t end = first_pos + n; first_pos < end;) {
        const int64_t count = std::min(end - first_pos, dense.most_replaced());
        journal_columns(step, first_pos, count, dense.replace(first_pos, count, teacher));
        first_pos += count;
    }
}

int64_t KvCache::Impl::splice_selected(const DenseColumns& teacher, const EntrySelection& selection,
                                       int64_t step) {
    const std::span<const int64_t> positions(selection.positions);
    const auto most = static_cast<size_t>(dense.most_replaced());
    int64_t entries = 0;
    for (size_t first = 0; first < positions.size(); first += most) {
        const auto some = positions.subspan(first, std::min(most, positions.size() - first));
        ReplacedSelection old = replaced_by(some);
        old.kept = dense.replace({{some.begin(), some.end()}, selection.heads, selection.halves}, teacher);
        entries += std::ssize(some) * std::ssize(old.kept.heads) * selection.halves.count();
        journal.add(step, std::move(old));
    }
    return entries;
}

int64_t KvCache::Impl::splice_held(const KvCache& teacher, const EntrySelection& selection, int64_t step) {
    journal.add(step, replaced_by(selection.positions));
    int64_t entries = 0;
    for (const int64_t number : selection.head_numbers()) {
        const int64_t layer = number / kv_heads, head = number % kv_heads;
        const std::vector<int64_t> positions = pools.held_of(layer, head, selection.positions, false);
        if (positions.empty()) continue;
        journal_entries(step, layer, head, positions);
        const at::Tensor index = at::tensor(positions, at::kLong).to(teacher.device());
        pools[layer].overwrite(head, positions,
                               at::stack({teacher.keys(layer)[head].index_select(0, index),
                                          teacher.values(layer)[head].index_select(0, index)}),
                               selection.halves);
        entries += std::ssize(positions) * selection.halves.count();
    }
    return entries;
}

void KvCache::Impl::tell_spliced(const EntrySelection& selection, int32_t refresh) const {
    if (!events.listened_to()) return;
    const auto tell = [&](int64_t layer, int64_t head, bool spliced) {
        events.tell(spliced ? CacheChange::spliced : CacheChange::skipped, layer, head, selection.positions,
                    spliced ? selection.entry_origin() : Origin::skipped, refresh);
    };
    if (selection.all_heads()) {
        tell(-1, -1, true);
    } else {
        for (int64_t layer = 0; layer < layers; ++layer) {
            const auto of_layer =
                std::span(selection.heads)
                    .subspan(static_cast<size_t>(layer * kv_heads), static_cast<size_t>(kv_heads));
            if (std::ranges::count(of_layer, of_layer[0]) == kv_heads) {
                tell(layer, -1, of_layer[0] != 0);
                continue;
            }
            for (int64_t head = 0; head < kv_heads; ++head)
                tell(layer, head, of_layer[static_cast<size_t>(head)] != 0);
        }
    }
    if (!pooled()) return;
    for (const int64_t number : selection.head_numbers()) { // entries that hold what others were
        const std::vector<int64_t> positions =
            pools.held_of(number / kv_heads, number % kv_heads, selection.positions, true);
        if (!positions.empty())
            events.tell(CacheChange::skipped, number / kv_heads, number % kv_heads, positions,
                        Origin::skipped, refresh);
    }
}

KvCache::KvCache(int64_t layers, int64_t kv_heads, int64_t capacity, int64_t head_dim, at::ScalarType dtype,
                 at::Device device, CacheLayout layout, std::shared_ptr<kernels::DeviceCacheWork> work)
    : m_impl(
          std::make_unique<Impl>(std::array{layers, kv_heads, capacity, head_dim}, dtype, device, layout)) {
    RL_ASSERT(layers > 0 && kv_heads > 0 && capacity > 0 && head_dim > 0);
    if (layout == CacheLayout::dense) {
        m_impl->dense = DenseColumns(layers, kv_heads, capacity, head_dim,
                                     at::TensorOptions().dtype(dtype).device(device), std::move(work));
    } else {
        m_impl->pools = CachePools(layout, layers, kv_heads, head_dim, dtype, device);
    }
    m_impl->context = capacity;
    m_impl->written.assign(static_cast<size_t>(layers), 0);
    m_impl->origins.reserve(static_cast<size_t>(capacity));
    m_impl->refresh_ids.reserve(static_cast<size_t>(capacity));
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
int64_t KvCache::context() const {
    return m_impl->context;
}
void KvCache::set_context(int64_t positions) {
    RL_ASSERT(length() == 0 && positions > 0);
    m_impl->context = positions;
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
    return m_impl->pools.attended(layer);
}

std::span<const int64_t> KvCache::held(int64_t layer, int64_t kv_head) const {
    RL_ASSERT(layer >= 0 && layer < num_layers() && kv_head >= 0 && kv_head < num_kv_heads());
    if (m_impl->pooled()) return m_impl->pools[layer].positions(kv_head);
    return m_impl->dense.positions(length() + m_impl->written[static_cast<size_t>(layer)]);
}

std::vector<int64_t> KvCache::columns(int64_t layer, int64_t kv_head,
                                      std::span<const int64_t> positions) const {
    if (m_impl->pooled()) return m_impl->pools[layer].columns(kv_head, positions);
    RL_ASSERT(positions.empty() || positions.back() < std::ssize(held(layer, kv_head)));
    return {positions.begin(), positions.end()};
}

at::Tensor KvCache::keys(int64_t layer) const {
    RL_ASSERT(!m_impl->pooled());
    return m_impl->dense.keys(layer);
}
at::Tensor KvCache::values(int64_t layer) const {
    RL_ASSERT(!m_impl->pooled());
    return m_impl->dense.values(layer);
}

at::Tensor KvCache::keys(int64_t first_pos, int64_t n) const {
    RL_ASSERT(!m_impl->pooled() && first_pos >= 0 && n >= 0 && first_pos + n <= length());
    return m_impl->dense.keys(first_pos, n);
}

at::Tensor KvCache::values(int64_t first_pos, int64_t n) const {
    RL_ASSERT(!m_impl->pooled() && first_pos >= 0 && n >= 0 && first_pos + n <= length());
    return m_impl->dense.values(first_pos, n);
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
            m_impl->pools.erase_from(layer, length()); // of a pass that was given up
        m_impl->pools[layer].append(length(), k, v);
    } else {
        m_impl->dense.write(layer, length(), k, v);
    }
    m_impl->written[static_cast<size_t>(layer)] = n;
}

void KvCache::note_written(int64_t n) {
    RL_ASSERT(!m_impl->pooled() && n >= 0 && length() + n <= capacity());
    std::fill(m_impl->written.begin(), m_impl->written.end(), n);
}

void KvCache::begin_listed_step() {
    const c10::InferenceMode guard;
    RL_ASSERT(m_impl->pooled() && length() < capacity());
    for (int64_t layer = 0; layer < num_layers(); ++layer) {
        if (m_impl->written[static_cast<size_t>(layer)] == 0) continue;
        m_impl->pools.settle();
        m_impl->pools.erase_from(layer, length()); // of a pass that was given up
    }
    m_impl->pools.append_unwritten(length());
    std::fill(m_impl->written.begin(), m_impl->written.end(), 1);
}
std::span<const kernels::KeyList> KvCache::lists(int64_t layer) const {
    return m_impl->pools.lists(layer);
}
PoolLists KvCache::tell_kernels(const std::function<bool(uint64_t, uint64_t, int64_t)>& holds) {
    const c10::InferenceMode guard;
    return m_impl->pools.tell_kernels(holds);
}
void KvCache::kernels_are_done(const void* rows) {
    m_impl->pools.kernels_are_done(rows);
}

void KvCache::commit(int64_t n, Origin origin) {
    RL_ASSERT(n >= 0 && length() + n <= capacity());
    RL_ASSERT(std::all_of(m_impl->written.begin(), m_impl->written.end(), [n](int64_t w) { return w == n; }));
    std::fill(m_impl->written.begin(), m_impl->written.end(), 0);
    m_impl->origins.insert(m_impl->origins.end(), static_cast<size_t>(n), origin);
    m_impl->refresh_ids.insert(m_impl->refresh_ids.end(), static_cast<size_t>(n), -1);
    m_impl->length += n;
    m_impl->events.tell(CacheChange::appended, length() - n, n, origin);
    m_impl->events.tell_edits();
}

int64_t KvCache::splice(const KvCache& teacher, int64_t first_pos, int64_t n, int32_t refresh, int64_t step) {
    const c10::InferenceMode guard;
    RL_ASSERT(first_pos >= 0 && n >= 0);
    if (m_impl->pooled()) {
        EntrySelection all;
        all.positions.resize(static_cast<size_t>(n));
        std::iota(all.positions.begin(), all.positions.end(), first_pos);
        all.heads.assign(static_cast<size_t>(num_layers() * num_kv_heads()), 1);
        return splice(teacher, all, refresh, step);
    }
    m_impl->check_teacher(*this, teacher, first_pos + n);
    if (n == 0) return 0;
    m_impl->splice_dense(teacher.m_impl->dense, first_pos, n, step);
    m_impl->set_origin(first_pos, n, Origin::teacher_refresh, refresh);
    m_impl->events.tell(CacheChange::spliced, first_pos, n, Origin::teacher_refresh, refresh);
    return 2 * num_layers() * num_kv_heads() * n * m_impl->half_entry_bytes();
}

int64_t KvCache::splice(const KvCache& teacher, const EntrySelection& selection, int32_t refresh,
                        int64_t step) {
    const c10::InferenceMode guard;
    RL_ASSERT(std::ssize(selection.heads) == num_layers() * num_kv_heads() && selection.halves.count() > 0);
    if (selection.positions.empty()) return 0;
    RL_ASSERT(selection.positions.front() >= 0 && std::ranges::is_sorted(selection.positions));
    m_impl->check_teacher(*this, teacher, selection.positions.back() + 1);
    if (selection.head_numbers().empty()) return 0;
    const int64_t entries = m_impl->pooled()
                                ? m_impl->splice_held(teacher, selection, step)
                                : m_impl->splice_selected(teacher.m_impl->dense, selection, step);
    for (const int64_t position : selection.positions)
        m_impl->set_origin(position, 1, selection.position_origin(), refresh);
    m_impl->tell_spliced(selection, refresh);
    return entries * m_impl->half_entry_bytes();
}

void KvCache::mark_skipped(int64_t first_pos, int64_t n, int32_t refresh, int64_t step) {
    const c10::InferenceMode guard;
    RL_ASSERT(first_pos >= 0 && n >= 0 && first_pos + n <= length());
    if (n == 0) return;
    m_impl->journal_columns(step, first_pos, n);
    m_impl->set_origin(first_pos, n, Origin::skipped, refresh);
    m_impl->events.tell(CacheChange::skipped, first_pos, n, Origin::skipped, refresh);
}

void KvCache::mark_rebuilt(int64_t first_pos, int32_t refresh) {
    RL_ASSERT(first_pos >= 0 && first_pos < length());
    m_impl->events.tell(CacheChange::rebuilt, first_pos, length() - first_pos, origin(first_pos), refresh);
}

void KvCache::set_listener(std::function<void(CacheEvent)> listener) {
    m_impl->events.set_listener(std::move(listener));
}

KvCache::Quiet::Quiet(KvCache& cache)
    : m_cache(cache) {
    m_cache.m_impl->events.mute();
}
KvCache::Quiet::~Quiet() {
    m_cache.m_impl->events.unmute();
}

void KvCache::adopt_prefix(const KvCache& other, int64_t n) {
    const c10::InferenceMode guard;
    RL_ASSERT(length() == 0 && &other != this);
    RL_ASSERT(n >= 0 && n <= other.length() && n <= capacity());
    RL_ASSERT(other.num_layers() == num_layers() && other.num_kv_heads() == num_kv_heads());
    RL_ASSERT(other.head_dim() == head_dim() && other.dtype() == dtype());
    m_impl->context = other.context();
    if (n == 0) return;
    if (m_impl->pooled()) {
        for (int64_t layer = 0; layer < num_layers(); ++layer) {
            const auto rows = [n](const at::Tensor& columns) {
                return columns.narrow(1, 0, n).transpose(0, 1);
            };
            m_impl->pools[layer].append(0, rows(other.keys(layer)), rows(other.values(layer)));
        }
    } else {
        m_impl->dense.overwrite(0, other.keys(0, n), other.values(0, n));
    }
    m_impl->origins.assign(other.m_impl->origins.begin(), other.m_impl->origins.begin() + n);
    m_impl->refresh_ids.assign(other.m_impl->refresh_ids.begin(), other.m_impl->refresh_ids.begin() + n);
    m_impl->length = n;
    for (int64_t first = 0; first < n;) { // one event for each stretch of one origin
        int64_t end = first + 1;
        while (end < n && origin(end) == origin(first))
            ++end;
        m_impl->events.tell(CacheChange::adopted, first, end - first, origin(first));
        first = end;
    }
}

void KvCache::truncate(int64_t new_length) {
    const c10::InferenceMode guard;
    RL_ASSERT(new_length >= 0 && new_length <= length());
    if (!m_impl->pooled()) m_impl->dense.poison(new_length, length() - new_length);
    m_impl->pools.return_loan(); // of a pass that was given up
    m_impl->pools.settle();      // what the journal keeps is cut with it
    m_impl->pools.truncate(new_length);
    m_impl->pools.settle();
    m_impl->events.forget_edits(); // of a pass that was given up
    m_impl->origins.resize(static_cast<size_t>(new_length));
    m_impl->refresh_ids.resize(static_cast<size_t>(new_length));
    std::fill(m_impl->written.begin(), m_impl->written.end(), 0);
    const int64_t dropped = length() - new_length;
    m_impl->length = new_length;
    m_impl->journal.cut(new_length);
    m_impl->events.tell(CacheChange::dropped, new_length, dropped, Origin::none);
}

void KvCache::rewind(int64_t step, int64_t new_length) {
    const c10::InferenceMode guard;
    RL_ASSERT(new_length >= 0 && new_length <= length());
    const Quiet quiet(*this);
    m_impl->pools.return_loan();
    m_impl->pools.settle();
    while (const JournalEntry* newest = m_impl->journal.newest_after(step)) {
        std::visit([this](const auto& replaced) { m_impl->undo(replaced); }, newest->replaced);
        m_impl->journal.drop_newest();
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

at::Tensor KvCache::read(int64_t layer, int64_t kv_head, std::span<const int64_t> positions) const {
    if (m_impl->pooled()) return m_impl->pools[layer].read(kv_head, positions);
    return m_impl->dense.read(layer, kv_head, columns(layer, kv_head, positions));
}

ColumnDistances KvCache::distances(const KvCache& teacher, int64_t first_pos, int64_t n) const {
    const c10::InferenceMode guard;
    RL_ASSERT(!m_impl->pooled() && !teacher.m_impl->pooled() && first_pos >= 0 && n > 0);
    RL_ASSERT(first_pos + n <= length() && first_pos + n <= teacher.length());
    RL_ASSERT(teacher.num_layers() == num_layers() && teacher.num_kv_heads() == num_kv_heads());
    RL_ASSERT(teacher.head_dim() == head_dim() && teacher.dtype() == dtype());
    return m_impl->dense.distances(teacher.m_impl->dense, first_pos, n);
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

int64_t KvCache::bytes_reserved() const {
    return m_impl->pooled() ? m_impl->pools.bytes_reserved() : m_impl->dense.bytes();
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
    return m_impl->pools.index_bytes();
}
int64_t KvCache::metadata_bytes() const {
    return m_impl->pools.metadata_bytes();
}
int64_t KvCache::scratch_bytes() const {
    return m_impl->pools.scratch_bytes();
}
int64_t KvCache::journal_bytes() const {
    return m_impl->journal.bytes();
}

std::unique_ptr<KvCache> KvCache::clone(int64_t room) const {
    auto copy = std::make_unique<KvCache>(num_layers(), num_kv_heads(), capacity() + room, head_dim(),
                                          dtype(), device(), layout(), m_impl->dense.work());
    if (m_impl->pooled()) {
        m_impl->pools.settle();
        copy->m_impl->pools = m_impl->pools.clone();
        copy->m_impl->origins = m_impl->origins;
        copy->m_impl->refresh_ids = m_impl->refresh_ids;
        copy->m_impl->length = length();
    } else {
        copy->adopt_prefix(*this, length());
    }
    copy->m_impl->journal = m_impl->journal;
    copy->m_impl->context = context();
    return copy;
}

} // namespace refreshlab
