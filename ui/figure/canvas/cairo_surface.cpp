#include "ui/figure/canvas/cairo_surface.h"

#include "engine/base/check.h"
#include "engine/base/error.h"

#include <cstring>

namespace refreshlab::ui {

namespace {

[[noreturn]] void fail(cairo_status_t status) {
    throw Error("drawing a figure", {}, std::string("Cairo says: ") + cairo_status_to_string(status), {},
                ErrorKind::failure);
}

uint32_t multiplied(uint32_t rgba) {
    const uint32_t alpha = rgba >> 24U;
    const auto part = [&](uint32_t shift) { return ((rgba >> shift & 0xFFU) * alpha + 127) / 255; };
    return alpha << 24U | part(0) << 16U | part(8) << 8U | part(16);
}

} // namespace

CairoSurface image_surface(int64_t width, int64_t height, std::span<const uint32_t> rgba) {
    RL_ASSERT(rgba.size() == static_cast<size_t>(width * height));
    CairoSurface surface(
        cairo_image_surface_create(CAIRO_FORMAT_ARGB32, static_cast<int>(width), static_cast<int>(height)));
    if (const auto status = cairo_surface_status(surface.get()); status != CAIRO_STATUS_SUCCESS) fail(status);
    cairo_surface_flush(surface.get());
    unsigned char* data = cairo_image_surface_get_data(surface.get());
    const int stride = cairo_image_surface_get_stride(surface.get());
    for (int64_t y = 0; y < height; ++y)
        for (int64_t x = 0; x < width; ++x) {
            const uint32_t pixel = multiplied(rgba[static_cast<size_t>(y * width + x)]);
            std::memcpy(data + y * stride + x * 4, &pixel, 4);
        }
    cairo_surface_mark_dirty(surface.get());
    return surface;
}

std::string png_of(cairo_surface_t* surface) {
    std::string bytes;
    const auto append = [](void* to, const unsigned char* data, unsigned size) {
        static_cast<std::string*>(to)->append(reinterpret_cast<const char*>(data), size);
        return CAIRO_STATUS_SUCCESS;
    };
    if (const auto status = cairo_surface_write_to_png_stream(surface, append, &bytes);
        status != CAIRO_STATUS_SUCCESS)
        fail(status);
    return bytes;
}

} // namespace refreshlab::ui
