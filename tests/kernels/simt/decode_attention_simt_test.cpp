#include "kernels/cuda/decode/attention_rows.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/dense.h"
#include "kernels/shared/attention_bins.h"
#include "kernels/shared/check.h"
#include "kernels/shared/half_types.h"
#include "tests/kernels/simt/decode_fixture.h"

#include <algorithm>
#include <numeric>

/// The attention of a decode step on the host machine, against the plain reference: what it reads and writes of the cache, and the same
/// bits in a row whatever other rows are in the launch and in whatever order blocks and threads come.
namespace refreshlab::test::decode_attention_simt {
namespace {

using namespace decode_simt;

constexpr double tolerance = 1e-5;
constexpr double eps = 1e-6;
constexpr int32_t layer = 3;

using Shape = AttentionShape;

/// One layer's numbers for one step, and what the references make of them.
class Layer {
public:
    Layer(Random& random, const Shape& shape)
        : s(shape)
        , capacity(shape.position + random.between(1, 300))
        , seed(static_cast<uint64_t>(random.between(0, int64_t{1} << 60)))
        , qkv(random.normal({s.rows, s.heads() + 2 * s.kv_heads, s.head_dim}))
        , keys(random.normal({s.kv_heads, capacity, s.head_dim}, 1.0, dtype_of(s.type)))
        , values(random.normal({s.kv_heads, capacity, s.head_dim}, 1.0, dtype_of(s.type)))
        , q_norm(random, {s.head_dim}, s.type, "q norm", 0.3, 1.0)
        , k_norm(random, {s.head_dim}, s.type, "k norm", 0.3, 1.0) {
        const at::Tensor angle = random.normal({capacity, s.pairs()}, 2.0);
        cosines = angle.cos();
        sines = angle.sin();
    }

    [[nodiscard]] at::Tensor rotated(int64_t first_head, int64_t heads, const at::Tensor& norm) const {
        at::Tensor x = qkv.narrow(1, first_head, heads).clone(); // rotated in place
        if (norm.defined())
            x = kernels::reference::rms_norm(x.view({-1, s.head_dim}), norm + s.norm_offset, eps)
                    .view(x.sizes());
        if (s.turned != 0)
            kernels::reference::rope_(x, cosines[s.position].unsqueeze(0).expand({s.rows, s.pairs()}),
                                      sines[s.position].unsqueeze(0).expand({s.rows, s.pairs()}));
        return x;
    }
    /// What row 0 writes at column `position`, of the cache's type: [rows, kv_heads, head_dim].
    [[nodiscard]] at::Tensor own_keys() const {
        return rotated(s.heads(), s.kv_heads, s.k_norm ? k_norm.values : at::Tensor()).to(dtype_of(s.type));
    }
    [[nodiscard]] at::Tensor own_values() const {
        return qkv.narrow(1, s.heads() + s.kv_heads, s.kv_heads).contiguous().to(dtype_of(s.type));
    }
    /// \param lists  [kv_heads], without the rows' own entries; columns are rows of the flat cache. Empty: dense
    [[nodiscard]] at::Tensor expected(const at::Tensor& own_k, at::Tensor* probabilities,
                                      std::span<const kernels::KeyList> lists = {}) const {
        kernels::AttentionInputs in;
        in.q = rotated(0, s.heads(), s.q_norm ? q_norm.values : at::Tensor());
        const auto seen = [&](const at::Tensor& cache) {
            const at::Tensor all = cache.to(at::kFloat);
            return lists.empty() ? all : all.view({1, -1, s.head_dim}).expand({s.kv_heads, -1, s.head_dim});
        };
        in.k_cache = seen(keys);
        in.v_cache = seen(values);
        in.lists = lists;
        const std::vector<int64_t> visible(static_cast<size_t>(s.rows), s.position),
            first(static_cast<size_t>(s.rows), std::min(s.first(), s.position));
        in.num_visible = visible;
        in.first_visible = first;
        in.own_k = own_k.to(at::kFloat);
        in.own_v = own_values().to(at::kFloat);
        in.scale = s.query_scale / std::sqrt(static_cast<double>(s.head_dim));
        in.soft_cap = s.cap;
        std::vector<int32_t> passes;
        for (int32_t r = 0; r < s.rows; ++r)
            passes.push_back(r);
        in.passes = passes;
        in.dropout_p = s.dropout;
        in.dropout_key = {seed, s.position, layer, 0};
        return kernels::reference::attention(in, probabilities);
    }

    Shape s;
    int64_t capacity;
    uint64_t seed;
    at::Tensor qkv, keys, values, cosines, sines;
    Weights q_norm, k_norm;
};

/// What KV heads read: positions ascending, the step's own last, and rows of the flat cache.
using Lists = std::vector<std::vector<kernels::ListEntry>>;

/// The columns of a dense cache as lists.
Lists all_columns(const Layer& l) {
    Lists lists(static_cast<size_t>(l.s.kv_heads));
    for (int64_t h = 0; h < l.s.kv_heads; ++h)
        for (int64_t p = 0; p <= l.s.position; ++p)
            lists[static_cast<size_t>(h)].push_back(
                {static_cast<int32_t>(p), static_cast<int32_t>(h * l.capacity + p)});
    return lists;
}

/// Some positions of each head, in rows anywhere. \param least  entries beside the step's own
Lists scattered(Random& random, const Layer& l, int64_t least) {
    std::vector<int32_t> free(static_cast<size_t>(l.s.kv_heads * l.capacity));
    std::iota(free.begin(), free.end(), 0);
    const auto take = [&] {
        std::swap(free[static_cast<size_t>(random.between(0, std::ssize(free) - 1))], free.back());
        const int32_t row = free.back();
        free.pop_back();
        return row;
    };
    Lists lists(static_cast<size_t>(l.s.kv_heads));
    for (auto& list : lists) {
        for (int64_t p = 0; p < l.s.position; ++p)
            if (random.between(0, 2) > 0 || l.s.position - p <= least)
                list.push_back({static_cast<int32_t>(p), take()});
        list.push_back({static_cast<int32_t>(l.s.position), take()});
    }
    return lists;
}

/// The entries of a cache that lists name and the step sees, its own left out, and nothing else.
void show_entries(const Array<uint8_t>& cache, const at::Tensor& from, const Lists& lists, const Shape& s) {
    const int64_t row = from.size(2) * from.element_size();
    for (const auto& list : lists) {
        for (const kernels::ListEntry& entry : list) {
            if (entry.position < s.first() || entry.position == s.position) continue;
            const int64_t offset = entry.column * row;
            std::memcpy(cache.data() + offset, static_cast<const uint8_t*>(from.const_data_ptr()) + offset,
                        static_cast<size_t>(row));
            simt::note_written(cache.data() + offset, static_cast<size_t>(row));
        }
    }
}

struct Result {
    at::Tensor attended;             ///< [rows of the step, heads, head_dim]
    at::Tensor new_keys, new_values; ///< [kv_heads, head_dim] at column `position`
    at::Tensor scores, sums;         ///< [heads, capacity], [heads, 2]
    at::Tensor entropies;            ///< [heads], bits
};

/// \param rows  of the step, of `launched`. The launch is made twice on the same scratch memory.
/// \param lists  through which it goes; null: over the dense cache
Result run(const Layer& l, int64_t rows, int64_t launched, bool scores = false,
           const Lists* lists = nullptr) {
    const Shape& s = l.s;
    const Lists entries = lists != nullptr ? *lists : all_columns(l);
    const auto state = state_on_device(rows - 1, s.position, 0, l.seed);
    const auto qkv = floats_on_device(l.qkv.narrow(0, 0, launched), "qkv");
    const auto cosines = floats_on_device(l.cosines, "cos"), sines = floats_on_device(l.sines, "sin");
    const Array<uint8_t> keys(l.keys.nbytes(), "keys"), values(l.values.nbytes(), "values");
    show_entries(keys, l.keys, entries, s);
    show_entries(values, l.values, entries, s);
    const Array<kernels::ListEntry> listed(static_cast<size_t>(s.kv_heads * l.capacity), "entries");
    std::vector<int32_t> lengths;
    std::vector<int64_t> own;
    for (const auto& list : entries) {
        auto* const to = listed.data() + std::ssize(lengths) * l.capacity;
        std::ranges::copy(list, to);
        simt::note_written(to, list.size() * sizeof(kernels::ListEntry));
        lengths.push_back(static_cast<int32_t>(list.size()));
        own.push_back(list.back().column);
    }
    const Array<int32_t> counts(lengths, "counts", Contents::read_only);
    const auto n = static_cast<size_t>(launched * s.heads());
    const auto splits = static_cast<size_t>(kernels::decode::splits(l.capacity));
    const Array<float> parts(n * splits * static_cast<size_t>(s.head_dim + 2), "parts");
    const Array<uint32_t> arrived(std::vector<uint32_t>(static_cast<size_t>(launched * s.kv_heads)),
                                  "arrived");
    const Array<float> attended(n * static_cast<size_t>(s.head_dim), "attended"),
        row_scores(static_cast<size_t>(s.heads() * l.capacity), "scores"),
        entropies(static_cast<size_t>(s.heads()), "entropies"),
        entropy_parts(static_cast<size_t>(s.heads()) * splits, "entropy parts"),
        sums(static_cast<size_t>(s.heads() * 2), "sums");
    gpu::DecodeAttentionInputs in;
    in.type = s.type;
    in.state = state.data();
    in.qkv = qkv.data();
    in.q_norm = s.q_norm ? l.q_norm.device.data() : nullptr;
    in.k_norm = s.k_norm ? l.k_norm.device.data() : nullptr;
    in.eps = eps;
    in.norm_offset = s.norm_offset;
    in.cos = s.turned == 0 ? nullptr : cosines.data();
    in.sin = s.turned == 0 ? nullptr : sines.data();
    in.turned = std::max<int64_t>(s.turned, 0);
    in.query_scale = s.query_scale;
    in.cap = s.cap;
    in.k_cache = keys.data();
    in.v_cache = values.data();
    in.heads = s.heads();
    in.kv_heads = s.kv_heads;
    in.head_dim = s.head_dim;
    in.capacity = l.capacity;
    in.window = s.window;
    in.dropout = {s.dropout, layer, 0};
    in.parts = parts.data();
    in.arrived = arrived.data();
    in.attended = attended.data();
    if (scores) {
        in.scores = row_scores.data();
        in.score_sums = sums.data();
        in.entropies = entropies.data();
        in.entropy_parts = entropy_parts.data();
    }
    in.rows = launched;
    if (lists != nullptr) {
        in.entries = listed.data();
        in.counts = counts.data();
    }
    gpu::launch_decode_attention(in, nullptr);
    const std::vector<float> once = attended.values();
    gpu::launch_decode_attention(in, nullptr);
    REQUIRE(std::memcmp(once.data(), attended.data(), once.size() * sizeof(float)) == 0);
    REQUIRE(std::ranges::all_of(arrived.values(), [](uint32_t count) { return count == 0; }));

    const at::Tensor all = tensor_of(attended, {launched, s.heads(), s.head_dim});
    REQUIRE(all.narrow(0, rows, launched - rows).isnan().all().item<bool>()); // not the step's rows
    const at::Tensor new_keys = tensor_of(keys, l.keys.sizes(), dtype_of(s.type)),
                     new_values = tensor_of(values, l.values.sizes(), dtype_of(s.type));
    const auto own_of = [&](const at::Tensor& cache) {
        return cache.view({-1, s.head_dim}).index_select(0, at::tensor(own, at::kLong));
    };
    return {all.narrow(0, 0, rows),
            own_of(new_keys),
            own_of(new_values),
            tensor_of(row_scores, {s.heads(), l.capacity}),
            tensor_of(sums, {s.heads(), 2}),
            tensor_of(entropies, {s.heads()})};
}

void check(Random& random, const Shape& s) {
    CAPTURE(static_cast<int>(s.type), s.kv_heads, s.group, s.head_dim, s.position, s.window, s.rows, s.q_norm,
            s.k_norm, s.dropout, s.turned, s.norm_offset, s.query_scale, s.cap);
    const Layer l(random, s);
    const Result got = run(l, s.rows, s.rows, true);
    at::Tensor own = l.own_keys();
    if (s.k_norm && s.type != WeightType::f32) {
        // A sum in another order may round to the neighbour.
        REQUIRE(at::allclose(got.new_keys.to(at::kFloat), own[0].to(at::kFloat), 1.0 / 128, 1e-6));
        REQUIRE(s.rows == 1);
        own = got.new_keys.unsqueeze(0);
    } else if (s.k_norm) {
        REQUIRE(relative_error(got.new_keys, own[0]) <= tolerance);
    } else {
        REQUIRE(same_bits(got.new_keys, own[0]));
    }
    REQUIRE(same_bits(got.new_values, l.own_values()[0]));
    at::Tensor probabilities;
    const at::Tensor expected = l.expected(own, &probabilities);
    for (int64_t r = 0; r < s.rows; ++r) {
        CAPTURE(r);
        REQUIRE(relative_error(got.attended[r], expected[r]) <= tolerance);
    }
    // What the attention row of row 0 is made of.
    const int64_t first = s.first(), n = s.position + 1 - first;
    const at::Tensor row =
        (got.scores.narrow(1, first, n) - got.sums.narrow(1, 0, 1)).exp() / got.sums.narrow(1, 1, 1);
    REQUIRE(relative_error(row, probabilities[0].narrow(1, first, n)) <= tolerance);
    const at::Tensor p = probabilities[0].to(at::kDouble);
    REQUIRE(
        at::allclose(got.entropies.to(at::kDouble), -at::xlogy(p, p).sum(-1) / std::log(2.0), 1e-5, 1e-5));
    REQUIRE(got.scores.narrow(1, 0, first).isnan().all().item<bool>());
    REQUIRE(got.scores.narrow(1, s.position + 1, l.capacity - s.position - 1).isnan().all().item<bool>());
}

TEST_CASE("attention of a decode step on the host machine equals the reference", "[simt][decode]") {
    Random random(1211);
    const std::vector<int64_t> dims{32, 48, 64, 80, 96, 128, 256}, groups{1, 2, 3, 4, 7, 8, 16},
        positions{0, 1, 255, 256, 257, 511, 700};
    const auto groups_from = static_cast<size_t>(random.between(0, 6)),
               positions_from = static_cast<size_t>(random.between(0, 6));
    for (size_t i = 0; i < 2 * dims.size(); ++i) {
        Shape s;
        s.type = weight_types[i % 3];
        s.head_dim = dims[i % 7];
        s.group = groups[(i * (1 + i / 7) + groups_from) % 7];
        s.position = positions[(2 * i + i / 7 + positions_from) % 7];
        s.kv_heads = s.head_dim * s.group > 512 ? 1 : 2;
        s.window = i % 2 == 0 ? 0 : random.pick(std::vector<int64_t>{1, 2, 100, 256, 257, 300, 5000});
        s.q_norm = random.between(0, 1) == 1;
        s.k_norm = random.between(0, 1) == 1;
        const bool rounds = s.k_norm && s.type != WeightType::f32;
        s.rows = rounds || s.head_dim * s.group > 512 ? 1 : 2;
        s.dropout = s.rows > 1 ? 0.25F : 0.0F;
        s.draw_kind(random);
        check(random, s);
    }
}

TEST_CASE("attention of a decode step where splits begin and end", "[simt][decode]") {
    Random random(1212);
    for (const int64_t position : {0, 1, 255, 256, 257, 511, 700}) {
        Shape s;
        s.type = random.pick(weight_types);
        s.position = position;
        s.group = 2;
        s.rows = 2;
        s.dropout = 0.5F;
        // The window's first column at the end of a split, at its beginning, in the last split, and the own column alone.
        for (const int64_t window :
             {int64_t{0}, int64_t{1}, position - 254, position - 255, position - 300}) {
            if (window < 0 || (window == 0 && position % 2 == 1)) continue;
            s.window = window;
            check(random, s);
        }
    }
}

TEST_CASE("attention over more splits than the last block reads at once", "[simt][decode]") {
    Random random(1219);
    struct Many {
        int64_t group, head_dim, splits, window;
    };
    // Three teams, two, one, and more channels than threads; one run of splits and more, from a later one on.
    const std::vector<Many> cases{{1, 16, 8, 0},     {1, 16, 27, 0}, {2, 64, 17, 0},
                                  {2, 64, 26, 6000}, {3, 96, 9, 0},  {8, 144, 10, 2100}};
    for (const Many& c : cases) {
        Shape s;
        s.type = random.pick(weight_types);
        s.group = c.group;
        s.head_dim = c.head_dim;
        s.position = c.splits * 256 - random.between(1, 200);
        s.window = c.window;
        check(random, s);
    }
}

TEST_CASE("the largest attention that a step may have", "[simt][decode]") {
    Random random(1213);
    Shape s;
    s.type = WeightType::bf16;
    s.head_dim = 256;
    s.group = 16;
    s.position = 300;
    s.window = 60;
    const simt::Settings before = simt::set_settings({0, 89}); // 99 KB of shared memory
    check(random, s);
    simt::set_settings(before);
    s.head_dim = 264;
    const Layer l(random, s);
    REQUIRE_THROWS_AS(run(l, 1, 1), InvariantError);
}

TEST_CASE("a row of attention has the same bits whatever rows are beside it, in every order",
          "[simt][decode]") {
    Random random(1214);
    const WeightType thorough = random.pick(weight_types);
    for (const WeightType type : weight_types) {
        Shape s;
        s.type = type;
        s.group = random.pick(std::vector<int64_t>{1, 3});
        s.position = random.pick(std::vector<int64_t>{100, 270});
        s.rows = 12;
        s.q_norm = s.k_norm = true;
        s.dropout = 0.1F;
        const Layer l(random, s);
        const Result all = run(l, 12, 12);
        for (const int64_t rows :
             type == thorough ? std::vector<int64_t>{1, 2, 3, 5, 8, 9} : std::vector<int64_t>{2}) {
            CAPTURE(rows);
            const Result some = run(l, rows, rows);
            REQUIRE(same_bits(some.attended, all.attended.narrow(0, 0, rows)));
            REQUIRE(same_bits(some.new_keys, all.new_keys));
        }
        REQUIRE(same_bits(run(l, 3, 12).attended, all.attended.narrow(0, 0, 3)));
        simt::in_orders(
            3, [&](uint64_t) { REQUIRE(same_bits(run(l, 2, 2).attended, all.attended.narrow(0, 0, 2))); });
    }
}

TEST_CASE("a key of the cache and the same key as the row's own give the same bits", "[simt][decode]") {
    // A step at position n, then one at n + 1 whose query is the same: the key of n is now read from the cache. The scores at the columns
    // up to n are the same to the bit.
    Random random(1215);
    Shape s;
    s.type = WeightType::bf16;
    s.group = 3;
    s.head_dim = 80;
    s.position = 40;
    Layer l(random, s);
    l.capacity = l.keys.size(1);
    const Result first = run(l, 1, 1, true);
    l.keys.select(1, s.position).copy_(first.new_keys);
    l.values.select(1, s.position).copy_(first.new_values);
    l.cosines[s.position + 1].copy_(l.cosines[s.position]);
    l.sines[s.position + 1].copy_(l.sines[s.position]);
    ++l.s.position;
    const Result second = run(l, 1, 1, true);
    REQUIRE(same_bits(second.scores.narrow(1, 0, 41), first.scores.narrow(1, 0, 41)));
}

/// A shape with a window or none, dropout or none.
Shape any_shape(Random& random, int64_t position) {
    Shape s;
    s.type = random.pick(weight_types);
    s.head_dim = random.pick(std::vector<int64_t>{32, 80, 128});
    s.group = random.pick(std::vector<int64_t>{1, 2, 3, 7});
    s.kv_heads = 2;
    s.position = position;
    s.window = random.pick(std::vector<int64_t>{0, 1, 100, 300});
    s.rows = random.between(1, 2);
    s.dropout = s.rows > 1 ? 0.25F : 0.0F;
    return s;
}

TEST_CASE("attention through the list of all columns has the bits of the dense cache",
          "[simt][decode][lists]") {
    Random random(1216);
    for (const int64_t position : {0, 1, 255, 256, 257, 600}) {
        Shape s = any_shape(random, position);
        s.q_norm = s.k_norm = true;
        CAPTURE(static_cast<int>(s.type), s.group, s.head_dim, s.position, s.window, s.rows);
        const Layer l(random, s);
        const Lists lists = all_columns(l);
        const Result dense = run(l, s.rows, s.rows, true), listed = run(l, s.rows, s.rows, true, &lists);
        REQUIRE(same_bits(listed.attended, dense.attended));
        REQUIRE(same_bits(listed.new_keys, dense.new_keys));
        REQUIRE(same_bits(listed.new_values, dense.new_values));
        REQUIRE(same_bits(listed.scores, dense.scores)); // what nobody wrote included
        REQUIRE(same_bits(listed.sums, dense.sums));
    }
}

TEST_CASE("attention rows go to the host in bins by position, dense or through lists",
          "[simt][decode][lists]") {
    Random random(1218);
    constexpr int64_t heads = 6, kv_heads = 2, taps = 2, layers = 3;
    const std::vector<int64_t> window_of{40, 0, 700};
    for (const int64_t position : {0, 30, 255, 256, 1100}) {
        for (const bool listed : {false, true}) {
            const int64_t bins = random.pick(std::vector<int64_t>{1, 3, 16, 256}), keys = position + 1;
            const int64_t capacity = keys + random.between(0, 300);
            const int64_t width = kernels::shared::bin_width(keys, bins),
                          n = kernels::shared::num_bins(keys, width);
            CAPTURE(position, listed, bins, width, capacity);
            const std::vector<uint16_t> tapped{2, 0};
            // What a head reads, by entry: positions ascending.
            std::vector<std::vector<int32_t>> read(static_cast<size_t>(layers * kv_heads));
            for (auto& positions : read)
                for (int64_t p = 0; p < keys; ++p)
                    if (!listed || p == position || random.between(0, 2) > 0)
                        positions.push_back(static_cast<int32_t>(p));
            const at::Tensor scores = at::full({taps, heads, capacity}, nan),
                             sums = at::empty({taps, heads, 2});
            at::Tensor expected = at::zeros({taps, heads, n});
            for (int64_t tap = 0; tap < taps; ++tap) {
                for (int64_t head = 0; head < heads; ++head) {
                    const int64_t layer_of = tapped[static_cast<size_t>(tap)];
                    const auto& positions = read[static_cast<size_t>(layer_of * kv_heads + head / 3)];
                    const int64_t window = window_of[static_cast<size_t>(layer_of)];
                    const int64_t first = window > 0 ? std::max<int64_t>(keys - window, 0) : 0;
                    at::Tensor mine = random.normal({std::ssize(positions)}, 2.0);
                    double most = -1e30, sum = 0;
                    for (size_t i = 0; i < positions.size(); ++i)
                        if (positions[i] >= first)
                            most = std::max(most, mine[static_cast<int64_t>(i)].item<double>());
                    for (size_t i = 0; i < positions.size(); ++i) {
                        if (positions[i] < first) continue; // nobody has written such a score
                        const double x = mine[static_cast<int64_t>(i)].item<double>();
                        scores[tap][head][static_cast<int64_t>(i)] = x;
                        sum += std::exp(x - most);
                    }
                    for (size_t i = 0; i < positions.size(); ++i)
                        if (positions[i] >= first)
                            expected[tap][head][positions[i] / width] +=
                                std::exp(mine[static_cast<int64_t>(i)].item<double>() - most) / sum;
                    sums[tap][head][0] = most;
                    sums[tap][head][1] = sum;
                }
            }
            const auto state = state_on_device(0, position);
            const auto in_sums = floats_on_device(sums, "score sums");
            const Array<float> in_scores(static_cast<size_t>(scores.numel()), "scores");
            for (int64_t i = 0; i < scores.numel(); ++i) {
                const float x = scores.const_data_ptr<float>()[i];
                if (std::isnan(x)) continue;
                in_scores.data()[i] = x;
                simt::note_written(in_scores.data() + i, sizeof(float));
            }
            const Array<int64_t> windows(window_of, "windows", Contents::read_only);
            const Array<kernels::ListEntry> entries(static_cast<size_t>(layers * kv_heads * capacity),
                                                    "entries");
            std::vector<int32_t> lengths;
            for (const auto& positions : read) {
                auto* const to = entries.data() + std::ssize(lengths) * capacity;
                for (size_t i = 0; i < positions.size(); ++i)
                    to[i] = {positions[i], 0};
                simt::note_written(to, positions.size() * sizeof(kernels::ListEntry));
                lengths.push_back(static_cast<int32_t>(positions.size()));
            }
            const Array<int32_t> counts(lengths, "counts", Contents::read_only);
            std::vector<uint16_t> once;
            simt::in_orders(2, [&](uint64_t order) {
                const Array<uint16_t> halves(static_cast<size_t>(taps * heads * capacity), "halves");
                gpu::AttentionRowsInputs in;
                in.state = state.data();
                in.scores = in_scores.data();
                in.score_sums = in_sums.data();
                in.windows = windows.data();
                in.halves = halves.data();
                in.taps = taps;
                in.heads = heads;
                in.capacity = capacity;
                in.bins = bins;
                std::ranges::copy(tapped, in.layers);
                if (listed) {
                    in.entries = entries.data();
                    in.counts = counts.data();
                    in.kv_heads = kv_heads;
                }
                gpu::launch_attention_rows(in, nullptr);
                const std::vector<uint16_t> got = halves.values();
                if (order == 0) once = got;
                REQUIRE(got == once);
                for (int64_t tap = 0; tap < taps; ++tap) {
                    for (int64_t i = 0; i < heads * n; ++i) {
                        const float want = expected[tap].view({-1})[i].item<float>();
                        const float half = kernels::shared::half_to_float(
                            got[static_cast<size_t>(tap * heads * capacity + i)]);
                        REQUIRE(std::abs(half - want) <= 1e-3F * want + 1e-6F);
                    }
                }
            });
        }
    }
}

TEST_CASE("attention through lists equals the reference, whatever rows hold the entries",
          "[simt][decode][lists]") {
    Random random(1217);
    for (const int64_t position : {0, 1, 200, 385, 386, 387, 800}) {
        const Shape s = any_shape(random, position);
        CAPTURE(static_cast<int>(s.type), s.group, s.head_dim, s.position, s.window, s.rows);
        Layer l(random, s);
        const Lists lists = scattered(random, l, random.between(0, 3));
        const Result got = run(l, s.rows, s.rows, true, &lists);
        std::vector<std::vector<int64_t>> positions, columns;
        std::vector<kernels::KeyList> held;
        for (const auto& list : lists) {
            positions.emplace_back();
            columns.emplace_back();
            for (const kernels::ListEntry& entry : std::span(list).first(list.size() - 1)) {
                positions.back().push_back(entry.position);
                columns.back().push_back(entry.column);
            }
        }
        for (size_t h = 0; h < lists.size(); ++h)
            held.push_back({positions[h].data(), columns[h].data(), std::ssize(positions[h])});
        at::Tensor probabilities;
        const at::Tensor expected = l.expected(l.own_keys(), &probabilities, held);
        REQUIRE(same_bits(got.new_keys, l.own_keys()[0]));
        REQUIRE(same_bits(got.new_values, l.own_values()[0]));
        for (int64_t r = 0; r < s.rows; ++r)
            REQUIRE(relative_error(got.attended[r], expected[r]) <= tolerance);
        for (int64_t head = 0; head < s.heads(); ++head) { // the row by entry
            const auto& list = lists[static_cast<size_t>(head / s.group)];
            const auto first = std::ranges::lower_bound(list, s.first(), {}, &kernels::ListEntry::position);
            const int64_t before = first - list.begin(), n = std::ssize(list) - before;
            const at::Tensor scores = got.scores[head].narrow(0, before, n);
            const at::Tensor row = (scores - got.sums[head][0]).exp() / got.sums[head][1];
            REQUIRE(relative_error(row, probabilities[0][head].narrow(0, before, n)) <= tolerance);
        }
        // The same entries in other rows: the same bits, in every order.
        Lists elsewhere = scattered(random, l, l.s.position);
        const at::Tensor keys = at::full_like(l.keys, nan), values = at::full_like(l.values, nan);
        for (size_t h = 0; h < lists.size(); ++h) {
            auto& list = elsewhere[h];
            std::erase_if(list, [&](const kernels::ListEntry& entry) {
                return !std::ranges::binary_search(lists[h], entry.position, {},
                                                   &kernels::ListEntry::position);
            });
            for (size_t i = 0; i < list.size(); ++i) {
                for (const auto& [to, from] : {std::pair(keys, l.keys), std::pair(values, l.values)})
                    to.view({-1, s.head_dim})[list[i].column].copy_(
                        from.view({-1, s.head_dim})[lists[h][i].column]);
            }
        }
        l.keys = keys;
        l.values = values;
        simt::in_orders(position == 386 ? 3 : 1, [&](uint64_t) {
            const Result again = run(l, s.rows, s.rows, true, &elsewhere);
            REQUIRE(same_bits(again.attended, got.attended));
            REQUIRE(same_bits(again.scores, got.scores));
        });
    }
}

} // namespace
} // namespace refreshlab::test::decode_attention_simt
