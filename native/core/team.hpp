// ThreadTeam: the CPU's side of a traversal's driver (include/hinterland/core/grid.hpp is the GPU's). One thread runs it;
// others help with its loops (core/pool.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "core/pool.hpp"
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
  static int threads() { return num_threads(); }

  template <class Body>
  void static_for(int64_t count, const Body& body) {
    loop(count, kAlone, kItemsAtOnce, body, [](const auto& each, int64_t i) { each(i, i + 1); });
  }

  template <class Body>
  void dynamic_for(int64_t count, const Body& body) {
    loop(count, kTasksAlone, kTasksAtOnce, body, [](const auto& each, int64_t i) { each(i); });
  }

 private:
  // One thread does loops of no more items, or tasks, than these; waking others would take longer. On two that spin, 8 are
  // better for grids and 512 worse (docs/notes/thresholds.md); with more cores a barrier costs more.
  static constexpr int64_t kAlone = 64;
  static constexpr int64_t kTasksAlone = 16;  // chosen, not measured
  // What a thread takes at a time, at the least: fewer tasks, which are longer. Chosen, not measured. Long loops are taken in so
  // many parts a thread: where 16 threads meet at the counter more often, loops take up to 1.7 times as long
  // (docs/notes/gap-on-16-cores.md).
  static constexpr int64_t kItemsAtOnce = 16, kTasksAtOnce = 4, kParts = 8;
  static constexpr int64_t kPollEvery = 50'000'000;  // nanoseconds between questions whether to go on: Ctrl-C seems immediate

  // Threads that come take items, several at a time, until there are none.
  template <class Body, class Item>
  void loop(int64_t count, int64_t alone, int64_t least, const Body& body, const Item& item) {
    const int64_t at_once = std::max(least, count / (threads() * kParts));
    std::atomic<int64_t> taken{0};
    const auto work = [&](int thread) {
      thread_ = thread;
      body([&](const auto& each) {
        for (int64_t first; (first = taken.fetch_add(at_once, std::memory_order_relaxed)) < count;)
          for (int64_t i = first; i < std::min(first + at_once, count); ++i) item(each, i);
      });
    };
    if (count > alone)
      Pool::own().run(threads(), work);
    else
      work(0);
    poll();
  }

  void poll() {
    if (check_interrupt == nullptr || now_ns() - polled_ < kPollEvery) return;
    check_interrupt();
    polled_ = now_ns();
  }

  int64_t polled_ = now_ns();
  inline static thread_local int thread_ = 0;
};

}  // namespace hinterland::native
