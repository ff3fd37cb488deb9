#include "python/bindings/policy_view.h"

#include "engine/base/error.h"
#include "engine/cache/kv_cache.h"
#include "python/bindings/arrays.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace refreshlab::python {

namespace {

constexpr const char* one_axis = "a list, an array or a tensor of whole numbers with one axis";

nb::object as_array(const nb::object& given) {
    return nb::module_::import_("numpy").attr("asarray")(given);
}

std::string text_of(const nb::object& thing) {
    return nb::cast<std::string>(thing.attr("__str__")());
}

/// Rows of numbers, in the order of the sorted positions. \param width  of a row
std::vector<float> floats_of(const nb::object& given, const GivenPositions& at, int64_t width,
                             const char* doing, const std::string& where) {
    const nb::object array = nb::module_::import_("numpy").attr("ascontiguousarray")(given, "float32");
    const auto rows = nb::cast<nb::ndarray<const float, nb::c_contig, nb::device::cpu>>(array);
    const size_t n = at.positions.size(), columns = static_cast<size_t>(width);
    const bool fits =
        rows.shape(0) == n && (width == 1 ? rows.ndim() == 1 : rows.ndim() == 2 && rows.shape(1) == columns);
    if (!fits)
        throw Error(doing, where,
                    fmt::format("{} positions take numbers of shape {}, not {}", n,
                                width == 1 ? fmt::format("[{}]", n) : fmt::format("[{}, {}]", n, columns),
                                text_of(array.attr("shape"))));
    std::vector<float> sorted;
    sorted.reserve(n * columns);
    for (const size_t row : at.order)
        sorted.insert(sorted.end(), rows.data() + row * columns, rows.data() + (row + 1) * columns);
    return sorted;
}

bool is_sequence(const nb::object& thing) {
    if (nb::hasattr(thing, "ndim")) return nb::cast<size_t>(thing.attr("ndim")) > 0;
    return PySequence_Check(thing.ptr()) != 0 && !nb::isinstance<nb::str>(thing);
}

bool is_run(std::span<const int64_t> columns) {
    return !columns.empty() && columns.back() - columns.front() + 1 == std::ssize(columns) &&
           std::ranges::is_sorted(columns);
}

nb::object array_from(std::span<const int64_t> positions) {
    return nb::cast(array_of(std::vector<int64_t>(positions.begin(), positions.end())));
}

} // namespace

const PolicyView::Call& PolicyView::now() const {
    if (!m_call)
        throw Error("reading a layer in a cache policy", {}, "its call has ended",
                    "keep the numbers (clone() of a tensor), not the layer");
    return *m_call;
}

std::string PolicyView::where(int64_t kv_head) const {
    const Call& call = now();
    if (kv_head < 0 || kv_head >= call.context->kv_heads)
        throw Error("reading a layer in a cache policy", fmt::format("KV head {}", kv_head),
                    fmt::format("the model has KV heads 0 to {}", call.context->kv_heads - 1));
    return fmt::format("layer {}, KV head {}", call.layer, kv_head);
}

int64_t PolicyView::position() const {
    const Call& call = now();
    return call.step != nullptr     ? call.step->position
           : call.prompt != nullptr ? call.prompt->length - 1
                                    : call.tensors.cache->length() - 1;
}
int64_t PolicyView::step() const {
    return now().step != nullptr ? now().step->step : 0;
}

nb::object PolicyView::held(int64_t kv_head) const {
    static_cast<void>(where(kv_head));
    return array_from(now().cache->held(layer(), kv_head));
}

nb::object PolicyView::written(int64_t kv_head) const {
    const std::string head = where(kv_head);
    if (now().written == nullptr)
        throw Error("reading what a refresh wrote in", head, "this call is not about a refresh",
                    "refreshed() is");
    const auto at = static_cast<size_t>(layer() * now().context->kv_heads + kv_head);
    std::vector<int64_t> both;
    if (now().written->heads[at] != 0)
        std::ranges::set_intersection(now().written->positions, now().cache->held(layer(), kv_head),
                                      std::back_inserter(both));
    return nb::cast(array_of(std::move(both)));
}

nb::object PolicyView::read(int64_t kv_head) const {
    const std::string head = where(kv_head);
    if (now().step == nullptr || now().step->read.empty())
        throw Error("reading what attention read in", head, "is not known in this call",
                    "after_attention() has it");
    return array_from(now().step->read[static_cast<size_t>(kv_head)]);
}

nb::tuple PolicyView::storage(int64_t kv_head) const {
    static_cast<void>(where(kv_head));
    const LayerEntries entries = now().tensors.cache->entries(layer());
    return nb::make_tuple(torch_view(entries.k[kv_head]), torch_view(entries.v[kv_head]));
}

nb::object PolicyView::columns(int64_t kv_head) const {
    static_cast<void>(where(kv_head));
    return nb::cast(
        array_of(now().tensors.cache->columns(layer(), kv_head, now().cache->held(layer(), kv_head))));
}

nb::object PolicyView::rows_of(int64_t kv_head, int64_t half) const {
    static_cast<void>(where(kv_head));
    const KvCache& cache = *now().tensors.cache;
    std::vector<int64_t> columns = cache.columns(layer(), kv_head, now().cache->held(layer(), kv_head));
    const LayerEntries entries = cache.entries(layer());
    const at::Tensor rows = (half == 0 ? entries.k : entries.v)[kv_head];
    if (is_run(columns)) return torch_view(rows.narrow(0, columns.front(), std::ssize(columns)));
    at::Tensor index = at::empty({std::ssize(columns)}, at::kLong);
    std::ranges::copy(columns, index.mutable_data_ptr<int64_t>());
    return torch_view(at::index_select(rows, 0, index.to(rows.device())));
}

nb::object PolicyView::group_of(const at::Tensor& all, int64_t kv_head, const char* what,
                                const char* need) const {
    const std::string head = where(kv_head);
    if (!all.defined())
        throw Error(fmt::format("reading {} in", what), head, "this call does not have it", need);
    const int64_t group = now().context->group();
    return torch_view(all.narrow(-2, kv_head * group, group));
}

nb::object PolicyView::attention(int64_t kv_head) const {
    constexpr const char* need = "row = True for steps, after attention; prompt_rows = n for the prompt";
    const at::Tensor& rows = now().tensors.rows;
    if (now().step == nullptr || !rows.defined()) return group_of(rows, kv_head, "attention", need);
    static_cast<void>(where(kv_head));
    return group_of(rows[0].narrow(1, 0, std::ssize(now().step->read[static_cast<size_t>(kv_head)])), kv_head,
                    "attention", need);
}
nb::object PolicyView::sums(int64_t kv_head) const {
    const at::Tensor& all = now().tensors.sums;
    return group_of(all.defined() ? all[0] : all, kv_head, "the prompt's sums",
                    "prompt_sums = True, in read_prompt()");
}
nb::object PolicyView::output_norms(int64_t kv_head) const {
    return group_of(now().tensors.output_norms, kv_head, "the prompt's output norms",
                    "output_norms = True, in read_prompt()");
}
nb::object PolicyView::queries(int64_t kv_head) const {
    constexpr const char* need = "query = True for steps; prompt_queries = n for the prompt";
    const PolicyTensors& tensors = now().tensors;
    const at::Tensor step = tensors.query.defined() ? tensors.query[0] : tensors.query;
    return group_of(now().step != nullptr ? step : tensors.queries, kv_head, "queries", need);
}

CacheEditor& PolicyView::editor(const char* doing) const {
    if (now().editor == nullptr)
        throw Error(doing, fmt::format("layer {}", layer()), "entries are not changed in this call",
                    "read_prompt(), finish_prompt(), before_attention() and after_attention() may");
    return *now().editor;
}

CacheEditor& PolicyView::changing(const char* doing) const {
    CacheEditor& cache = editor(doing);
    if (!now().edits)
        throw Error(doing, fmt::format("layer {}", layer()), "the policy has said that it changes none",
                    "edits = True");
    return cache;
}

GivenPositions PolicyView::held_of(const nb::object& given, const char* doing, int64_t kv_head) const {
    const std::string head = where(kv_head);
    const nb::object array = as_array(given);
    const auto kind = nb::cast<std::string>(array.attr("dtype").attr("kind"));
    const bool none = nb::cast<size_t>(array.attr("size")) == 0;
    if (nb::cast<size_t>(array.attr("ndim")) != 1 || (kind != "i" && kind != "u" && !none))
        throw Error(doing, head,
                    fmt::format("positions are {}, not {} of shape {}", one_axis,
                                text_of(array.attr("dtype")), text_of(array.attr("shape"))));
    const auto numbers = nb::cast<nb::ndarray<const int64_t, nb::c_contig, nb::device::cpu>>(
        nb::module_::import_("numpy").attr("ascontiguousarray")(array, "int64"));
    const std::span<const int64_t> all(numbers.data(), none ? 0 : numbers.shape(0));
    GivenPositions sorted;
    sorted.order.resize(all.size());
    std::iota(sorted.order.begin(), sorted.order.end(), size_t{0});
    std::ranges::stable_sort(sorted.order, {}, [&](size_t i) { return all[i]; });
    const auto held = now().cache->held(layer(), kv_head);
    for (const size_t i : sorted.order) {
        if (!sorted.positions.empty() && sorted.positions.back() == all[i])
            throw Error(doing, head, fmt::format("position {} comes twice", all[i]));
        if (!std::ranges::binary_search(held, all[i]))
            throw Error(doing, head, fmt::format("position {} is not held", all[i]),
                        fmt::format("held() has the {} that are", held.size()));
        sorted.positions.push_back(all[i]);
    }
    return sorted;
}

void PolicyView::evict(int64_t kv_head, const nb::object& positions, bool merged) const {
    constexpr const char* doing = "evicting entries of";
    static_cast<void>(changing(doing));
    take_away(doing, kv_head, held_of(positions, doing, kv_head).positions, merged);
}

void PolicyView::keep(int64_t kv_head, const nb::object& positions) const {
    constexpr const char* doing = "keeping entries of";
    static_cast<void>(changing(doing));
    const auto stay = held_of(positions, doing, kv_head).positions;
    std::vector<int64_t> gone;
    std::ranges::set_difference(now().cache->held(layer(), kv_head), stay, std::back_inserter(gone));
    take_away(doing, kv_head, gone, false);
}

void PolicyView::take_away(const char* doing, int64_t kv_head, std::span<const int64_t> gone,
                           bool merged) const {
    if (gone.empty()) return;
    if (now().before_attention && gone.back() == now().step->position)
        throw Error(
            doing, where(kv_head),
            fmt::format("position {} is the new token's own, which has to be read first", gone.back()),
            "after_attention() may take it away");
    if (merged)
        now().editor->merge_away(layer(), kv_head, gone);
    else
        now().editor->evict(layer(), kv_head, gone);
}

void PolicyView::rewrite(int64_t kv_head, const nb::object& positions, const nb::object& keys,
                         const nb::object& values, bool merged) const {
    constexpr const char* doing = "rewriting entries of";
    CacheEditor& cache = changing(doing);
    const GivenPositions at = held_of(positions, doing, kv_head);
    if (at.positions.empty()) return;
    const auto half = [&](const nb::object& given) {
        return given.is_none() ? std::vector<float>()
                               : floats_of(given, at, now().context->head_dim, doing, where(kv_head));
    };
    const std::vector<float> k = half(keys), v = half(values);
    if (merged)
        cache.merge_into(layer(), kv_head, at.positions, k, v);
    else
        cache.rewrite(layer(), kv_head, at.positions, k, v);
}

void PolicyView::score(int64_t kv_head, const nb::object& positions, const nb::object& scores) const {
    constexpr const char* doing = "scoring entries of";
    CacheEditor& cache = editor(doing);
    const GivenPositions at = held_of(positions, doing, kv_head);
    cache.score(layer(), kv_head, at.positions, floats_of(scores, at, 1, doing, where(kv_head)));
}

std::optional<HeadPositions> PolicyView::chosen(const nb::object& given) const {
    if (given.is_none()) return std::nullopt;
    constexpr const char* doing = "choosing what attention reads in";
    const int64_t heads = now().context->kv_heads;
    const bool list = nb::isinstance<nb::list>(given) || nb::isinstance<nb::tuple>(given);
    const bool of_heads = list ? nb::len(given) > 0 && is_sequence(given[0])
                               : nb::cast<size_t>(as_array(given).attr("ndim")) == 2;
    if (of_heads && static_cast<int64_t>(nb::len(given)) != heads)
        throw Error(doing, fmt::format("layer {}", layer()),
                    fmt::format("{} lists of positions are not one for each of the {} KV heads",
                                nb::len(given), heads));
    HeadPositions all;
    for (int64_t head = 0; head < heads; ++head) {
        auto read = held_of(of_heads ? nb::object(given[head]) : given, doing, head).positions;
        // The new token's entry is the last of what is held, and read in any case.
        if (const int64_t newest = position(); read.empty() || read.back() != newest) read.push_back(newest);
        all.push_back(std::move(read));
    }
    return all;
}

void bind_policy_view(nb::module_& module) {
    using nb::arg, nb::sig;
    nb::class_<PolicyView>(
        module, "PolicyView",
        "One layer as a cache policy is shown it, during one call; see refreshlab.CachePolicy.")
        .def_prop_ro("layer", &PolicyView::layer)
        .def_prop_ro("position", &PolicyView::position,
                     "Of the newest token: the prompt's last, or the step's.")
        .def_prop_ro("step", &PolicyView::step, "1 is the first after the prompt; 0 before it.")
        .def("held", &PolicyView::held, arg("kv_head"),
             sig("def held(self, kv_head: int) -> numpy.typing.NDArray[numpy.int64]"),
             "[n]: positions that the KV head holds, ascending, the new token's included. A copy.")
        .def("read", &PolicyView::read, arg("kv_head"),
             sig("def read(self, kv_head: int) -> numpy.typing.NDArray[numpy.int64]"),
             "[n]: positions that attention read at this step, ascending. In after_attention() alone.")
        .def("written", &PolicyView::written, arg("kv_head"),
             sig("def written(self, kv_head: int) -> numpy.typing.NDArray[numpy.int64]"),
             "[n]: positions that the refresh wrote and the KV head holds. In refreshed() alone.")
        .def("keys", &PolicyView::keys, arg("kv_head"), sig("def keys(self, kv_head: int) -> torch.Tensor"),
             "[n, head_dim], behind RoPE: of held(). A view where the entries stand side by side, else "
             "gathered from storage().")
        .def("values", &PolicyView::values, arg("kv_head"),
             sig("def values(self, kv_head: int) -> torch.Tensor"), "[n, head_dim]: of held(); as keys().")
        .def("storage", &PolicyView::storage, arg("kv_head"),
             sig("def storage(self, kv_head: int) -> tuple[torch.Tensor, torch.Tensor]"),
             "Keys and values, each [columns, head_dim], where the cache has them: views, no copy. NaN where "
             "nothing stands.")
        .def("columns", &PolicyView::columns, arg("kv_head"),
             sig("def columns(self, kv_head: int) -> numpy.typing.NDArray[numpy.int64]"),
             "[n]: where held() stands in storage().")
        .def("attention", &PolicyView::attention, arg("kv_head"),
             sig("def attention(self, kv_head: int) -> torch.Tensor"),
             "Of the query heads of a KV head. A step: [group, n], over read(). The prompt: [prompt_rows, "
             "group, length], of its last queries.")
        .def("sums", &PolicyView::sums, arg("kv_head"), sig("def sums(self, kv_head: int) -> torch.Tensor"),
             "[group, length]: the attention that each position of the prompt received from all of its "
             "queries.")
        .def("output_norms", &PolicyView::output_norms, arg("kv_head"),
             sig("def output_norms(self, kv_head: int) -> torch.Tensor"),
             "[group, length]: 1-norm of a value behind the output projection, of the prompt.")
        .def("queries", &PolicyView::queries, arg("kv_head"),
             sig("def queries(self, kv_head: int) -> torch.Tensor"),
             "A step: [group, head_dim]. The prompt: [prompt_queries, group, head_dim], its last ones.")
        .def(
            "evict",
            [](const PolicyView& v, int64_t head, const nb::object& at) { v.evict(head, at, false); },
            arg("kv_head"), arg("positions"),
            sig("def evict(self, kv_head: int, positions: numpy.typing.ArrayLike) -> None"),
            "Entries that the KV head holds no more.")
        .def(
            "merge_away",
            [](const PolicyView& v, int64_t head, const nb::object& at) { v.evict(head, at, true); },
            arg("kv_head"), arg("positions"),
            sig("def merge_away(self, kv_head: int, positions: numpy.typing.ArrayLike) -> None"),
            "As evict(), for entries whose content went into others.")
        .def("keep", &PolicyView::keep, arg("kv_head"), arg("positions"),
             sig("def keep(self, kv_head: int, positions: numpy.typing.ArrayLike) -> None"),
             "Evicts all but these.")
        .def(
            "rewrite",
            [](const PolicyView& v, int64_t head, const nb::object& at, const nb::object& keys,
               const nb::object& values) { v.rewrite(head, at, keys, values, false); },
            arg("kv_head"), arg("positions"), arg("keys") = nb::none(), arg("values") = nb::none(),
            sig("def rewrite(self, kv_head: int, positions: numpy.typing.ArrayLike, keys: "
                "numpy.typing.ArrayLike | None = "
                "None, values: numpy.typing.ArrayLike | None = None) -> None"),
            "New content of entries, [n, head_dim] each; None leaves that half as it is.")
        .def(
            "merge_into",
            [](const PolicyView& v, int64_t head, const nb::object& at, const nb::object& keys,
               const nb::object& values) { v.rewrite(head, at, keys, values, true); },
            arg("kv_head"), arg("positions"), arg("keys") = nb::none(), arg("values") = nb::none(),
            sig("def merge_into(self, kv_head: int, positions: numpy.typing.ArrayLike, keys: "
                "numpy.typing.ArrayLike | None "
                "= None, values: numpy.typing.ArrayLike | None = None) -> None"),
            "As rewrite(), with content of entries that leave: a refresh does not write these any more.")
        .def("score", &PolicyView::score, arg("kv_head"), arg("positions"), arg("scores"),
             sig("def score(self, kv_head: int, positions: numpy.typing.ArrayLike, scores: "
                 "numpy.typing.ArrayLike) -> None"),
             "What the policy gives entries where it chooses, for people to look at; larger ones stay, or "
             "are read, rather. No effect.")
        .def_prop_ro("wants_scores", &PolicyView::wants_scores,
                     "False: nobody looks at scores now, and those that take work need not be told.");
}

} // namespace refreshlab::python
