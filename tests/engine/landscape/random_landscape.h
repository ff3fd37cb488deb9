#pragma once

#include "engine/landscape/landscape.h"

#include <cstdint>
#include <random>

namespace refreshlab::test {

/// Cells drawn at random, with entropy and KL beside the losses. \param every  rows 0, every, 2 * every, ...
/// \param acceptance  the cells have it too, between 0.2 and 1
inline Landscape random_landscape(std::mt19937& random, int64_t tokens, int64_t every = 1,
                                  bool acceptance = false) {
    LandscapeInfo info;
    info.prompt_ids = {1, 2, 3};
    std::uniform_real_distribution<float> value(0, 6);
    for (int64_t i = 0; i < tokens; ++i) {
        info.tokens.push_back(static_cast<int32_t>(random() % 50));
        info.teacher_logprob.push_back(-0.3F * value(random));
    }
    info.values = {"logprob", "entropy_bits", "kl_nats"};
    if (acceptance) info.values.emplace_back("acceptance");
    info.teacher = "teacher digest";
    info.student = "student digest";
    info.device = "cpu";
    info.dtype = "Float";
    info.kernel_set = "avx2";
    Landscape landscape(std::move(info));
    for (int64_t j = 0; j < landscape.num_rows(); j += every) {
        auto row = std::make_shared<LandscapeRow>();
        row->row = j;
        row->planes.resize(landscape.info().values.size());
        for (int64_t i = j; i < landscape.num_steps(); ++i) {
            row->planes[0].push_back(-value(random));
            row->planes[1].push_back(value(random));
            row->planes[2].push_back(value(random) / 3);
            if (acceptance) row->planes[3].push_back(0.2F + value(random) * 0.8F / 6);
        }
        landscape.put_row(std::move(row));
    }
    return landscape;
}

} // namespace refreshlab::test
