#pragma once

#include "tests/support/recorded_canvas.h"
#include "tests/ui/figure/figure_fixture.h"

namespace refreshlab::test {

/// A figure on paper, 240 points wide.
inline RecordedCanvas drawn(const ui::FigureRequest& request) {
    RecordedCanvas canvas;
    const ui::FigureStyle style = paper();
    const ui::FigurePen pen{canvas, style};
    const auto figure = ui::make_figure(request);
    figure->draw(pen, {0, 0, 240, figure->height(pen, 240)});
    return canvas;
}

} // namespace refreshlab::test
