#pragma once

#include "engine/train/models/model_trainer.h"
#include "tests/engine/session/tiny_pair.h"
#include "tests/support/seed.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <memory>
#include <random>
#include <vector>

namespace refreshlab::test {

inline std::vector<int32_t> random_ids(int64_t n, uint32_t salt, int32_t vocab = 256) {
    std::mt19937 random(seed(salt));
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < n; ++i)
        ids.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(vocab)));
    return ids;
}

inline constexpr TinyShape small_vocabulary{.vocab = 256};
inline const std::vector<Projection> everywhere{Projection::q,   Projection::k,    Projection::v,
                                                Projection::o,   Projection::gate, Projection::up,
                                                Projection::down};

inline std::vector<TrainingText> texts_of(int64_t count, uint32_t salt, int64_t prompt = 20) {
    std::vector<TrainingText> texts;
    for (int64_t i = 0; i < count; ++i)
        texts.push_back({random_ids(40, salt + static_cast<uint32_t>(i)), prompt});
    return texts;
}

inline ModelTraining healing() {
    ModelTraining how;
    how.name = "heal";
    how.steps = 12;
    how.batch = 2;
    how.learning_rate = 0.01;
    how.weight_decay = 0;
    how.low_rank = LowRank{4, 8, everywhere, false};
    how.shares.longest = 8;
    how.seed = 3;
    return how;
}

inline at::Tensor own_logits(const LlamaModel& model, const std::vector<int32_t>& ids) {
    const auto cache = model.make_cache(std::ssize(ids));
    StepInputs in;
    in.tokens = ids;
    in.rows = Rows::all;
    return model.forward().prefill(*cache, in).logits.clone();
}

inline bool close(const at::Tensor& a, const at::Tensor& b, double share = 1e-3) {
    return (a - b).abs().max().item<double>() < share * b.abs().max().item<double>();
}

/// The models are too small for more than one thread.
class OneThread {
public:
    OneThread()
        : m_before(at::get_num_threads()) {
        at::set_num_threads(1);
    }
    OneThread(const OneThread&) = delete;
    OneThread& operator=(const OneThread&) = delete;
    ~OneThread() { at::set_num_threads(m_before); }

private:
    int m_before;
};

inline std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors) {
    std::vector<at::Tensor> all;
    for (const at::Tensor& tensor : tensors)
        all.push_back(tensor.detach().clone());
    return all;
}

} // namespace refreshlab::test
