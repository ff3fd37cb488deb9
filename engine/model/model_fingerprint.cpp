#include "engine/model/model_fingerprint.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/regular_file.h"
#include "engine/control/derive/derive_spec.h"
#include "engine/model/model_source.h"
#include "engine/text/digest.h"

namespace refreshlab {

namespace fs = std::filesystem;

namespace {

/// Of what a derivation says, and the bytes of its text instead of where it lies. The teacher has a fingerprint of its own.
std::string derivation_fingerprint(DeriveSpec spec) {
    Digest digest;
    digest.add("refreshlab derivation 1");
    if (!spec.text.empty()) digest.add(read_file(spec.text, size_t{1} << 26));
    spec.text = spec.text.empty() ? "" : "text";
    digest.add(derive_text(spec));
    return digest.hex();
}

} // namespace

std::string model_fingerprint(const fs::path& model) {
    if (model.empty()) return {};
    if (is_derivation(model.string())) return derivation_fingerprint(derivation_of(model.string()));
    Digest digest;
    digest.add("refreshlab model 1");
    constexpr uint64_t whole = uint64_t{64} << 20, end_bytes = uint64_t{4} << 20,
                       sample_bytes = uint64_t{1} << 16, samples = 64;
    for (const auto& [label, path] : ModelSource::open(model)->files()) {
        const RegularFile file(path);
        const uint64_t size = file.size();
        digest.add(label);
        digest.add(size);
        const auto add = [&](uint64_t first, uint64_t bytes) {
            const std::string part = file.read(first, bytes);
            if (part.size() != bytes) throw Error("reading a model", path.string(), "ended early");
            digest.add(part);
        };
        if (size <= whole) {
            add(0, size);
            continue;
        }
        add(0, end_bytes);
        for (uint64_t i = 0; i < samples; ++i)
            add(end_bytes + (size - 2 * end_bytes) / samples * i, sample_bytes);
        add(size - end_bytes, end_bytes);
    }
    return digest.hex();
}

} // namespace refreshlab
