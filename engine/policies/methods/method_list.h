#pragma once

#include "engine/policies/cache_method.h"

/// One line for each method of this folder: prompt/ has those that choose once, storage/ those that change what an entry is, gated/ those
/// with a trained gate. The order is that of lists and menus.
namespace refreshlab::cache_method_list {

CacheMethod full();
CacheMethod sliding_window();
CacheMethod streaming_llm();
CacheMethod random();
CacheMethod oracle();
CacheMethod h2o();
CacheMethod tova();
CacheMethod snapkv();
CacheMethod pyramidkv();
CacheMethod adakv();
CacheMethod cake();
CacheMethod defensivekv();
CacheMethod layer_defensivekv();
CacheMethod compress_kv();
CacheMethod dapq();
CacheMethod epicache();
CacheMethod quest();
CacheMethod fasa();
CacheMethod mpcache();
CacheMethod infinigen();
CacheMethod lazy_eviction();
CacheMethod refreshkv();
CacheMethod cam();
CacheMethod d2o();
CacheMethod kv_merger();
CacheMethod think();
CacheMethod kivi();
CacheMethod mikv();
CacheMethod turbo_quant();
CacheMethod arkv();
CacheMethod kv_direct();
CacheMethod kv_routing();
CacheMethod trim_kv();
CacheMethod make_each_token_count();
CacheMethod locret();
CacheMethod attention_gate();
CacheMethod lookahead_kv();

/// A method and the family under which lists show it; those of a family follow each other.
struct Listed {
    std::string_view family;
    CacheMethod (*make)();
};
inline constexpr Listed all[] = {
    {"All entries", full},
    {"Windows", sliding_window},
    {"Windows", streaming_llm},
    {"Yardsticks", random},
    {"Yardsticks", oracle},
    {"Evict while decoding", h2o},
    {"Evict while decoding", tova},
    {"Evict while decoding", lazy_eviction},
    {"Select from the prompt", snapkv},
    {"Select from the prompt", pyramidkv},
    {"Select from the prompt", adakv},
    {"Select from the prompt", cake},
    {"Select from the prompt", defensivekv},
    {"Select from the prompt", layer_defensivekv},
    {"Select from the prompt", compress_kv},
    {"Select from the prompt", dapq},
    {"Select from the prompt", epicache},
    {"Read a part", quest},
    {"Read a part", fasa},
    {"Read a part", mpcache},
    {"Read a part", infinigen},
    {"Read a part", refreshkv},
    {"Trained gates", trim_kv},
    {"Trained gates", make_each_token_count},
    {"Trained gates", locret},
    {"Trained gates", attention_gate},
    {"Trained gates", lookahead_kv},
    {"Merge", cam},
    {"Merge", d2o},
    {"Merge", kv_merger},
    {"Compress", think},
    {"Compress", kivi},
    {"Compress", mikv},
    {"Compress", turbo_quant},
    {"Compress", arkv},
    {"Recompute and share", kv_direct},
    {"Recompute and share", kv_routing},
};

} // namespace refreshlab::cache_method_list
