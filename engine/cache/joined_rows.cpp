#include "engine/cache/joined_rows.h"

#include "engine/base/check.h"

#include <algorithm>
#include <vector>

namespace refreshlab::joined_rows {

namespace {

struct Row {
    int64_t position;
    const CodedBlock* block;
    int64_t row;
};

std::vector<Row> rows_of(const CodedBlock& block) {
    std::vector<Row> rows;
    rows.reserve(static_cast<size_t>(block.positions.rows()));
    block.positions.each([&](int64_t row, int64_t position) { rows.push_back({position, &block, row}); });
    return rows;
}

/// One of the two parts of all rows, one after the other.
std::vector<uint8_t> bytes_of(const std::vector<Row>& rows, std::vector<uint8_t> EncodedBlock::*part) {
    std::vector<uint8_t> all;
    for (const Row& row : rows) {
        const std::vector<uint8_t>& from = *row.block->bytes.*part;
        const int64_t n = row.block->positions.rows(), each = std::ssize(from) / n;
        RL_ASSERT(std::ssize(from) % n == 0);
        if (all.empty()) all.reserve(rows.size() * static_cast<size_t>(each));
        all.insert(all.end(), from.begin() + row.row * each, from.begin() + (row.row + 1) * each);
    }
    return all;
}

std::shared_ptr<const CodedBlock> block_of(std::shared_ptr<const EntryCodec> codec,
                                           const std::vector<Row>& rows) {
    std::vector<int64_t> positions;
    positions.reserve(rows.size());
    for (const Row& row : rows)
        positions.push_back(row.position);
    auto bytes = std::make_shared<const EncodedBlock>(
        EncodedBlock{bytes_of(rows, &EncodedBlock::payload), bytes_of(rows, &EncodedBlock::metadata)});
    return std::make_shared<const CodedBlock>(
        CodedBlock{std::move(codec), RowPositions(positions), std::move(bytes)});
}

} // namespace

std::shared_ptr<const CodedBlock> with(const CodedBlock& a, const CodedBlock& b) {
    RL_ASSERT(a.codec == b.codec);
    const std::vector<Row> first = rows_of(a), second = rows_of(b);
    std::vector<Row> all;
    all.reserve(first.size() + second.size());
    std::ranges::merge(first, second, std::back_inserter(all), {}, &Row::position, &Row::position);
    return block_of(a.codec, all);
}

std::shared_ptr<const CodedBlock> without(const CodedBlock& block, std::span<const int64_t> positions) {
    std::vector<Row> rows = rows_of(block);
    std::erase_if(rows, [&](const Row& row) { return std::ranges::binary_search(positions, row.position); });
    return block_of(block.codec, rows);
}

std::shared_ptr<const CodedBlock> replaced(const CodedBlock& block, const CodedBlock& newer) {
    RL_ASSERT(block.codec == newer.codec);
    std::vector<Row> rows = rows_of(block);
    for (const Row& other : rows_of(newer)) {
        const auto own = std::ranges::lower_bound(rows, other.position, {}, &Row::position);
        if (own != rows.end() && own->position == other.position) *own = other;
    }
    return block_of(block.codec, rows);
}

} // namespace refreshlab::joined_rows
