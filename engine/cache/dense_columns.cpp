#include "engine/cache/dense_columns.h"

#include "engine/base/check.h"
#include "kernels/cpu/convert_rows.h"
#include "kernels/cpu/cpu_tensors.h"
#include "kernels/execution/device_scope.h"
#include "kernels/execution/isa.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/index.h>
#include <ATen/ops/index_put.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

namespace refreshlab {

namespace {

/// rows of [n, kv_heads, head_dim] into [kv_heads, capacity, head_dim] at column `first`, rounded to its dtype. A decode step writes
/// a few hundred bytes per layer: there a strided copy_ costs microseconds.
void copy_columns(const at::Tensor& storage, const at::Tensor& rows, int64_t first) {
    const int64_t n = rows.size(0);
    RL_DEBUG_ASSERT(first >= 0 && first + n <= storage.size(1));
    RL_DEBUG_ASSERT(rows.size(1) == storage.size(0) && rows.size(2) == storage.size(2));
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

/// Of sums over K or V (which = 0 or 1) as DeviceCacheWork::distances() gives them.
kernels::ColumnDistance finish_distance(std::span<const float> sums, size_t which, int64_t layers,
                                        int64_t n) {
    kernels::ColumnDistance result{at::empty({layers, n}, at::kFloat), at::empty({layers, n}, at::kFloat)};
    auto* const relative = result.relative.mutable_data_ptr<float>();
    auto* const most = result.max_abs.mutable_data_ptr<float>();
    for (size_t i = 0; i < static_cast<size_t>(layers * n); ++i) {
        const std::span<const float> cell = sums.subspan((i * 2 + which) * 3, 3);
        relative[i] = static_cast<float>(std::sqrt(static_cast<double>(cell[0])) /
                                         std::max(std::sqrt(static_cast<double>(cell[1])), 1e-12));
        most[i] = cell[2];
    }
    return result;
}

/// [layers * kv_heads, capacity, head_dim], by head number and column.
class Places {
public:
    Places(std::span<const int64_t> heads, std::span<const int64_t> columns)
        : m_heads(at::tensor(c10::ArrayRef<int64_t>(heads.data(), heads.size()), at::kLong).unsqueeze(1))
        , m_columns(at::tensor(c10::ArrayRef<int64_t>(columns.data(), columns.size()), at::kLong)) {}

    /// [heads, columns, head_dim]; a copy.
    [[nodiscard]] at::Tensor read(const at::Tensor& storage) const {
        return at::index(by_head(storage), on(storage));
    }
    void write(const at::Tensor& storage, const at::Tensor& rows) const {
        at::Tensor target = by_head(storage);
        at::index_put_(target, on(storage), rows.to(storage.device()));
    }

private:
    [[nodiscard]] static at::Tensor by_head(const at::Tensor& storage) {
        return storage.view({storage.size(0) * storage.size(1), storage.size(2), storage.size(3)});
    }
    [[nodiscard]] c10::List<std::optional<at::Tensor>> on(const at::Tensor& storage) const {
        c10::List<std::optional<at::Tensor>> places;
        places.push_back(m_heads.to(storage.device()));
        places.push_back(m_columns.to(storage.device()));
        return places;
    }
    at::Tensor m_heads, m_columns;
};

/// Numbers of entries as the kernels take them.
struct Listed {
    std::vector<int32_t> columns; ///< from the first position on
    std::vector<uint16_t> heads;
    kernels::SelectedColumns which;

    Listed(std::span<const int64_t> positions, std::span<const int64_t> of_heads, EntryHalves halves) {
        for (const int64_t position : positions)
            columns.push_back(static_cast<int32_t>(position - positions.front()));
        for (const int64_t head : of_heads)
            heads.push_back(static_cast<uint16_t>(head));
        which = {columns, heads, halves.keys, halves.values};
    }
};

} // namespace

int64_t KeptEntries::bytes() const {
    if (by_device != nullptr)
        return by_device->bytes() + std::ssize(heads) * static_cast<int64_t>(sizeof(int64_t));
    return static_cast<int64_t>((k.defined() ? k.nbytes() : 0) + (v.defined() ? v.nbytes() : 0)) +
           std::ssize(heads) * static_cast<int64_t>(sizeof(int64_t));
}

int64_t KeptColumns::bytes() const {
    if (by_device != nullptr) return by_device->bytes();
    return k.defined() ? static_cast<int64_t>(k.nbytes() + v.nbytes()) : 0;
}

DenseColumns::DenseColumns(int64_t layers, int64_t kv_heads, int64_t capacity, int64_t head_dim,
                           const at::TensorOptions& options, std::shared_ptr<kernels::DeviceCacheWork> work)
    : m_k(at::empty({layers, kv_heads, capacity, head_dim}, options))
    , m_v(at::empty({layers, kv_heads, capacity, head_dim}, options))
    , m_layer_k(m_k.unbind(0))
    , m_layer_v(m_v.unbind(0))
    , m_every(static_cast<size_t>(capacity))
    , m_work(std::move(work)) {
    std::iota(m_every.begin(), m_every.end(), 0);
    poison(0, capacity);
}

const at::Tensor& DenseColumns::keys(int64_t layer) const {
    return m_layer_k.at(static_cast<size_t>(layer));
}
const at::Tensor& DenseColumns::values(int64_t layer) const {
    return m_layer_v.at(static_cast<size_t>(layer));
}

at::Tensor DenseColumns::keys(int64_t first_pos, int64_t n) const {
    return m_k.narrow(2, first_pos, n);
}
at::Tensor DenseColumns::values(int64_t first_pos, int64_t n) const {
    return m_v.narrow(2, first_pos, n);
}

std::span<const int64_t> DenseColumns::positions(int64_t n) const {
    return std::span(m_every).first(static_cast<size_t>(n));
}

at::Tensor DenseColumns::read(int64_t layer, int64_t kv_head, std::span<const int64_t> positions) const {
    const at::Tensor index =
        at::tensor(c10::ArrayRef<int64_t>(positions.data(), positions.size()), at::kLong).to(m_k.device());
    return at::stack(
               {keys(layer)[kv_head].index_select(0, index), values(layer)[kv_head].index_select(0, index)})
        .cpu();
}

void DenseColumns::write(int64_t layer, int64_t first_pos, const at::Tensor& k, const at::Tensor& v) {
    copy_columns(keys(layer), k, first_pos);
    copy_columns(values(layer), v, first_pos);
}

void DenseColumns::overwrite(int64_t first_pos, const at::Tensor& k, const at::Tensor& v) {
    m_k.narrow(2, first_pos, k.size(2)).copy_(k);
    m_v.narrow(2, first_pos, v.size(2)).copy_(v);
}

bool DenseColumns::by_kernels() const {
    return m_work != nullptr && kernels::isa() != kernels::Isa::reference;
}

DenseColumns::ReadColumns DenseColumns::columns_on(at::Device device, int64_t first_pos, int64_t n) const {
    if (device == m_k.device()) return {m_k, m_v, {m_k.data_ptr(), m_v.data_ptr(), m_k.size(2), first_pos}};
    const at::Tensor k = keys(first_pos, n).to(device).contiguous(),
                     v = values(first_pos, n).to(device).contiguous();
    return {k, v, {k.data_ptr(), v.data_ptr(), n, 0}};
}

int64_t DenseColumns::most_replaced() const {
    return by_kernels() ? kernels::most_spliced_columns : m_k.size(2);
}

KeptColumns DenseColumns::replace(int64_t first_pos, int64_t n, const DenseColumns& other) {
    KeptColumns kept;
    if (by_kernels()) {
        const kernels::OnDevice on_device(m_k.device());
        const ReadColumns to = columns_on(m_k.device(), first_pos, n),
                          from = other.columns_on(m_k.device(), first_pos, n);
        kept.by_device = m_work->splice(to.columns, from.columns, n, kernels::current_stream(m_k.device()));
        return kept;
    }
    kept.k = keys(first_pos, n).to(at::kCPU).clone(at::MemoryFormat::Contiguous);
    kept.v = values(first_pos, n).to(at::kCPU).clone(at::MemoryFormat::Contiguous);
    overwrite(first_pos, other.keys(first_pos, n), other.values(first_pos, n));
    return kept;
}

KeptEntries DenseColumns::replace(const EntrySelection& selection, const DenseColumns& other) {
    KeptEntries kept;
    kept.heads = selection.head_numbers();
    kept.halves = selection.halves;
    const Places places(kept.heads, selection.positions);
    if (by_kernels() && kept.heads.back() <= std::numeric_limits<uint16_t>::max()) {
        const at::Device device = m_k.device();
        const kernels::OnDevice on_device(device);
        const Listed listed(selection.positions, kept.heads, kept.halves);
        const int64_t first = selection.positions.front(), n = std::ssize(selection.positions);
        const bool packed = other.m_k.device() != device; // only what is written crosses
        at::Tensor k, v;
        if (packed && kept.halves.keys) k = places.read(other.m_k).to(device);
        if (packed && kept.halves.values) v = places.read(other.m_v).to(device);
        const kernels::DeviceColumns from =
            packed ? kernels::DeviceColumns{k.defined() ? k.data_ptr() : nullptr,
                                            v.defined() ? v.data_ptr() : nullptr, n, 0}
                   : kernels::DeviceColumns{other.m_k.data_ptr(), other.m_v.data_ptr(), other.m_k.size(2),
                                            first};
        kept.by_device = m_work->splice({m_k.data_ptr(), m_v.data_ptr(), m_k.size(2), first}, from, packed,
                                        listed.which, kernels::current_stream(device));
        return kept;
    }
    const auto replaced = [&](const at::Tensor& own, const at::Tensor& others) {
        const at::Tensor before = places.read(own).cpu();
        places.write(own, places.read(others));
        return before;
    };
    if (selection.halves.keys) kept.k = replaced(m_k, other.m_k);
    if (selection.halves.values) kept.v = replaced(m_v, other.m_v);
    return kept;
}

void DenseColumns::put_back(std::span<const int64_t> positions, const KeptEntries& kept) {
    if (kept.by_device != nullptr) { // the kernel set may be another one by now
        const kernels::OnDevice on_device(m_k.device());
        const Listed listed(positions, kept.heads, kept.halves);
        m_work->restore({m_k.data_ptr(), m_v.data_ptr(), m_k.size(2), positions.front()}, *kept.by_device,
                        listed.which, kernels::current_stream(m_k.device()));
        return;
    }
    const Places places(kept.heads, positions);
    if (kept.k.defined()) places.write(m_k, kept.k);
    if (kept.v.defined()) places.write(m_v, kept.v);
}

void DenseColumns::put_back(int64_t first_pos, int64_t n, const KeptColumns& kept) {
    if (kept.by_device != nullptr) { // the kernel set may be another one by now
        const kernels::OnDevice on_device(m_k.device());
        const ReadColumns to = columns_on(m_k.device(), first_pos, n);
        m_work->restore(to.columns, *kept.by_device, n, kernels::current_stream(m_k.device()));
    } else {
        overwrite(first_pos, kept.k.narrow(2, 0, n), kept.v.narrow(2, 0, n));
    }
}

ColumnDistances DenseColumns::distances(const DenseColumns& other, int64_t first_pos, int64_t n) const {
    const at::Device device = m_k.device();
    if (!by_kernels()) {
        return {kernels::column_distance(keys(first_pos, n), other.keys(first_pos, n).to(device)),
                kernels::column_distance(values(first_pos, n), other.values(first_pos, n).to(device))};
    }
    const kernels::OnDevice on_device(device);
    const ReadColumns own = columns_on(device, first_pos, n), from = other.columns_on(device, first_pos, n);
    const std::vector<float> sums =
        m_work->distances(own.columns, from.columns, n, kernels::current_stream(device));
    return {finish_distance(sums, 0, m_k.size(0), n), finish_distance(sums, 1, m_k.size(0), n)};
}

void DenseColumns::poison(int64_t first_pos, int64_t n) {
#ifdef NDEBUG
    (void)first_pos;
    (void)n;
#else
    if (n == 0) return;
    m_k.narrow(2, first_pos, n).fill_(std::numeric_limits<double>::quiet_NaN());
    m_v.narrow(2, first_pos, n).fill_(std::numeric_limits<double>::quiet_NaN());
#endif
}

int64_t DenseColumns::bytes() const {
    return m_k.defined() ? static_cast<int64_t>(m_k.nbytes() + m_v.nbytes()) : 0;
}

} // namespace refreshlab
