#include "engine/record/recording/older_cache_events.h"

#include "engine/base/check.h"
#include "engine/record/recording/recording.h"

#include <algorithm>

namespace refreshlab {

namespace {

/// Walks through the steps and tells what each did to the two caches.
class OlderEvents {
public:
    explicit OlderEvents(Recording& recording)
        : m_recording(recording)
        , m_mode(recording.info().config.mode)
        , m_rebuild(recording.info().rebuild)
        , m_prompt(recording.prompt_length()) {}

    void add() {
        add_prefill();
        size_t pass = 0, refresh = 0;
        for (int64_t t = 1; t <= m_recording.steps(); ++t) {
            if (m_recording.step(t).fed) {
                const bool teacher = m_mode == Mode::teacher;
                tell(t, teacher, CacheChange::appended, m_prompt + t - 1, 1,
                     teacher ? Origin::teacher_decode : Origin::student);
            }
            const auto& passes = m_recording.passes();
            for (; pass < passes.size() && passes[pass].step <= t; ++pass)
                read_up_to(t, passes[pass].first_pos + passes[pass].tokens);
            const auto& refreshes = m_recording.refreshes();
            for (; refresh < refreshes.size() && refreshes[refresh].step <= t; ++refresh)
                add_refresh(refreshes[refresh]);
        }
    }

private:
    void tell(int64_t step, bool teacher, CacheChange change, int64_t first, int64_t n, Origin origin,
              int32_t refresh = -1) {
        if (n <= 0) return;
        CacheEvent event;
        event.step = step;
        event.teacher = teacher;
        event.change = change;
        event.positions = {{first, n}};
        event.origin = origin;
        event.refresh_id = refresh;
        m_recording.add_cache_event(std::move(event));
    }

    void add_prefill() {
        if (m_mode != Mode::student) {
            tell(0, true, CacheChange::appended, 0, m_prompt, Origin::teacher_prefill);
            m_teacher_length = m_prompt;
        }
        if (m_mode == Mode::teacher) return;
        const bool own = m_mode == Mode::student || m_rebuild;
        tell(0, false, own ? CacheChange::appended : CacheChange::adopted, 0, m_prompt,
             own ? Origin::student_prefill : Origin::teacher_prefill);
    }

    void read_up_to(int64_t step, int64_t end) {
        tell(step, true, CacheChange::appended, m_teacher_length, end - m_teacher_length,
             Origin::teacher_decode);
        m_teacher_length = std::max(m_teacher_length, end);
    }

    void add_refresh(const RefreshEvent& event) {
        const int64_t end = event.first_pos + event.spliced; // delta ends where the boundary that fired ended
        const int64_t begin = std::max(m_prompt, end - event.delta);
        read_up_to(event.step, end);
        if (m_rebuild) { // computed again up to the newest column
            const int64_t newest = std::max(end, m_prompt + event.step);
            if (event.spliced > 0)
                tell(event.step, false, CacheChange::rebuilt, event.first_pos, newest - event.first_pos,
                     Origin::student, event.id);
            return;
        }
        tell(event.step, false, CacheChange::spliced, event.first_pos, event.spliced, Origin::teacher_refresh,
             event.id);
        tell(event.step, false, CacheChange::skipped, begin, event.first_pos - begin, Origin::skipped,
             event.id);
    }

    Recording& m_recording;
    Mode m_mode;
    bool m_rebuild;
    int64_t m_prompt, m_teacher_length = 0;
};

} // namespace

void add_older_cache_events(Recording& recording) {
    RL_ASSERT(recording.cache_entries().size() == 0);
    OlderEvents(recording).add();
}

} // namespace refreshlab
