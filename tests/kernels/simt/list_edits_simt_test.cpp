#include "kernels/cuda/decode/list_edits.h"
#include "kernels/simt/harness.h"
#include "tests/kernels/simt/decode_fixture.h"

#include <algorithm>
#include <cstring>
#include <map>

/// The lists of a decode step, edited by position on the host machine, against maps; and rows that leave their pools.
namespace refreshlab::test::list_edits_simt {
namespace {

using namespace decode_simt;
using kernels::LeavingRow;
using kernels::ListEntry;

using Map = std::map<int32_t, int32_t>; ///< position -> column

struct Edits {
    std::vector<int32_t> offsets{0};
    std::vector<ListEntry> entries;
};

/// Edits of one plane: some that are there go or move, some that are not come or are asked away.
std::vector<ListEntry> random_edits(Random& random, const Map& list, int64_t n, int32_t end) {
    Map edits;
    for (int64_t i = 0; i < n; ++i) {
        auto position = static_cast<int32_t>(random.between(0, end));
        if (!list.empty() && random.between(0, 1) == 0) { // one that is there
            const auto at = list.lower_bound(position);
            position = (at == list.end() ? list.begin() : at)->first;
        }
        edits[position] = random.between(0, 1) == 0 ? -1 : static_cast<int32_t>(random.between(0, 1 << 20));
    }
    std::vector<ListEntry> result;
    for (const auto& [position, column] : edits)
        result.push_back({position, column});
    return result;
}

void apply(const std::vector<ListEntry>& edits, Map& list) {
    for (const ListEntry& edit : edits) {
        list.erase(edit.position);
        if (edit.column >= 0) list[edit.position] = edit.column;
    }
}

/// The launch on lists of `capacity` entries, in three orders; the lists as the maps say afterwards.
void check(const std::vector<Map>& before, const std::vector<std::vector<ListEntry>>& edits,
           int64_t capacity) {
    Edits all;
    for (const auto& of_plane : edits) {
        all.entries.insert(all.entries.end(), of_plane.begin(), of_plane.end());
        all.offsets.push_back(static_cast<int32_t>(all.entries.size()));
    }
    const auto planes = std::ssize(before);
    simt::in_orders(3, [&](uint64_t order) {
        CAPTURE(order, capacity);
        const Array<int32_t> offsets(all.offsets, "offsets", Contents::read_only);
        const Array<ListEntry> edited(all.entries, "edits", Contents::read_only);
        const Array<int32_t> num_leaving(std::vector<int32_t>{0}, "num_leaving", Contents::read_only);
        const Array<ListEntry> entries(static_cast<size_t>(planes * capacity), "entries");
        std::vector<int32_t> lengths;
        for (const Map& list : before) {
            auto* const to = entries.data() + std::ssize(lengths) * capacity;
            std::ranges::transform(list, to, [](const auto& e) { return ListEntry{e.first, e.second}; });
            simt::note_written(to, list.size() * sizeof(ListEntry)); // a read behind it ends the kernel
            lengths.push_back(static_cast<int32_t>(list.size()));
        }
        const Array<int32_t> counts(lengths, "counts");
        gpu::ListEditsInputs in;
        in.offsets = offsets.data();
        in.edits = edited.data();
        in.num_leaving = num_leaving.data();
        in.entries = entries.data();
        in.counts = counts.data();
        in.planes = planes;
        in.capacity = capacity;
        in.row_bytes = 16;
        gpu::launch_list_edits(in, nullptr);
        for (int64_t plane = 0; plane < planes; ++plane) {
            CAPTURE(plane);
            Map expected = before[static_cast<size_t>(plane)];
            apply(edits[static_cast<size_t>(plane)], expected);
            REQUIRE(counts.data()[plane] == static_cast<int32_t>(expected.size()));
            const ListEntry* entry = entries.data() + plane * capacity;
            for (const auto& [position, column] : expected) {
                REQUIRE(entry->position == position);
                REQUIRE(entry->column == column);
                ++entry;
            }
        }
    });
}

TEST_CASE("lists are edited by position, whatever goes, moves or comes", "[simt][decode][lists]") {
    Random random(1221);
    for (const int64_t length : {0, 1, 5, 255, 256, 1023, 1024, 1025, 2600}) {
        std::vector<Map> lists;
        std::vector<std::vector<ListEntry>> edits;
        const auto end = static_cast<int32_t>(2 * length + 10);
        for (const int64_t n : {0, 1, 2, 7, 60, 256, 256}) {
            Map list;
            while (std::ssize(list) < length)
                list[static_cast<int32_t>(random.between(0, end))] =
                    static_cast<int32_t>(random.between(0, 1 << 20));
            edits.push_back(random_edits(random, list, n, end));
            lists.push_back(list);
        }
        check(lists, edits, length + 256);
    }
}

TEST_CASE("the edits of a usual step: one entry goes and the step's own comes", "[simt][decode][lists]") {
    Random random(1222);
    const int32_t length = 1500;
    std::vector<Map> lists;
    std::vector<std::vector<ListEntry>> edits;
    for (const int32_t gone : {-1, 0, 1, 700, length - 1}) {
        Map list;
        for (int32_t p = 0; p < length; ++p)
            list[p] = 3 * p;
        edits.emplace_back();
        if (gone >= 0) edits.back().push_back({gone, -1});
        edits.back().push_back({length, 77});
        lists.push_back(list);
    }
    lists.push_back(lists.front()); // all edits in front, all behind
    edits.emplace_back();
    for (int32_t p = 0; p < 256; ++p)
        edits.back().push_back({p, -1});
    lists.push_back({{1000, 1}, {1001, 2}});
    edits.emplace_back();
    for (int32_t p = 0; p < 256; ++p)
        edits.back().push_back({p, p});
    check(lists, edits, length + 1);
}

TEST_CASE("rows that leave go to the host and read as NaN where they stood", "[simt][decode][lists]") {
    Random random(1223);
    for (const WeightType type : weight_types) {
        for (const int64_t head_dim : {16, 80, 256}) {
            const int64_t rows = 600, n = random.pick(std::vector<int64_t>{0, 1, 8, 300});
            const at::Tensor k = random.normal({rows, head_dim}, 1.0, dtype_of(type)),
                             v = random.normal({rows, head_dim}, 1.0, dtype_of(type));
            const int64_t row_bytes = head_dim * kernels::bytes_of(type);
            simt::in_orders(2, [&](uint64_t) {
                const auto keys = bytes_on_device(k, "keys", Contents::written),
                           values = bytes_on_device(v, "values", Contents::written);
                std::vector<LeavingRow> leaving;
                for (int64_t i = 0; i < n; ++i) // each second row
                    leaving.push_back({keys.data() + 2 * i * row_bytes, values.data() + 2 * i * row_bytes});
                const Array<LeavingRow> named(leaving, "leaving", Contents::read_only);
                const Array<int32_t> num_leaving(std::vector<int32_t>{static_cast<int32_t>(n)}, "num_leaving",
                                                 Contents::read_only);
                const Array<int32_t> offsets(std::vector<int32_t>{0, 0}, "offsets", Contents::read_only);
                const Array<uint8_t> left(static_cast<size_t>(n * 2 * row_bytes), "rows");
                gpu::ListEditsInputs in;
                in.offsets = offsets.data();
                in.num_leaving = num_leaving.data();
                in.leaving = named.data();
                in.rows = left.data();
                in.planes = 1;
                in.row_bytes = row_bytes;
                gpu::launch_list_edits(in, nullptr);
                const auto poisoned = [&](const at::Tensor& before) {
                    at::Tensor after = before.clone();
                    for (int64_t i = 0; i < n; ++i)
                        after[2 * i].fill_(nan);
                    return after;
                };
                const at::Tensor new_k = tensor_of(keys, k.sizes(), dtype_of(type)),
                                 new_v = tensor_of(values, v.sizes(), dtype_of(type));
                REQUIRE(at::equal(new_k.isnan(), poisoned(k).isnan()));
                REQUIRE(at::equal(new_v.isnan(), poisoned(v).isnan()));
                REQUIRE(at::equal(new_k.nan_to_num(), poisoned(k).nan_to_num()));
                REQUIRE(at::equal(new_v.nan_to_num(), poisoned(v).nan_to_num()));
                const at::Tensor got = tensor_of(left, {n, 2, head_dim}, dtype_of(type));
                for (int64_t i = 0; i < n; ++i) {
                    REQUIRE(same_bits(got[i][0], k[2 * i]));
                    REQUIRE(same_bits(got[i][1], v[2 * i]));
                }
            });
        }
    }
}

} // namespace
} // namespace refreshlab::test::list_edits_simt
