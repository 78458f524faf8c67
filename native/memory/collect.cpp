#include "memory/collect.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <vector>

#include "core/errors.hpp"
#include "core/pool.hpp"
#include "core/thresholds.hpp"
#include "runtime/launch.hpp"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace hinterland::native {

namespace {

// Bytes on their way to memory that another processor reads. Whole lines are stored past the caches: a store through them would
// read the line that it overwrites, and the copy engine takes lines that caches hold half as fast. They are stored one right
// after another, from a buffer: parts of a line with reads in between wait for each other.
class LineWriter {
 public:
  explicit LineWriter(char* to) : to_(to) {}  // at a line's start

  // `count` bytes of `from`, or zeros.
  void write(const char* from, int64_t count) {
    while (count > 0) {
      const int64_t taken = std::min(count, kBytes - held_);
      if (from == nullptr) {
        std::memset(buffer_ + held_, 0, taken);
      } else {
        std::memcpy(buffer_ + held_, from, taken);
        from += taken;
      }
      count -= taken;
      if ((held_ += taken) == kBytes) store();
    }
  }

  // Others may read it.
  void end() {
    store();
#if defined(__SSE2__)
    _mm_sfence();
#endif
  }

 private:
  static constexpr int64_t kBytes = kCollectBuffer;

  void store() {
    int64_t at = 0;
#if defined(__SSE2__)
    for (; at < held_ / kCpuLine * kCpuLine; at += sizeof(__m128i))
      _mm_stream_si128(reinterpret_cast<__m128i*>(to_ + at), _mm_load_si128(reinterpret_cast<const __m128i*>(buffer_ + at)));
#endif
    std::memcpy(to_ + at, buffer_ + at, held_ - at);
    to_ += held_;
    held_ = 0;
  }

  char* to_;
  int64_t held_ = 0;
  alignas(kCpuLine) char buffer_[kBytes];
};

// Called with a part that is packed: its address, its first row and the row behind its last, and the first row that nobody has
// begun. Gives the number of rows that are still to be packed, no less than the last of those. Once it has returned, the part
// `ahead` behind this one is overwritten.
using SendPart = std::function<int64_t(uintptr_t at, int64_t begin, int64_t end, int64_t begun)>;

class Packing {
 public:
  Packing(const memory::RowCopy<memory::OneRange>& copy, int64_t count, const PackedParts& parts, const SendPart& send)
      : copy_(copy),
        parts_(parts),
        send_(send),
        ahead_(std::clamp<int64_t>(kCollectBytesAhead / std::max<int64_t>(copy.row_bytes, 1), 1, kCollectRowsAhead)),
        piece_(rows_of_piece(copy.row_bytes)),
        pieces_(ceil_div(parts.rows, piece_)),
        packed_(parts.count),
        end_(count) {}

  int64_t pieces() const { return ceil_div(end_.load(), piece_); }
  FoundFault fault() const { return found(fault_); }

  // Of a thread beside the one that calls.
  void help() {
    for (int64_t piece; has_room(piece = next_.fetch_add(1));) pack(piece);
  }

  // Of the thread that calls. It packs what nobody has begun of the part that is sent next, and nothing else: the others would
  // soon wait for it.
  void lead() try {
    for (int64_t part = 0; part * parts_.rows < end_; ++part) {
      for (int64_t piece; (piece = next_.load()) < (part + 1) * pieces_;)
        if (next_.compare_exchange_strong(piece, piece + 1)) pack(piece);
      std::atomic<int64_t>& packed = packed_[part % parts_.count].count;
      wait_while(packed, [&](int64_t count) { return count < pieces_; });
      const int64_t begin = part * parts_.rows, begun = std::min<int64_t>(begin + parts_.ahead * parts_.rows, end_);
      const int64_t end =
          send_(reinterpret_cast<uintptr_t>(slot(part)), begin, std::min<int64_t>(begin + parts_.rows, end_), begun);
      packed = 0;  // of a part that nobody begins before it is said
      go_on(std::clamp<int64_t>(end, begun, end_));
    }
  } catch (...) {
    go_on(0);
    throw;
  }

 private:
  // Pieces begin at the start of a line.
  static int64_t rows_of_piece(int64_t row_bytes) {
    const int64_t aligned = kCpuLine / std::gcd(kCpuLine, row_bytes);
    return std::max<int64_t>(kCollectPiece / std::max<int64_t>(row_bytes, 1) / aligned, 1) * aligned;
  }

  // Looks at a number for a while, and then sleeps until somebody says that it has changed.
  template <class Condition>
  static void wait_while(const std::atomic<int64_t>& number, const Condition& condition) {
    int64_t seen;
    for (int look = 0; condition(seen = number.load(std::memory_order_acquire));)
      if (!Pool::looks_again(look++)) number.wait(seen);
  }

  // Whether a piece is to be packed, once there is room for it.
  bool has_room(int64_t piece) {
    const int64_t part = piece / pieces_;
    const auto is_over = [&] { return part * parts_.rows >= end_.load(std::memory_order_relaxed); };
    wait_while(sent_, [&](int64_t sent) { return !is_over() && part >= sent + parts_.ahead; });
    return !is_over();
  }

  // A part was sent, and so many rows are packed in all.
  void go_on(int64_t end) {
    end_.store(end, std::memory_order_relaxed);
    sent_.fetch_add(1, std::memory_order_release);
    sent_.notify_all();
  }

  char* slot(int64_t part) const { return copy_.packed + part % parts_.count * parts_.bytes; }

  void pack(int64_t piece) {
    const memory::RowCopy<memory::OneRange> copy = copy_;  // a thread's own
    const int64_t part = piece / pieces_, first = part * parts_.rows, begin = first + piece % pieces_ * piece_;
    const int64_t end = std::min({begin + piece_, first + parts_.rows, end_.load(std::memory_order_relaxed)}), ahead = ahead_;
    const auto row = [&](int64_t turn) {
      const int64_t number = memory::resolve_index(copy.index_at(copy.position(turn)), copy.placement.rows);
      return number < 0 ? nullptr : copy.placement.base + number * copy.row_bytes;
    };
    LineWriter to(slot(part) + (begin - first) * copy.row_bytes);
    for (int64_t turn = begin - ahead; turn < end; ++turn) {
      // Asked for in this loop: of a function that does nothing else GCC removes the calls.
      if (const char* const later = turn + ahead < end ? row(turn + ahead) : nullptr)
        for (int64_t at = 0; at < copy.row_bytes; at += kCpuLine) __builtin_prefetch(later + at, 0, 2);
      if (turn < begin) continue;
      const char* const from = row(turn);
      to.write(from, copy.row_bytes);
      if (from == nullptr) [[unlikely]]
        copy.report_outside(copy.position(turn), fault_);
    }
    to.end();
    std::atomic<int64_t>& packed = packed_[part % parts_.count].count;
    if (packed.fetch_add(1, std::memory_order_release) + 1 == pieces_) packed.notify_one();
  }

  const memory::RowCopy<memory::OneRange>& copy_;
  const PackedParts parts_;
  const SendPart& send_;
  const int64_t ahead_, piece_, pieces_;  // rows, rows, and pieces of a part
  struct alignas(kCpuLine) Packed {
    std::atomic<int64_t> count{0};  // pieces
  };
  std::vector<Packed> packed_;                      // of the part in each slot
  alignas(kCpuLine) std::atomic<int64_t> next_{0};  // piece
  alignas(kCpuLine) std::atomic<int64_t> sent_{0};  // parts
  std::atomic<int64_t> end_;                        // rows: changes for parts alone that nobody has begun
  memory::IndexFault fault_;
};

// Sends parts in order, from the thread that calls. What `send` throws ends it.
FoundFault collect_rows(const memory::RowCopy<memory::OneRange>& copy, int64_t count, int threads, const PackedParts& parts,
                        const SendPart& send) {
  Packing packing(copy, count, parts, send);
  const int64_t useful = std::min<int64_t>(forked ? 1 : threads, packing.pieces());
  Pool::own().run(static_cast<int>(std::max<int64_t>(useful, 1)),
                  [&](int thread) { thread == 0 ? packing.lead() : packing.help(); });
  return packing.fault();
}

}  // namespace

Sent send_rows(const memory::RowCopy<memory::OneRange>& copy, int64_t count, int threads, const PackedParts& parts,
               const PartCopies& copies, const TakeOver& take_over) {
  using Clock = std::chrono::steady_clock;
  const auto require = [](int error) {
    if (error != 0) throw DeviceError("CUDA could not copy rows to a GPU: " + error_name(error));
  };
  const auto copied = [&](int64_t part) { return copies.copied[part % parts.count]; };
  for (const uintptr_t event : copies.copied) require(wait_for_event(event));
  require(wait_for_event(copies.some));
  Clock::time_point first;
  double rate = 0;
  const auto send = [&](uintptr_t at, int64_t begin, int64_t end, int64_t begun) {
    const int64_t part = begin / parts.rows;
    require(copy_to_gpu(copies.to + begin * copy.row_bytes, at, (end - begin) * copy.row_bytes, copies.stream));
    require(record_event(copied(part), copies.stream));
    if (part >= copies.under_way) require(wait_for_event(copied(part - copies.under_way)));
    if (part == 0) {
      require(wait_for_event(copies.all));
      first = Clock::now();
      return count;
    }
    rate = begin / std::max(std::chrono::duration<double>(Clock::now() - first).count(), 1e-9);
    const bool knows = part >= copies.under_way && begun < count;  // the rate, not before some copies were waited for
    if (knows && (rate < copies.least || (copies.reader != 0 && is_done(copies.reader)))) count = take_over(begun, rate);
    return count;
  };
  const FoundFault fault = collect_rows(copy, count, threads, parts, send);
  return {fault, rate};
}

}  // namespace hinterland::native
