// ThreadTeam: the CPU's side of a traversal's driver (include/hinterland/core/grid.hpp is the GPU's). One thread runs it;
// others help with its loops (core/pool.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "core/pool.hpp"
#include "core/thresholds.hpp"
#include "hinterland/core/atomic.hpp"

namespace hinterland::native {

// Throws if whoever started the call wants it to end (Ctrl-C); the module sets it, so that loops know nothing of Python.
inline void (*check_interrupt)() = nullptr;

class ThreadTeam {
 public:
  template <class F>
  void single(const F& f) const {
    f();
  }
  void wait() const {}

  static int64_t now_ns() {
    using std::chrono::steady_clock;
    return std::chrono::duration_cast<std::chrono::nanoseconds>(steady_clock::now().time_since_epoch()).count();
  }

  // Collects a thread's items and appends them to a queue by the hundred, so that threads seldom meet at its counter.
  template <class Queue>
  class Appender {
   public:
    using Item = typename Queue::value_type;

    explicit Appender(const Queue& queue) : queue_(queue) {}
    Appender(const Appender&) = delete;
    Appender& operator=(const Appender&) = delete;
    ~Appender() { flush(); }

    void append(const Item& item) {
      items_[size_++] = item;
      if (size_ == items_.size()) flush();
    }

    // The same if it holds, without a branch on that.
    void append_if(bool holds, const Item& item) {
      items_[size_] = item;
      size_ += holds;
      if (size_ == items_.size()) flush();
    }

    template <class Make>
    void append(int64_t n, const Make& make) {
      for (int64_t k = 0; k < n; ++k) append(make(k));
    }

   private:
    void flush() {
      if (size_ == 0) return;
      const int64_t place = atomic_add(*queue_.count, static_cast<int64_t>(size_));
      for (size_t i = 0; i < size_; ++i) queue_.put(place + static_cast<int64_t>(i), items_[i]);
      size_ = 0;
    }

    Queue queue_;
    std::array<Item, 128> items_;
    size_t size_ = 0;
  };

  template <class Queue>
  static Appender<Queue> appender(const Queue& queue) {
    return Appender<Queue>(queue);
  }

  // The number of the thread that asks, within a loop: below threads().
  static int thread() { return thread_; }
  int threads() const { return static_cast<int>(shares_.size()); }

  template <class Body>
  void static_for(int64_t count, const Body& body) {
    loop(count, kAlone, kItemsAtOnce, body, [](const auto& each, int64_t i) { each(i, i + 1); });
  }

  template <class Body>
  void dynamic_for(int64_t count, const Body& body) {
    loop(count, kTasksAlone, kTasksAtOnce, body, [](const auto& each, int64_t i) { each(i); });
  }

  // body(begin, end) for pieces of [0, count), each but the last of kPiece items.
  static constexpr int64_t kPiece = kTeamPiece;
  template <class Body>
  void pieces_for(int64_t count, const Body& body) {
    dynamic_for(ceil_div(count, kPiece),
                [&](const auto& items) { items([&](int64_t i) { body(i * kPiece, std::min((i + 1) * kPiece, count)); }); });
  }

 private:
  // One thread does loops of no more items, or tasks, than these; waking others would take longer (docs/notes/thresholds.md).
  static constexpr int64_t kAlone = 128;
  // What a thread takes at a time, at the least: fewer tasks, which are longer. A thread's share of a loop is taken in so many
  // parts (docs/notes/gap-on-16-cores.md).
  static constexpr int64_t kItemsAtOnce = 64, kTasksAtOnce = 4, kParts = 8;
  // Loops of so many items are not shared out: all threads take parts in order, from one counter. Where they meet there is
  // nothing beside what such a loop takes, and components are found sooner, as ways lead down in number
  // (docs/notes/gap-on-16-cores.md).
  static constexpr int64_t kInOrderFrom = 1 << 14;
  static constexpr int64_t kPollEvery = 50'000'000;  // nanoseconds between questions whether to go on: Ctrl-C seems immediate

  // How many parts of a thread's share of a loop have been taken. It lies in a line of its own, where the others come only once
  // their shares are done. The loop's number is in it, so that nobody has to clear all of them between loops.
  struct alignas(64) Share {
    std::atomic<uint64_t> taken{0};

    // The next part of `parts`, or -1.
    int64_t take(uint64_t loop, int64_t parts) {
      uint64_t known = taken.load(std::memory_order_relaxed);
      while (true) {
        const int64_t part = known / kMostParts == loop ? static_cast<int64_t>(known % kMostParts) : 0;
        if (part >= parts) return -1;
        if (taken.compare_exchange_weak(known, loop * kMostParts + part + 1, std::memory_order_relaxed)) return part;
      }
    }

    static constexpr uint64_t kMostParts = 1 << 20;
  };

  // How a loop is shared out: short ones evenly, what follows each other to the same thread.
  struct Loop {
    uint64_t number;
    int64_t count, share, shares, at_once;
  };

  Loop begin_loop(int64_t count, int64_t least) {
    const int64_t share = count < kInOrderFrom ? std::max(least, ceil_div<int64_t>(count, threads())) : count;
    return {++loops_, count, share, ceil_div(count, share), std::max(least, ceil_div(count, threads() * kParts))};
  }

  // Items that a thread takes.
  struct Items {
    int64_t begin, end;
  };

  // Some of its own share, and then of those of the others, until there are none; `k` is how many shares it has been through.
  HINTERLAND_APART Items take(const Loop& loop, int thread, int64_t& k) {
    for (; k < loop.shares; ++k) {
      const int64_t owner = (thread + k) % loop.shares, first = owner * loop.share;
      const int64_t last = std::min(first + loop.share, loop.count);
      const int64_t part = shares_[owner].take(loop.number, ceil_div(last - first, loop.at_once));
      if (part < 0) continue;
      const int64_t begin = first + part * loop.at_once;
      return {begin, std::min(begin + loop.at_once, last)};
    }
    return {0, 0};
  }

  template <class Body, class Item>
  void loop(int64_t count, int64_t alone, int64_t least, const Body& body, const Item& item) {
    const Loop loop = begin_loop(count, least);
    const auto work = [&](int thread) {
      thread_ = thread;
      body([&](const auto& each) {
        int64_t k = 0;
        for (Items some = take(loop, thread, k); some.begin < some.end; some = take(loop, thread, k))
          for (int64_t i = some.begin; i < some.end; ++i) item(each, i);
      });
    };
    if (count > alone)
      Pool::own().run(threads(), work);
    else
      work(0);
    poll();
  }

  HINTERLAND_APART void poll() {
    if (check_interrupt == nullptr || now_ns() - polled_ < kPollEvery) return;
    check_interrupt();
    polled_ = now_ns();
  }

  std::vector<Share> shares_ = std::vector<Share>(num_threads());  // of each thread, those that never come too
  uint64_t loops_ = 0;
  int64_t polled_ = now_ns();
  inline static thread_local int thread_ = 0;
};

}  // namespace hinterland::native
