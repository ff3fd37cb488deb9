#pragma once

#include <cairo.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace refreshlab::ui {

struct CairoDeleter {
    void operator()(cairo_surface_t* surface) const { cairo_surface_destroy(surface); }
    void operator()(cairo_t* context) const { cairo_destroy(context); }
};
using CairoSurface = std::unique_ptr<cairo_surface_t, CairoDeleter>;
using CairoContext = std::unique_ptr<cairo_t, CairoDeleter>;

/// Pixels as Cairo has them (ARGB, alpha multiplied in). \param rgba  [height][width], 0xAABBGGRR
/// Throws Error{failure} where Cairo makes none.
[[nodiscard]] CairoSurface image_surface(int64_t width, int64_t height, std::span<const uint32_t> rgba);
/// A PNG file of an image surface. Throws Error{failure}.
[[nodiscard]] std::string png_of(cairo_surface_t* surface);

} // namespace refreshlab::ui
