#include "engine/session/parts/teacher_reader.h"

#include "engine/base/check.h"
#include "engine/session/parts/row_ring.h"
#include "engine/session/parts/stopwatch.h"
#include "engine/signals/registry.h"
#include "kernels/ops/row_reading.h"

#include <algorithm>

namespace refreshlab {

TeacherReader::TeacherReader(const Forward& forward, std::unique_ptr<KvCache> cache,
                             std::unique_ptr<BridgedCache> bridged)
    : m_forward(forward)
    , m_cache(std::move(cache))
    , m_bridged(std::move(bridged)) {}
TeacherReader::~TeacherReader() = default;

const KvCache& TeacherReader::entries() const {
    return m_bridged ? m_bridged->cache() : *m_cache;
}

void TeacherReader::follow() {
    if (m_bridged) m_bridged->follow(*m_cache);
}

void TeacherReader::rewind(int64_t step, int64_t teacher_length) {
    const KvCache::Quiet quiet(*m_cache); // the fork forgets what is taken back
    m_cache->rewind(step, teacher_length);
    if (m_bridged) m_bridged->truncate(teacher_length);
}

TeacherReader::Reading TeacherReader::read(int64_t end, const std::function<int32_t(int64_t)>& token_at,
                                           const RowRing& ring, int64_t known_end, const EachRow& each) {
    const Stopwatch watch;
    Reading reading;
    reading.first = length();
    reading.tokens = std::max<int64_t>(0, end - reading.first);
    while (length() < end) {
        const int64_t begin = length(), n = std::min(pass_chunk, end - begin);
        std::vector<int32_t> tokens, next;
        std::vector<int64_t> slots;
        for (int64_t p = begin; p < begin + n; ++p) {
            tokens.push_back(token_at(p));
            next.push_back(p + 1 < known_end ? token_at(p + 1) : -1);
            slots.push_back(ring.slot(p));
        }
        StepInputs in;
        in.tokens = tokens;
        in.origin = Origin::teacher_decode;
        in.rows = Rows::all;
        const StepOutputs out = m_forward.prefill(*m_cache, in);
        const auto rows = kernels::read_rows(out.logits, next, ring.rows(), slots);
        for (size_t i = 0; i < rows.size(); ++i) {
            const kernels::RowReading& row = rows[i];
            reading.kl_nats.push_back(slots[i] < 0 ? absent() : static_cast<float>(row.kl_nats));
            reading.acceptance.push_back(slots[i] < 0 ? absent()
                                                      : static_cast<float>(row.overlap.acceptance));
            reading.same_top1.push_back(slots[i] < 0 ? absent() : row.overlap.same_top1 ? 1.0F : 0.0F);
            if (next[i] < 0) continue;
            reading.next_logprob.push_back(static_cast<float>(row.logprob));
            reading.next_agrees.push_back(row.statistics.top1_id == next[i] ? 1.0F : 0.0F);
            reading.next_rank.push_back(static_cast<float>(row.rank));
        }
        if (each) {
            for (int64_t i = 0; i < n; ++i)
                each(begin + i, out.logits[i], rows[static_cast<size_t>(i)].statistics);
        }
        m_last_row = out.logits[n - 1].clone();
        m_last_statistics = rows.back().statistics;
    }
    follow();
    reading.ms = watch.ms();
    return reading;
}

void TeacherReader::Reading::keep_first(int64_t n) {
    RL_ASSERT(n >= 0);
    if (n >= tokens) return;
    tokens = n;
    for (auto* of_rows : {&kl_nats, &acceptance, &same_top1})
        of_rows->resize(static_cast<size_t>(n));
    const auto settled = static_cast<size_t>(std::max<int64_t>(n - 1, 0));
    for (auto* of_next : {&next_logprob, &next_agrees, &next_rank})
        of_next->resize(std::min(of_next->size(), settled));
}

void TeacherReader::keep_row(const at::Tensor& row) {
    m_last_row = row;
    m_last_statistics = kernels::row_statistics(row.unsqueeze(0))[0];
}

int32_t TeacherReader::last_rank(int32_t token) const {
    return kernels::token_ranks(m_last_row.unsqueeze(0), std::span(&token, 1))[0];
}

double TeacherReader::last_logprob(int32_t token) const {
    return m_last_row[token].item<double>() - m_last_statistics->log_z;
}

} // namespace refreshlab
