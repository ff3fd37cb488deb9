#pragma once

#include "engine/session/parts/signal_source.h"
#include "engine/session/parts/teacher_reader.h"

namespace refreshlab {

/// Publishes `teacher_unread`: how many tokens of the text the teacher has not read, S.len - T.len at boundary t before a
/// probe or refresh there. It is what a teacher pass would read now, hence what a probe costs.
class TeacherUnread final : public SignalSource {
public:
    /// Both outlive this.
    TeacherUnread(const TeacherReader& teacher, const KvCache& student)
        : m_teacher(teacher)
        , m_student(student) {}
    [[nodiscard]] std::vector<PublishedSignal> published() const override;
    void measure(std::span<const size_t> ids, const StepValues& values, const StepInSight& step) override;

private:
    const TeacherReader& m_teacher;
    const KvCache& m_student;
};

} // namespace refreshlab
