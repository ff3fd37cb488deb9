#include "engine/model/derive/derive_student.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/derive/calibration.h"
#include "engine/model/derive/channel_dims.h"
#include "engine/model/derive/weight_changes.h"
#include "kernels/blocks/blocks.h"
#include "kernels/blocks/device_blocks.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace refreshlab {

namespace {

using Part = WeightPlace::Part;

bool contains(const std::vector<int32_t>& layers, int64_t layer) {
    return std::ranges::find(layers, layer) != layers.end();
}

/// Weights of a sublayer that is left out are not read: K and V of a left-out attention are.
bool is_read(const WeightPlace& place, const DeriveSpec& spec) {
    if (place.part == Part::mlp) return !contains(spec.skip_mlp, place.layer);
    const bool column =
        place.name.find(".k_proj.") != std::string::npos || place.name.find(".v_proj.") != std::string::npos;
    return place.part != Part::attention || column || !contains(spec.skip_attention, place.layer);
}

bool is_touched(const WeightPlace& place, const DeriveSpec& spec) {
    if (place.part == Part::other || !is_read(place, spec)) return false;
    return spec.only == DeriveSpec::Only::all ||
           (spec.only == DeriveSpec::Only::mlp) == (place.part == Part::mlp);
}

bool changes(const WeightPlace& place, const DeriveSpec& spec) {
    const bool prunes = spec.ffn < 1 && channel_dim(place) >= 0;
    return prunes || (is_touched(place, spec) && (spec.bits > 0 || spec.noise > 0));
}

/// Tensor by tensor from the teacher's to the student's weights.
class Maker {
public:
    Maker(const LlamaModel& teacher, const DeriveSpec& spec, at::Device device)
        : m_teacher(teacher)
        , m_spec(spec)
        , m_device(device)
        , m_config(derived_config(teacher.config(), spec)) {
        teacher.weights().visit(teacher.config(), [&](const WeightPlace& place, const at::Tensor&) {
            m_stored.emplace(place.name, place.stored);
        });
    }

    void make(std::span<const int32_t> text, const LoadProgress& progress) {
        if (m_spec.ffn < 1) choose_channels(text);
        m_weights = m_teacher.weights();
        m_facts.spec = m_spec;
        const auto tensors = static_cast<double>(m_stored.size());
        double done = 0;
        const double share = m_spec.skip_auto > 0 ? 0.2 : 1;
        m_weights.replace(m_config, [&](const WeightPlace& place, const at::Tensor& tensor) {
            if (progress && !progress(share * done++ / tensors, place.name))
                throw Error("deriving a student", derivation_path(m_spec), "cancelled", {},
                            ErrorKind::failure);
            return made(place, tensor);
        });
        m_weights.bytes = m_facts.own_bytes;
        Skips skips{m_spec.skip_attention, m_spec.skip_mlp};
        if (m_spec.skip_auto > 0) {
            const auto rest = [&](double fraction, const std::string& what) {
                return !progress || progress(share + (1 - share) * fraction, what);
            };
            skips = search_skips(
                m_teacher, [&](const Skips& out) { return model(out); }, skips, m_spec.skip_auto, text, rest);
        }
        m_facts.skip_attention = skips.attention;
        m_facts.skip_mlp = skips.mlp;
        DeriveSpec chosen = m_spec;
        chosen.skip_attention = skips.attention;
        chosen.skip_mlp = skips.mlp;
        const DeriveCost cost = derive_cost(chosen, shape_of(m_teacher.config()), 4);
        m_facts.token_bytes = cost.token_bytes;
        m_facts.teacher_token_bytes = cost.teacher_token_bytes;
        m_student = model(skips);
    }

    [[nodiscard]] DerivedStudent take() { return {std::move(m_student), std::move(m_facts)}; }

private:
    void choose_channels(std::span<const int32_t> text) {
        for (const auto& scores : channel_scores(m_teacher, text)) {
            const auto best = best_channels(scores, m_config.intermediate_size);
            m_channels.push_back(at::tensor(best, at::kLong).to(m_teacher.device()));
        }
    }

    at::Tensor made(const WeightPlace& place, const at::Tensor& tensor) {
        at::Tensor result = tensor;
        if (changes(place, m_spec)) {
            result = on_device(changed(place, tensor), m_teacher.device());
            const bool same = result.sizes() == tensor.sizes() &&
                              result.scalar_type() == tensor.scalar_type() && at::equal(result, tensor);
            if (same) {
                result = tensor;
            } else {
                ++m_facts.changed_tensors;
            }
        }
        const bool own = !result.is_same(tensor) || m_device != m_teacher.device();
        result = on_device(result, m_device);
        (own ? m_facts.own_bytes : m_facts.shared_bytes) += static_cast<int64_t>(result.nbytes());
        return result;
    }

    static at::Tensor on_device(const at::Tensor& tensor, at::Device device) {
        return kernels::is_blocks(tensor) ? kernels::blocks_on(tensor, device) : tensor.to(device);
    }

    /// In fp32 from what the teacher holds, then rounded to its dtype once.
    at::Tensor changed(const WeightPlace& place, const at::Tensor& tensor) {
        const at::Tensor held = kernels::is_blocks(tensor) ? kernels::block_values(tensor) : tensor;
        at::Tensor w = without_padding(held, m_stored.at(place.name)).to(at::kFloat);
        const int64_t dim = channel_dim(place);
        if (m_spec.ffn < 1 && dim >= 0) {
            w = w.index_select(dim, m_channels[static_cast<size_t>(place.layer)].to(w.device()));
        }
        if (is_touched(place, m_spec)) {
            if (m_spec.noise > 0) w = with_noise(w, m_spec.noise, m_spec.seed, stream_of(place));
            if (m_spec.bits > 0 && m_teacher.keeps_blocks()) {
                const at::Tensor packed =
                    round_to_blocks(w.cpu().contiguous(), m_spec.bits, m_spec.group, m_spec.symmetric);
                if (packed.defined()) return packed;
            }
            if (m_spec.bits > 0)
                w = round_to_bits(w.contiguous(), m_spec.bits, m_spec.group, m_spec.symmetric);
        }
        return with_padding(w.to(m_teacher.dtype()), place.held);
    }

    /// A number for each matrix: by layer, and by the place that its name has among those of a layer.
    static uint32_t stream_of(const WeightPlace& place) {
        constexpr std::string_view matrices[][2] = {{".q_proj."},
                                                    {".k_proj."},
                                                    {".v_proj."},
                                                    {".o_proj."},
                                                    {".gate_proj.", ".w1."},
                                                    {".up_proj.", ".w3."},
                                                    {".down_proj.", ".w2."}};
        uint32_t number = 0;
        const auto is = [&](std::string_view name) {
            return !name.empty() && place.name.find(name) != std::string::npos;
        };
        while (number < std::size(matrices) && !is(matrices[number][0]) && !is(matrices[number][1]))
            ++number;
        constexpr std::string_view experts = ".experts.";
        const size_t at = place.name.find(experts);
        // Of an expert: far from the numbers of layers.
        const uint32_t expert =
            at == std::string::npos
                ? 0
                : static_cast<uint32_t>(std::stoul(place.name.substr(at + experts.size()))) + 1;
        return static_cast<uint32_t>(place.layer) * 8 + number +
               expert * (uint32_t{8} * ModelConfig::max_layers);
    }

    [[nodiscard]] std::unique_ptr<LlamaModel> model(const Skips& skips) const {
        LlamaWeights weights = m_weights; // handles
        for (const int32_t layer : skips.attention)
            weights.layers[static_cast<size_t>(layer)].attends = false;
        for (const int32_t layer : skips.mlp)
            weights.layers[static_cast<size_t>(layer)].has_mlp = false;
        return LlamaModel::of_weights(m_config, std::move(weights), m_device, m_teacher.dtype(),
                                      m_teacher.keeps_blocks());
    }

    const LlamaModel& m_teacher;
    const DeriveSpec& m_spec;
    const at::Device m_device;
    const ModelConfig m_config;
    std::unordered_map<std::string, std::vector<int64_t>> m_stored; ///< shapes of the teacher's tensors
    std::vector<at::Tensor> m_channels;                             ///< by layer
    LlamaWeights m_weights;
    DerivedFacts m_facts;
    std::unique_ptr<LlamaModel> m_student;
};

} // namespace

ModelShape shape_of(const ModelConfig& config) {
    return {config.num_layers,   config.hidden_size, config.intermediate_size, config.num_heads,
            config.num_kv_heads, config.head_dim,    config.vocab_size};
}

ModelConfig derived_config(const ModelConfig& teacher, const DeriveSpec& spec) {
    const ModelShape shape = shape_of(teacher);
    check_derive(spec, &shape);
    if (spec.ffn < 1 && teacher.experts.count > 0)
        throw Error("deriving a student", derivation_path(spec),
                    "ffn: the teacher's MLPs are routed experts, whose channels are not chosen",
                    "take bits, noise, or sublayers to leave out");
    ModelConfig config = teacher;
    config.intermediate_size = kept_channels(spec, teacher.intermediate_size);
    return config;
}

int64_t derived_bytes_in_blocks(const ModelConfig& teacher, const DeriveSpec& spec) {
    int64_t bytes = 0;
    LlamaWeights{}.visit(derived_config(teacher, spec), [&](const WeightPlace& place, const at::Tensor&) {
        if (!changes(place, spec)) return;
        int64_t n = 1;
        for (const int64_t width : place.held)
            n *= width;
        const auto type =
            is_touched(place, spec) && place.stored.size() == 2
                ? block_type_of(place.stored[0], place.stored[1], spec.bits, spec.group, spec.symmetric)
                : std::nullopt;
        bytes += type ? n / kernels::block_width * kernels::stored_block_bytes(*type) : 2 * n;
    });
    return bytes;
}

int64_t derived_elements(const ModelConfig& teacher, const DeriveSpec& spec) {
    int64_t elements = 0;
    LlamaWeights{}.visit(derived_config(teacher, spec), [&](const WeightPlace& place, const at::Tensor&) {
        if (!changes(place, spec)) return;
        int64_t n = 1;
        for (const int64_t width : place.held)
            n *= width;
        elements += n;
    });
    return elements;
}

DerivedStudent derive_student(const LlamaModel& teacher, const DeriveSpec& spec, at::Device device,
                              std::span<const int32_t> text, const LoadProgress& progress) {
    const c10::InferenceMode guard;
    RL_ASSERT(!spec.measures() || !text.empty());
    try {
        Maker maker(teacher, spec, device);
        maker.make(text, progress);
        return maker.take();
    } catch (const c10::Error& error) {
        throw Error("deriving a student", derivation_path(spec), error.what_without_backtrace(),
                    "is there enough memory on " + device.str() + "?", ErrorKind::failure);
    }
}

} // namespace refreshlab
