#pragma once

#include "engine/model/config/config_fields.h"
#include "engine/model/config/families.h"
#include "engine/model/model_config.h"

namespace refreshlab {

/// RoPE of a config.json: theta, scaling, channels that turn. Throws Error. \pre  head_dim and max_position are set; dynamic scaling changes the latter
void read_rope(const Fields& fields, const Family& family, ModelConfig& config);

} // namespace refreshlab
