#include "query/page_cache.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "core/parallel.hpp"

namespace hinterland::native {

namespace {

// Bytes that are asked for at a time: of more Linux takes as many as the disk's readahead has, which by default are these.
constexpr int64_t kAsked = 128 << 10;
// What a thread takes at a time; a range takes some 10 us, and as many bytes 200. Chosen, not measured
constexpr size_t kRanges = 256;
constexpr int64_t kBytes = 1 << 20;

struct Range {
  int64_t begin, end;
};

char* page_of(int64_t address) { return reinterpret_cast<char*>(address / kFilePage * kFilePage); }

}  // namespace

bool pages_missing(const int64_t* pages, int64_t count) {
  return std::any_of(pages, pages + count, [](int64_t page) {
    unsigned char there = 1;
    return ::mincore(page_of(page), kFilePage, &there) == 0 && (there & 1) == 0;
  });
}

void ask_for_pages(const int64_t* ranges, int64_t count) {
  std::vector<Range> pieces;
  std::vector<size_t> begins;  // the first piece of each task
  int64_t bytes = kBytes;
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t at = ranges[2 * i]; at < ranges[2 * i + 1]; at += kAsked) {
      if (bytes >= kBytes || pieces.size() - begins.back() == kRanges) begins.push_back(pieces.size()), bytes = 0;
      pieces.push_back({at, std::min(at + kAsked, ranges[2 * i + 1])});
      bytes += pieces.back().end - at;
    }
  }
  begins.push_back(pieces.size());
  parallel_tasks(static_cast<int64_t>(begins.size()) - 1, [&](int64_t task, int64_t) {
    for (size_t i = begins[static_cast<size_t>(task)]; i < begins[static_cast<size_t>(task) + 1]; ++i)
      ::madvise(page_of(pieces[i].begin), static_cast<size_t>(pieces[i].end - pieces[i].begin), MADV_WILLNEED);
  });
}

}  // namespace hinterland::native
