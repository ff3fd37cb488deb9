#include "engine/train/models/judge_student.h"

#include "engine/base/error.h"
#include "engine/session/readings/text_readings.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

namespace refreshlab {

namespace {

double mean_of(const std::vector<float>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// "71 % of 0.52": what is gone of a loss.
std::string gone(double before, double after) {
    if (before <= 0) return fmt::format("{:.4f} became {:.4f}", before, after);
    return fmt::format("{:.4f} became {:.4f} ({:.0f} % are gone)", before, after,
                       100 * (before - after) / before);
}

} // namespace

std::optional<StudentSplit> split_student(const LlamaModel& teacher, const LlamaModel& student,
                                          const std::vector<TrainingText>& texts,
                                          const std::function<bool(double)>& progress) {
    StudentSplit sum;
    for (size_t i = 0; i < texts.size(); ++i) {
        if (!progress(static_cast<double>(i) / static_cast<double>(texts.size()))) return std::nullopt;
        const TrainingText& text = texts[i];
        const auto answer = text.ids.begin() + text.prompt;
        if (text.ids.end() - answer < 3) continue;
        const TeacherText read(teacher, {text.ids.begin(), answer}, {answer, text.ids.end()});
        StudentReadings readings(student, read);
        const TextNumbers every_1 = readings.refreshed(readings.every(1)), none = readings.refreshed({});
        sum.teacher += read.numbers().nll();
        sum.every_1 += every_1.nll();
        sum.every_16 += readings.refreshed(readings.every(16)).nll();
        sum.none += none.nll();
        sum.alone += readings.alone().nll();
        sum.kl_every_1 += mean_of(every_1.kl_nats);
        sum.kl_none += mean_of(none.kl_nats);
        sum.tokens += read.steps();
        ++sum.texts;
    }
    if (sum.texts == 0)
        throw Error("comparing students", {}, "no text held out has an answer of three tokens");
    for (double* number :
         {&sum.teacher, &sum.every_1, &sum.every_16, &sum.none, &sum.alone, &sum.kl_every_1, &sum.kl_none}) {
        *number /= static_cast<double>(sum.texts);
        if (!std::isfinite(*number))
            throw Error("comparing students", {}, "a row of the student is not finite", {},
                        ErrorKind::failure);
    }
    return sum;
}

StudyResult compared_splits(const StudentSplit& before, const StudentSplit& after) {
    StudyTable table{
        "split",
        fmt::format("Loss of {} answers held out, {} tokens, in nats a token", after.texts, after.tokens),
        {{"student"},
         {"teacher", 4},
         {"R = 1", 4},
         {"R = 16", 4},
         {"no refresh", 4},
         {"alone", 4},
         {"weights' loss", 4},
         {"cache's loss", 4},
         {"KL, R = 1", 4},
         {"KL, no refresh", 4}},
        {}};
    const auto row = [&](const char* name, const StudentSplit& split) {
        table.rows.push_back({std::string(name), split.teacher, split.every_1, split.every_16, split.none,
                              split.alone, split.own_weights(), split.cache(), split.kl_every_1,
                              split.kl_none});
    };
    row("before", before);
    row("after", after);
    StudyResult result;
    result.tables.push_back(std::move(table));
    result.notes.push_back(fmt::format(
        "The loss of the student's weights (R = 1 minus teacher): {}. The loss of its own cache entries "
        "(no refresh minus R = 1): {}. KL to the teacher at R = 1: {}; without a refresh: {}.",
        gone(before.own_weights(), after.own_weights()), gone(before.cache(), after.cache()),
        gone(before.kl_every_1, after.kl_every_1), gone(before.kl_none, after.kl_none)));
    return result;
}

} // namespace refreshlab
