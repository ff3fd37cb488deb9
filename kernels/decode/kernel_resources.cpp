#include "kernels/decode/kernel_resources.h"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <memory>

namespace refreshlab::kernels {

namespace {

std::string demangled(const std::string& symbol) {
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> text(
        abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
    return status == 0 && text ? std::string(text.get()) : symbol;
}

bool part_of_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// "void a::(anonymous namespace)::f<b::c>(int)" -> f and "b::c".
void take_name(const std::string& signature, KernelResources& into) {
    // The first bracket behind a name; "(anonymous namespace)" stands behind "::".
    size_t at = 0;
    while (at < signature.size() &&
           !((signature[at] == '(' || signature[at] == '<') && at > 0 && part_of_name(signature[at - 1])))
        ++at;
    size_t begin = at;
    while (begin > 0 && part_of_name(signature[begin - 1]))
        --begin;
    into.kernel = signature.substr(begin, at - begin);
    if (at == signature.size() || signature[at] != '<') return;
    int depth = 0;
    for (size_t i = at; i < signature.size(); ++i) {
        if (signature[i] == '<') ++depth;
        if (signature[i] == '>' && --depth == 0) {
            into.arguments = signature.substr(at + 1, i - at - 1);
            return;
        }
    }
}

/// The number that ends right before `words` in the line; 0 where they are not there.
int64_t number_before(std::string_view line, std::string_view words) {
    const size_t at = line.find(words);
    if (at == std::string_view::npos) return 0;
    size_t begin = at;
    while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9')
        --begin;
    int64_t number = 0;
    std::from_chars(line.data() + begin, line.data() + at, number);
    return number;
}

/// What stands between two quotes behind `words`; empty where there is nothing.
std::string quoted_after(std::string_view line, std::string_view words) {
    const size_t at = line.find(words);
    if (at == std::string_view::npos) return {};
    const size_t begin = at + words.size(), end = line.find('\'', begin);
    return end == std::string_view::npos ? std::string() : std::string(line.substr(begin, end - begin));
}

bool fits(const KernelResources& k, WeightType type) {
    constexpr std::array<std::array<std::string_view, 3>, 3> words{{{"WeightType)0", "float", "f32"},
                                                                    {"WeightType)1", "bfloat16", "bf16"},
                                                                    {"WeightType)2", "half", "f16"}}};
    return std::ranges::any_of(words[static_cast<size_t>(type)], [&](std::string_view word) {
        const size_t at = k.arguments.find(word);
        return at != std::string::npos && !(word == "f16" && at > 0 && k.arguments[at - 1] == 'b');
    });
}

} // namespace

std::vector<KernelResources> parse_ptxas(std::string_view text) {
    std::vector<KernelResources> found;
    std::string symbol;  // of the kernel that the lines are about
    bool within = false; // and not about a function that it calls
    while (!text.empty()) {
        const size_t end = text.find('\n');
        const std::string_view line = text.substr(0, end);
        text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
        if (const std::string entry = quoted_after(line, "Compiling entry function '"); !entry.empty()) {
            symbol = entry;
            KernelResources& kernel = found.emplace_back();
            take_name(demangled(symbol), kernel);
            const std::string target = quoted_after(line, "for 'sm_");
            std::from_chars(target.data(), target.data() + target.size(), kernel.architecture);
            continue;
        }
        if (found.empty()) continue;
        if (const size_t at = line.find("Function properties for "); at != std::string_view::npos)
            within = line.substr(at + 24) == symbol;
        KernelResources& kernel = found.back();
        if (within && line.find("bytes stack frame") != std::string_view::npos) {
            kernel.stack_bytes = number_before(line, " bytes stack frame");
            kernel.spill_stores = number_before(line, " bytes spill stores");
            kernel.spill_loads = number_before(line, " bytes spill loads");
        }
        if (line.find("Used ") != std::string_view::npos) {
            kernel.registers = number_before(line, " registers");
            kernel.shared_bytes = number_before(line, " bytes smem");
        }
    }
    return found;
}

std::vector<int> built_architectures(std::span<const KernelResources> kernels) {
    std::vector<int> found;
    for (const KernelResources& k : kernels)
        found.push_back(k.architecture);
    std::ranges::sort(found);
    found.erase(std::ranges::unique(found).begin(), found.end());
    return found;
}

std::optional<int> code_for(std::span<const int> built, int architecture) {
    std::optional<int> best;
    for (const int code : built) {
        if (code / 10 == architecture / 10 && code <= architecture && code >= best.value_or(0)) best = code;
    }
    return best;
}

std::optional<KernelResources> resources_of(std::span<const KernelResources> kernels, std::string_view name,
                                            WeightType type, int64_t instance, int architecture,
                                            int64_t outer) {
    std::vector<const KernelResources*> candidates;
    for (const KernelResources& k : kernels) {
        const bool runs = k.architecture / 10 == architecture / 10 && k.architecture <= architecture;
        const bool named = k.kernel == name || k.kernel == std::string(name) + "_kernel";
        if (runs && named) candidates.push_back(&k);
    }
    const auto narrow = [&](const auto& wanted) {
        if (std::ranges::any_of(candidates, wanted))
            std::erase_if(candidates, [&](const KernelResources* k) { return !wanted(k); });
    };
    narrow([&](const KernelResources* k) { return fits(*k, type); });
    const std::string numbers = (outer > 0 ? std::to_string(outer) + ", " : "") + std::to_string(instance);
    narrow([&](const KernelResources* k) {
        return k->arguments == numbers || k->arguments.ends_with(", " + numbers);
    });
    const auto best =
        std::ranges::max_element(candidates, [](const KernelResources* a, const KernelResources* b) {
            return std::pair(a->architecture, a->registers) < std::pair(b->architecture, b->registers);
        });
    if (best == candidates.end()) return std::nullopt;
    return **best;
}

} // namespace refreshlab::kernels
