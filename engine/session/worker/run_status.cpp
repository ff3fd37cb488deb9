#include "engine/session/worker/run_status.h"

#include "engine/cache/kv_cache.h"
#include "engine/session/driver/run_driver.h"
#include "kernels/shared/device_failure.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>
#include <new>

namespace refreshlab {

void show_start(EngineStatus& status, const ModelPair& pair, const RunInfo& info) {
    status.teacher = pair.teacher ? summarize(*pair.teacher, pair.teacher_dir) : ModelSummary{};
    status.student = pair.student ? summarize(*pair.student, pair.student_dir) : ModelSummary{};
    status.pair = pair.facts;
    status.derived = pair.derived;
    status.rebuild_mode = pair.rebuild_reason().has_value();
    status.note = info.note;
    status.prefill_ms = info.prefill_ms;
    status.ttft_ms = info.ttft_ms;
    status.tokens_per_second = 0;
}

void show_run(EngineStatus& status, const RunDriver& run) {
    const DecodeSession& session = run.session();
    status.applied = session.config();
    status.cache_bytes_used = status.cache_bytes_reserved = 0;
    for (const KvCache* cache : {session.teacher_cache(), session.student_cache()}) {
        if (cache == nullptr) continue;
        status.cache_bytes_used += cache->bytes_used();
        status.cache_bytes_reserved += cache->bytes_reserved();
    }
    const auto end = session.recording()->end();
    status.stop_reason = end ? end->stop_reason : "";
    status.draft.reset();
    if (session.drafting())
        status.draft = std::make_shared<OpenDraft>(
            OpenDraft{run.recording()->info().id, run.recording()->steps() + 2, session.draft()});
}

void show_speed(EngineStatus& status, const Recording& recording) {
    const int64_t last = recording.steps(), first = std::max<int64_t>(1, last - 64);
    status.tokens_per_second = 0;
    if (last <= first) return;
    const double ms = recording.step(last).arrival_ms - recording.step(first).arrival_ms;
    if (ms > 0) status.tokens_per_second = 1000.0 * static_cast<double>(last - first) / ms;
}

std::string what_failed() {
    try {
        throw;
    } catch (const c10::Error& e) {
        return std::string("the device or libtorch failed: ") + e.what_without_backtrace();
    } catch (const kernels::DeviceFailure& e) {
        return std::string("the device failed: ") + e.what();
    } catch (const std::bad_alloc&) {
        return "out of memory; try a shorter context or a smaller model";
    } catch (const std::exception& e) {
        return std::string("internal error: ") + e.what();
    }
}

void show_refusal(EngineStatus& status, const std::string& why) {
    status.error = why;
    std::replace(status.error.begin(), status.error.end(), '\n', ' ');
    ++status.errors;
    if (status.refusals.size() == EngineStatus::kept_refusals) status.refusals.erase(status.refusals.begin());
    status.refusals.push_back(status.error);
}

} // namespace refreshlab
