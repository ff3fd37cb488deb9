#pragma once

#include "ui/figure/pen.h"
#include "ui/scene/axes/time_view.h"
#include "ui/scene/text/step_marks.h"

#include <cstddef>
#include <string>
#include <vector>

namespace refreshlab::ui {

// Notes beside plots and texts, on the screen and in figures. A note's number is its place among those that its run shows, from 1: the
// command `note` lists them by the same numbers.

/// What holds a note's number: as high as `size`, at least as wide.
[[nodiscard]] double note_badge_width(const FigurePen& pen, double size, const std::string& number);
/// The number on the note's colour. \param corner  the upper left one. \return the badge's width
double paint_note_badge(const FigurePen& pen, FigurePoint corner, double size, Colour colour,
                        const std::string& number);

/// Steps [x_min, x_max] over a width.
struct StepScale {
    double left = 0, width = 0, x_min = 0, x_max = 1;
    [[nodiscard]] double x(double step) const { return left + (step - x_min) / (x_max - x_min) * width; }
};
/// A bar for each note of several steps, as long as these.
void paint_note_spans(const FigurePen& pen, const StepMarks& marks, const StepScale& steps, double top,
                      double height);
/// The steps of notes behind the curves of a plot: a pale band where they are several.
/// \param single  a note of one step has a line
void paint_note_bands(const FigurePen& pen, const StepMarks& marks, const StepScale& steps,
                      const FigureRect& plot, bool single);
/// Numbers of the notes that begin in sight; where badges would cover each other one for all of them ("2-4").
void paint_note_numbers(const FigurePen& pen, const StepMarks& marks, const StepScale& steps, double top,
                        double size);

/// Notes of a run whose steps meet a range, in words: below the figure that shows their numbers.
class NoteList {
public:
    NoteList() = default;
    NoteList(const StepMarks& marks, StepRange steps);

    [[nodiscard]] bool empty() const { return m_notes.empty(); }
    [[nodiscard]] double height(const FigurePen& pen, double width) const;
    void paint(const FigurePen& pen, FigurePoint at, double width) const;
    /// Numbers of those at a step, with spaces between them: a cell of a table.
    [[nodiscard]] std::string at(int64_t step) const;

private:
    struct Entry {
        StepNote note;
        std::string number;
    };
    struct Line {
        size_t entry = 0;
        bool first = false; ///< of its note
        std::string words;
    };
    [[nodiscard]] std::vector<Line> lines(const FigurePen& pen, double width) const;
    [[nodiscard]] double column(const FigurePen& pen) const;

    std::vector<Entry> m_notes;
};

} // namespace refreshlab::ui
