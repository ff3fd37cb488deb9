#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace refreshlab {

/// Rows in slots of one tensor, which grows and shrinks with them. Who holds a slot knows its number.
///
/// Storage  [slots, width]
/// Poison   a slot that nobody holds reads as NaN.
/// On a CPU rows are moved as bytes: a step moves a few of each head, and a call of libtorch costs more than that.
class RowStore {
public:
    RowStore() = default; ///< to be assigned to
    /// \param options  dtype and device
    RowStore(int64_t width, const at::TensorOptions& options);

    [[nodiscard]] std::vector<int64_t> take(int64_t n);
    void give_back(std::span<const int64_t> slots);
    [[nodiscard]] at::Tensor read(std::span<const int64_t> slots) const; ///< [n, width] on the host; a copy
    /// Of a row on the host, as floats: channels [first, first + channels). Threads  several at once.
    void read(int64_t slot, int64_t first, int64_t channels, float* to) const;
    /// [slots, width]: all of them, until the next change.
    [[nodiscard]] const at::Tensor& rows() const { return m_rows; }
    void write(std::span<const int64_t> slots, const at::Tensor& from); ///< [n, width], any dtype and device

    /// So much is free that a copy of what is held pays.
    [[nodiscard]] bool is_roomy() const;
    /// What slots[i] held is in slot i from now on, and nothing else is held.
    void keep(std::span<const int64_t> slots);

    [[nodiscard]] at::TensorOptions options() const { return m_rows.options(); }
    [[nodiscard]] at::ScalarType dtype() const { return m_rows.scalar_type(); }
    [[nodiscard]] int64_t row_bytes() const {
        return m_rows.size(1) * static_cast<int64_t>(m_rows.element_size());
    }
    [[nodiscard]] int64_t bytes() const {
        return static_cast<int64_t>(m_rows.nbytes());
    }                                     ///< free slots included
    [[nodiscard]] RowStore clone() const; ///< deep

private:
    at::Tensor m_rows;
    std::vector<int64_t> m_free; ///< the next one last
};

} // namespace refreshlab
