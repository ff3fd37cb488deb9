#pragma once

namespace refreshlab {

class Recording;

/// Gives a recording the cache events that its writer did not tell, because its caches did not tell their changes yet.
/// The events follow from the mode, the steps, the teacher's passes and the refreshes. Bytes held are not told.
/// info().has_cache_events stays as it is: two runs are not compared by what was derived here. To be called once, on a
/// recording without cache events that nobody else reads yet                          (asserted)
void add_older_cache_events(Recording& recording);

} // namespace refreshlab
