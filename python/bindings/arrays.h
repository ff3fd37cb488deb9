#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace refreshlab::python {

namespace nb = nanobind;

template <class T>
using Array = nb::ndarray<nb::numpy, T>;

/// An object of Python that keeps `kept` alive.
template <class T>
[[nodiscard]] nb::capsule keeper_of(T kept) {
    return nb::capsule(new T(std::move(kept)), [](void* held) noexcept { delete static_cast<T*>(held); });
}

/// The numbers as an array of NumPy, which owns them. \param shape  empty: one axis
template <class T>
[[nodiscard]] Array<T> array_of(std::vector<T> values, std::vector<size_t> shape = {}) {
    if (shape.empty()) shape.push_back(values.size());
    auto* const held = new std::vector<T>(std::move(values));
    const nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return Array<T>(held->data(), shape.size(), shape.data(), owner);
}

/// Numbers that `owner` keeps and nobody changes, as an array that cannot be written to. No copy.
template <class T, class Owner>
[[nodiscard]] Array<const T> view_of(const T* data, const std::vector<size_t>& shape,
                                     std::shared_ptr<Owner> owner) {
    return Array<const T>(data, shape.size(), shape.data(), keeper_of(std::move(owner)));
}

} // namespace refreshlab::python
