#pragma once

#include "engine/policies/cache_policy.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

namespace refreshlab {

class KvCache;

/// The tensors behind the numbers of one call of a cache policy: each as the Cube of its name, on the host, undefined where that is empty.
/// They are made for the call or views of what the forward computes, whose memory lives as long as they do.
struct PolicyTensors {
    const KvCache* cache =
        nullptr; ///< with the layer's entries: while the prompt is read, the cache that it is read into
    at::Tensor rows = {};                                  ///< of the prompt, or the row of a step
    at::Tensor sums = {}, queries = {}, output_norms = {}; ///< of the prompt
    at::Tensor query = {};                                 ///< of a step
};

/// A cache policy that takes tensors as they are: one that is brought from outside of the engine (engine/policies/outside_policy.h).
class TensorPolicy : public CachePolicy {
public:
    /// Before read_prompt(), before_attention() and after_attention(): what the call is about. Without rows and queries also before
    /// finish_prompt() and refreshed(). \param tensors  lives until the call is over
    virtual void show(const PolicyTensors& tensors) = 0;

protected:
    TensorPolicy() = default;
    TensorPolicy(const TensorPolicy&) = default;
};

/// Makes such a policy for a run; called once, before its first token is read.
using TensorPolicyFactory = std::function<std::unique_ptr<TensorPolicy>(const PolicyContext&)>;

} // namespace refreshlab
