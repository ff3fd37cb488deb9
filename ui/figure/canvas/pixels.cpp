#include "ui/figure/canvas/pixels.h"

#include "engine/base/error.h"
#include "engine/text/utf8.h"
#include "ui/figure/canvas/cairo_surface.h"

namespace refreshlab::ui {

std::string png_bytes(int64_t width, int64_t height, std::span<const uint32_t> rgba) {
    const auto surface = image_surface(width, height, rgba);
    return png_of(surface.get());
}

std::string drawable_text(std::string_view bytes) {
    std::string text;
    for (size_t at = 0; at < bytes.size();) {
        const Utf8Step step = utf8_step(bytes, at);
        const bool control = step.code_point < 0x20 || step.code_point == 0x7F ||
                             (step.code_point >= 0x80 && step.code_point < 0xA0);
        append_utf8(text, control ? U'\xFFFD' : step.code_point);
        at += step.length;
    }
    return text;
}

} // namespace refreshlab::ui
