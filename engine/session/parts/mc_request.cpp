#include "engine/session/parts/mc_request.h"

#include "engine/model/model_config.h"

namespace refreshlab {

McRequest mc_request(const McConfig& mc, uint64_t seed, const ModelConfig& model) {
    McRequest request;
    request.passes = mc.samples;
    request.seed = seed;
    const double trained = model.attention_dropout.value_or(0);
    request.p = static_cast<float>(mc.p >= 0 ? mc.p : trained > 0 ? trained : 0.1);
    request.attention_output = request.mlp_output = model.resid_dropout.value_or(0) > 0;
    return request;
}

} // namespace refreshlab
