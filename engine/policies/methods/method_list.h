#pragma once

#include "engine/policies/cache_method.h"

/// One line for each method of this folder: prompt/ has those that choose once, storage/ those that change what an entry is. The
/// order is that of lists and menus.
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
CacheMethod dapq();
CacheMethod quest();
CacheMethod fasa();
CacheMethod mpcache();
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

inline constexpr CacheMethod (*all[])() = {full,
                                           sliding_window,
                                           streaming_llm,
                                           random,
                                           oracle,
                                           h2o,
                                           tova,
                                           snapkv,
                                           pyramidkv,
                                           adakv,
                                           cake,
                                           defensivekv,
                                           layer_defensivekv,
                                           dapq,
                                           quest,
                                           fasa,
                                           mpcache,
                                           lazy_eviction,
                                           refreshkv,
                                           cam,
                                           d2o,
                                           kv_merger,
                                           think,
                                           kivi,
                                           mikv,
                                           turbo_quant,
                                           arkv,
                                           kv_direct};

} // namespace refreshlab::cache_method_list
