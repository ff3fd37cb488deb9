#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace refreshlab {

/// Student rows that a session keeps: 131 MB at 128,256 tokens.
inline constexpr int64_t ring_rows = 256;

/// fp32 student rows of the newest positions, for the KL of a later teacher pass (reference/refresh.md, 6.1). A row that
/// fell out leaves its KL missing, never approximated.
class RowRing {
public:
    RowRing(int64_t rows, int64_t vocab, at::Device device);
    [[nodiscard]] int64_t size() const { return m_rows.size(0); } ///< rows that it keeps
    void put(int64_t position, const at::Tensor& row);
    [[nodiscard]] bool holds(int64_t position) const;
    [[nodiscard]] at::Tensor
    row(int64_t position) const;      ///< a view, [vocab]; held                       (asserted)
    void drop_from(int64_t position); ///< forgets the row of `position` and those after it

    /// All rows, [rows, vocab]; slot(position) says where one lies, -1 = not held. For readers of many rows.
    [[nodiscard]] const at::Tensor& rows() const { return m_rows; }
    [[nodiscard]] int64_t slot(int64_t position) const;

private:
    at::Tensor m_rows;
    std::vector<int64_t> m_positions; ///< per slot, -1 = empty
};

} // namespace refreshlab
