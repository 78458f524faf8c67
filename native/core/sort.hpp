// Sorting by all threads.
#pragma once

#include <algorithm>
#include <parallel/algorithm>

namespace hinterland::native {

// ThreadSanitizer does not see the barriers at which threads of the standard library meet: one thread sorts there.
template <class T>
void parallel_sort(T* first, T* last) {
#if defined(__SANITIZE_THREAD__)
  std::sort(first, last);
#else
  __gnu_parallel::sort(first, last);
#endif
}

}  // namespace hinterland::native
