#include "engine/base/check.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/forward.h"
#include "engine/model/forward/layer_hooks.h"
#include "engine/model/llama_model.h"
#include "engine/session/policies/backing.h"

#include <ATen/ops/stack.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace refreshlab {

/// Columns that the teacher wrote stand in the pass as the teacher wrote them.
class RecomputedEntries::TeacherColumns final : public LayerHooks {
public:
    TeacherColumns(const KvCache& teacher, KvCache& columns, std::vector<int64_t> positions)
        : m_teacher(teacher)
        , m_columns(columns)
        , m_positions(std::move(positions)) {}
    /// Before a layer's attention: its columns are written.
    const HeadPositions* select(const LayerView& view) override {
        put(view.layer, view.positions.front(), view.positions.back() + 1);
        return nullptr;
    }
    void put(int64_t layer, int64_t first, int64_t end) {
        const auto last = std::ranges::lower_bound(m_positions, end);
        for (auto at = std::ranges::lower_bound(m_positions, first); at < last; ++at) {
            m_columns.keys(layer).select(1, *at).copy_(m_teacher.keys(layer).select(1, *at));
            m_columns.values(layer).select(1, *at).copy_(m_teacher.values(layer).select(1, *at));
        }
    }

private:
    const KvCache& m_teacher;
    KvCache& m_columns;
    std::vector<int64_t> m_positions;
};

RecomputedEntries::RecomputedEntries(const LlamaModel& model, const KvCache& cache, const KvCache* teacher,
                                     std::function<int32_t(int64_t)> token_at)
    : m_model(model)
    , m_cache(cache)
    , m_teacher(teacher)
    , m_token_at(std::move(token_at)) {}

RecomputedEntries::~RecomputedEntries() = default;

void RecomputedEntries::begin_step() {
    m_columns.reset();
}

void RecomputedEntries::compute(int64_t end) {
    m_columns = m_model.make_cache(end);
    m_columns->set_context(m_cache.context());
    std::vector<int64_t> teachers; // positions
    for (int64_t p = 0; p < end && m_teacher != nullptr; ++p) {
        const Origin origin = m_cache.origin(p);
        if (origin == Origin::teacher_prefill || origin == Origin::teacher_refresh) teachers.push_back(p);
    }
    int64_t first = 0; // of the model's own
    while (first < std::ssize(teachers) && teachers[static_cast<size_t>(first)] == first)
        ++first;
    if (first > 0) m_columns->adopt_prefix(*m_teacher, first);
    if (first == end) return;
    std::vector<int32_t> tokens;
    for (int64_t p = first; p < end; ++p)
        tokens.push_back(m_token_at(p));
    StepInputs in;
    in.tokens = tokens;
    in.origin = Origin::student;
    in.rows = Rows::none;
    if (m_teacher == nullptr) {
        static_cast<void>(m_model.forward().prefill(*m_columns, in));
        return;
    }
    TeacherColumns columns(*m_teacher, *m_columns, std::move(teachers));
    LayerHooks* const hooks[] = {&columns};
    in.hooks = hooks;
    static_cast<void>(m_model.forward().prefill(*m_columns, in));
    for (int64_t layer = 0; layer < m_columns->num_layers(); ++layer) // the last one's queries did not run
        columns.put(layer, first, end);
}

at::Tensor RecomputedEntries::fetch(int64_t layer, int64_t kv_head, std::span<const int64_t> positions) {
    const c10::InferenceMode guard;
    const int64_t end = std::ssize(positions);
    RL_ASSERT(end > 0 && positions.front() == 0 && positions.back() == end - 1);
    if (m_columns == nullptr) compute(end);
    RL_ASSERT(m_columns->length() == end);
    return at::stack({m_columns->keys(layer)[kv_head], m_columns->values(layer)[kv_head]}).narrow(1, 0, end);
}

int64_t RecomputedEntries::bytes() const {
    return m_columns ? m_columns->bytes_reserved() : 0;
}

} // namespace refreshlab
