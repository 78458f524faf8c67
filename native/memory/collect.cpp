#include "memory/collect.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/pool.hpp"
#include "core/thresholds.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace hinterland::native {

namespace {

// Rows that lie in the cache next are asked for before they are copied, and what is packed is stored past the cache, where
// whoever takes it reads it once: a store through the cache would read the line that it overwrites.
#if defined(__SSE2__)
using Word = __m128i;
void pack_words(char* to, const char* from, int64_t row_bytes) {
  for (int64_t at = 0; at < row_bytes; at += sizeof(Word))
    _mm_stream_si128(reinterpret_cast<Word*>(to + at), _mm_loadu_si128(reinterpret_cast<const Word*>(from + at)));
}
void end_stores() { _mm_sfence(); }
bool can_stream(const void* to, int64_t row_bytes) {
  return (reinterpret_cast<uintptr_t>(to) | static_cast<uintptr_t>(row_bytes)) % sizeof(Word) == 0;
}
#else
void pack_words(char* to, const char* from, int64_t row_bytes) { std::memcpy(to, from, row_bytes); }
void end_stores() {}
bool can_stream(const void*, int64_t) { return false; }
#endif

class Collector {
 public:
  Collector(const memory::RowCopy<memory::OneRange>& copy, int64_t begin, int64_t end)
      : copy_(copy),
        begin_(begin),
        end_(end),
        streams_(can_stream(copy.packed, copy.row_bytes)),
        ahead_(std::clamp<int64_t>(kCollectBytesAhead / std::max<int64_t>(copy.row_bytes, 1), 1, kCollectRowsAhead)),
        piece_(std::max<int64_t>(kCollectPiece / std::max<int64_t>(copy.row_bytes, 1), kCollectRowsAhead)),
        next_(begin) {}

  // Of one thread, beside the others.
  void work() {
    for (int64_t first; (first = next_.fetch_add(piece_)) < end_;) pack(first, std::min(first + piece_, end_));
    end_stores();
  }

  int64_t pieces() const { return ceil_div(end_ - begin_, piece_); }
  FoundFault fault() const { return found(fault_); }

 private:
  void pack(int64_t first, int64_t last) {
    for (int64_t turn = first; turn < std::min(first + ahead_, last); ++turn) ask_for(turn);
    for (int64_t turn = first; turn < last; ++turn) {
      if (turn + ahead_ < last) ask_for(turn + ahead_);
      char* const to = copy_.packed + (turn - begin_) * copy_.row_bytes;
      const char* const from = row(turn);
      if (from == nullptr) [[unlikely]] {
        std::memset(to, 0, copy_.row_bytes);
        copy_.report_outside(copy_.position(turn), fault_);
      } else if (streams_) {
        pack_words(to, from, copy_.row_bytes);
      } else {
        std::memcpy(to, from, copy_.row_bytes);
      }
    }
  }

  const char* row(int64_t turn) const {
    const auto& table = copy_.placement;
    const int64_t number = memory::resolve_index(copy_.index_at(copy_.position(turn)), table.rows);
    return number < 0 ? nullptr : table.base + number * copy_.row_bytes;
  }

  void ask_for(int64_t turn) const {
    const char* const from = row(turn);
    if (from == nullptr) return;
    for (int64_t at = 0; at < copy_.row_bytes; at += kCpuLine) __builtin_prefetch(from + at, 0, 0);
  }

  static constexpr int64_t kCpuLine = 64;

  const memory::RowCopy<memory::OneRange>& copy_;
  const int64_t begin_, end_;
  const bool streams_;
  const int64_t ahead_, piece_;
  std::atomic<int64_t> next_;
  memory::IndexFault fault_;
};

}  // namespace

FoundFault collect_rows(const memory::RowCopy<memory::OneRange>& copy, int64_t begin, int64_t end, int threads) {
  Collector collector(copy, begin, end);
  const int64_t useful = std::min<int64_t>(forked ? 1 : threads, collector.pieces());
  parallel_team(static_cast<int>(std::max<int64_t>(useful, 1)), [&] { collector.work(); });
  return collector.fault();
}

}  // namespace hinterland::native
