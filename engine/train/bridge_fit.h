#pragma once

#include "engine/model/bridge/bridge.h"

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace refreshlab {

/// Which layer of the teacher a layer of the student is made of.
enum class LayerPairing : uint8_t {
    last, ///< the last with the last, and so on downwards (terminal alignment of Cache-to-Cache); below the first: the first
    spread, ///< the first with the first, the last with the last, evenly between them, rounded
};
/// Of each student's layer, the teacher's layers that its map reads: the paired one and `reach` more on each side, ascending.
[[nodiscard]] std::vector<std::vector<int64_t>> paired_layers(int64_t teacher_layers, int64_t student_layers,
                                                              LayerPairing pairing, int64_t reach);

/// Fits a bridge on texts that both models read: each map by ridge regression in closed form, from sums of products in f64 (the normal
/// equations), which grow text by text. No text is kept. Definition: reference/refresh.md, section 13.
///
/// Memory   of each set of layers that a map reads and of each of the two parts (fitted, held out): inputs^2 f64; of each map inputs x outputs.
/// Exact    the same texts and number of threads give the same bits on the same kind of processor.
/// Threads  one; under the ExecutionScope of the caller.
class BridgeFit {
public:
    /// Both outlive this; on the CPU (asserted). \param from  as paired_layers()
    BridgeFit(const LlamaModel& teacher, const LlamaModel& student, BridgeInputs inputs,
              std::vector<std::vector<int64_t>> from);

    /// Lets both read a text and adds its positions. \param held_out  it judges and is not fitted on
    void add(std::span<const int32_t> ids, bool held_out);
    [[nodiscard]] int64_t positions(bool held_out) const { return m_sums[held_out ? 1 : 0].rows; }
    /// Positions that the widest map needs at least: one more than it has inputs.
    [[nodiscard]] int64_t positions_needed() const;

    /// What came of one map.
    struct MapFit {
        double lambda = 0;
        double fitted = 0,
               held_out =
                   0; ///< share of the variance of the student's entries that the map explains; at most 1
    };
    struct Result {
        Bridge bridge;
        std::vector<std::array<MapFit, 2>> layers; ///< [student's layers], keys then values
    };
    /// \param lambda  of all maps; nothing: of each the one of lambda_grid() with the least error on the texts held out
    /// Throws Error{bad_input}: fewer positions than positions_needed(), none held out, or the equations have no solution (lambda too small).
    [[nodiscard]] Result solve(std::optional<double> lambda) const;
    [[nodiscard]] static std::span<const double> lambda_grid();

private:
    /// What the maps of one set of inputs share.
    struct InputSums {
        at::Tensor sum, products; ///< [inputs], [inputs, inputs]
    };
    struct OutputSums {
        at::Tensor sum, squares, products; ///< [outputs], [outputs], [inputs, outputs]
    };
    struct Sums {
        int64_t rows = 0;
        std::vector<InputSums> inputs;
        std::vector<OutputSums> outputs; ///< [2 * student's layers]: keys and values of each
    };
    struct InputSet {
        std::vector<int64_t> from;
        bool keys = true, values = true; ///< which halves of the teacher's entries
        [[nodiscard]] int64_t width(const ModelConfig& teacher) const;
        friend bool operator==(const InputSet&, const InputSet&) = default;
    };
    struct Solution {
        at::Tensor weight, bias; ///< f64
        MapFit fit;
    };
    /// Nothing: the equations are singular.
    [[nodiscard]] std::optional<Solution> solve_map(size_t map, double lambda) const;
    [[nodiscard]] double explained(const Sums& sums, size_t map, const Solution& solution) const;

    const LlamaModel &m_teacher, &m_student;
    BridgeInputs m_inputs;
    std::vector<std::vector<int64_t>> m_from;
    std::vector<InputSet> m_sets;
    std::vector<size_t> m_set_of; ///< [2 * student's layers]
    std::array<Sums, 2> m_sums;   ///< fitted, held out
};

} // namespace refreshlab
