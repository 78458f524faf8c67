// Pages that a thread of the store's own has read before they are asked for.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "storage/page_cache.hpp"

namespace hinterland::native {

class ReadAhead {
 public:
  explicit ReadAhead(PageCache& cache) : cache_(cache) {}

  // Begins reading pages in the background, in this order, as room comes free, and after those that were asked for before.
  // Returns at once.
  void begin(std::vector<storage::Page> pages);

 private:
  void serve(std::stop_token stops);

  PageCache& cache_;
  std::mutex mutex_;
  std::condition_variable_any has_more_;
  std::deque<std::vector<storage::Page>> asked_;
  std::jthread reader_;  // last: it ends first
};

}  // namespace hinterland::native
