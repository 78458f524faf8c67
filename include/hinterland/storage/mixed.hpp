// Arrays of a graph of which some lie on storage, and others in memory that the processor can load from: a family of sources
// (memory/source.hpp). An array is on storage where its words name a Store.
#pragma once

#include "hinterland/storage/source.hpp"

namespace hinterland::storage {

template <class T, class Store>
class StoredOrNear {
  using Near = memory::Paged<T>;

 public:
  using Element = T;

  // Elements of a run in order.
  class Reader {
   public:
    HINTERLAND_FN Reader(const StoredOrNear& source, int64_t begin, int64_t end)
        : near_(source.near_), is_stored_(source.is_stored()), stored_(source.positions_, source.store_, begin, end) {}

    template <class... Meter>
    HINTERLAND_FN T read_alone(int64_t at, Meter&... meter) {
      return is_stored_ ? stored_.read_alone(at, meter...) : near_.read_alone(at, meter...);
    }

   private:
    Near near_;
    bool is_stored_;
    RunReader<T, Store> stored_;
  };

  HINTERLAND_FN StoredOrNear(const memory::ArrayWords& words, int64_t count)
      : positions_(words), store_(static_cast<const Store*>(words.store)), near_(words, count) {}

  template <int kCount, class Meter>
  HINTERLAND_FN void read(const int64_t (&at)[kCount], T (&to)[kCount], Meter& meter) const {
    count_reads(at, meter);
    memory::NoMeter counted;
    if (!is_stored()) return near_.read(at, to, counted);
    Elements<kCount> read;
    for (int k = 0; k < kCount; ++k) read.at[k] = at[k];
    read = read_stored(positions_, *store_, read);
    for (int k = 0; k < kCount; ++k) to[k] = read.to[k];
  }
  template <class... Meter>
  HINTERLAND_FN T read_alone(int64_t at, Meter&... meter) const {
    [[maybe_unused]] const int64_t all[] = {at};
    (count_reads(all, meter), ...);
    return is_stored() ? read_stored_alone(positions_, *store_, at) : near_.read_alone(at);
  }
  HINTERLAND_FN Reader reader(int64_t begin, int64_t end) const { return {*this, begin, end}; }

  // What lies in memory counts in the same way, by its address.
  template <int kCount, class Meter>
  HINTERLAND_FN void count_reads(const int64_t (&at)[kCount], Meter& meter) const {
    positions_.count_reads(at, meter);
  }
  template <class Meter>
  HINTERLAND_FN void count_run(int64_t begin, int64_t end, Meter& meter) const {
    positions_.count_run(begin, end, meter);
  }
#if !HINTERLAND_ON_GPU
  void prefetch(int64_t begin, int64_t end) const {
    if (!is_stored()) near_.prefetch(begin, end);
  }
#endif
  HINTERLAND_FN memory::Span span(int64_t begin, int64_t end) const {
    return is_stored() ? positions_.span(begin, end) : near_.span(begin, end);
  }

  // What graph/ahead.hpp asks of an array that can be read ahead: each lane for a run of its own, and all call it together.
  // It waits for nothing.
  HINTERLAND_FN int64_t ask(int64_t begin, int64_t end) const {
    return is_stored() && Warp::any(begin < end) ? ask_stored(positions_, *store_, begin, end) : 0;
  }
  // How much of that may be on its way: reads of a thread; and of all warps bytes of the cache, of which a run takes a line at
  // least.
  int64_t most_ahead() const { return is_stored() ? store_->most_ahead() : 0; }
  HINTERLAND_FN int64_t bytes_ahead() const { return is_stored() ? store_->bytes_ahead() : 0; }
  HINTERLAND_FN int64_t bytes_read(int64_t elements) const {
    return is_stored() ? max_of(elements * static_cast<int64_t>(sizeof(T)), store_->lines().line_bytes) : 0;
  }

 private:
  template <int kCount>
  struct Elements {
    int64_t at[kCount];
    T to[kCount];
  };

  // Apart, and by value: kernels have many reads, each with much around it.
  template <int kCount>
  HINTERLAND_APART static Elements<kCount> read_stored(Positions<T> positions, const Store& store, Elements<kCount> read) {
    Stored<T, Store>(positions, store).read(read.at, read.to);
    return read;
  }

  HINTERLAND_APART static T read_stored_alone(Positions<T> positions, const Store& store, int64_t at) {
    return Stored<T, Store>(positions, store).read_alone(at);
  }

  // The first lines of all lanes' runs at once, and of the others each run's.
  HINTERLAND_APART static int64_t ask_stored(Positions<T> positions, const Store& store, int64_t begin, int64_t end) {
    const Stored<T, Store> source(positions, store);
    const bool asks = begin < end;
    const Page first = asks ? source.page_of(begin) : 0, last = asks ? source.page_of(end - 1) : 0;
    int64_t begun = 0;
    const auto prefetch = [&](bool wants, Page page) {
      const bool leads = stdlib::countr_zero(Warp::same(wants ? page : ~Page{0})) == Warp::lane();
      begun += store.template prefetch<Warp>(wants && leads, page);
    };
    prefetch(asks, first);
    for (uint32_t rest = Warp::ballot(first < last); rest != 0; rest &= rest - 1) {
      const int owner = stdlib::countr_zero(rest);
      const Page past = Warp::broadcast(last, owner) + 1;
      for (Page page = Warp::broadcast(first, owner) + 1; page < past; page += Warp::kWidth)
        prefetch(page + Warp::lane() < past, page + Warp::lane());
    }
    return begun;
  }

  HINTERLAND_FN bool is_stored() const { return store_ != nullptr; }

  Positions<T> positions_;
  const Store* store_;  // null: near
  Near near_;
};

// The family.
template <class Store, class MeterType>
struct Mixed {
  using Meter = MeterType;
  static constexpr bool kWaits = true;
  template <class T>
  using Whole = memory::Pointer<T>;
  template <class T>
  using Large = StoredOrNear<T, Store>;
};

}  // namespace hinterland::storage
