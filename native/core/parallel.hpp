// How many threads share a loop (core/pool.hpp).
#pragma once

#include <omp.h>

namespace hinterland::native {

// Whether this process was forked. Its OpenMP still counts on the parent's threads, which are not here: a parallel loop
// would wait for them for ever, so a forked process works alone.
inline bool forked = false;

inline int num_threads() { return forked ? 1 : omp_get_max_threads(); }
inline void set_num_threads(int threads) { omp_set_num_threads(threads < 1 || forked ? 1 : threads); }

}  // namespace hinterland::native
