#include "engine/train/loss_table.h"

#include <algorithm>

namespace refreshlab {

namespace {

constexpr int64_t most_loss_rows = 500;

} // namespace

StudyTable loss_table(const std::string& title, const std::vector<std::string>& parts,
                      const std::vector<TrainingStep>& losses) {
    StudyTable table{"loss", "", {{"step"}, {"loss", 5}}, {}, {}};
    TablePlot plot;
    plot.name = "loss";
    plot.title = title;
    plot.kind = TablePlot::Kind::curves;
    plot.x = "step";
    plot.x_title = "step";
    plot.parts.push_back({"loss", {"loss"}});
    for (const std::string& part : parts) {
        table.columns.push_back({part, 5});
        plot.parts.push_back({part, {part}});
    }
    table.plots.push_back(std::move(plot));
    const int64_t steps = std::ssize(losses),
                  each = std::max<int64_t>((steps + most_loss_rows - 1) / most_loss_rows, 1);
    for (int64_t first = 0; first < steps; first += each) {
        const int64_t n = std::min(each, steps - first);
        std::vector<double> sums(parts.size() + 1, 0);
        for (int64_t i = first; i < first + n; ++i) {
            const TrainingStep& step = losses[static_cast<size_t>(i)];
            sums[0] += step.total;
            for (size_t part = 0; part < step.parts.size(); ++part)
                sums[part + 1] += step.parts[part];
        }
        std::vector<StudyCell> row{first + n};
        for (const double sum : sums)
            row.emplace_back(sum / static_cast<double>(n));
        table.rows.push_back(std::move(row));
    }
    return table;
}

} // namespace refreshlab
