#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace refreshlab {

/// Right singular vectors of rows: orthonormal directions, in which the rows are not correlated. The same numbers on every machine with
/// IEEE doubles: cyclic Jacobi rotations of the d x d matrix of products (Golub and Van Loan, Matrix Computations, section 8.5).
/// \param rows  [n, d], any n; directions that no row has are completed to a basis
/// \return [d, d]: row i is a direction; in no order that means anything
[[nodiscard]] std::vector<float> principal_axes(std::span<const float> rows, int64_t d);

} // namespace refreshlab
