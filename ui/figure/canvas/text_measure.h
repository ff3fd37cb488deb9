#pragma once

#include "ui/figure/canvas/canvas.h"

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

typedef struct _PangoLayout PangoLayout;
typedef struct _PangoContext PangoContext;

namespace refreshlab::ui {

/// The fonts of figures: those of the program (Roboto, DejaVu Sans, DejaVu Sans Mono), then the machine's for what these
/// lack. Measures for every canvas, so that the same figure has the same layout as SVG, PDF and PNG.
/// Threads  one each: Pango's contexts are not shared.
class FigureFonts {
public:
    /// Throws Error{failure}: the program's fonts are not there.
    explicit FigureFonts(const std::filesystem::path& assets);
    ~FigureFonts();
    FigureFonts(const FigureFonts&) = delete;
    FigureFonts& operator=(const FigureFonts&) = delete;

    [[nodiscard]] TextSize measure(std::string_view utf8, const TextStyle& style) const;
    /// A layout with this text and font, for a canvas that draws with Pango. It belongs to this object and lives until the next
    /// call.
    [[nodiscard]] PangoLayout* layout(std::string_view utf8, const TextStyle& style) const;
    /// Names for a file that a browser shows, best first: "Roboto, 'DejaVu Sans', sans-serif".
    [[nodiscard]] static std::string families(const TextStyle& style);
    /// The program's own font of that style, as bytes of a TrueType file.
    [[nodiscard]] std::string font_file(const TextStyle& style) const;

private:
    struct Impl;
    std::unique_ptr<Impl> m_impl;
};

} // namespace refreshlab::ui
