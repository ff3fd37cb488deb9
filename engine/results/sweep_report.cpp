#include "engine/base/csv_text.h"
#include "engine/results/sweep_table.h"
#include "kernels/execution/isa.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

namespace refreshlab {

namespace {

/// The literature's columns in its order.
constexpr Metric literature_columns[] = {Metric::teacher_ppl, Metric::tail_logprob, Metric::repetition3,
                                         Metric::characters,  Metric::ttft_ms,      Metric::decode_tps,
                                         Metric::total_s,     Metric::refreshes,    Metric::overhead_percent};
constexpr Metric front_qualities[] = {Metric::teacher_ppl, Metric::task_score};
constexpr Metric front_costs[] = {Metric::decode_tps, Metric::refreshes, Metric::teacher_tokens};

bool in_columns(const MetricInfo& metric, TableColumns columns) {
    return columns == TableColumns::all || !metric.measured;
}

/// Nine digits: beyond what any of these means, and short of where sums of another order would show.
std::string csv_number(const std::optional<double>& value) {
    return value ? fmt::format("{:.9g}", *value == 0 ? 0.0 : *value) : ""; // no -0
}

std::string fixed(double value, int decimals) {
    const std::string text = fmt::format("{:.{}f}", value, decimals);
    const bool zero = text.find_first_of("123456789") == std::string::npos && text.front() == '-';
    return zero ? text.substr(1) : text; // no -0.00
}

/// A text for a cell of a Markdown table.
std::string markdown_text(const std::string& text) {
    std::string escaped;
    for (const char c : text) {
        if (c == '|' || c == '\\') escaped += '\\';
        escaped += c == '\n' || c == '\r' ? ' ' : c;
    }
    return escaped;
}

std::string table_head(const std::vector<std::string>& labels) {
    std::string text = "| |", line = "|---|";
    for (const std::string& label : labels) {
        text += " " + label + " |";
        line += "---:|";
    }
    return text + "\n" + line + "\n";
}

class Markdown {
public:
    Markdown(const SweepTable& table, TableColumns columns)
        : m_table(table)
        , m_columns(columns) {}

    std::string write() {
        m_text = fmt::format("# {}\n\n", markdown_text(m_table.name.empty() ? "Sweep" : m_table.name));
        m_text += fmt::format("{} prompt{} x {} seed{}, {} of {} runs, device {}{}.", m_table.prompts,
                              m_table.prompts == 1 ? "" : "s", m_table.seeds, m_table.seeds == 1 ? "" : "s",
                              m_table.runs, m_table.expected, m_table.device, kernel_text());
        if (m_table.runs < m_table.expected)
            m_text += " **Incomplete**: run the same command again to continue.";
        m_text += "\n";
        for (const std::string& group : m_table.groups) {
            if (m_table.groups.size() > 1) m_text += fmt::format("\n## {}\n", markdown_text(group));
            literature(group);
            spread(group, "Quality and work", false);
            differences(group);
            if (m_columns == TableColumns::all) spread(group, time_title(), true);
        }
        m_text +=
            fmt::format("\nn is the number of prompts; a mean over fewer says so. Spread is the standard "
                        "deviation over prompts, "
                        "brackets the {:g} % bootstrap interval of the mean (percentile, {} resamples of "
                        "prompts), where there are "
                        "at least {} of them; an empty field was not measured.",
                        100 * m_table.bootstrap.level, m_table.bootstrap.resamples, fewest_for_interval);
        if (m_has_differences) {
            m_text += " A paired difference is the mean over prompts of a row's value minus that of the row "
                      "in the column "
                      "\"minus\", with the same prompt and seed.";
        }
        if (m_columns == TableColumns::all) {
            m_text +=
                m_table.pairs > 0
                    ? fmt::format(
                          " Times are medians of {} runs without end token; overhead is the median over {} "
                          "interleaved pairs with the same run without policy{}.",
                          m_table.pairs, m_table.pairs,
                          m_table.timings < m_table.expected_timings
                              ? fmt::format(" ({} of {} timed)", m_table.timings, m_table.expected_timings)
                              : "")
                    : " Times and overhead are of single runs, possibly several at a time: for numbers to "
                      "compare, add "
                      "\"timing\" to the spec.";
            if (m_table.overhead_lacks_none) m_text += fmt::format("\n\nNote: {}.", overhead_hint);
        }
        m_text += "\n";
        return m_text;
    }

private:
    /// Not of the usual kernels: tables of before kernel sets were noted stay what they were.
    [[nodiscard]] std::string kernel_text() const {
        const auto& kernels = m_table.kernels;
        if (kernels.empty() || (kernels.size() == 1 && kernels[0] == kernels::bit_class(kernels::Isa::avx2)))
            return {};
        return fmt::format(", kernels {}{}", fmt::join(kernels, " and "),
                           kernels.size() > 1 ? " (they round differently)" : "");
    }

    [[nodiscard]] std::string time_title() const {
        return m_table.pairs > 0 ? fmt::format("Time (median of {} runs each)", m_table.pairs)
                                 : "Time (single runs)";
    }

    template <typename Work>
    void rows_of(const std::string& group, const Work& work) const {
        for (const SweepTableRow& row : m_table.rows) {
            if (row.group == group) work(row);
        }
    }

    /// What tells a cell that speaks of fewer prompts or runs than its row: " (n = 3)".
    static std::string fewer(const TableValue& value, const SweepTableRow& row) {
        if (value.n < row.prompts) return fmt::format(" (n = {})", value.n);
        const auto runs = static_cast<int64_t>(value.runs);
        return runs < row.expected ? fmt::format(" ({} of {} runs)", runs, row.expected) : "";
    }

    void literature(const std::string& group) {
        std::vector<std::string> labels{"n"};
        for (const Metric metric : literature_columns) {
            if (in_columns(metric_info(metric), m_columns)) labels.emplace_back(metric_info(metric).label);
        }
        m_text += "\n" + table_head(labels);
        rows_of(group, [&](const SweepTableRow& row) {
            m_text += fmt::format("| {} | {} |", markdown_text(row.label), row.prompts);
            for (const Metric metric : literature_columns) {
                if (!in_columns(metric_info(metric), m_columns)) continue;
                const TableValue& value = row.value(metric);
                m_text += value.mean ? " " + fixed(*value.mean, metric_info(metric).decimals) +
                                           fewer(value, row) + " |"
                                     : " |";
            }
            m_text += "\n";
        });
    }

    /// The metrics that any row of the group has in `values`.
    [[nodiscard]] std::vector<size_t> metrics_of(const std::string& group, TableValues SweepTableRow::*values,
                                                 bool measured) const {
        std::vector<size_t> metrics;
        for (size_t i = 0; i < num_metrics; ++i) {
            bool any = false;
            rows_of(group, [&](const SweepTableRow& row) { any = any || (row.*values)[i].mean; });
            if (any && metric_infos[i].measured == measured) metrics.push_back(i);
        }
        return metrics;
    }

    void spread(const std::string& group, const std::string& title, bool measured) {
        const std::vector<size_t> metrics = metrics_of(group, &SweepTableRow::values, measured);
        if (metrics.empty()) return;
        std::vector<std::string> labels{"n"};
        for (const size_t i : metrics)
            labels.emplace_back(metric_infos[i].label);
        m_text += fmt::format("\n### {}\n\n", title) + table_head(labels);
        rows_of(group, [&](const SweepTableRow& row) {
            m_text += fmt::format("| {} | {} |", markdown_text(row.label), row.prompts);
            for (const size_t i : metrics)
                m_text += " " +
                          spread_cell(row.values[i], metric_infos[i].decimals, fewer(row.values[i], row)) +
                          " |";
            m_text += "\n";
        });
    }

    /// Rows against the row that each is compared with. Times have a comparison of their own, the overhead.
    void differences(const std::string& group) {
        const std::vector<size_t> metrics = metrics_of(group, &SweepTableRow::differences, false);
        if (metrics.empty()) return;
        m_has_differences = true;
        std::vector<std::string> labels{"minus", "n"};
        for (const size_t i : metrics)
            labels.emplace_back(metric_infos[i].label);
        m_text += "\n### Paired differences\n\n" + table_head(labels);
        rows_of(group, [&](const SweepTableRow& row) {
            if (row.against.empty()) return;
            m_text += fmt::format("| {} | {} | {} |", markdown_text(row.label), markdown_text(row.against),
                                  row.prompts);
            for (const size_t i : metrics)
                m_text += " " +
                          spread_cell(row.differences[i], metric_infos[i].decimals,
                                      fewer(row.differences[i], row), true) +
                          " |";
            m_text += "\n";
        });
    }

    /// \param plus  write the sign of positive numbers
    static std::string spread_cell(const TableValue& value, int decimals, const std::string& note,
                                   bool plus = false) {
        if (!value.mean) return "";
        const auto number = [&](double v) {
            const std::string text = fixed(v, decimals);
            return plus && text.front() != '-' && text.find_first_of("123456789") != std::string::npos
                       ? "+" + text
                       : text;
        };
        std::string text = number(*value.mean);
        if (value.sd) text += " ± " + fixed(*value.sd, decimals);
        if (value.interval)
            text += fmt::format(" [{}, {}]", number(value.interval->low), number(value.interval->high));
        return text + note;
    }

    const SweepTable& m_table;
    TableColumns m_columns;
    std::string m_text;
    bool m_has_differences = false;
};

/// A row's place on two axes, larger is better on both.
struct FrontPlace {
    const SweepTableRow* row;
    double quality, cost;           ///< as they are
    double quality_rank, cost_rank; ///< signs turned so that larger is better
};

/// A teacher that decodes itself reads every token: its work is its steps.
bool reads_its_own_tokens(const SweepTableRow& row, Metric cost) {
    return row.mode == "teacher" && cost == Metric::teacher_tokens;
}

/// What a cost is computed from.
const TableValue& cost_values(const SweepTableRow& row, Metric cost) {
    return row.value(reads_its_own_tokens(row, cost) ? Metric::tokens : cost);
}

std::optional<double> cost_of(const SweepTableRow& row, Metric cost) {
    if (row.mode == "teacher" && cost == Metric::refreshes) return std::nullopt; // they mean nothing there
    const auto value = cost_values(row, cost).mean;
    return value && reads_its_own_tokens(row, cost) ? std::optional(std::max(0.0, *value - 1)) : value;
}

bool dominates(const FrontPlace& a, const FrontPlace& b) {
    return a.quality_rank >= b.quality_rank && a.cost_rank >= b.cost_rank &&
           (a.quality_rank > b.quality_rank || a.cost_rank > b.cost_rank);
}

} // namespace

std::string sweep_markdown(const SweepTable& table, TableColumns columns) {
    return Markdown(table, columns).write();
}

std::string sweep_csv(const SweepTable& table, TableColumns columns) {
    std::string text = "group,row,mode,policy,runs,expected,prompts";
    for (const MetricInfo& metric : metric_infos) {
        if (!in_columns(metric, columns)) continue;
        for (const char* part : {"", "_sd", "_ci_low", "_ci_high", "_median", "_n"})
            text += fmt::format(",{}{}", metric.name, part);
    }
    text += "\n";
    for (const SweepTableRow& row : table.rows) {
        text += fmt::format("{},{},{},{},{},{},{}", csv_field(row.group), csv_field(row.label), row.mode,
                            row.policy ? 1 : 0, row.runs, row.expected, row.prompts);
        for (size_t i = 0; i < num_metrics; ++i) {
            if (!in_columns(metric_infos[i], columns)) continue;
            const TableValue& v = row.values[i];
            const auto low = v.interval ? std::optional(v.interval->low) : std::nullopt;
            const auto high = v.interval ? std::optional(v.interval->high) : std::nullopt;
            for (const auto& number : {v.mean, v.sd, low, high, v.median})
                text += "," + csv_number(number);
            text += v.n == 0 ? "," : fmt::format(",{}", v.n);
        }
        text += "\n";
    }
    return text;
}

std::string sweep_differences(const SweepTable& table, TableColumns columns) {
    std::string text = "group,row,against,metric,difference,sd,ci_low,ci_high,median,n,runs\n";
    for (const SweepTableRow& row : table.rows) {
        for (size_t i = 0; i < num_metrics; ++i) {
            const TableValue& v = row.differences[i];
            if (!v.mean || !in_columns(metric_infos[i], columns)) continue;
            text += fmt::format("{},{},{},{}", csv_field(row.group), csv_field(row.label),
                                csv_field(row.against), metric_infos[i].name);
            const auto low = v.interval ? std::optional(v.interval->low) : std::nullopt;
            const auto high = v.interval ? std::optional(v.interval->high) : std::nullopt;
            for (const auto& number : {v.mean, v.sd, low, high, v.median})
                text += "," + csv_number(number);
            text += fmt::format(",{},{}\n", v.n, v.runs);
        }
    }
    return text;
}

std::string sweep_pareto(const SweepTable& table, TableColumns columns) {
    std::string text = "group,row,quality,quality_value,quality_n,cost,cost_value,cost_n,on_front\n";
    for (const std::string& group : table.groups) {
        for (const Metric quality : front_qualities) {
            for (const Metric cost : front_costs) {
                if (!in_columns(metric_info(cost), columns)) continue;
                std::vector<FrontPlace> places;
                for (const SweepTableRow& row : table.rows) {
                    const auto q = row.value(quality).mean, c = cost_of(row, cost);
                    if (row.group != group || !q || !c) continue;
                    places.push_back({&row, *q, *c, metric_info(quality).better == Better::higher ? *q : -*q,
                                      metric_info(cost).better == Better::higher ? *c : -*c});
                }
                for (const FrontPlace& place : places) {
                    const bool front =
                        std::none_of(places.begin(), places.end(),
                                     [&](const FrontPlace& other) { return dominates(other, place); });
                    text += fmt::format("{},{},{},{},{},{},{},{},{}\n", csv_field(group),
                                        csv_field(place.row->label), metric_info(quality).name,
                                        csv_number(place.quality), place.row->value(quality).n,
                                        metric_info(cost).name, csv_number(place.cost),
                                        cost_values(*place.row, cost).n, front ? 1 : 0);
                }
            }
        }
    }
    return text;
}

} // namespace refreshlab
