#include "engine/session/parts/teacher_unread.h"

namespace refreshlab {

std::vector<PublishedSignal> TeacherUnread::published() const {
    PublishedSignal signal;
    signal.name = "teacher_unread";
    signal.label = "Unread by the teacher";
    signal.unit = "tokens";
    signal.description =
        "S.len - T.len before the boundary's probe or refresh: the tokens that a teacher pass "
        "would read now (refresh.md, 2).";
    signal.about = SignalAbout::session;
    return {signal};
}

void TeacherUnread::measure(std::span<const size_t> ids, const StepValues& values, const StepInSight& step) {
    (void)step;
    values.set(ids[0], static_cast<double>(m_student.length() - m_teacher.length()));
}

} // namespace refreshlab
