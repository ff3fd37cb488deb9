#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/ops/column_distance.h"
#include "kernels/ops/dense.h"
#include "tests/kernels/simt/rows_fixture.h"

/// What a pass of many rows does besides products and attention, on the host machine: against the plain references, and the same bits in
/// a row whatever other rows are in the pass and in whatever order blocks and threads come.
namespace refreshlab::test::rows_steps_simt {
namespace {

using namespace rows_simt;

constexpr double tolerance = 1e-5;
constexpr double eps = 1e-5;

TEST_CASE("each row of a pass gets the embedding of its token", "[simt][rows]") {
    Random random(1301);
    for (const WeightType type : weight_types) {
        const int64_t hidden = random.pick(std::vector<int64_t>{8, 264, 1696, 2056}), vocab = 7;
        const int64_t rows = random.pick(std::vector<int64_t>{2, 3, 9});
        CAPTURE(static_cast<int>(type), hidden, rows);
        const Weights embedding(random, {vocab, hidden}, type, "embedding");
        std::vector<int32_t> ids;
        for (int64_t r = 0; r < rows; ++r)
            ids.push_back(static_cast<int32_t>(random.between(0, vocab - 1)));
        const at::Tensor index = at::tensor(std::vector<int64_t>(ids.begin(), ids.end()), at::kLong);
        simt::in_orders(2, [&](uint64_t) {
            const Array<int32_t> tokens(ids, "tokens", Contents::read_only);
            const Array<float> x(static_cast<size_t>(rows * hidden), "x");
            const float scale = rows == 3 ? 7.7F : 1.0F;
            gpu::launch_rows_embed({type, embedding.device.data(), tokens.data(), rows, hidden, x.data(),
                                    false, kernels::MatrixForm::numbers, scale},
                                   nullptr);
            REQUIRE(same_bits(tensor_of(x, {rows, hidden}), embedding.values.index_select(0, index) * scale));
        });
    }
}

TEST_CASE("the norm of many rows equals the reference", "[simt][rows]") {
    Random random(1302);
    for (const WeightType type : weight_types) {
        const int64_t hidden = random.pick(std::vector<int64_t>{8, 264, 1696, 4104}), rows = 5;
        const int64_t width = hidden - random.between(0, 7);
        CAPTURE(static_cast<int>(type), hidden, width);
        at::Tensor x = random.normal({rows, hidden}, 2.0);
        x.narrow(1, width, hidden - width).zero_();
        const Weights norm(random, {hidden}, type, "norm", 0.3, 1.0);
        const at::Tensor expected = kernels::reference::rms_norm(x, norm.values, eps, width);
        const auto run = [&](const at::Tensor& of) {
            const auto in_x = floats_on_device(of, "x");
            const Array<uint8_t> out(static_cast<size_t>(of.numel() * kernels::bytes_of(type)), "out");
            gpu::launch_rows_norm(
                {type, in_x.data(), norm.device.data(), eps, of.size(0), hidden, width, out.data(), false},
                nullptr);
            return tensor_of(out, of.sizes(), dtype_of(type));
        };
        at::Tensor first;
        simt::in_orders(3, [&](uint64_t order) {
            const at::Tensor got = run(x);
            if (order == 0) first = got;
            REQUIRE(same_bits(got, first));
        });
        for (int64_t r = 0; r < rows; ++r) {
            REQUIRE(equal_but_rounding(first[r], expected[r], tolerance));
            REQUIRE(same_bits(run(x.narrow(0, r, 1)), first.narrow(0, r, 1)));
        }
    }
}

TEST_CASE("a norm adds the parts of a product to the residual first", "[simt][rows]") {
    Random random(1305);
    for (const WeightType type : weight_types) {
        const int64_t hidden = random.pick(std::vector<int64_t>{8, 264, 1696}), rows = 4;
        const int64_t count = random.between(2, 8);
        const bool biased = random.between(0, 1) == 1;
        CAPTURE(static_cast<int>(type), hidden, count, biased);
        const at::Tensor x = random.normal({rows, hidden}, 2.0), parts = random.normal({count, rows, hidden});
        const Weights norm(random, {hidden}, type, "norm", 0.3, 1.0), bias(random, {hidden}, type, "bias");
        at::Tensor sum = parts[0].clone();
        for (int64_t p = 1; p < count; ++p)
            sum += parts[p];
        if (biased) sum += bias.values;
        const at::Tensor onto = x + sum;
        const auto run = [&](const at::Tensor& of, const at::Tensor& of_parts, bool merged) {
            const auto in_x = floats_on_device(of, "x", merged ? Contents::written : Contents::read_only);
            const auto in_parts = floats_on_device(of_parts, "parts");
            const Array<uint8_t> out(static_cast<size_t>(of.numel() * kernels::bytes_of(type)), "out");
            gpu::RowsNormInputs in{type,   in_x.data(), norm.device.data(), eps,  of.size(0),
                                   hidden, hidden,      out.data(),         false};
            if (merged) {
                in.parts = {count, in_parts.data()};
                in.parts_bias = biased ? bias.device.data() : nullptr;
            }
            gpu::launch_rows_norm(in, nullptr);
            return std::pair(tensor_of(in_x, of.sizes()), tensor_of(out, of.sizes(), dtype_of(type)));
        };
        // The same bits as of a residual that has been added to before, whatever rows there are.
        const at::Tensor normed = run(onto, parts, false).second;
        simt::in_orders(3, [&](uint64_t) {
            const auto [residual, got] = run(x, parts, true);
            REQUIRE(same_bits(residual, onto));
            REQUIRE(same_bits(got, normed));
        });
        const auto [residual, got] = run(x.narrow(0, 1, 2), parts.narrow(1, 1, 2), true);
        REQUIRE(same_bits(residual, onto.narrow(0, 1, 2)));
        REQUIRE(same_bits(got, normed.narrow(0, 1, 2)));
    }
}

TEST_CASE("a norm of what is added joins the residual, of one part or more; a row without a norm is rounded",
          "[simt][rows]") {
    Random random(1307);
    for (const WeightType type : weight_types) {
        for (const bool normed : {true, false}) {
            const int64_t hidden = random.pick(std::vector<int64_t>{8, 264, 1696}), rows = 4,
                          width = hidden - random.between(0, 7), count = random.between(1, 3);
            const double offset = random.pick(std::vector<double>{0, 1});
            CAPTURE(static_cast<int>(type), hidden, width, count, normed, offset);
            at::Tensor x = random.normal({rows, hidden}, 2.0), parts = random.normal({count, rows, hidden});
            for (const at::Tensor& t : {x, parts})
                t.narrow(-1, width, hidden - width).zero_();
            const Weights norm(random, {hidden}, type, "norm", 0.3, 1.0),
                of_branch(random, {hidden}, type, "norm of the branch", 0.3, 1.0);
            const at::Tensor onto =
                x + kernels::reference::rms_norm(parts.sum(0), of_branch.values + offset, eps, width);
            const at::Tensor expected =
                normed ? kernels::reference::rms_norm(onto, norm.values + offset, eps, width) : onto;
            at::Tensor first;
            simt::in_orders(2, [&](uint64_t order) {
                const auto in_x = floats_on_device(x, "x", Contents::written);
                const auto in_parts = floats_on_device(parts, "parts");
                const Array<uint8_t> out(static_cast<size_t>(x.numel() * kernels::bytes_of(type)), "out");
                gpu::RowsNormInputs in{type,   in_x.data(), norm.device.data(), eps,  rows,
                                       hidden, width,       out.data(),         false};
                if (!normed) in.norm = nullptr;
                in.parts = {count, in_parts.data()};
                in.onto_norm = of_branch.device.data();
                in.norm_offset = offset;
                gpu::launch_rows_norm(in, nullptr);
                REQUIRE(relative_error(tensor_of(in_x, x.sizes()), onto) <= tolerance);
                const at::Tensor got = tensor_of(out, x.sizes(), dtype_of(type));
                if (order == 0) first = got;
                REQUIRE(same_bits(got, first));
                REQUIRE(equal_but_rounding(got, expected, tolerance));
            });
        }
    }
}

TEST_CASE("q, k and v are taken from the parts of their product", "[simt][rows]") {
    Random random(1306);
    for (const WeightType type : weight_types) {
        for (const int64_t heads : {3, 0}) { // a last layer makes keys and values alone
            const int64_t kv_heads = 2, head_dim = 16 * random.between(1, 16), rows = 5, first = 3,
                          capacity = 9;
            const int64_t all = heads + 2 * kv_heads, count = random.between(2, 4);
            const bool biased = random.between(0, 1) == 1, normed = random.between(0, 1) == 1;
            CAPTURE(static_cast<int>(type), heads, head_dim, count, biased, normed);
            const at::Tensor parts = random.normal({count, rows, all * head_dim});
            const Weights bias(random, {all * head_dim}, type, "bias"),
                norm(random, {head_dim}, type, "norm");
            const auto cos = floats_on_device(random.normal({capacity, head_dim / 2}), "cos"),
                       sin = floats_on_device(random.normal({capacity, head_dim / 2}), "sin");
            at::Tensor sum = parts[0].clone();
            for (int64_t p = 1; p < count; ++p)
                sum += parts[p];
            if (biased) sum += bias.values;
            const auto of_parts = floats_on_device(parts, "parts");
            const at::Tensor nothing = at::full({rows, all, head_dim}, nan);
            const auto run = [&](bool merged) {
                const auto qkv = floats_on_device(merged ? nothing : sum, "qkv", Contents::written);
                const Array<uint8_t> k(
                    static_cast<size_t>(kv_heads * capacity * head_dim * kernels::bytes_of(type)), "k"),
                    v(k.size(), "v");
                gpu::RowsAppendInputs in;
                in.type = type;
                in.qkv = qkv.data();
                in.q_norm = in.k_norm = normed ? norm.device.data() : nullptr;
                in.eps = eps;
                in.cos = cos.data();
                in.sin = sin.data();
                in.k_cache = k.data();
                in.v_cache = v.data();
                in.heads = heads;
                in.kv_heads = kv_heads;
                in.head_dim = head_dim;
                in.capacity = capacity;
                in.rows = rows;
                in.first = first;
                if (merged) {
                    const auto of_head = [&](int64_t head) -> const void* {
                        return biased ? bias.device.data() + head * head_dim * kernels::bytes_of(type)
                                      : nullptr;
                    };
                    in.parts = {count, of_parts.data()};
                    in.q_bias = heads > 0 ? of_head(0) : nullptr;
                    in.k_bias = of_head(heads);
                    in.v_bias = of_head(heads + kv_heads);
                }
                gpu::launch_rows_append(in, nullptr);
                const auto written = [&](const Array<uint8_t>& cache) {
                    return tensor_of(cache, {kv_heads, capacity, head_dim}, dtype_of(type))
                        .narrow(1, first, rows);
                };
                return std::array{tensor_of(qkv, {rows, all, head_dim}), written(k), written(v)};
            };
            const auto got = run(true), expected = run(false);
            REQUIRE(same_bits(got[0].narrow(1, 0, heads), expected[0].narrow(1, 0, heads)));
            REQUIRE(got[0].narrow(1, heads, 2 * kv_heads).isnan().all().item<bool>());
            REQUIRE(same_bits(got[1], expected[1]));
            REQUIRE(same_bits(got[2], expected[2]));
        }
    }
}

struct AppendCase {
    int64_t heads, kv_heads, head_dim, rows, first;
    bool normed;
    int64_t turned; ///< -1: all
    double norm_offset;
};

TEST_CASE("keys and values of many rows go into the cache behind norm and RoPE", "[simt][rows]") {
    Random random(1303);
    for (const WeightType type : weight_types) {
        for (const AppendCase& c :
             {AppendCase{3, 1, 16, 2, 0, false, -1, 0}, AppendCase{4, 2, 80, 7, 5, true, 24, 1},
              AppendCase{2, 2, 256, 3, 11, true, -1, 0}, AppendCase{2, 1, 48, 3, 11, true, 0, 1}}) {
            CAPTURE(static_cast<int>(type), c.head_dim);
            const int64_t all = c.heads + 2 * c.kv_heads, pairs = (c.turned < 0 ? c.head_dim : c.turned) / 2;
            const int64_t capacity = c.first + c.rows + random.between(0, 3);
            const at::Tensor qkv = random.normal({c.rows, all, c.head_dim}, 2.0);
            const Weights q_norm(random, {c.head_dim}, type, "q norm", 0.3, 1.0),
                k_norm(random, {c.head_dim}, type, "k norm", 0.3, 1.0);
            const at::Tensor angles = random.normal({capacity, pairs}, 3.0);
            const at::Tensor cosines = angles.cos(), sines = angles.sin();

            const auto prepared = [&](int64_t from, int64_t n, const at::Tensor& norm) {
                at::Tensor part = qkv.narrow(1, from, n).contiguous();
                if (c.normed)
                    part =
                        kernels::reference::rms_norm(part.view({-1, c.head_dim}), norm + c.norm_offset, eps)
                            .view({c.rows, n, c.head_dim});
                if (pairs > 0)
                    kernels::reference::rope_(part, cosines.narrow(0, c.first, c.rows),
                                              sines.narrow(0, c.first, c.rows));
                return part;
            };
            const at::Tensor q = prepared(0, c.heads, q_norm.values);
            const at::Tensor k = prepared(c.heads, c.kv_heads, k_norm.values).transpose(0, 1);
            const at::Tensor v = qkv.narrow(1, c.heads + c.kv_heads, c.kv_heads).transpose(0, 1);

            struct Result {
                at::Tensor qkv, k, v;
            };
            const at::Tensor cache_before =
                random.normal({c.kv_heads, capacity, c.head_dim}).to(dtype_of(type));
            const auto run = [&](int64_t from, int64_t rows) {
                const auto in = floats_on_device(qkv.narrow(0, from, rows), "qkv", Contents::written);
                const auto k_cache = bytes_on_device(cache_before, "k cache", Contents::written);
                const auto v_cache = bytes_on_device(cache_before, "v cache", Contents::written);
                const auto cos = floats_on_device(cosines, "cos"), sin = floats_on_device(sines, "sin");
                const kernels::HeadsInputs heads{type,
                                                 c.normed ? q_norm.device.data() : nullptr,
                                                 c.normed ? k_norm.device.data() : nullptr,
                                                 eps,
                                                 c.norm_offset,
                                                 pairs > 0 ? cos.data() : nullptr,
                                                 pairs > 0 ? sin.data() : nullptr,
                                                 std::max<int64_t>(c.turned, 0),
                                                 c.kv_heads,
                                                 c.head_dim};
                const gpu::RowsAppendInputs append{heads,          in.data(),      k_cache.data(),
                                                   v_cache.data(), c.heads,        capacity,
                                                   rows,           c.first + from, false};
                gpu::launch_rows_append(append, nullptr);
                return Result{tensor_of(in, {rows, all, c.head_dim}),
                              tensor_of(k_cache, cache_before.sizes(), dtype_of(type)),
                              tensor_of(v_cache, cache_before.sizes(), dtype_of(type))};
            };
            Result whole;
            simt::in_orders(2, [&](uint64_t order) {
                const Result got = run(0, c.rows);
                if (order == 0) whole = got;
                REQUIRE(same_bits(got.qkv, whole.qkv));
                REQUIRE(same_bits(got.k, whole.k));
            });
            const int64_t behind = c.first + c.rows;
            const auto written = [&](const at::Tensor& cache) { return cache.narrow(1, c.first, c.rows); };
            REQUIRE(relative_error(whole.qkv.narrow(1, 0, c.heads), q) <= tolerance);
            REQUIRE(same_bits(whole.qkv.narrow(1, c.heads, 2 * c.kv_heads),
                              qkv.narrow(1, c.heads, 2 * c.kv_heads)));
            REQUIRE(same_bits(written(whole.v), v.to(dtype_of(type))));
            REQUIRE(equal_but_rounding(written(whole.k), k, tolerance));
            for (const at::Tensor& cache : {whole.k, whole.v}) {
                REQUIRE(same_bits(cache.narrow(1, 0, c.first), cache_before.narrow(1, 0, c.first)));
                REQUIRE(same_bits(cache.narrow(1, behind, capacity - behind),
                                  cache_before.narrow(1, behind, capacity - behind)));
            }
            const int64_t r = random.between(0, c.rows - 1);
            const Result alone = run(r, 1);
            REQUIRE(same_bits(alone.qkv[0], whole.qkv[r]));
            REQUIRE(same_bits(alone.k.select(1, c.first + r), whole.k.select(1, c.first + r)));
            REQUIRE(same_bits(alone.v.select(1, c.first + r), whole.v.select(1, c.first + r)));
        }
    }
}

struct SpliceCase {
    int64_t layers, kv_heads, head_dim, first, n;
};

TEST_CASE("a splice copies columns of all layers, keeps what stood there and tells how far it was",
          "[simt][rows]") {
    Random random(1304);
    for (const WeightType type : weight_types) {
        for (const SpliceCase& c : {SpliceCase{1, 1, 16, 0, 1}, SpliceCase{2, 5, 80, 3, 17},
                                    SpliceCase{2, 2, 256, 1, 9}, SpliceCase{3, 4, 128, 7, 8}}) {
            CAPTURE(static_cast<int>(type), c.head_dim);
            const int64_t teacher_first = random.between(0, 9);
            const int64_t capacity = c.first + c.n + random.between(0, 3),
                          teacher_capacity = teacher_first + c.n + random.between(0, 3);
            const auto cache = [&](int64_t columns) {
                return random.normal({c.layers, c.kv_heads, columns, c.head_dim}).to(dtype_of(type));
            };
            const at::Tensor k = cache(capacity), v = cache(capacity), tk = cache(teacher_capacity),
                             tv = cache(teacher_capacity);
            const auto part = [&](const at::Tensor& of) { return of.narrow(2, c.first, c.n).contiguous(); };
            const auto teacher_part = [&](const at::Tensor& of) {
                return of.narrow(2, teacher_first, c.n).contiguous();
            };
            const auto journal_bytes = static_cast<size_t>(2 * part(k).nbytes());
            const auto drift_numbers = static_cast<size_t>(c.layers * c.n * 6);
            const auto teacher_k = bytes_on_device(tk, "teacher's k"),
                       teacher_v = bytes_on_device(tv, "teacher's v");

            at::Tensor first_drift;
            simt::in_orders(3, [&](uint64_t order) {
                const bool told = order != 1; // else neither journal nor drift is wanted
                const bool copies = order != 2;
                const auto at_k = bytes_on_device(k, "k", Contents::written),
                           at_v = bytes_on_device(v, "v", Contents::written);
                const Array<uint8_t> journal(journal_bytes, "journal");
                const Array<float> drift(drift_numbers, "drift");
                gpu::SpliceInputs in;
                in.type = type;
                in.k = at_k.data();
                in.v = at_v.data();
                in.teacher_k = teacher_k.data();
                in.teacher_v = teacher_v.data();
                in.layers = c.layers;
                in.kv_heads = c.kv_heads;
                in.head_dim = c.head_dim;
                in.capacity = capacity;
                in.teacher_capacity = teacher_capacity;
                in.first = c.first;
                in.teacher_first = teacher_first;
                in.n = c.n;
                in.copies = copies;
                in.journal = told ? journal.data() : nullptr;
                in.drift = told ? drift.data() : nullptr;
                gpu::launch_splice(in, nullptr);
                for (const auto& [before, teacher, device] :
                     {std::tuple(&k, &tk, &at_k), std::tuple(&v, &tv, &at_v)}) {
                    at::Tensor expected = before->clone();
                    if (copies) expected.narrow(2, c.first, c.n).copy_(teacher_part(*teacher));
                    REQUIRE(same_bits(tensor_of(*device, before->sizes(), dtype_of(type)), expected));
                }
                if (!told) return;
                REQUIRE(
                    same_bits(tensor_of(journal, {2, c.layers, c.kv_heads, c.n, c.head_dim}, dtype_of(type)),
                              at::stack({part(k), part(v)})));
                const at::Tensor sums = tensor_of(drift, {c.layers, c.n, 2, 3});
                if (order == 0) first_drift = sums;
                REQUIRE(same_bits(sums, first_drift));
            });
            const auto check = [&](const at::Tensor& a, const at::Tensor& b, int64_t which) {
                const auto expected = kernels::reference::column_distance(part(a), teacher_part(b));
                const at::Tensor sums = first_drift.select(2, which);
                REQUIRE(relative_error((sums.select(2, 0) / sums.select(2, 1)).sqrt(), expected.relative) <=
                        tolerance);
                REQUIRE(relative_error(sums.select(2, 1),
                                       teacher_part(b).to(at::kDouble).square().sum({1, 3})) <= tolerance);
                REQUIRE(same_bits(sums.select(2, 2), expected.max_abs));
            };
            check(k, tk, 0);
            check(v, tv, 1);
        }
    }
}

TEST_CASE(
    "a splice of listed entries copies them, from a cache or from packed memory, and keeps what stood there",
    "[simt][rows]") {
    Random random(1306);
    for (const WeightType type : weight_types) {
        for (const SpliceCase& c : {SpliceCase{1, 1, 16, 0, 1}, SpliceCase{2, 5, 80, 3, 17},
                                    SpliceCase{2, 2, 256, 1, 9}, SpliceCase{3, 4, 128, 7, 8}}) {
            for (const int halves : {1, 2, 3}) { // keys, values, both
                for (const bool packed : {false, true}) {
                    CAPTURE(static_cast<int>(type), c.head_dim, halves, packed);
                    std::vector<int32_t> columns;
                    std::vector<uint16_t> heads;
                    for (int32_t j = 0; j < c.n; ++j)
                        if (j == 0 || random.between(0, 1) == 1) columns.push_back(j);
                    for (int64_t i = 0; i < c.layers * c.kv_heads; ++i)
                        if (i == c.layers * c.kv_heads - 1 || random.between(0, 1) == 1)
                            heads.push_back(static_cast<uint16_t>(i));
                    const auto n = static_cast<int64_t>(columns.size()),
                               rows = static_cast<int64_t>(heads.size());
                    const int64_t teacher_first = packed ? 0 : random.between(0, 9),
                                  capacity = c.first + c.n + random.between(0, 3),
                                  teacher_capacity = packed ? n : teacher_first + c.n;
                    const auto cache = [&](int64_t of_heads, int64_t of_columns) {
                        return random.normal({of_heads, of_columns, c.head_dim}).to(dtype_of(type));
                    };
                    const int64_t all = c.layers * c.kv_heads;
                    const at::Tensor k = cache(all, capacity), v = cache(all, capacity),
                                     tk = cache(packed ? rows : all, teacher_capacity),
                                     tv = cache(packed ? rows : all, teacher_capacity);
                    const auto teacher_k = bytes_on_device(tk, "teacher's k"),
                               teacher_v = bytes_on_device(tv, "teacher's v");
                    const auto saved_bytes = static_cast<size_t>(rows * n * c.head_dim * bytes_of(type));
                    simt::in_orders(2, [&](uint64_t order) {
                        const auto at_k = bytes_on_device(k, "k", Contents::written),
                                   at_v = bytes_on_device(v, "v", Contents::written);
                        const Array<uint8_t> saved_k(saved_bytes, "saved k"), saved_v(saved_bytes, "saved v");
                        gpu::SpliceSomeInputs in;
                        in.type = type;
                        in.k = (halves & 1) != 0 ? at_k.data() : nullptr;
                        in.v = (halves & 2) != 0 ? at_v.data() : nullptr;
                        in.teacher_k = teacher_k.data();
                        in.teacher_v = teacher_v.data();
                        in.packed = packed;
                        in.head_dim = c.head_dim;
                        in.capacity = capacity;
                        in.teacher_capacity = teacher_capacity;
                        in.first = c.first;
                        in.teacher_first = teacher_first;
                        in.heads = heads;
                        in.columns = columns;
                        if (order == 0) {
                            in.saved_k = saved_k.data();
                            in.saved_v = saved_v.data();
                        }
                        gpu::launch_splice_some(in, nullptr);
                        for (const auto& [before, teacher, device, saved, written] :
                             {std::tuple(&k, &tk, &at_k, &saved_k, (halves & 1) != 0),
                              std::tuple(&v, &tv, &at_v, &saved_v, (halves & 2) != 0)}) {
                            at::Tensor expected = before->clone();
                            at::Tensor kept = at::zeros({rows, n, c.head_dim}, before->options());
                            for (int64_t i = 0; i < rows && written; ++i) {
                                for (int64_t j = 0; j < n; ++j) {
                                    const int64_t head = heads[static_cast<size_t>(i)],
                                                  column = columns[static_cast<size_t>(j)];
                                    kept[i][j].copy_(expected[head][c.first + column]);
                                    expected[head][c.first + column].copy_(
                                        packed ? (*teacher)[i][j] : (*teacher)[head][teacher_first + column]);
                                }
                            }
                            REQUIRE(same_bits(tensor_of(*device, before->sizes(), dtype_of(type)), expected));
                            if (order == 0 && written)
                                REQUIRE(same_bits(tensor_of(*saved, {rows, n, c.head_dim}, dtype_of(type)),
                                                  kept));
                        }
                    });
                }
            }
        }
    }
}

TEST_CASE("a splice keeps a NaN in the largest difference", "[simt][rows]") {
    Random random(1305);
    const at::Tensor old = random.normal({1, 2, 3, 32});
    at::Tensor teacher = random.normal({1, 2, 3, 32});
    teacher[0][0][1][random.between(0, 31)] = nan;
    const auto from = floats_on_device(teacher, "teacher");
    const auto to = floats_on_device(old, "k", Contents::written),
               to_v = floats_on_device(old, "v", Contents::written);
    const Array<float> drift(3 * 6, "drift");
    gpu::SpliceInputs in;
    in.k = to.data();
    in.v = to_v.data();
    in.teacher_k = in.teacher_v = from.data();
    in.layers = 1;
    in.kv_heads = 2;
    in.head_dim = 32;
    in.capacity = in.teacher_capacity = in.n = 3;
    in.drift = drift.data();
    gpu::launch_splice(in, nullptr);
    const at::Tensor most = tensor_of(drift, {3, 2, 3}).select(2, 2);
    REQUIRE(most[1].isnan().all().item<bool>());
    REQUIRE(!most[0].isnan().any().item<bool>());
    REQUIRE(!most[2].isnan().any().item<bool>());
}

} // namespace
} // namespace refreshlab::test::rows_steps_simt
