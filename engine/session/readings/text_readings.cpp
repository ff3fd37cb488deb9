#include "engine/session/readings/text_readings.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/landscape/staircase.h"
#include "engine/model/bridge/bridge.h"
#include "engine/session/landscape/tail_rows.h"
#include "engine/session/pair/model_pair.h"
#include "engine/session/parts/teacher_reader.h"
#include "engine/signals/registry.h"
#include "kernels/ops/row_overlap.h"
#include "kernels/ops/row_summary.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <utility>

namespace refreshlab {

/// Where one row stands: it belongs to `step`, and the last refresh was at `boundary`.
struct StudentReadings::Stand {
    int64_t step = 0, boundary = 0;
};

namespace {

constexpr auto reading_a_text = "reading a given text";
constexpr int64_t rows_at_once =
    64;                            ///< of a student's forward: more gain little, and their logits take memory
constexpr int64_t first_look = 24; ///< steps of a gate's row that are computed at first

/// The student's rows against the teacher's. \param steps  of the rows, from 1
void add_comparison(const TeacherText& text, const at::Tensor& student, const at::Tensor& steps,
                    TextNumbers& out) {
    const at::Tensor teacher = text.rows().index_select(0, steps - 1).to(student.device());
    std::vector<int64_t> same(static_cast<size_t>(student.size(0)));
    std::iota(same.begin(), same.end(), 0);
    kernels::RowAsk ask;
    ask.kl_against = student;
    ask.kl_rows = same;
    std::vector<kernels::RowStatistics> statistics;
    for (const kernels::RowSummary& row : kernels::summarize_rows(teacher, ask)) {
        out.kl_nats.push_back(static_cast<float>(row.kl_nats));
        statistics.push_back(row.statistics);
    }
    for (const kernels::RowOverlap& row : kernels::row_overlap(teacher, statistics, student, same)) {
        out.acceptance.push_back(static_cast<float>(row.acceptance));
        out.same_top1.push_back(row.same_top1 ? 1.0F : 0.0F);
    }
}

void add_rows(const std::vector<kernels::RowSummary>& rows, TextNumbers& out) {
    for (const kernels::RowSummary& row : rows) {
        out.logprob.push_back(static_cast<float>(row.logprob));
        out.entropy_bits.push_back(static_cast<float>(row.statistics.entropy_bits));
    }
}

/// y_1 .. y_{N-1} behind what a cache holds, all rows, chunk by chunk.
template <typename Use>
void read_on(const LlamaModel& model, KvCache& cache, std::span<const int32_t> text, Origin origin,
             const Use& use) {
    const auto steps = static_cast<int64_t>(text.size()) - 1;
    for (int64_t begin = 0; begin < steps;) {
        const int64_t n = std::min(pass_chunk, steps - begin);
        StepInputs in;
        in.tokens = text.subspan(static_cast<size_t>(begin), static_cast<size_t>(n));
        in.origin = origin;
        in.rows = Rows::all;
        in.ask.emplace().tokens = text.subspan(static_cast<size_t>(begin) + 1, static_cast<size_t>(n));
        use(begin, model.forward().prefill(cache, in));
        begin += n;
    }
}

void check_text(const LlamaModel& teacher, std::span<const int32_t> prompt, std::span<const int32_t> text) {
    if (prompt.empty()) throw Error(reading_a_text, "the prompt", "gives no tokens");
    if (text.size() < 3) throw Error(reading_a_text, "the text", "has fewer than three tokens");
    const auto length = static_cast<int64_t>(prompt.size() + text.size()) - 1;
    if (length > teacher.config().max_position) {
        throw Error(reading_a_text, "the text",
                    fmt::format("prompt and text have {} tokens to read and the teacher's context is {}",
                                length, teacher.config().max_position));
    }
    for (const auto& ids : {prompt, text}) {
        for (const int32_t id : ids) {
            if (id < 0 || id >= teacher.config().vocab_size)
                throw Error(reading_a_text, "the text",
                            fmt::format("token id {} is outside the teacher's vocabulary of {}", id,
                                        teacher.config().vocab_size));
        }
    }
}

/// Cells of a gate: the losses are not asked for, but a landscape has them.
LandscapeInfo cells_of(const TeacherText& text) {
    LandscapeInfo info;
    info.prompt_ids = text.prompt();
    info.tokens = text.text();
    info.values = landscape_values("entropy_bits");
    info.teacher_logprob.push_back(text.first_logprob());
    const auto& rest = text.numbers().logprob;
    info.teacher_logprob.insert(info.teacher_logprob.end(), rest.begin(), rest.end());
    return info;
}

RefreshPolicy entropy_policy(double threshold) {
    RefreshPolicy policy;
    policy.name = "entropy gate";
    policy.triggers.emplace_back();
    policy.triggers.back().signal = "entropy_bits";
    policy.triggers.back().threshold = threshold;
    return policy;
}

} // namespace

double TextNumbers::nll() const {
    RL_ASSERT(!logprob.empty());
    double sum = 0;
    for (const float value : logprob)
        sum -= static_cast<double>(value);
    return sum / static_cast<double>(logprob.size());
}

TeacherText::TeacherText(const LlamaModel& teacher, std::vector<int32_t> prompt, std::vector<int32_t> text)
    : m_prompt(std::move(prompt))
    , m_text(std::move(text)) {
    const c10::InferenceMode guard;
    check_text(teacher, m_prompt, m_text);
    m_cache = teacher.make_cache(static_cast<int64_t>(m_prompt.size()) + steps());
    StepInputs in;
    in.tokens = m_prompt;
    in.origin = Origin::teacher_prefill;
    in.logits = false;
    in.ask.emplace().tokens = std::span(m_text).first(1);
    m_first = static_cast<float>(teacher.forward().prefill(*m_cache, in).summary.at(0).logprob);
    m_rows = at::empty({steps(), teacher.config().vocab_size}, at::TensorOptions().dtype(at::kFloat));
    read_on(teacher, *m_cache, m_text, Origin::teacher_decode, [&](int64_t begin, const StepOutputs& out) {
        add_rows(out.summary, m_numbers);
        m_rows.narrow(0, begin, out.logits.size(0)).copy_(out.logits);
    });
}

TeacherText::TeacherText(const ModelPair& pair, std::vector<int32_t> prompt, std::vector<int32_t> text)
    : TeacherText(*pair.teacher, std::move(prompt), std::move(text)) {
    if (!pair.bridge) return;
    BridgedCache bridged(*pair.bridge, *pair.teacher, *pair.student, m_cache->capacity());
    bridged.follow(*m_cache);
    m_cache = bridged.take();
}

StudentReadings::StudentReadings(const LlamaModel& student, const TeacherText& text)
    : m_student(student)
    , m_text(text)
    , m_cache(student.make_cache(2 * text.cache().length()))
    , m_cells(cells_of(text))
    , m_computed(static_cast<size_t>(text.steps()), 0) {
    RL_ASSERT(student.config().vocab_size == text.rows().size(1));
    m_cache->adopt_prefix(text.cache(), text.cache().length());
}

TextNumbers StudentReadings::rows(std::span<const Stand> stands, bool compare) {
    const c10::InferenceMode guard;
    const int64_t shared = m_cache->length(), prompt = static_cast<int64_t>(m_text.prompt().size());
    TextNumbers out;
    int64_t tail_begin = shared; // column of the first step behind the last boundary
    for (size_t begin = 0; begin < stands.size();) {
        const size_t n = std::min<size_t>(static_cast<size_t>(rows_at_once), stands.size() - begin);
        std::vector<RowPlace> places;
        std::vector<int32_t> fed, next;
        std::vector<std::vector<int64_t>> tails; // columns
        at::Tensor steps = at::empty({static_cast<int64_t>(n)}, at::kLong);
        for (size_t i = begin; i < begin + n; ++i) {
            const auto [step, boundary] = stands[i];
            const int64_t column = shared + static_cast<int64_t>(i), position = prompt + step - 1;
            if (i == 0 || stands[i - 1].boundary != boundary) tail_begin = column;
            RL_ASSERT(step - boundary == column - tail_begin + 1); // a tail is whole
            tails.emplace_back(static_cast<size_t>(step - boundary));
            std::iota(tails.back().begin(), tails.back().end(), tail_begin);
            places.push_back({position, position, prompt + boundary});
            fed.push_back(m_text.text()[static_cast<size_t>(step - 1)]);
            next.push_back(m_text.text()[static_cast<size_t>(step)]);
            steps.mutable_data_ptr<int64_t>()[i - begin] = step;
        }
        TailRows hook(m_student.config(), std::move(places), tails);
        LayerHooks* const hooks[] = {&hook};
        StepInputs in;
        in.tokens = fed;
        in.origin = Origin::student;
        in.rows = Rows::all;
        in.logits = compare;
        in.ask.emplace().tokens = next;
        in.hooks = hooks;
        const StepOutputs made = m_student.forward().prefill(*m_cache, in);
        add_rows(made.summary, out);
        if (compare) add_comparison(m_text, made.logits, steps, out);
        begin += n;
    }
    m_cache->truncate(shared);
    return out;
}

TextNumbers StudentReadings::refreshed(std::span<const int64_t> boundaries) {
    std::vector<Stand> stands;
    auto next = boundaries.begin();
    int64_t last = 0;
    for (int64_t step = 1; step <= m_text.steps(); ++step) {
        stands.push_back({step, last});
        if (next == boundaries.end() || *next != step) continue;
        RL_ASSERT(step < m_text.steps());
        last = *next++;
    }
    RL_ASSERT(next == boundaries.end()); // ascending, inside the text
    return rows(stands, true);
}

std::vector<int64_t> StudentReadings::every(int64_t period) const {
    RL_ASSERT(period >= 1);
    std::vector<int64_t> boundaries;
    for (int64_t t = period; t < m_text.steps(); t += period)
        boundaries.push_back(t);
    return boundaries;
}

TextNumbers StudentReadings::alone() {
    const c10::InferenceMode guard;
    const auto cache = m_student.make_cache(m_text.cache().length());
    StepInputs in;
    in.tokens = m_text.prompt();
    in.origin = Origin::student;
    in.rows = Rows::none;
    static_cast<void>(m_student.forward().prefill(*cache, in));
    TextNumbers out;
    read_on(m_student, *cache, m_text.text(), Origin::student, [&](int64_t begin, const StepOutputs& made) {
        add_rows(made.summary, out);
        add_comparison(m_text, made.logits, at::arange(begin + 1, begin + 1 + made.logits.size(0)), out);
    });
    return out;
}

void StudentReadings::compute_row(int64_t boundary, int64_t steps) {
    std::vector<Stand> stands;
    for (int64_t step = boundary + 1; step <= boundary + steps; ++step)
        stands.push_back({step, boundary});
    TextNumbers numbers = rows(stands, false);
    auto row = std::make_shared<LandscapeRow>();
    row->row = boundary;
    const auto length = static_cast<size_t>(m_text.steps() - boundary);
    numbers.logprob.resize(length, absent());
    numbers.entropy_bits.resize(length, absent());
    row->planes = {std::move(numbers.logprob), std::move(numbers.entropy_bits)};
    m_cells.put_row(std::move(row));
    m_computed[static_cast<size_t>(boundary)] = steps;
}

std::vector<int64_t> StudentReadings::walk(double threshold) {
    const RefreshPolicy policy = entropy_policy(threshold);
    // An absent entropy fires nothing. So a walk is right up to the first cell that was not computed: from there on it is
    // walked again, with more cells.
    if (!m_cells.has_row(0)) compute_row(0, std::min(first_look, m_text.steps()));
    for (;;) {
        std::vector<int64_t> boundaries = walk_policy(m_cells, policy).refreshes;
        int64_t from = 0;
        bool known = true;
        for (size_t i = 0; known && i <= boundaries.size(); ++i) {
            const int64_t to = i < boundaries.size() ? boundaries[i] : m_text.steps();
            const int64_t have = m_computed[static_cast<size_t>(from)], most = m_text.steps() - from;
            known = have >= to - from;
            if (!known) compute_row(from, std::min(std::max(2 * have, first_look), most));
            from = to;
        }
        if (known) return boundaries;
    }
}

StudentReadings::Gate StudentReadings::entropy_gate(int64_t refreshes, std::span<const float> guess) {
    std::vector<float> levels(guess.begin(), guess.end());
    std::erase_if(levels, [](float value) { return !std::isfinite(value); });
    std::ranges::sort(levels);
    RL_ASSERT(!levels.empty());
    const auto count = static_cast<int64_t>(levels.size());
    Gate best;
    int64_t off = -1; // how far the best is from the wanted number
    /// \return refreshes beyond those that are wanted
    const auto tried = [&](int64_t level) {
        const double threshold = static_cast<double>(levels[static_cast<size_t>(level)]);
        std::vector<int64_t> boundaries = walk(threshold);
        const int64_t beyond = static_cast<int64_t>(boundaries.size()) - refreshes;
        if (off < 0 || std::abs(beyond) < off) {
            off = std::abs(beyond);
            best.threshold = threshold;
            best.boundaries = std::move(boundaries);
        }
        return beyond;
    };
    // Levels [low, high]: at low too many refreshes, at high too few. It begins where the rows of the guess would fire so often,
    // and looks from there in growing steps: low thresholds, where nearly every row has to be computed, are seldom tried.
    int64_t low = -1, high = count, level = std::clamp<int64_t>(count - 1 - refreshes, 0, count - 1);
    for (int64_t stride = std::max<int64_t>(count / 32, 1); off != 0 && low + 1 < high; stride *= 2) {
        const int64_t beyond = tried(level);
        if (beyond > 0) low = level;
        if (beyond < 0) high = level;
        if (low >= 0 && high < count) {
            level = low + (high - low) / 2;
        } else {
            level = std::clamp(beyond > 0 ? level + stride : level - stride, low + 1,
                               std::max(high - 1, low + 1));
        }
    }
    best.numbers = refreshed(best.boundaries);
    return best;
}

} // namespace refreshlab
