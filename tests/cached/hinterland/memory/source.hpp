// A stand-in for include/hinterland/memory/source.hpp: the same, but that Unmetered arrays, which everything reads unless told
// otherwise, are read through a software cache, as those of a graph on storage would be. Put this folder before include/ on the
// compiler's path, and HINTERLAND_CACHED_SOURCES=1 into the environment; without the variable arrays are read where they lie.
//
// Lines of 4 KiB of the array are copied to a few frames. A frame has a count of those who read in it, and gives way only when
// there are none; some copies take a while. What a kernel reads outside its array ends the process.
#pragma once

#define Unmetered ByAddressUnmetered
#include_next "hinterland/memory/source.hpp"
#undef Unmetered

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

namespace hinterland::memory {

class LineCache {
 public:
  static constexpr int64_t kLine = 4096;

  struct Frame {
    const char* line = nullptr;  // where it lies in its array
    bool is_there = false;       // else it is being copied
    int readers = 0;
    alignas(64) char bytes[kLine];
  };

  static LineCache& shared() {
    static LineCache cache;
    return cache;
  }
  static bool is_on() {
    static const bool on = std::getenv("HINTERLAND_CACHED_SOURCES") != nullptr;
    return on;
  }

  // The frame that holds the line, counted as read by one more; null where none is to be had without waiting.
  Frame* try_acquire(const char* line, int64_t bytes) {
    std::unique_lock lock(mutex_);
    for (Frame& frame : frames_)
      if (frame.line == line) {
        if (!frame.is_there) return nullptr;
        // Its array may have gone, and another one lie there now.
        if (frame.readers == 0 && std::memcmp(frame.bytes, line, bytes) != 0) std::memcpy(frame.bytes, line, bytes);
        ++frame.readers;
        return &frame;
      }
    for (int tried = 0; tried < kFrames; ++tried) {
      Frame& frame = frames_[hand_++ % kFrames];
      if (frame.readers != 0) continue;
      frame.line = line;
      frame.is_there = false;
      frame.readers = 1;
      const bool is_slow = copies_++ % 64 == 0;
      lock.unlock();
      if (is_slow) std::this_thread::sleep_for(std::chrono::microseconds(20));
      std::memcpy(frame.bytes, line, bytes);
      lock.lock();
      frame.is_there = true;
      return &frame;
    }
    return nullptr;
  }

  // Waits for it. Who calls this holds no other.
  Frame& acquire(const char* line, int64_t bytes) {
    for (;; std::this_thread::yield())
      if (Frame* const frame = try_acquire(line, bytes)) return *frame;
  }

  void release(Frame& frame) {
    const std::lock_guard lock(mutex_);
    --frame.readers;
  }

 private:
  static constexpr int kFrames = 12;

  std::mutex mutex_;
  std::array<Frame, kFrames> frames_;
  unsigned hand_ = 0, copies_ = 0;
};

template <class T>
struct Cached {
  using Element = T;
  static constexpr int64_t kElements = LineCache::kLine / sizeof(T);

  const T* home;
  int64_t count;

  Cached(const void* home, int64_t count) : home(static_cast<const T*>(home)), count(count) {}
  Cached(const ArrayWords& words, int64_t count) : Cached(words.home, count) {}

  T read_alone(int64_t at) const {
    if (!LineCache::is_on()) return home[at];
    LineCache::Frame& frame = LineCache::shared().acquire(line(at), bytes(at));
    return taken(frame, at);
  }
  template <class Meter>
  T read_alone(int64_t at, Meter&) const {
    return read_alone(at);
  }

  Cached reader(int64_t, int64_t) const { return *this; }

  // As many lines at once as there are frames for; the others one by one.
  template <int kCount>
  void read(const int64_t (&at)[kCount], T (&to)[kCount]) const {
    if (!LineCache::is_on()) {
      for (int k = 0; k < kCount; ++k) to[k] = at[k] == kNowhere ? T{} : home[at[k]];
      return;
    }
    LineCache::Frame* frames[kCount]{};
    for (int k = 0; k < kCount; ++k)
      if (at[k] != kNowhere) frames[k] = LineCache::shared().try_acquire(line(at[k]), bytes(at[k]));
    for (int k = 0; k < kCount; ++k) to[k] = frames[k] == nullptr ? T{} : taken(*frames[k], at[k]);
    for (int k = 0; k < kCount; ++k)
      if (at[k] != kNowhere && frames[k] == nullptr) to[k] = read_alone(at[k]);
  }
  template <int kCount, class Meter>
  void read(const int64_t (&at)[kCount], T (&to)[kCount], Meter&) const {
    read(at, to);
  }
  template <int kCount, class Meter>
  void count_reads(const int64_t (&)[kCount], Meter&) const {}
  template <class Meter>
  void count_run(int64_t, int64_t, Meter&) const {}

  Span span(int64_t begin, int64_t end) const { return {begin - begin % Warp::kWidth, end}; }

  // What warps ask for ahead (graph/ahead.hpp) has to be of the array, too.
  int64_t ask(int64_t begin, int64_t end) const {
    if (!LineCache::is_on() || begin >= end) return 0;
    for (const int64_t at : {begin, end - 1})
      if (LineCache::Frame* const frame = LineCache::shared().try_acquire(line(at), bytes(at)))
        LineCache::shared().release(*frame);
    return 1;
  }
  int64_t bytes_ahead() const { return 1 << 15; }
  int64_t bytes_read(int64_t elements) const { return max_of(LineCache::kLine, elements * static_cast<int64_t>(sizeof(T))); }

 private:
  const char* line(int64_t at) const {
    if (at < 0 || at >= count) {
      std::fprintf(stderr, "element %ld of an array of %ld is read\n", static_cast<long>(at), static_cast<long>(count));
      std::abort();
    }
    return reinterpret_cast<const char*>(home + at / kElements * kElements);
  }
  int64_t bytes(int64_t at) const {
    return min_of(kElements, count - at / kElements * kElements) * static_cast<int64_t>(sizeof(T));
  }
  static T taken(LineCache::Frame& frame, int64_t at) {
    T value;
    std::memcpy(&value, frame.bytes + at % kElements * static_cast<int64_t>(sizeof(T)), sizeof(T));
    LineCache::shared().release(frame);
    return value;
  }
};

struct CachedSources {
  using Meter = NoMeter;
  static constexpr bool kWaits = true;
  template <class T>
  using Whole = Cached<T>;
  template <class T>
  using Large = Cached<T>;
};

using Unmetered = CachedSources;

}  // namespace hinterland::memory
