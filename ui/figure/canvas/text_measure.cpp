#include "ui/figure/canvas/text_measure.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"

#include <fontconfig/fontconfig.h>
#include <pango/pangocairo.h>
#include <pango/pangofc-fontmap.h>

#include <cmath>
#include <fstream>
#include <iterator>

namespace refreshlab::ui {

namespace {

const char* file_of(const TextStyle& style) {
    return style.mono ? "DejaVuSansMono.ttf" : style.bold ? "Roboto-Medium.ttf" : "Roboto-Regular.ttf";
}

} // namespace

struct FigureFonts::Impl {
    std::filesystem::path folder;
    PangoFontMap* map = nullptr;
    PangoContext* context = nullptr;
    PangoLayout* layout = nullptr;

    ~Impl() {
        if (layout) g_object_unref(layout);
        if (context) g_object_unref(context);
        if (map) g_object_unref(map);
    }
};

FigureFonts::FigureFonts(const std::filesystem::path& assets)
    : m_impl(std::make_unique<Impl>()) {
    m_impl->folder = assets / "fonts";
    for (const char* file : {"Roboto-Regular.ttf", "Roboto-Medium.ttf", "DejaVuSansMono.ttf"})
        if (std::error_code error; !std::filesystem::is_regular_file(m_impl->folder / file, error))
            throw Error("drawing a figure", (m_impl->folder / file).string(), "the font is missing", {},
                        ErrorKind::failure);
    FcConfig* config = FcInitLoadConfigAndFonts();
    if (config == nullptr ||
        FcConfigAppFontAddDir(config, reinterpret_cast<const FcChar8*>(m_impl->folder.c_str())) == FcFalse)
        throw Error("drawing a figure", m_impl->folder.string(), "the fonts cannot be loaded", {},
                    ErrorKind::failure);
    m_impl->map = pango_cairo_font_map_new_for_font_type(CAIRO_FONT_TYPE_FT);
    pango_cairo_font_map_set_resolution(PANGO_CAIRO_FONT_MAP(m_impl->map), 72);
    pango_fc_font_map_set_config(PANGO_FC_FONT_MAP(m_impl->map), config);
    FcConfigDestroy(config); // the map has a reference of its own
    m_impl->context = pango_font_map_create_context(m_impl->map);
    // No hinting and no whole-pixel advances: the same widths at every resolution.
    cairo_font_options_t* options = cairo_font_options_create();
    cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_NONE);
    cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
    cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
    pango_cairo_context_set_font_options(m_impl->context, options);
    cairo_font_options_destroy(options);
    pango_context_set_round_glyph_positions(m_impl->context, FALSE);
    m_impl->layout = pango_layout_new(m_impl->context);
    pango_layout_set_single_paragraph_mode(m_impl->layout, TRUE);
}

FigureFonts::~FigureFonts() = default;

PangoLayout* FigureFonts::layout(std::string_view utf8, const TextStyle& style) const {
    PangoFontDescription* font = pango_font_description_new();
    pango_font_description_set_family(font, style.mono ? "DejaVu Sans Mono" : "Roboto, DejaVu Sans");
    pango_font_description_set_weight(font, style.bold ? PANGO_WEIGHT_MEDIUM : PANGO_WEIGHT_NORMAL);
    pango_font_description_set_absolute_size(font, std::round(style.size * PANGO_SCALE));
    pango_layout_set_font_description(m_impl->layout, font);
    pango_font_description_free(font);
    pango_layout_set_text(m_impl->layout, utf8.data(), static_cast<int>(utf8.size()));
    return m_impl->layout;
}

TextSize FigureFonts::measure(std::string_view utf8, const TextStyle& style) const {
    PangoLayout* shaped = layout(utf8, style);
    PangoRectangle logical{};
    pango_layout_get_extents(shaped, nullptr, &logical);
    const double base = pango_layout_get_baseline(shaped);
    return {static_cast<double>(logical.width) / PANGO_SCALE, base / PANGO_SCALE,
            (static_cast<double>(logical.height) - base) / PANGO_SCALE};
}

std::string FigureFonts::families(const TextStyle& style) {
    return style.mono ? "'DejaVu Sans Mono', monospace" : "Roboto, 'DejaVu Sans', Arial, sans-serif";
}

std::string FigureFonts::font_file(const TextStyle& style) const {
    std::ifstream file(m_impl->folder / file_of(style), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace refreshlab::ui
