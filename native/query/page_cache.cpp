#include "query/page_cache.hpp"

#include <sys/mman.h>

#include <algorithm>

#include "core/page.hpp"
#include "core/pool.hpp"
#include "core/thresholds.hpp"

namespace hinterland::native {

namespace {

char* page_of(int64_t address) { return reinterpret_cast<char*>(address / page_bytes() * page_bytes()); }

}  // namespace

bool pages_missing(const int64_t* pages, int64_t count) {
  return std::any_of(pages, pages + count, [](int64_t page) {
    unsigned char there = 1;
    return ::mincore(page_of(page), kFilePage, &there) == 0 && (there & 1) == 0;
  });
}

void ask_for_pages(const int64_t* ranges, int64_t count, int64_t at_once) {
  parallel_tasks((count + kPageRanges - 1) / kPageRanges, [&](int64_t some, int64_t) {
    for (int64_t i = some * kPageRanges; i < std::min(count, (some + 1) * kPageRanges); ++i) {
      for (int64_t at = ranges[2 * i], end = ranges[2 * i + 1]; at < end; at += at_once)
        ::madvise(page_of(at), static_cast<size_t>(std::min(at_once, end - at)), MADV_WILLNEED);
    }
  });
}

void read_around(int64_t address, int64_t bytes, bool around) {
  char* const begin = page_of(address);
  ::madvise(begin, static_cast<size_t>(reinterpret_cast<char*>(address + bytes) - begin), around ? MADV_NORMAL : MADV_RANDOM);
}

}  // namespace hinterland::native
