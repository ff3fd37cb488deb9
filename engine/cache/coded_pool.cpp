#include "engine/cache/coded_pool.h"

#include "engine/base/check.h"
#include "engine/cache/slot_index.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <iterator>
#include <numeric>

namespace refreshlab {

namespace {

constexpr int64_t nobody = -1; ///< a row of a block that is held no more

at::Tensor host_floats(const at::Tensor& rows) {
    return rows.to(at::kCPU, at::kFloat).contiguous();
}

StoredAs stored_type(at::ScalarType type) {
    RL_ASSERT(type == at::kFloat || type == at::kBFloat16 || type == at::kHalf);
    return type == at::kFloat      ? StoredAs::float32
           : type == at::kBFloat16 ? StoredAs::bfloat16
                                   : StoredAs::float16;
}

/// Where the ascending `all` has a position, or -1.
int64_t place_of(std::span<const int64_t> all, int64_t position) {
    const auto found = std::ranges::lower_bound(all, position);
    return found != all.end() && *found == position ? found - all.begin() : -1;
}

bool has_any(const CodedBlock& block, std::span<const int64_t> positions) {
    return std::ranges::any_of(block.positions, [&](int64_t p) { return place_of(positions, p) >= 0; });
}

/// The block without rows of these positions; the same block where it has none of them.
std::shared_ptr<const CodedBlock> without(const std::shared_ptr<const CodedBlock>& block,
                                          std::span<const int64_t> positions) {
    if (!has_any(*block, positions)) return block;
    auto less = std::make_shared<CodedBlock>(*block);
    for (int64_t& p : less->positions)
        if (place_of(positions, p) >= 0) p = nobody;
    return less;
}

} // namespace

class CodedPool::HeadEntries final : public kernels::CodedEntries {
public:
    HeadEntries(const CodedPool& pool, int64_t kv_head)
        : m_pool(pool)
        , m_kv_head(kv_head) {}

    void read(bool values, const int64_t* places, int64_t n, int64_t first, int64_t channels,
              float* to) const override {
        const Head& of = m_pool.head(m_kv_head);
        const size_t which = values ? 1 : 0;
        const Half& half = of.halves[which];
        for (int64_t i = 0; i < n;) {
            const auto run = std::ranges::upper_bound(half.runs, places[i], {}, &Run::first) - 1;
            const int64_t skipped = places[i] - run->first;
            int64_t rows = 1;
            while (rows < run->n - skipped && i + rows < n && places[i + rows] == places[i] + rows)
                ++rows;
            float* const out = to + i * channels;
            if (run->block != nullptr) {
                const BlockShape shape = m_pool.shape_of(std::ssize(run->block->positions));
                run->block->codec->decode(*run->block->bytes, shape,
                                          {run->row + skipped, rows, first, channels}, out);
                round_numbers({out, static_cast<size_t>(rows * channels)}, shape.stored_as);
            } else {
                const auto slots =
                    std::span(half.slots)
                        .subspan(static_cast<size_t>(run->row + skipped), static_cast<size_t>(rows));
                m_pool.m_rows[which].read(slots, first, channels, out);
            }
            i += rows;
        }
    }

private:
    const CodedPool& m_pool;
    int64_t m_kv_head;
};

CodedPool::CodedPool(int64_t kv_heads, int64_t head_dim, at::ScalarType dtype, at::Device device)
    : m_head_dim(head_dim)
    , m_heads(static_cast<size_t>(kv_heads))
    , m_no_columns(at::empty({kv_heads, 0, head_dim}, at::TensorOptions().dtype(dtype).device(device))) {
    for (RowStore& store : m_rows)
        store = RowStore(head_dim, at::TensorOptions().dtype(dtype).device(device));
    for (int64_t h = 0; h < kv_heads; ++h)
        m_entries.push_back(std::make_unique<HeadEntries>(*this, h));
}
CodedPool::~CodedPool() = default;

void CodedPool::find_runs(const Head& of) {
    if (of.runs_known) return;
    for (const Half& half : of.halves) {
        half.runs.clear();
        const auto add = [&](std::span<const int64_t> positions, const CodedBlock* block) {
            for (size_t row = 0; row < positions.size();) {
                if (positions[row] == nobody) {
                    ++row;
                    continue;
                }
                const int64_t first = place_of(of.positions, positions[row]);
                RL_ASSERT(first >= 0);
                const auto rest = std::span(of.positions).subspan(static_cast<size_t>(first));
                size_t n = 1;
                while (n < rest.size() && row + n < positions.size() && positions[row + n] == rest[n])
                    ++n;
                half.runs.push_back({first, static_cast<int64_t>(n), block, static_cast<int64_t>(row)});
                row += n;
            }
        };
        add(half.positions, nullptr);
        for (const auto& block : half.blocks)
            add(block->positions, block.get());
        std::ranges::sort(half.runs, {}, &Run::first);
    }
    of.runs_known = true;
}

BlockShape CodedPool::shape_of(int64_t n) const {
    return {n, m_head_dim, stored_type(m_rows[0].dtype())};
}

/// Positions that the half does not have yet.
void CodedPool::put_rows(Head& of, size_t half, std::span<const int64_t> positions, const at::Tensor& rows) {
    Half& into = of.halves[half];
    const std::vector<int64_t> slots = m_rows[half].take(std::ssize(positions));
    m_rows[half].write(slots, rows);
    for (size_t i = 0; i < positions.size(); ++i) {
        const auto at = std::ranges::lower_bound(into.positions, positions[i]) - into.positions.begin();
        into.positions.insert(into.positions.begin() + at, positions[i]);
        into.slots.insert(into.slots.begin() + at, slots[i]);
    }
}

/// Those of the positions that are rows.
void CodedPool::take_rows(Head& of, size_t half, std::span<const int64_t> positions) {
    Half& from = of.halves[half];
    std::vector<int64_t> gone;
    size_t kept = 0;
    for (size_t i = 0; i < from.positions.size(); ++i) {
        if (place_of(positions, from.positions[i]) >= 0) {
            gone.push_back(from.slots[i]);
            continue;
        }
        from.positions[kept] = from.positions[i];
        from.slots[kept++] = from.slots[i];
    }
    from.positions.resize(kept);
    from.slots.resize(kept);
    m_rows[half].give_back(gone);
    shrink(half);
}

void CodedPool::shrink(size_t half) {
    if (!m_rows[half].is_roomy()) return;
    std::vector<int64_t> order;
    for (Head& of : m_heads) {
        for (int64_t& slot : of.halves[half].slots) {
            order.push_back(slot);
            slot = std::ssize(order) - 1;
        }
    }
    m_rows[half].keep(order);
}

void CodedPool::drop_dead(Head& of) {
    for (Half& half : of.halves) {
        std::erase_if(half.blocks, [](const auto& block) {
            return std::ranges::all_of(block->positions, [](int64_t p) { return p == nobody; });
        });
    }
}

void CodedPool::append(int64_t first_pos, const at::Tensor& k, const at::Tensor& v) {
    std::vector<int64_t> positions(static_cast<size_t>(k.size(0)));
    std::iota(positions.begin(), positions.end(), first_pos);
    for (int64_t h = 0; h < std::ssize(m_heads); ++h) {
        RL_ASSERT(head(h).positions.empty() || head(h).positions.back() < first_pos);
        insert(h, positions, at::stack({k.select(1, h), v.select(1, h)}));
    }
}

void CodedPool::insert(int64_t kv_head, std::span<const int64_t> positions, const at::Tensor& rows) {
    Head& of = head(kv_head);
    of.runs_known = false;
    std::vector<int64_t> all;
    std::ranges::set_union(of.positions, positions, std::back_inserter(all));
    RL_ASSERT(std::ssize(all) == std::ssize(of.positions) + std::ssize(positions));
    of.positions = std::move(all);
    for (size_t half = 0; half < 2; ++half)
        put_rows(of, half, positions, rows[static_cast<int64_t>(half)]);
}

void CodedPool::erase(int64_t kv_head, std::span<const int64_t> positions) {
    if (positions.empty()) return;
    const std::vector<int64_t> gone(positions.begin(), positions.end()); // `positions` may lie in the head's
    Head& of = head(kv_head);
    of.runs_known = false;
    std::vector<int64_t> left;
    std::ranges::set_difference(of.positions, gone, std::back_inserter(left));
    RL_ASSERT(left.size() + gone.size() == of.positions.size());
    of.positions = std::move(left);
    for (size_t half = 0; half < 2; ++half) {
        take_rows(of, half, gone);
        for (auto& block : of.halves[half].blocks)
            block = without(block, gone);
    }
    drop_dead(of);
}

std::vector<float> CodedPool::decoded(const CodedBlock& block) const {
    const BlockShape shape = shape_of(std::ssize(block.positions));
    std::vector<float> rows(static_cast<size_t>(shape.numbers()));
    block.codec->decode(*block.bytes, shape, rows);
    return rows;
}

std::shared_ptr<const CodedBlock> CodedPool::encoded(std::shared_ptr<const EntryCodec> codec,
                                                     std::vector<int64_t> positions,
                                                     std::span<const float> rows) const {
    const BlockShape shape = shape_of(std::ssize(positions));
    RL_ASSERT(std::ssize(rows) == shape.numbers());
    auto bytes = std::make_shared<const EncodedBlock>(codec->encode(rows, shape));
    return std::make_shared<const CodedBlock>(
        CodedBlock{std::move(codec), std::move(positions), std::move(bytes)});
}

at::Tensor CodedPool::half_rows(const Head& of, size_t half, std::span<const int64_t> positions) const {
    const Half& from = of.halves[half];
    at::Tensor rows = at::empty({std::ssize(positions), m_head_dim}, at::kFloat);
    float* const out = rows.mutable_data_ptr<float>();
    int64_t found = 0;
    const auto put = [&](int64_t position, const float* row) {
        const int64_t to = place_of(positions, position);
        if (to < 0) return;
        std::copy_n(row, m_head_dim, out + to * m_head_dim);
        ++found;
    };
    std::vector<int64_t> wanted, slots;
    for (size_t i = 0; i < from.positions.size(); ++i) {
        if (place_of(positions, from.positions[i]) < 0) continue;
        wanted.push_back(from.positions[i]);
        slots.push_back(from.slots[i]);
    }
    const at::Tensor plain = host_floats(m_rows[half].read(slots));
    for (size_t i = 0; i < wanted.size(); ++i)
        put(wanted[i], plain.const_data_ptr<float>() + static_cast<int64_t>(i) * m_head_dim);
    for (const auto& block : from.blocks) {
        if (!has_any(*block, positions)) continue;
        const std::vector<float> all = decoded(*block);
        for (size_t i = 0; i < block->positions.size(); ++i)
            put(block->positions[i], all.data() + static_cast<int64_t>(i) * m_head_dim);
    }
    RL_ASSERT(found == std::ssize(positions)); // all are held, each once
    return rows.to(m_rows[half].dtype());
}

at::Tensor CodedPool::read(int64_t kv_head, std::span<const int64_t> positions) const {
    return at::stack({half_rows(head(kv_head), 0, positions), half_rows(head(kv_head), 1, positions)});
}

void CodedPool::overwrite(int64_t kv_head, std::span<const int64_t> positions, const at::Tensor& rows,
                          EntryHalves halves) {
    if (positions.empty()) return;
    RL_ASSERT(rows.dim() == 3 && rows.size(0) == 2 && rows.size(1) == std::ssize(positions));
    Head& of = head(kv_head);
    of.runs_known = false;
    for (size_t half = 0; half < 2; ++half) {
        if (!(half == 0 ? halves.keys : halves.values)) continue;
        Half& into = of.halves[half];
        const at::Tensor content = host_floats(rows[static_cast<int64_t>(half)]);
        const float* const from = content.const_data_ptr<float>();
        for (size_t i = 0; i < into.positions.size(); ++i) {
            const int64_t at = place_of(positions, into.positions[i]);
            if (at >= 0) m_rows[half].write(std::span(into.slots).subspan(i, 1), content.narrow(0, at, 1));
        }
        for (auto& block : into.blocks) {
            if (!has_any(*block, positions)) continue;
            const std::vector<float> before = decoded(*block);
            std::vector<int64_t> kept;
            std::vector<float> after;
            for (size_t i = 0; i < block->positions.size(); ++i) {
                if (block->positions[i] == nobody) continue;
                kept.push_back(block->positions[i]);
                const int64_t at = place_of(positions, kept.back());
                const float* const row =
                    at >= 0 ? from + at * m_head_dim : before.data() + static_cast<int64_t>(i) * m_head_dim;
                after.insert(after.end(), row, row + m_head_dim);
            }
            block = encoded(block->codec, std::move(kept), after);
        }
    }
}

void CodedPool::encode(int64_t kv_head, KvHalf half, std::span<const int64_t> positions,
                       std::shared_ptr<const EntryCodec> codec) {
    if (positions.empty()) return;
    const auto which = static_cast<size_t>(half);
    Head& of = head(kv_head);
    of.runs_known = false;
    RL_ASSERT(std::ranges::includes(of.halves[which].positions, positions)); // rows still
    const std::vector<int64_t> own(positions.begin(), positions.end());
    const at::Tensor rows = host_floats(half_rows(of, which, own));
    const std::span<const float> numbers(rows.const_data_ptr<float>(), static_cast<size_t>(rows.numel()));
    of.halves[which].blocks.push_back(encoded(std::move(codec), own, numbers));
    take_rows(of, which, own);
}

SavedEntries CodedPool::save(int64_t kv_head, std::span<const int64_t> positions) const {
    SavedEntries saved;
    saved.rows = read(kv_head, positions);
    for (size_t half = 0; half < 2; ++half) {
        for (const auto& block : head(kv_head).halves[half].blocks)
            if (has_any(*block, positions)) saved.blocks[half].push_back(block);
    }
    return saved;
}

void CodedPool::restore(int64_t kv_head, std::span<const int64_t> positions, const SavedEntries& saved) {
    if (positions.empty()) return;
    Head& of = head(kv_head);
    of.runs_known = false;
    std::vector<int64_t> all;
    std::ranges::set_union(of.positions, positions, std::back_inserter(all));
    of.positions = std::move(all);
    for (size_t half = 0; half < 2; ++half) {
        Half& into = of.halves[half];
        std::vector<int64_t> listed; // what stood in blocks
        for (const auto& block : saved.blocks[half])
            std::ranges::copy_if(block->positions, std::back_inserter(listed),
                                 [](int64_t p) { return p != nobody; });
        std::ranges::sort(listed);
        std::erase_if(into.blocks, [&](const auto& block) { // what became of these blocks since
            return has_any(*block, listed) || std::ranges::any_of(saved.blocks[half], [&](const auto& old) {
                       return old->bytes == block->bytes;
                   });
        });
        std::vector<int64_t> rows, places; // what stood in rows
        for (size_t i = 0; i < positions.size(); ++i) {
            if (place_of(listed, positions[i]) >= 0) continue;
            rows.push_back(positions[i]);
            places.push_back(static_cast<int64_t>(i));
        }
        for (auto& block : into.blocks)
            block = without(block, rows);
        into.blocks.insert(into.blocks.end(), saved.blocks[half].begin(), saved.blocks[half].end());
        take_rows(of, half, positions);
        const at::Tensor content = saved.rows[static_cast<int64_t>(half)];
        put_rows(of, half, rows, content.index_select(0, index_of(places, at::kCPU)));
    }
    drop_dead(of);
}

std::span<const int64_t> CodedPool::positions(int64_t kv_head) const {
    return head(kv_head).positions;
}

std::vector<int64_t> CodedPool::columns(int64_t kv_head, std::span<const int64_t> positions) const {
    int64_t first = 0;
    for (int64_t h = 0; h < kv_head && !m_no_columns.is_cpu(); ++h) // heads stand one after the other
        first += std::ssize(head(h).positions);
    std::vector<int64_t> found;
    for (const int64_t position : positions) {
        const int64_t at = place_of(head(kv_head).positions, position);
        RL_ASSERT(at >= 0);
        found.push_back(first + at);
    }
    return found;
}

LayerEntries CodedPool::attended_by_host() const {
    size_t longest = 0;
    for (const Head& of : m_heads) {
        find_runs(of);
        longest = std::max(longest, of.positions.size());
    }
    while (m_places.size() < longest)
        m_places.push_back(std::ssize(m_places));
    m_lists.clear();
    for (size_t h = 0; h < m_heads.size(); ++h)
        m_lists.push_back({m_heads[h].positions.data(), m_places.data(), std::ssize(m_heads[h].positions),
                           m_entries[h].get()});
    return {m_no_columns, m_no_columns, m_lists};
}

LayerEntries CodedPool::attended(DecodeScratch& scratch) const {
    if (m_no_columns.is_cpu()) return attended_by_host();
    const int64_t heads = std::ssize(m_heads);
    int64_t total = 0;
    for (const Head& of : m_heads)
        total += std::ssize(of.positions);
    for (at::Tensor* rows : {&scratch.k, &scratch.v})
        if (!rows->defined() || rows->size(0) < total)
            *rows = at::empty({total, m_head_dim}, m_rows[0].options());
    scratch.columns.clear();
    scratch.lists.clear();
    int64_t first = 0;
    for (const Head& of : m_heads) {
        const int64_t n = std::ssize(of.positions);
        scratch.k.narrow(0, first, n).copy_(half_rows(of, 0, of.positions));
        scratch.v.narrow(0, first, n).copy_(half_rows(of, 1, of.positions));
        std::vector<int64_t>& columns = scratch.columns.emplace_back(static_cast<size_t>(n));
        std::iota(columns.begin(), columns.end(), first);
        scratch.lists.push_back({of.positions.data(), columns.data(), n});
        first += n;
    }
    const auto of_all_heads = [&](const at::Tensor& rows) {
        return rows.unsqueeze(0).expand({heads, rows.size(0), rows.size(1)});
    };
    return {of_all_heads(scratch.k), of_all_heads(scratch.v), scratch.lists};
}

int64_t CodedPool::bytes_used() const {
    int64_t rows = 0, bytes = 0;
    for (const Head& of : m_heads) {
        for (const Half& half : of.halves) {
            rows += std::ssize(half.positions);
            for (const auto& block : half.blocks)
                bytes += std::ssize(block->bytes->payload) + std::ssize(block->bytes->metadata);
        }
    }
    return bytes + rows * m_rows[0].row_bytes();
}
int64_t CodedPool::metadata_bytes() const {
    int64_t bytes = 0;
    for (const Head& of : m_heads)
        for (const Half& half : of.halves)
            for (const auto& block : half.blocks)
                bytes += std::ssize(block->bytes->metadata);
    return bytes;
}
int64_t CodedPool::bytes_reserved() const {
    int64_t held_rows = 0;
    for (const Head& of : m_heads)
        held_rows += std::ssize(of.halves[0].positions) + std::ssize(of.halves[1].positions);
    return bytes_used() - held_rows * m_rows[0].row_bytes() + m_rows[0].bytes() + m_rows[1].bytes();
}
int64_t CodedPool::index_bytes() const {
    int64_t numbers = 0;
    for (const Head& of : m_heads) {
        numbers += std::ssize(of.positions);
        for (const Half& half : of.halves) {
            numbers += 2 * std::ssize(half.positions);
            for (const auto& block : half.blocks)
                numbers += std::ssize(block->positions);
        }
    }
    return numbers * static_cast<int64_t>(sizeof(int64_t));
}

std::unique_ptr<EntryPool> CodedPool::clone() const {
    auto copy = std::make_unique<CodedPool>(std::ssize(m_heads), m_head_dim, m_rows[0].dtype(),
                                            m_rows[0].options().device());
    for (size_t half = 0; half < 2; ++half)
        copy->m_rows[half] = m_rows[half].clone();
    copy->m_heads = m_heads;
    return copy;
}

} // namespace refreshlab
