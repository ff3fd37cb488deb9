#pragma once

#include "engine/session/policies/tensor_policy.h"
#include "python/bindings/python_signal.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace refreshlab::python {

/// Positions as a person gives them, in any order, sorted.
struct GivenPositions {
    std::vector<int64_t> positions; ///< ascending
    std::vector<size_t> order;      ///< positions[i] was given at place order[i]
};

/// One layer as a cache policy written in Python is shown it, in one call of the engine. Of use during that call alone: whoever kept it is told
/// so. What it is asked wrongly is Error{bad_input}.
class PolicyView {
public:
    struct Call {
        const PolicyContext* context = nullptr;
        PolicyTensors tensors = {};
        CacheEditor* editor = nullptr;              ///< null: nothing is told or changed in this call
        bool edits = false;                         ///< the policy may change entries
        bool before_attention = false;              ///< the new token's own entry has to stay
        const CacheEditor* cache = nullptr;         ///< what is held
        const PromptView* prompt = nullptr;         ///< in read_prompt()
        const refreshlab::StepView* step = nullptr; ///< in before_attention() and after_attention()
        const EntrySelection* written = nullptr;    ///< in refreshed()
        int64_t layer = 0;
    };
    explicit PolicyView(Call call)
        : m_call(std::move(call)) {}
    void end() { m_call.reset(); }

    [[nodiscard]] int64_t layer() const { return now().layer; }
    [[nodiscard]] int64_t position() const; ///< of the newest token that is read
    [[nodiscard]] int64_t step() const;     ///< 0 while the prompt is read

    [[nodiscard]] nb::object held(int64_t kv_head) const; ///< [n] int64, ascending; a copy
    [[nodiscard]] nb::object written(int64_t kv_head) const;
    [[nodiscard]] nb::object read(int64_t kv_head) const;
    [[nodiscard]] nb::object keys(int64_t kv_head) const { return rows_of(kv_head, 0); }
    [[nodiscard]] nb::object values(int64_t kv_head) const { return rows_of(kv_head, 1); }
    /// (keys, values), each [columns, head_dim]; views.
    [[nodiscard]] nb::tuple storage(int64_t kv_head) const;
    [[nodiscard]] nb::object columns(int64_t kv_head) const; ///< of storage(), where held() stands

    [[nodiscard]] nb::object attention(int64_t kv_head) const;
    [[nodiscard]] nb::object sums(int64_t kv_head) const;
    [[nodiscard]] nb::object output_norms(int64_t kv_head) const;
    [[nodiscard]] nb::object queries(int64_t kv_head) const;

    void evict(int64_t kv_head, const nb::object& positions, bool merged) const;
    void keep(int64_t kv_head, const nb::object& positions) const;
    void rewrite(int64_t kv_head, const nb::object& positions, const nb::object& keys,
                 const nb::object& values, bool merged) const;
    void score(int64_t kv_head, const nb::object& positions, const nb::object& scores) const;
    [[nodiscard]] bool wants_scores() const { return now().cache->wants_scores(); }

    /// What before_attention() gave, as the engine takes it: the new position is read in any case. Nothing: all that is held.
    [[nodiscard]] std::optional<HeadPositions> chosen(const nb::object& given) const;

private:
    [[nodiscard]] const Call& now() const;
    [[nodiscard]] std::string
    where(int64_t kv_head) const; ///< "layer 2, KV head 0"; throws where there is no such head
    [[nodiscard]] nb::object rows_of(int64_t kv_head, int64_t half) const;
    [[nodiscard]] nb::object group_of(const at::Tensor& all, int64_t kv_head, const char* what,
                                      const char* need) const;
    [[nodiscard]] CacheEditor& editor(const char* doing) const;
    [[nodiscard]] CacheEditor& changing(const char* doing) const; ///< editor() of a policy that edits
    void take_away(const char* doing, int64_t kv_head, std::span<const int64_t> gone, bool merged) const;
    /// A list, an array of NumPy or a tensor of whole numbers with one axis. Throws Error{bad_input} for anything else, for a position that comes
    /// twice, and for one that is not held; what NumPy refuses is its own exception.
    [[nodiscard]] GivenPositions held_of(const nb::object& given, const char* doing, int64_t kv_head) const;

    std::optional<Call> m_call; ///< nothing: the call is over
};

/// For the module.
void bind_policy_view(nb::module_& module);

} // namespace refreshlab::python
