#pragma once

namespace refreshlab {

class Recording;

/// Gives a recording the cache events that its writer did not tell: those of a program from before caches told their changes.
/// They follow from the mode, the steps, the teacher's passes and the refreshes. Bytes held are not told.
/// info().has_cache_events stays as it is: what was derived here is no part of what two runs are compared by.
/// To be called once, on a recording without cache events that nobody else reads yet                          (asserted)
void add_older_cache_events(Recording& recording);

} // namespace refreshlab
