// Large arrays of a graph in any form, for a CPU: on storage or in memory, of elements as wide as they are stored. One instance
// of an algorithm reads them all, and asks at each read what it is about.
#pragma once

#include <cstdint>
#include <type_traits>

#include "hinterland/storage/mixed.hpp"
#include "storage/host_pages.hpp"

namespace hinterland::native {

// As a source (memory/source.hpp) of elements of the type T, which may be stored as Narrow: the words say how many bytes they
// take.
template <class T, class Narrow = T>
class AnyArray {
  template <class Stored>
  using As = storage::StoredOrNear<Stored, HostPages>;

 public:
  using Element = T;

  class Reader {
   public:
    Reader(const AnyArray& array, int64_t begin, int64_t end)
        : is_narrow_(array.is_narrow_), narrow_(array.narrow_.reader(begin, end)), wide_(array.wide_.reader(begin, end)) {}

    template <class... Meter>
    T read_alone(int64_t at, Meter&... meter) {
      return is_narrow_ ? static_cast<T>(narrow_.read_alone(at, meter...)) : wide_.read_alone(at, meter...);
    }

   private:
    bool is_narrow_;
    typename As<Narrow>::Reader narrow_;
    typename As<T>::Reader wide_;
  };

  AnyArray(const memory::ArrayWords& words, int64_t count)
      : is_narrow_(!std::is_same_v<T, Narrow> && words.bytes == sizeof(Narrow)), narrow_(words, count), wide_(words, count) {}

  Reader reader(int64_t begin, int64_t end) const { return {*this, begin, end}; }
  template <class... Meter>
  T read_alone(int64_t at, Meter&... meter) const {
    return is_narrow_ ? static_cast<T>(narrow_.read_alone(at, meter...)) : wide_.read_alone(at, meter...);
  }
  template <int kCount, class Meter>
  void read(const int64_t (&at)[kCount], T (&to)[kCount], Meter& meter) const {
    if (!is_narrow_) return wide_.read(at, to, meter);
    Narrow found[kCount];
    narrow_.read(at, found, meter);
    for (int k = 0; k < kCount; ++k) to[k] = static_cast<T>(found[k]);
  }

  template <int kCount, class Meter>
  void count_reads(const int64_t (&at)[kCount], Meter& meter) const {
    is_narrow_ ? narrow_.count_reads(at, meter) : wide_.count_reads(at, meter);
  }
  template <class Meter>
  void count_run(int64_t begin, int64_t end, Meter& meter) const {
    is_narrow_ ? narrow_.count_run(begin, end, meter) : wide_.count_run(begin, end, meter);
  }
  void prefetch(int64_t begin, int64_t end) const { is_narrow_ ? narrow_.prefetch(begin, end) : wide_.prefetch(begin, end); }
  memory::Span span(int64_t begin, int64_t end) const { return wide_.span(begin, end); }

  int64_t ask(int64_t begin, int64_t end) const { return is_narrow_ ? narrow_.ask(begin, end) : wide_.ask(begin, end); }
  int64_t most_ahead() const { return wide_.most_ahead(); }
  int64_t bytes_ahead() const { return wide_.bytes_ahead(); }
  int64_t bytes_read(int64_t elements) const { return is_narrow_ ? narrow_.bytes_read(elements) : wide_.bytes_read(elements); }

 private:
  bool is_narrow_;
  As<Narrow> narrow_;
  As<T> wide_;
};

// Vertices are int32 or int64; what is computed with a weight of uint8 is that of an int32.
template <class T>
using NarrowerThan =
    std::conditional_t<std::is_same_v<T, int64_t>, int32_t, std::conditional_t<std::is_same_v<T, int32_t>, uint8_t, T>>;

// The family. It counts what is read, always: what a disk takes is far more.
struct AnySources {
  using Meter = memory::Meter;
  static constexpr bool kWaits = true, kReadsAhead = true;
  template <class T>
  using Whole = memory::Pointer<T>;
  template <class T>
  using Large = AnyArray<T, NarrowerThan<T>>;
};

}  // namespace hinterland::native
