#pragma once

#include "engine/policies/cache_method.h"

/// One line for each file of this folder; the order is that of lists and menus.
namespace refreshlab::cache_method_list {

CacheMethod full();
CacheMethod sliding_window();
CacheMethod streaming_llm();
CacheMethod random();
CacheMethod h2o();
CacheMethod tova();
CacheMethod snapkv();
CacheMethod pyramidkv();
CacheMethod adakv();
CacheMethod quest();
CacheMethod lazy_eviction();
CacheMethod refreshkv();

inline constexpr CacheMethod (*all[])() = {full,  sliding_window, streaming_llm, random,
                                           h2o,   tova,           snapkv,        pyramidkv,
                                           adakv, quest,          lazy_eviction, refreshkv};

} // namespace refreshlab::cache_method_list
