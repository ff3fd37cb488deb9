#pragma once

#include "engine/control/run_config.h"
#include "tests/engine/refresh/random_policy.h"

#include <cmath>
#include <random>

namespace refreshlab::testing {

inline RunConfig random_config(std::mt19937& random) {
    const auto fraction = [&] { return std::ldexp(random(), -32); };
    const auto flip = [&] { return random() % 2 == 0; };
    const auto up_to = [&](uint32_t n) { return static_cast<int32_t>(random() % (n + 1)); };
    const std::vector<std::string> texts = {
        "", "Write a chronicle of 6 companies.", "tabs\tand\nlines \"quoted\" \\",
        "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80", std::string("nul\0inside", 10)};
    const auto text = [&] { return texts[random() % texts.size()]; };
    RunConfig config;
    config.teacher_dir = text();
    config.student_dir = text();
    config.device = flip() ? "auto" : "cuda:1";
    config.teacher_device = flip() ? "" : "cpu";
    config.student_device = flip() ? "" : "cuda";
    config.dtype = static_cast<Dtype>(up_to(2));
    config.threads = up_to(64);
    config.kernels = static_cast<KernelSet>(up_to(4));
    config.mode = static_cast<Mode>(up_to(2));
    config.prompt = text();
    config.raw_prompt = flip();
    config.prompt_cache = text();
    config.bridge.path = text();
    config.max_tokens = 1 + up_to(5000);
    config.ignore_stop = flip();
    config.seed = (static_cast<uint64_t>(random()) << 32U) | random();
    config.sampler = {
        .temperature = 2 * fraction(), .top_k = up_to(100), .top_p = fraction(), .min_p = fraction()};
    config.policy = random_policy(random);
    config.shadow = flip();
    config.mc = {.measure = flip(),
                 .samples = 2 + up_to(62),
                 .p = flip() ? -1.0 : fraction() * 0.95,
                 .every = 1 + up_to(99)};
    config.capture = {.attention = flip(),
                      .layers = {},
                      .attention_megabytes = up_to(4096),
                      .attention_bytes = up_to(1) * up_to(100'000),
                      .attention_bins = up_to(1) * up_to(4096),
                      .top_k = up_to(16)};
    while (flip())
        config.capture.layers.push_back(up_to(40));
    return config;
}

} // namespace refreshlab::testing
