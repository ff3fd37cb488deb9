#pragma once

#include <cstdint>
#include <span>
#include <vector>

/// What a sampler reads off a row of logits on the host. Rows hold no NaN and no +infinity; minus infinity counts as a
/// weight of 0.
namespace refreshlab::kernels {

/// weights[i] = e^((logits[i] - top) / temperature), in double, at most 2 ulp away; 0 below e^-708.
/// \param top          the largest logit of the row
/// \param temperature  > 0
/// \return their sum, in a fixed order that depends on their number alone
double sampling_weights(std::span<const float> logits, double top, double temperature,
                        std::span<double> weights);

/// Adds the ids of the logits that are not below `floor`, ascending, to `ids`.
void ids_from(std::span<const float> logits, float floor, std::vector<int32_t>& ids);

} // namespace refreshlab::kernels
