#pragma once

#include "engine/model/model_config.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace refreshlab {

/// An expert of a row, and the share of its output.
struct RoutedExpert {
    int64_t expert = 0;
    float share = 0;
};

/// The experts of one row, ascending: the `used` largest logits (of equal ones the lower number), each with its softmax over all experts, or
/// over the chosen ones (Experts::normalised). Nothing else in the call changes it. \param logits  [experts]
/// Source: Shazeer et al. 2017; Jiang et al. 2024 (Mixtral).
[[nodiscard]] std::vector<RoutedExpert> experts_of_row(const Experts& experts, std::span<const float> logits);

/// Which rows of a pass go to which expert.
class RoutedRows {
public:
    struct Group {
        int64_t expert = 0;
        at::Tensor rows;   ///< [n] int64 on the CPU, ascending
        at::Tensor shares; ///< [n] fp32 on the CPU
    };
    /// \param logits  of the router, [rows, experts], on any device: copied to the host
    RoutedRows(const Experts& experts, const at::Tensor& logits);
    [[nodiscard]] const std::vector<Group>& groups() const {
        return m_groups;
    } ///< of experts that have rows, ascending

private:
    std::vector<Group> m_groups;
};

} // namespace refreshlab
