#pragma once

#include "engine/model/llama_model.h"
#include "kernels/decode/device_cache_work.h"
#include "kernels/decode/device_decoder.h"

#include <memory>

namespace refreshlab::test {

/// A decoder whose kernels run on the host machine (kernels/simt): it lets them see the model's weights and the step's cache, which
/// are the host's here.
[[nodiscard]] std::unique_ptr<kernels::DeviceDecoder> make_simt_decoder(const kernels::DeviceModel& model);

/// Splices and rewinds in the same way, of caches that are the host's.
[[nodiscard]] std::unique_ptr<kernels::DeviceCacheWork>
make_simt_cache_work(const kernels::CacheShape& shape);

/// The model's passes go through CudaForward and that decoder from now on, and its dense caches are refreshed by that work.
void decode_on_host_machine(LlamaModel& model);

} // namespace refreshlab::test
