#include "engine/session/landscape/compute_landscape.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/bridge/bridge.h"
#include "engine/record/recording/recording.h"
#include "engine/session/landscape/row_block.h"
#include "engine/session/parts/mc_request.h"
#include "engine/session/parts/row_ring.h"
#include "engine/session/parts/teacher_reader.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace refreshlab {

namespace {

constexpr auto doing = "computing a landscape";

bool wants_teacher_rows(const LandscapeRequest& request) {
    return std::ranges::any_of(request.values, [](const std::string& name) {
        return name == "kl_nats" || name == "acceptance" || name == "same_top1";
    });
}

/// Columns that the teacher makes: of the prompt and of y_1 .. y_{N-1}.
int64_t shared_columns(const LandscapeRequest& request) {
    return static_cast<int64_t>(request.prompt_ids.size() + request.tokens.size()) - 1;
}

int64_t column_bytes(const ModelConfig& config, at::ScalarType dtype) {
    return 2 * config.num_layers * config.num_kv_heads * config.head_dim *
           static_cast<int64_t>(c10::elementSize(dtype));
}

/// Rows of a forward for each row of the landscape: itself and its MC rows.
int64_t rows_of_a_cell(const LandscapeRequest& request) {
    return needs_mc(request.values) ? 1 + int64_t{request.mc.samples} : 1;
}

/// Rows per forward whose scratch columns take a quarter of what the device has left, and at least one.
int64_t rows_at_once(const ModelPair& pair, const LandscapeRequest& request, const MemoryQuery& available) {
    const int64_t asked = std::clamp<int64_t>(request.rows_at_once, 1, LandscapeRequest::most_rows_at_once),
                  wanted = std::max<int64_t>(asked / rows_of_a_cell(request), 1);
    const auto bytes = available(pair.student->device().str());
    if (!bytes) return wanted;
    const int64_t row = column_bytes(pair.student->config(), pair.student->dtype()) *
                        (static_cast<int64_t>(request.tokens.size()) - 1);
    return std::clamp<int64_t>(*bytes / 4 / std::max<int64_t>(row, 1), 1, wanted);
}

/// Rows [first, first + n) of a list are computed together.
std::vector<std::vector<int64_t>> blocks_of(const LandscapeRequest& request, const Landscape& known,
                                            int64_t at_once) {
    std::vector<std::vector<int64_t>> blocks;
    for (const auto& level : landscape_levels(known.num_rows(), request.every)) {
        std::vector<int64_t> block;
        for (const int64_t j : level) {
            if (known.has_row(j)) continue;
            block.push_back(j);
            if (static_cast<int64_t>(block.size()) == at_once) blocks.push_back(std::exchange(block, {}));
        }
        if (!block.empty()) blocks.push_back(std::move(block));
    }
    return blocks;
}

/// What the teacher says of the text, read some tokens at a time.
class TeacherReading {
public:
    TeacherReading(const LlamaModel& teacher, const LandscapeRequest& request)
        : m_teacher(teacher)
        , m_request(request)
        , m_cache(teacher.make_cache(shared_columns(request))) {
        const auto steps = static_cast<int64_t>(request.tokens.size()) - 1;
        if (wants_teacher_rows(request))
            m_rows = at::empty({steps, teacher.config().vocab_size}, at::TensorOptions().dtype(at::kFloat));
    }

    [[nodiscard]] bool done() const { return m_cache->length() == shared_columns(m_request); }
    void step() {
        const auto prompt = static_cast<int64_t>(m_request.prompt_ids.size());
        if (m_cache->length() < prompt) return read_prompt(prompt);
        read_text(m_cache->length() - prompt);
    }

    [[nodiscard]] const KvCache& cache() const { return *m_cache; } ///< of the prompt and of y_1 .. y_{N-1}
    [[nodiscard]] const at::Tensor& rows() const {
        return m_rows;
    } ///< [N - 1, vocab] fp32 on the host; undefined unless wanted
    [[nodiscard]] std::vector<float> take_logprob() {
        return std::move(m_logprob);
    } ///< [N], of y_1, y_2, ...
    void drop_cache() { m_cache.reset(); }

private:
    /// As a session prefills it: logits of its last row alone.
    void read_prompt(int64_t prompt) {
        const int64_t begin = m_cache->length(), n = std::min(pass_chunk, prompt - begin);
        StepInputs in;
        in.tokens =
            std::span(m_request.prompt_ids).subspan(static_cast<size_t>(begin), static_cast<size_t>(n));
        in.origin = Origin::teacher_prefill;
        in.rows = begin + n == prompt ? Rows::last : Rows::none;
        const at::Tensor first = m_teacher.forward().prefill(*m_cache, in).logits;
        if (begin + n < prompt) return;
        kernels::RowAsk ask;
        ask.tokens = std::span(m_request.tokens).first(1);
        m_logprob.push_back(static_cast<float>(kernels::summarize_rows(first, ask)[0].logprob));
    }

    void read_text(int64_t begin) {
        const std::span<const int32_t> text = m_request.tokens;
        const int64_t n = std::min(pass_chunk, static_cast<int64_t>(text.size()) - 1 - begin);
        StepInputs in;
        in.tokens = text.subspan(static_cast<size_t>(begin), static_cast<size_t>(n));
        in.origin = Origin::teacher_decode;
        in.rows = Rows::all;
        in.logits = m_rows.defined();
        in.ask.emplace().tokens = text.subspan(static_cast<size_t>(begin) + 1, static_cast<size_t>(n));
        const StepOutputs out = m_teacher.forward().prefill(*m_cache, in);
        for (const kernels::RowSummary& row : out.summary)
            m_logprob.push_back(static_cast<float>(row.logprob));
        if (m_rows.defined()) m_rows.narrow(0, begin, n).copy_(out.logits);
    }

    const LlamaModel& m_teacher;
    const LandscapeRequest& m_request;
    std::unique_ptr<KvCache> m_cache;
    std::vector<float> m_logprob;
    at::Tensor m_rows;
};

LandscapeInfo info_of(const ModelPair& pair, const LandscapeRequest& request, const Execution& execution,
                      std::vector<float> teacher_logprob) {
    LandscapeInfo info;
    info.prompt_ids = request.prompt_ids;
    info.tokens = request.tokens;
    info.values = request.values;
    info.teacher_logprob = std::move(teacher_logprob);
    info.teacher = request.teacher_digest;
    info.student = request.student_digest;
    info.device = pair.student->device().str();
    info.dtype = c10::toString(pair.student->dtype());
    info.kernel_set = kernel_set_of(pair, *execution);
    if (needs_mc(request.values)) {
        const McRequest mc = mc_request(request.mc, request.seed, pair.student->config());
        info.mc = {mc.passes, mc.p, mc.seed, mc.attention_output};
    }
    info.kept_rows = std::min(ring_rows, std::min(pair.context(), shared_columns(request) + 1));
    return info;
}

/// Throws unless rows computed now can stand beside those of `known`. \param ours  of what would be computed now
void require_same(const Landscape& known, const LandscapeRequest& request, const LandscapeInfo& ours) {
    const LandscapeInfo& info = known.info();
    const auto refuse = [](const std::string& what) {
        throw Error(doing, "beside the one that is there", what, "write to another file");
    };
    if (info.prompt_ids != request.prompt_ids || info.tokens != request.tokens)
        refuse("it is of another text");
    const auto other = [](const std::string& a, const std::string& b) {
        return !a.empty() && !b.empty() && a != b;
    };
    if (other(info.teacher, request.teacher_digest)) refuse("it was made with another teacher");
    if (other(info.student, request.student_digest)) refuse("it was made with another student");
    if (info.values != request.values) refuse("it holds other values");
    if (info.mc != ours.mc) refuse("it has MC rows of another seed, number or rate");
    if (other(info.dtype, ours.dtype)) refuse("it was computed in " + info.dtype);
    if (!same_kernel_bits(info.kernel_set, ours.kernel_set))
        refuse("it was computed with the kernel set " + info.kernel_set + ", which rounds differently");
}

} // namespace

void require_full_caches(const RunConfig& config) {
    if (config.student_cache.is_full() && config.teacher_cache.is_full()) return;
    throw Error("computing a landscape",
                "with cache policy " +
                    (config.student_cache.is_full() ? config.teacher_cache : config.student_cache).policy,
                "it is about caches that keep everything",
                "start a run with the policy full (--student-cache full)");
}

LandscapeRequest landscape_request(const Recording& run, const RunConfig& config) {
    require_full_caches(config);
    LandscapeRequest request;
    request.prompt_ids = run.info().prompt_ids;
    request.tokens = run.token_ids();
    request.mc = config.mc;
    request.seed = config.seed;
    return request;
}

void check_landscape(const ModelPair& pair, const LandscapeRequest& request) {
    if (!pair.teacher || !pair.student)
        throw Error(doing, {}, "it takes a teacher and a student", "give --teacher and --student");
    if (const auto difference = pair.rebuild_reason()) {
        throw Error(
            doing, "of this pair",
            fmt::format("the KV geometries differ ({}): in rebuild mode nothing is copied, so a refresh "
                        "changes nothing and there is no landscape",
                        *difference),
            "take a student with the teacher's KV geometry");
    }
    if (request.prompt_ids.empty()) throw Error(doing, "of a text", "the prompt gives no tokens");
    if (request.tokens.size() < 2) {
        throw Error(doing, "of a text",
                    fmt::format("it has {} token{}, and a landscape needs two at least",
                                request.tokens.size(), request.tokens.size() == 1 ? "" : "s"),
                    "give a longer text");
    }
    if (shared_columns(request) > pair.context()) {
        throw Error(doing, "of a text",
                    fmt::format("prompt and text have {} tokens to read and the models' context is {}",
                                shared_columns(request), pair.context()),
                    "shorten it, or set --max-tokens");
    }
    const int64_t vocab = std::min(pair.teacher->config().vocab_size, pair.student->config().vocab_size);
    for (const auto* ids : {&request.prompt_ids, &request.tokens}) {
        for (const int32_t id : *ids) {
            if (id < 0 || id >= vocab)
                throw Error(doing, "of a text",
                            fmt::format("token id {} is outside the models' vocabulary of {}", id, vocab));
        }
    }
    if (needs_mc(request.values) && request.mc.samples < 2)
        throw Error(doing, "mc.samples", "must be 2 or more for values of MC rows");
    if (request.every < 1) throw Error(doing, "--every", "must be 1 or more");
    for (const std::string& name : request.values) {
        if (const std::string why = why_no_landscape_value(name); !why.empty())
            throw Error(doing, "with values of " + name, "it has no cells: " + why);
    }
}

std::vector<MemoryEstimate> memory_of_landscape(const ModelPair& pair, const LandscapeRequest& request,
                                                const MemoryQuery& available) {
    const int64_t at_once = rows_at_once(pair, request, available),
                  steps = static_cast<int64_t>(request.tokens.size()) - 1, shared = shared_columns(request);
    const auto need = [](const char* name, const LlamaModel& model, int64_t capacity, int64_t rows) {
        ModelNeed of;
        of.name = name;
        of.config = model.config();
        of.dtype = model.dtype() == at::kBFloat16 ? Dtype::bf16
                   : model.dtype() == at::kHalf   ? Dtype::f16
                                                  : Dtype::f32;
        of.device = model.device().str();
        of.capacity = capacity;
        of.logit_rows = rows;
        of.loaded = true;
        return of;
    };
    const ModelNeed needs[] = {need("teacher", *pair.teacher, shared, pass_chunk),
                               need("student", *pair.student,
                                    shared + at_once * (steps + rows_of_a_cell(request)),
                                    3 * at_once * rows_of_a_cell(request)),
                               need("bridged", *pair.student, pair.bridge_file ? shared : 0, 0)};
    std::vector<MemoryEstimate> estimates = estimate_memory(needs, available);
    const int64_t cells = steps * (steps + 1) / 2 / request.every + steps,
                  rows = wants_teacher_rows(request) ? steps * pair.teacher->config().vocab_size : 0,
                  host = (cells * static_cast<int64_t>(request.values.size()) + rows) * 4;
    const auto cpu = std::ranges::find(estimates, "cpu", &MemoryEstimate::device);
    if (cpu != estimates.end()) {
        cpu->workspace += host;
    } else {
        MemoryEstimate estimate;
        estimate.device = "cpu";
        estimate.workspace = host;
        estimate.available = available("cpu");
        estimates.push_back(std::move(estimate));
    }
    return estimates;
}

struct LandscapeComputation::Impl {
    std::shared_ptr<const ModelPair> pair;
    LandscapeRequest request;
    Execution execution;
    int64_t at_once; ///< rows per forward
    LandscapeProgress now;
    TeacherReading teacher;
    // Once the teacher has read the text.
    std::optional<Landscape> landscape;
    std::vector<std::vector<int64_t>> blocks;
    size_t block = 0; ///< the one under way
    std::unique_ptr<KvCache> cache;
    std::optional<RowBlock> rows;

    Impl(std::shared_ptr<const ModelPair> of, LandscapeRequest asked, Execution with,
         std::shared_ptr<const Landscape> known, int64_t rows_together)
        : pair(std::move(of))
        , request(std::move(asked))
        , execution(std::move(with))
        , at_once(rows_together)
        , teacher(*pair->teacher, request) {
        now.landscape = std::move(known);
    }

    void begin_rows();
    [[nodiscard]] bool step();
};

/// The teacher has read: what it said is the landscape's, and its columns are the student's prefix.
void LandscapeComputation::Impl::begin_rows() {
    const std::shared_ptr<const Landscape> known = now.landscape;
    landscape.emplace(info_of(*pair, request, execution, teacher.take_logprob()));
    for (int64_t j = 0; known && j < known->num_rows(); ++j) {
        if (known->has_row(j)) landscape->put_row(known->row(j));
    }
    blocks = blocks_of(request, *landscape, at_once);
    int64_t most = 0;
    for (const auto& rows_of_block : blocks) {
        const int64_t columns = RowBlock::columns(rows_of_block, landscape->num_tokens());
        most = std::max(most, columns);
        now.cells += columns;
    }
    most += at_once * (rows_of_a_cell(request) - 1); // a step's MC rows
    cache = pair->student->make_cache(shared_columns(request) + most);
    if (pair->bridge) {
        BridgedCache bridged(*pair->bridge, *pair->teacher, *pair->student, shared_columns(request));
        bridged.follow(teacher.cache());
        cache->adopt_prefix(bridged.cache(), shared_columns(request));
    } else {
        cache->adopt_prefix(teacher.cache(), shared_columns(request));
    }
    teacher.drop_cache();
    rows.emplace(*pair->student, *cache, landscape->info(), teacher.rows());
    if (!blocks.empty()) rows->begin(blocks.front());
}

bool LandscapeComputation::Impl::step() {
    if (!landscape) {
        teacher.step();
        if (!teacher.done()) return true;
        begin_rows();
        return !blocks.empty();
    }
    if (block == blocks.size()) return false;
    now.cells_done += rows->step();
    if (!rows->done()) return true;
    for (const auto& row : rows->take())
        landscape->put_row(row);
    now.landscape = std::make_shared<Landscape>(*landscape);
    if (++block == blocks.size()) return false;
    rows->begin(blocks[block]);
    return true;
}

LandscapeComputation::LandscapeComputation(std::shared_ptr<const ModelPair> pair, LandscapeRequest request,
                                           Execution execution, std::shared_ptr<const Landscape> known,
                                           const MemoryQuery& available) {
    RL_ASSERT(pair != nullptr && execution != nullptr);
    check_landscape(*pair, request);
    if (known) require_same(*known, request, info_of(*pair, request, execution, {}));
    for (const MemoryEstimate& estimate : memory_of_landscape(*pair, request, available)) {
        if (!estimate.fits())
            throw Error(doing, {}, "not enough memory: " + estimate.line(), "take a shorter text",
                        ErrorKind::failure);
    }
    const int64_t at_once = rows_at_once(*pair, request, available);
    const kernels::ExecutionScope scope(*execution);
    const c10::InferenceMode guard;
    m_impl = std::make_unique<Impl>(std::move(pair), std::move(request), std::move(execution),
                                    std::move(known), at_once);
}

LandscapeComputation::~LandscapeComputation() = default;

bool LandscapeComputation::step() {
    const kernels::ExecutionScope scope(*m_impl->execution);
    const c10::InferenceMode guard;
    return m_impl->step();
}

const LandscapeProgress& LandscapeComputation::progress() const {
    return m_impl->now;
}

std::shared_ptr<const Landscape>
compute_landscape(const ModelPair& pair, const LandscapeRequest& request, const Execution& execution,
                  const std::shared_ptr<const Landscape>& known,
                  const std::function<bool(const LandscapeProgress&)>& progress) {
    const std::shared_ptr<const ModelPair> borrowed(std::shared_ptr<const ModelPair>(), &pair);
    LandscapeComputation computation(borrowed, request, execution, known);
    bool goes_on = true;
    while (goes_on && computation.step())
        goes_on = !progress || progress(computation.progress());
    if (goes_on && progress) static_cast<void>(progress(computation.progress()));
    return computation.progress().landscape;
}

} // namespace refreshlab
