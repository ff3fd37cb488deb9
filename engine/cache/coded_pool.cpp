#include "engine/cache/coded_pool.h"

#include "engine/base/check.h"
#include "engine/cache/joined_rows.h"
#include "engine/cache/slot_index.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>

namespace refreshlab {

namespace {

at::Tensor host_floats(const at::Tensor& rows) {
    return rows.to(at::kCPU, at::kFloat).contiguous();
}

} // namespace

std::shared_ptr<const CodedBlock> CodedPool::without(const std::shared_ptr<const CodedBlock>& block,
                                                     std::span<const int64_t> positions) const {
    if (!block->positions.has_any(positions)) return block;
    // What was joined goes back to what it was before, so that a run that is repeated from here joins alike.
    if (block->positions.rows() <= joined_rows::most && block->codec->joins(m_head_dim))
        return joined_rows::without(*block, positions);
    auto less = std::make_shared<CodedBlock>(*block);
    less->positions.let_go(positions);
    return less;
}

CodedPool::CodedPool(int64_t kv_heads, int64_t head_dim, at::ScalarType dtype, at::Device device)
    : m_head_dim(head_dim)
    , m_heads(static_cast<size_t>(kv_heads))
    , m_no_columns(at::empty({kv_heads, 0, head_dim}, at::TensorOptions().dtype(dtype).device(device))) {
    for (RowStore& store : m_rows)
        store = RowStore(head_dim, at::TensorOptions().dtype(dtype).device(device));
    for (int64_t h = 0; h < kv_heads; ++h)
        m_readers.push_back(std::make_unique<CodedHeadReader>(head(h), m_rows, head_dim));
}

StoredAs CodedPool::stored_as() const {
    return stored_type(m_rows[0].dtype());
}
BlockShape CodedPool::shape_of(const CodedBlock& block) const {
    return {block.positions.rows(), m_head_dim, stored_as()};
}

void CodedPool::open_places(CodedHead& of, std::span<const int64_t> positions) {
    if (of.positions.empty() || of.positions.back() < positions.front()) { // the token of a step
        of.positions.insert(of.positions.end(), positions.begin(), positions.end());
        for (CodedHalf& half : of.halves)
            half.places.resize(of.positions.size());
        return;
    }
    std::vector<int64_t> all;
    std::ranges::set_union(of.positions, positions, std::back_inserter(all));
    for (CodedHalf& half : of.halves) {
        std::vector<CodedPlace> places(all.size());
        for (size_t from = 0, to = 0; from < of.positions.size(); ++from) {
            while (all[to] != of.positions[from])
                ++to;
            places[to++] = half.places[from];
        }
        half.places = std::move(places);
    }
    of.positions = std::move(all);
}

void CodedPool::put_rows(CodedHead& of, size_t half, std::span<const int64_t> positions,
                         const at::Tensor& rows) {
    CodedHalf& into = of.halves[half];
    const std::vector<int64_t> slots = m_rows[half].take(std::ssize(positions));
    m_rows[half].write(slots, rows);
    for (size_t i = 0; i < positions.size(); ++i)
        into.places[static_cast<size_t>(place_of(of.positions, positions[i]))] = {
            CodedPlace::nobody, static_cast<int32_t>(slots[i])};
    into.rows += std::ssize(positions);
}

void CodedPool::free_rows(CodedHead& of, size_t half, std::span<const int64_t> positions) {
    CodedHalf& from = of.halves[half];
    std::vector<int64_t> gone;
    for (const int64_t position : positions) {
        const int64_t at = place_of(of.positions, position);
        if (at < 0) continue;
        const CodedPlace& place = from.places[static_cast<size_t>(at)];
        if (place.is_row()) gone.push_back(place.row);
    }
    from.rows -= std::ssize(gone);
    m_rows[half].give_back(gone);
}

void CodedPool::shrink(size_t half) {
    if (!m_rows[half].is_roomy()) return;
    std::vector<int64_t> order;
    for (CodedHead& of : m_heads) {
        for (CodedPlace& place : of.halves[half].places) {
            if (!place.is_row()) continue;
            order.push_back(place.row);
            place.row = static_cast<int32_t>(order.size()) - 1;
        }
    }
    m_rows[half].keep(order);
}

void CodedPool::link_block(CodedHead& of, size_t half, size_t index) const {
    CodedHalf& into = of.halves[half];
    const CodedBlock& block = *into.blocks[index];
    size_t at = 0;
    block.positions.each([&](int64_t row, int64_t position) {
        if (at >= of.positions.size() || of.positions[at] != position) // else they follow one another
            at = static_cast<size_t>(place_of(of.positions, position));
        into.places[at++] = {static_cast<int32_t>(index), static_cast<int32_t>(row)};
    });
    if (into.turning == nullptr && block.codec->turned_width(m_head_dim) > 0)
        into.turning = block.codec.get();
}

void CodedPool::add_block(CodedHead& of, size_t half, std::shared_ptr<const CodedBlock> block) const {
    CodedBlocks& blocks = of.halves[half].blocks;
    blocks.push_back(std::move(block));
    link_block(of, half, blocks.size() - 1);
}

bool CodedPool::join(CodedHead& of, size_t half, const CodedBlock& block) const {
    CodedBlocks& blocks = of.halves[half].blocks;
    const int64_t room = joined_rows::most - block.positions.rows();
    if (room <= 0 || !block.codec->joins(m_head_dim)) return false;
    // Which one hangs on what blocks hold, and not on their order, which a rewind changes.
    const std::shared_ptr<const CodedBlock>* into = nullptr;
    const auto order = [](const CodedBlock& other) {
        return std::pair(other.positions.rows(), -other.positions.last());
    };
    for (const auto& other : blocks)
        if (other->codec == block.codec && other->positions.rows() <= room &&
            (into == nullptr || order(*other) < order(**into)))
            into = &other;
    if (into == nullptr) return false;
    const auto index = static_cast<size_t>(into - blocks.data());
    blocks[index] = joined_rows::with(*blocks[index], block);
    link_block(of, half, index);
    return true;
}

void CodedPool::link_blocks(CodedHead& of, size_t half) const {
    const CodedBlocks blocks = std::exchange(of.halves[half].blocks, {});
    of.halves[half].turning = nullptr;
    for (const auto& block : blocks)
        if (!block->positions.empty()) add_block(of, half, block);
}

void CodedPool::append(int64_t first_pos, const at::Tensor& k, const at::Tensor& v) {
    std::vector<int64_t> positions(static_cast<size_t>(k.size(0)));
    std::iota(positions.begin(), positions.end(), first_pos);
    for (int64_t h = 0; h < std::ssize(m_heads); ++h) {
        CodedHead& of = head(h);
        RL_ASSERT(of.positions.empty() || of.positions.back() < first_pos);
        open_places(of, positions);
        put_rows(of, 0, positions, k.select(1, h));
        put_rows(of, 1, positions, v.select(1, h));
    }
}

void CodedPool::insert(int64_t kv_head, std::span<const int64_t> positions, const at::Tensor& rows) {
    if (positions.empty()) return;
    CodedHead& of = head(kv_head);
    const auto before = of.positions.size();
    open_places(of, positions);
    RL_ASSERT(of.positions.size() == before + positions.size());
    for (size_t half = 0; half < 2; ++half)
        put_rows(of, half, positions, rows[static_cast<int64_t>(half)]);
}

void CodedPool::erase(int64_t kv_head, std::span<const int64_t> positions) {
    if (positions.empty()) return;
    const std::vector<int64_t> gone(positions.begin(), positions.end()); // `positions` may lie in the head's
    CodedHead& of = head(kv_head);
    for (size_t half = 0; half < 2; ++half)
        free_rows(of, half, gone);
    std::vector<int64_t> left;
    std::array<std::vector<CodedPlace>, 2> places;
    for (size_t i = 0; i < of.positions.size(); ++i) {
        if (place_of(gone, of.positions[i]) >= 0) continue;
        left.push_back(of.positions[i]);
        for (size_t half = 0; half < 2; ++half)
            places[half].push_back(of.halves[half].places[i]);
    }
    RL_ASSERT(left.size() + gone.size() == of.positions.size());
    of.positions = std::move(left);
    for (size_t half = 0; half < 2; ++half) {
        CodedHalf& from = of.halves[half];
        from.places = std::move(places[half]);
        for (auto& block : from.blocks)
            block = without(block, gone);
        link_blocks(of, half);
        shrink(half);
    }
}

std::vector<float> CodedPool::decoded(const CodedBlock& block) const {
    const BlockShape shape = shape_of(block);
    std::vector<float> rows(static_cast<size_t>(shape.numbers()));
    block.codec->decode(*block.bytes, shape, rows);
    return rows;
}

std::shared_ptr<const CodedBlock> CodedPool::encoded(std::shared_ptr<const EntryCodec> codec,
                                                     std::span<const int64_t> positions,
                                                     std::span<const float> rows) const {
    const BlockShape shape{std::ssize(positions), m_head_dim, stored_as()};
    RL_ASSERT(std::ssize(rows) == shape.numbers());
    auto bytes = std::make_shared<const EncodedBlock>(codec->encode(rows, shape));
    return std::make_shared<const CodedBlock>(
        CodedBlock{std::move(codec), RowPositions(positions), std::move(bytes)});
}

at::Tensor CodedPool::half_rows(const CodedHead& of, size_t half, std::span<const int64_t> positions) const {
    std::vector<int64_t> places, slots, plain;
    for (const int64_t position : positions) {
        places.push_back(place_of(of.positions, position));
        RL_ASSERT(places.back() >= 0);
        const CodedPlace& place = of.halves[half].places[static_cast<size_t>(places.back())];
        if (!place.is_row()) continue;
        plain.push_back(std::ssize(places) - 1);
        slots.push_back(place.row);
    }
    if (slots.size() == places.size()) return m_rows[half].read(slots);
    at::Tensor rows = at::empty({std::ssize(positions), m_head_dim}, at::kFloat);
    const auto of_head = static_cast<size_t>(&of - m_heads.data());
    m_readers[of_head]->decode(half == 1, places.data(), std::ssize(places), 0, m_head_dim,
                               rows.mutable_data_ptr<float>());
    rows = rows.to(m_rows[half].dtype());
    if (!plain.empty()) rows.index_copy_(0, index_of(plain, at::kCPU), m_rows[half].read(slots));
    return rows;
}

at::Tensor CodedPool::read(int64_t kv_head, std::span<const int64_t> positions) const {
    return at::stack({half_rows(head(kv_head), 0, positions), half_rows(head(kv_head), 1, positions)});
}

void CodedPool::overwrite(int64_t kv_head, std::span<const int64_t> positions, const at::Tensor& rows,
                          EntryHalves halves) {
    if (positions.empty()) return;
    RL_ASSERT(rows.dim() == 3 && rows.size(0) == 2 && rows.size(1) == std::ssize(positions));
    CodedHead& of = head(kv_head);
    for (size_t half = 0; half < 2; ++half) {
        if (!(half == 0 ? halves.keys : halves.values)) continue;
        CodedHalf& into = of.halves[half];
        const at::Tensor content = host_floats(rows[static_cast<int64_t>(half)]);
        const float* const from = content.const_data_ptr<float>();
        bool in_blocks = false;
        for (size_t i = 0; i < positions.size(); ++i) {
            const int64_t at = place_of(of.positions, positions[i]);
            RL_ASSERT(at >= 0);
            const CodedPlace& place = into.places[static_cast<size_t>(at)];
            const int64_t slot = place.row;
            if (place.is_row())
                m_rows[half].write({&slot, 1}, content.narrow(0, static_cast<int64_t>(i), 1));
            else
                in_blocks = true;
        }
        if (!in_blocks) continue;
        for (auto& block : into.blocks) {
            if (!block->positions.has_any(positions)) continue;
            const bool joins = block->codec->joins(m_head_dim); // then the other rows stay as they are
            const std::vector<float> before = joins ? std::vector<float>() : decoded(*block);
            std::vector<int64_t> kept;
            std::vector<float> after;
            block->positions.each([&](int64_t i, int64_t position) {
                const int64_t at = place_of(positions, position);
                if (joins && at < 0) return;
                kept.push_back(position);
                const float* const row = at >= 0 ? from + at * m_head_dim : before.data() + i * m_head_dim;
                after.insert(after.end(), row, row + m_head_dim);
            });
            auto written = encoded(block->codec, kept, after);
            block = joins ? joined_rows::replaced(*block, *written) : std::move(written);
        }
        link_blocks(of, half);
    }
}

void CodedPool::encode(int64_t kv_head, KvHalf half, std::span<const int64_t> positions,
                       std::shared_ptr<const EntryCodec> codec) {
    if (positions.empty()) return;
    const auto which = static_cast<size_t>(half);
    CodedHead& of = head(kv_head);
    const std::vector<int64_t> own(positions.begin(), positions.end());
    std::vector<int64_t> slots; // rows still
    for (const int64_t position : own) {
        const int64_t at = place_of(of.positions, position);
        RL_ASSERT(at >= 0);
        const CodedPlace& place = of.halves[which].places[static_cast<size_t>(at)];
        RL_ASSERT(place.is_row());
        slots.push_back(place.row);
    }
    const at::Tensor rows = host_floats(m_rows[which].read(slots));
    const std::span<const float> numbers(rows.const_data_ptr<float>(), static_cast<size_t>(rows.numel()));
    free_rows(of, which, own);
    auto block = encoded(std::move(codec), own, numbers);
    if (!join(of, which, *block)) add_block(of, which, std::move(block));
    shrink(which);
}

SavedEntries CodedPool::save(int64_t kv_head, std::span<const int64_t> positions) const {
    const CodedHead& of = head(kv_head);
    SavedEntries saved;
    saved.rows = at::empty({2, std::ssize(positions), m_head_dim}, m_rows[0].options().device(at::kCPU));
    const int64_t row_bytes = m_rows[0].row_bytes();
    auto* to = static_cast<std::byte*>(saved.rows.mutable_data_ptr());
    for (size_t half = 0; half < 2; ++half) {
        std::vector<int64_t> slots;
        std::vector<std::byte*> places;
        std::vector<int32_t> blocks;
        for (const int64_t position : positions) {
            const int64_t at = place_of(of.positions, position);
            RL_ASSERT(at >= 0);
            const CodedPlace& place = of.halves[half].places[static_cast<size_t>(at)];
            if (place.is_row()) {
                slots.push_back(place.row);
                places.push_back(to);
            } else {
                blocks.push_back(place.block);
                std::fill_n(to, row_bytes, std::byte{}); // not looked at
            }
            to += row_bytes;
        }
        if (!slots.empty()) {
            const at::Tensor rows = m_rows[half].read(slots);
            const auto* from = static_cast<const std::byte*>(rows.const_data_ptr());
            for (std::byte* const place : places) {
                std::copy_n(from, row_bytes, place);
                from += row_bytes;
            }
        }
        std::ranges::sort(blocks);
        const auto twice = std::ranges::unique(blocks);
        blocks.erase(twice.begin(), twice.end());
        for (const int32_t block : blocks)
            saved.blocks[half].push_back(of.halves[half].blocks[static_cast<size_t>(block)]);
    }
    return saved;
}

void CodedPool::restore(int64_t kv_head, std::span<const int64_t> positions, const SavedEntries& saved) {
    if (positions.empty()) return;
    CodedHead& of = head(kv_head);
    for (size_t half = 0; half < 2; ++half) // what became of them since
        free_rows(of, half, positions);
    open_places(of, positions);
    for (size_t half = 0; half < 2; ++half) {
        CodedHalf& into = of.halves[half];
        std::vector<int64_t> listed; // what stood in blocks
        for (const auto& block : saved.blocks[half])
            block->positions.each([&](int64_t, int64_t position) { listed.push_back(position); });
        std::ranges::sort(listed);
        std::erase_if(into.blocks, [&](const auto& block) { // what became of these blocks since
            return block->positions.has_any(listed) ||
                   std::ranges::any_of(saved.blocks[half],
                                       [&](const auto& old) { return old->bytes == block->bytes; });
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
        const at::Tensor content = saved.rows[static_cast<int64_t>(half)];
        put_rows(of, half, rows, content.index_select(0, index_of(places, at::kCPU)));
        link_blocks(of, half);
        shrink(half);
    }
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
    for (const CodedHead& of : m_heads)
        longest = std::max(longest, of.positions.size());
    while (m_numbers.size() < longest)
        m_numbers.push_back(std::ssize(m_numbers));
    m_lists.clear();
    for (size_t h = 0; h < m_heads.size(); ++h)
        m_lists.push_back({m_heads[h].positions.data(), m_numbers.data(), std::ssize(m_heads[h].positions),
                           m_readers[h].get()});
    return {m_no_columns, m_no_columns, m_lists};
}

LayerEntries CodedPool::attended(DecodeScratch& scratch) const {
    if (m_no_columns.is_cpu()) return attended_by_host();
    const int64_t heads = std::ssize(m_heads);
    int64_t total = 0;
    for (const CodedHead& of : m_heads)
        total += std::ssize(of.positions);
    for (at::Tensor* rows : {&scratch.k, &scratch.v})
        if (!rows->defined() || rows->size(0) < total)
            *rows = at::empty({total, m_head_dim}, m_rows[0].options());
    scratch.columns.clear();
    scratch.lists.clear();
    int64_t first = 0;
    for (const CodedHead& of : m_heads) {
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
    int64_t bytes = 0;
    for (const CodedHead& of : m_heads) {
        for (const CodedHalf& half : of.halves) {
            bytes += half.rows * m_rows[0].row_bytes();
            for (const auto& block : half.blocks)
                bytes += std::ssize(block->bytes->payload) + std::ssize(block->bytes->metadata);
        }
    }
    return bytes;
}
int64_t CodedPool::metadata_bytes() const {
    int64_t bytes = 0;
    for (const CodedHead& of : m_heads)
        for (const CodedHalf& half : of.halves)
            for (const auto& block : half.blocks)
                bytes += std::ssize(block->bytes->metadata);
    return bytes;
}
int64_t CodedPool::bytes_reserved() const {
    int64_t held_rows = 0;
    for (const CodedHead& of : m_heads)
        held_rows += of.halves[0].rows + of.halves[1].rows;
    return bytes_used() - held_rows * m_rows[0].row_bytes() + m_rows[0].bytes() + m_rows[1].bytes();
}
int64_t CodedPool::index_bytes() const {
    size_t bytes = 0;
    for (const CodedHead& of : m_heads) {
        bytes += of.positions.size() * sizeof(int64_t);
        for (const CodedHalf& half : of.halves) {
            bytes += half.places.size() * sizeof(CodedPlace);
            for (const auto& block : half.blocks)
                bytes += static_cast<size_t>(block->positions.bytes());
        }
    }
    return static_cast<int64_t>(bytes);
}

std::unique_ptr<EntryPool> CodedPool::clone() const {
    auto copy = std::make_unique<CodedPool>(std::ssize(m_heads), m_head_dim, m_rows[0].dtype(),
                                            m_rows[0].options().device());
    for (size_t half = 0; half < 2; ++half)
        copy->m_rows[half] = m_rows[half].clone();
    std::ranges::copy(m_heads, copy->m_heads.begin()); // its readers have the addresses
    return copy;
}

} // namespace refreshlab
