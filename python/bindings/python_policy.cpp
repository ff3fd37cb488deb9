#include "python/bindings/python_policy.h"

#include "engine/base/error.h"
#include "engine/cache/kv_cache.h"
#include "engine/session/parts/stopwatch.h"
#include "python/bindings/policy_view.h"
#include "python/bindings/python_signal.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace refreshlab::python {

namespace {

/// The interpreter, for one call of a policy. Its tensors are ordinary ones, which it may keep and change.
class InPython {
public:
    explicit InPython(PythonPolicy::Cost& cost)
        : m_cost(cost) {
        ++m_cost.calls;
    }
    ~InPython() { m_cost.ms.store(m_cost.ms.load() + m_watch.ms()); } // one thread at a time
    InPython(const InPython&) = delete;
    InPython& operator=(const InPython&) = delete;

private:
    PythonPolicy::Cost& m_cost;
    Stopwatch m_watch;
    nb::gil_scoped_acquire m_interpreter;
    c10::InferenceMode m_off{false};
};

/// Says in an exception's traceback where the run was.
void add_note(const nb::python_error& error, const std::string& where) {
    const nb::handle value = error.value();
    if (nb::hasattr(value, "add_note")) value.attr("add_note")(where); // Python 3.11
}

/// A view for one call, however that ends: Python may keep the object.
struct Shown {
    explicit Shown(PolicyView::Call call)
        : view(std::make_shared<PolicyView>(std::move(call))) {}
    Shown(Shown&&) = default;
    ~Shown() {
        if (view) view->end();
    }
    std::shared_ptr<PolicyView> view;
};

std::string place(const char* function, int64_t layer, int64_t step) {
    return fmt::format("{}() in layer {}{}", function, layer,
                       step > 0 ? fmt::format(" at step {}", step) : std::string());
}

using SignalNames = std::shared_ptr<std::optional<std::vector<std::string>>>;

class PolicyInPython final : public TensorPolicy {
public:
    PolicyInPython(nb::object policy, const PolicyNeeds& needs, PolicyContext context, std::string name,
                   std::shared_ptr<PythonPolicy::Cost> cost, SignalNames signal_names)
        : m_policy(std::move(policy))
        , m_needs(needs)
        , m_context(std::move(context))
        , m_name(std::move(name))
        , m_cost(std::move(cost))
        , m_signal_names(std::move(signal_names)) {}
    ~PolicyInPython() override {
        const nb::gil_scoped_acquire interpreter;
        m_policy.reset();
    }
    PolicyInPython(const PolicyInPython&) = delete;
    PolicyInPython& operator=(const PolicyInPython&) = delete;

private:
    /// What it throws is Python's when it leaves, with a note of where it was.
    template <class Work>
    auto guarded(const std::string& where, const Work& work) const {
        try {
            return work();
        } catch (nb::python_error& error) {
            add_note(error, fmt::format("in cache policy {}: {}", m_name, where));
            throw;
        }
    }

public:
    [[nodiscard]] std::unique_ptr<CachePolicy> clone() const override {
        const InPython in(*m_cost);
        return guarded("copying its state", [&]() -> std::unique_ptr<CachePolicy> {
            nb::object copy = nb::module_::import_("copy").attr("deepcopy")(m_policy);
            return std::make_unique<PolicyInPython>(std::move(copy), m_needs, m_context, m_name, m_cost,
                                                    m_signal_names);
        });
    }
    [[nodiscard]] PolicyNeeds needs() const override { return m_needs; }
    void show(const PolicyTensors& tensors) override { m_tensors = tensors; }

    void read_prompt(const PromptView& view, CacheEditor& cache) override {
        call("read_prompt", {.editor = &cache, .cache = &cache, .prompt = &view, .layer = view.layer});
    }
    void finish_prompt(CacheEditor& cache) override {
        const InPython in(*m_cost);
        std::vector<Shown> views;
        nb::list layers;
        for (int64_t layer = 0; layer < m_context.layers; ++layer) {
            views.push_back(shown({.editor = &cache, .cache = &cache, .layer = layer}));
            layers.append(nb::cast(views.back().view));
        }
        guarded("finish_prompt()",
                [&] { require_none("finish_prompt", m_policy.attr("finish_prompt")(layers)); });
    }
    const HeadPositions* before_attention(const refreshlab::StepView& step, CacheEditor& cache) override {
        const InPython in(*m_cost);
        const Shown shown = this->shown({.editor = &cache,
                                         .before_attention = true,
                                         .cache = &cache,
                                         .step = &step,
                                         .layer = step.layer});
        guarded(place("before_attention", step.layer, step.step), [&] {
            m_chosen = shown.view->chosen(m_policy.attr("before_attention")(nb::cast(shown.view)));
        });
        return m_chosen ? &*m_chosen : nullptr;
    }
    void after_attention(const refreshlab::StepView& step, CacheEditor& cache) override {
        call("after_attention", {.editor = &cache, .cache = &cache, .step = &step, .layer = step.layer});
    }
    void refreshed(const EntrySelection& written, const CacheEditor& cache) override {
        int64_t last = -1;
        for (const int64_t head : written.head_numbers()) {
            const int64_t layer = head / m_context.kv_heads;
            if (layer != std::exchange(last, layer))
                call("refreshed", {.cache = &cache, .written = &written, .layer = layer});
        }
    }

    /// {name: a value for each layer, or None}; the names are those of the first call.
    [[nodiscard]] std::vector<PolicySignal> signals() const override {
        const InPython in(*m_cost);
        return guarded("signals()", [&] {
            std::vector<PolicySignal> all;
            std::vector<std::string> names;
            for (const auto& [name, given] : nb::cast<nb::dict>(m_policy.attr("signals")())) {
                PolicySignal& signal = all.emplace_back();
                signal.name = names.emplace_back(nb::cast<std::string>(name));
                signal.label =
                    nb::cast<std::string>(nb::str(name).attr("replace")("_", " ").attr("capitalize")());
                signal.description =
                    fmt::format("{}, measured by cache policy {} in Python.", signal.name, m_name);
                if (!given.is_none()) signal.values = layer_numbers(given);
                if (!signal.values.empty() && static_cast<int64_t>(signal.values.size()) != m_context.layers)
                    throw Error("running a cache policy", fmt::format("signals() of {}", m_name),
                                fmt::format("{} has {} values, and the model has {} layers", signal.name,
                                            signal.values.size(), m_context.layers));
            }
            if (!*m_signal_names) *m_signal_names = names;
            if (**m_signal_names != names)
                throw Error("running a cache policy", fmt::format("signals() of {}", m_name),
                            "gives other names than before the first step", "None stands for no value");
            return all;
        });
    }

private:
    [[nodiscard]] Shown shown(PolicyView::Call call) const {
        call.context = &m_context;
        call.tensors = m_tensors;
        call.edits = m_needs.edits;
        return Shown(std::move(call));
    }
    void require_none(const char* function, const nb::object& given) const {
        if (given.is_none()) return;
        throw Error("running a cache policy", fmt::format("{}() of {}", function, m_name),
                    fmt::format("gives {}, and nothing is expected",
                                nb::cast<std::string>(nb::str(given.type().attr("__name__")))),
                    "evict() and keep() of what it is shown change the cache");
    }
    void call(const char* function, PolicyView::Call what) {
        const InPython in(*m_cost);
        const int64_t layer = what.layer, step = what.step != nullptr ? what.step->step : 0;
        const Shown shown = this->shown(std::move(what));
        guarded(place(function, layer, step),
                [&] { require_none(function, m_policy.attr(function)(nb::cast(shown.view))); });
    }

    nb::object m_policy;
    PolicyNeeds m_needs;
    PolicyContext m_context;
    std::string m_name;
    std::shared_ptr<PythonPolicy::Cost> m_cost;
    PolicyTensors m_tensors; ///< of the call that comes
    /// Of signals(), from its first call on; copies share it.
    SignalNames m_signal_names;
    std::optional<HeadPositions> m_chosen;
};

PolicyNeeds needs_of(const nb::dict& given) {
    PolicyNeeds needs;
    needs.edits = nb::cast<bool>(given["edits"]);
    needs.prompt_rows = nb::cast<int64_t>(given["prompt_rows"]);
    needs.prompt_queries = nb::cast<int64_t>(given["prompt_queries"]);
    needs.prompt_band = nb::cast<int64_t>(given["prompt_band"]);
    needs.prompt_sums = nb::cast<bool>(given["prompt_sums"]);
    needs.output_norms = nb::cast<bool>(given["output_norms"]);
    needs.row = nb::cast<bool>(given["row"]);
    needs.query = nb::cast<bool>(given["query"]);
    needs.raw_queries = nb::cast<bool>(given["raw_queries"]);
    return needs;
}

} // namespace

PythonPolicy::~PythonPolicy() {
    const nb::gil_scoped_acquire interpreter;
    m_begin.reset();
}

TensorPolicyFactory PythonPolicy::factory() const {
    return [this](const PolicyContext& context) -> std::unique_ptr<TensorPolicy> {
        const InPython in(*m_cost);
        const auto begun =
            nb::cast<nb::tuple>(m_begin(context.layers, context.heads, context.kv_heads, context.head_dim,
                                        context.prompt_length, context.seed));
        return std::make_unique<PolicyInPython>(begun[0], needs_of(nb::cast<nb::dict>(begun[1])), context,
                                                m_name, m_cost,
                                                std::make_shared<std::optional<std::vector<std::string>>>());
    };
}

} // namespace refreshlab::python
