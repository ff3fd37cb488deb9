#include "engine/model/forward/hook_calls.h"

#include "engine/base/check.h"
#include "engine/cache/kv_cache.h"

#include <algorithm>
#include <iterator>

namespace refreshlab {

HookCalls::HookCalls(std::span<LayerHooks* const> hooks)
    : m_hooks(hooks) {
    for (const LayerHooks* hook : m_hooks)
        RL_ASSERT(hook != nullptr);
}

StepUse& StepUse::operator|=(const StepUse& other) {
    choice = std::max(choice, other.choice);
    rows_alone &= other.rows_alone;
    return *this;
}

StepUse HookCalls::step_use() const {
    StepUse use{StepUse::Choice::nothing, true};
    for (const LayerHooks* hook : m_hooks)
        use |= hook->step_use();
    return use;
}

void HookCalls::place(std::span<RowPlace> rows) const {
    for (LayerHooks* hook : m_hooks)
        hook->place(rows);
}

LayerTaps HookCalls::taps(int64_t layer) const {
    LayerTaps taps;
    for (const LayerHooks* hook : m_hooks)
        taps |= hook->taps(layer);
    return taps;
}

const HeadPositions* HookCalls::select(const LayerView& view) const {
    const HeadPositions* chosen = nullptr;
    for (LayerHooks* hook : m_hooks) {
        const HeadPositions* of_hook = hook->select(view);
        RL_ASSERT(of_hook == nullptr || chosen == nullptr);
        if (of_hook != nullptr) chosen = of_hook;
    }
    return chosen;
}

void HookCalls::select_ahead(int64_t layer, const KvCache& cache, std::span<const int64_t> position) const {
    LayerView view;
    view.layer = layer;
    view.cache = &cache;
    view.positions = position;
    const HeadPositions* const chosen = select(view);
    RL_ASSERT(chosen == nullptr);
}

void HookCalls::attend(int64_t layer, kernels::AttentionInputs& inputs) const {
    for (LayerHooks* hook : m_hooks)
        hook->attend(layer, inputs);
}

void HookCalls::observe(const LayerView& view) const {
    for (LayerHooks* hook : m_hooks)
        hook->observe(view);
}

void HookCalls::inner(int64_t layer, const at::Tensor& rows) const {
    for (LayerHooks* hook : m_hooks)
        hook->inner(layer, rows);
}

void HookCalls::branch(int64_t layer, Branch place, at::Tensor& rows) const {
    for (LayerHooks* hook : m_hooks)
        hook->branch(layer, place, rows);
}

void HookCalls::finish(const at::Tensor& residual) const {
    for (LayerHooks* hook : m_hooks)
        hook->finish(residual);
}

std::span<const kernels::KeyList> ChosenEntries::lists(const KvCache& cache, int64_t layer,
                                                       const HeadPositions& chosen) {
    RL_ASSERT(static_cast<int64_t>(chosen.size()) == cache.num_kv_heads());
    m_columns.clear();
    m_lists.clear();
    const auto held = cache.layout() == CacheLayout::coded ? cache.entries(layer).lists
                                                           : std::span<const kernels::KeyList>();
    for (size_t head = 0; head < chosen.size(); ++head) {
        m_columns.push_back(cache.columns(layer, static_cast<int64_t>(head), chosen[head]));
        m_lists.push_back({chosen[head].data(), m_columns[head].data(), std::ssize(chosen[head]),
                           held.empty() ? nullptr : held[head].coded});
    }
    return m_lists;
}

} // namespace refreshlab
