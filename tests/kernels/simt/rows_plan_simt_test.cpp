#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/decode/rows_plan.h"
#include "tests/kernels/simt/plan_fixture.h"

/// The plan of a refresh against the launches of the pass and the splice that it is made of.
namespace refreshlab::test::rows_plan_simt {
namespace {

using namespace plan_simt;
using Logits = decode::PassShape::Logits;

decode::DecodeShape small_model(WeightType type, int64_t head_dim) {
    decode::DecodeShape shape;
    shape.hidden = 64;
    shape.ffn = 96;
    shape.layers = 3;
    shape.heads = 6;
    shape.kv_heads = 2;
    shape.head_dim = head_dim;
    shape.vocab = 330;
    shape.windows = {0, 100, 0};
    shape.has_mlp = {true, false, true};
    shape.type = type;
    return shape;
}

void require_plan(const decode::DecodeShape& shape, const decode::PassShape& pass) {
    CAPTURE(static_cast<int>(shape.type), shape.head_dim, shape.capacity, pass.rows, pass.first,
            static_cast<int>(pass.logits));
    const PlanModel m(shape);
    const auto decoder = gpu::make_decoder(m.model);
    const Array<float> logits(static_cast<size_t>(pass.rows * shape.vocab), "logits");
    const std::vector<int32_t> tokens(static_cast<size_t>(pass.rows), 7);
    DevicePass made;
    made.tokens = tokens;
    made.first = pass.first;
    made.rows = pass.logits;
    made.logits = pass.logits == Logits::none ? nullptr : logits.data();
    (void)simt::take_activity();
    decoder->extend(m.cache, made, nullptr);
    require_same(plan_pass(shape, pass), simt::take_activity().launches);
}

TEST_CASE("a pass of many rows makes the launches of its plan, in that order", "[simt][rows]") {
    for (const WeightType type : {WeightType::bf16, WeightType::f32}) {
        decode::DecodeShape shape = small_model(type, 16);
        for (const Logits logits : {Logits::none, Logits::last, Logits::all}) {
            shape.capacity = 520;
            require_plan(shape, {9, 0, logits});   // one split
            require_plan(shape, {2, 300, logits}); // two of them, and one with the window
            require_plan(shape, {33, 240, logits});
        }
        shape.qk_norm = shape.qk_norm_whole = shape.branch_norms = true;
        shape.pre_norms = false;
        require_plan(shape, {9, 0, Logits::last});
        shape.qk_norm_whole = false;
        shape.capacity = 510; // more rows than the scratch holds: attention in two turns
        require_plan(shape, {70, 440, Logits::none});
    }
}

TEST_CASE("a pass's launches are those of its plan for every size of heads and matrices", "[simt][rows]") {
    for (const WeightType type : {WeightType::bf16, WeightType::f16, WeightType::f32}) {
        for (const int64_t head_dim : {64, 128, 256}) {
            decode::DecodeShape shape = small_model(type, head_dim);
            shape.layers = 1;
            shape.windows.clear();
            shape.has_mlp.clear();
            shape.capacity = 264;
            shape.ffn = head_dim == 64 ? 2200 : 96; // blocks of 2 and 4 pairs of warps
            shape.vocab = head_dim == 128 ? 8500 : 330;
            require_plan(shape, {3, 258, head_dim == 64 ? Logits::all : Logits::last});
            require_plan(shape, {18, 0, Logits::last});
        }
    }
}

TEST_CASE("a pass whose products are made in parts is launched as planned", "[simt][rows]") {
    for (const WeightType type : {WeightType::bf16, WeightType::f32}) { // fp32 units cut nothing
        decode::DecodeShape shape = small_model(type, 16);
        shape.ffn = 2048; // down
        shape.capacity = 300;
        for (const Logits logits : {Logits::none, Logits::last, Logits::all})
            require_plan(shape, {3, 258, logits});
    }
    for (const bool of_hidden : {true, false}) { // q | k | v; or o, in a layer without MLP and in one with it
        decode::DecodeShape shape = small_model(WeightType::bf16, of_hidden ? 16 : 128);
        shape.heads = of_hidden ? 2 : 16;
        shape.hidden = of_hidden ? 2048 : 64;
        shape.vocab = 16;
        shape.capacity = 20;
        require_plan(shape, {2, 0, Logits::none});
        require_plan(shape, {2, 0, Logits::last});
    }
    decode::DecodeShape shape = small_model(WeightType::bf16, 16);
    shape.layers = 1;
    shape.ffn = 5704; // blocks of six pairs of warps
    shape.windows.clear();
    shape.has_mlp.clear();
    shape.capacity = 40;
    require_plan(shape, {34, 0, Logits::all});
}

TEST_CASE("a pass over matrices in blocks, and one without some attention, are launched as planned",
          "[simt][rows]") {
    for (const MatrixForm form : {MatrixForm::q8_0, MatrixForm::q4_0, MatrixForm::q4_1}) {
        decode::DecodeShape shape = small_model(WeightType::bf16, 16);
        shape.form = shape.embedding_form = shape.head_form = form;
        shape.heads = 4; // inputs of o in whole blocks
        shape.vocab = 336;
        shape.capacity = 300;
        shape.attends = {true, false, true};
        for (const Logits logits : {Logits::none, Logits::all})
            require_plan(shape, {33, 240, logits});
        shape.attends.back() = false; // the last layer makes keys and values alone, whoever reads them
        require_plan(shape, {9, 0, Logits::last});
    }
}

TEST_CASE("a pass of a model with routed experts is launched as planned", "[simt][rows]") {
    for (const WeightType type : {WeightType::bf16, WeightType::f32}) {
        decode::DecodeShape shape = small_model(type, 16);
        shape.capacity = 300;
        shape.experts = {6, 2, 96};
        for (const Logits logits : {Logits::none, Logits::last})
            require_plan(shape, {5, 258, logits});
        shape.routed = {true, false, false};
        shape.branch_norms = true;
        require_plan(shape, {20, 0, Logits::all});
        if (type == WeightType::f32) continue;
        shape.form = MatrixForm::q8_0;
        shape.heads = 4; // inputs of o in whole blocks
        require_plan(shape, {9, 0, Logits::none});
    }
}

TEST_CASE("a splice is launched as planned", "[simt][rows]") {
    for (const WeightType type : {WeightType::bf16, WeightType::f32}) {
        decode::DecodeShape shape = small_model(type, 48);
        shape.capacity = 40;
        const PlanModel student(shape), teacher(shape);
        for (const int64_t n : {1, 9, 30}) {
            const auto numbers = static_cast<size_t>(2 * shape.layers * shape.kv_heads * n * shape.head_dim);
            const Array<uint8_t> journal(numbers * static_cast<size_t>(bytes_of(type)), "journal");
            const Array<float> drift(static_cast<size_t>(shape.layers * n * 6), "drift");
            gpu::SpliceInputs in;
            in.type = type;
            in.k = student.cache.k;
            in.v = student.cache.v;
            in.teacher_k = teacher.cache.k;
            in.teacher_v = teacher.cache.v;
            in.layers = shape.layers;
            in.kv_heads = shape.kv_heads;
            in.head_dim = shape.head_dim;
            in.capacity = in.teacher_capacity = shape.capacity;
            in.first = 10;
            in.n = n;
            in.journal = journal.data();
            in.drift = drift.data();
            (void)simt::take_activity();
            gpu::launch_splice(in, nullptr);
            require_same({plan_splice(shape, n).back()}, simt::take_activity().launches);
        }
    }
}

} // namespace
} // namespace refreshlab::test::rows_plan_simt
