// Threads that help one other thread with its loops, and sleep between them.
//
// OpenMP's threads spin where they wait. On a machine with other work, a thread that spins takes the core from the one it waits
// for, and a traversal of a thousand short loops took ten to thirty times as long on two threads as on one. Here a thread looks
// a short while and then sleeps, and nobody waits for a thread that has not come: the loops hand out their items as threads
// come free, so one that the system did not run leaves its share to the others.
#pragma once

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <system_error>
#include <thread>
#include <type_traits>

#include "core/parallel.hpp"
#include "core/thresholds.hpp"
#include "hinterland/core/platform.hpp"

namespace hinterland::native {

// Work of a thread, by its number: a reference to a function, so that what runs it is compiled once for all loops.
class Work {
 public:
  template <class F>
    requires(!std::is_same_v<F, Work>)
  Work(const F& f)  // NOLINT: made where it is called with
      : function_([](const void* given, int thread) { (*static_cast<const F*>(given))(thread); }), given_(&f) {}

  void operator()(int thread) const { function_(given_, thread); }

 private:
  void (*function_)(const void*, int);
  const void* given_;
};

class Pool {
 public:
  // The pool of the calling thread, as OpenMP has it too: callers do not wait for each other.
  HINTERLAND_APART static Pool& own() {
    static thread_local Pool pool;
    return pool;
  }

  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    if (forked) {  // the threads are the parent's
      for (Helper& helper : helpers_) helper.thread.detach();
      return;
    }
    ends_ = true;
    call();
    for (Helper& helper : helpers_) helper.thread.join();
  }

  // work(thread), by the caller as thread 0 and by those of threads 1 to threads - 1 that come before the caller is through.
  // The first exception leaves it once all are through. Work does not call run() itself.
  HINTERLAND_APART void run(int threads, Work work) {
    std::exception_ptr thrown;
    std::atomic<bool> failed{false};
    const auto guard = [&](int thread) {
      try {
        work(thread);
      } catch (...) {
        if (!failed.exchange(true)) thrown = std::current_exception();
      }
    };
    if (threads > 1 && omp_get_proc_bind() != omp_proc_bind_false) {  // the caller is bound to a core, where helpers would stay
#pragma omp parallel num_threads(threads)
      guard(omp_get_thread_num());
    } else if (threads > 1) {
      hire(threads - 1);
      const Work guarded(guard);
      call_ = {&guarded, threads};
      call();
      guard(0);
      turn_.fetch_add(1);  // closed: who has not come by now does not come
      for (Helper& helper : helpers_) helper.wait();
    } else {
      guard(0);
    }
    if (thrown) std::rethrow_exception(thrown);
  }

  // What a thread does that has looked so many times in vain. False: it should sleep.
  static bool looks_again(int look) {
    if (look >= kLooks + kYields) return false;
    look < kLooks ? pause() : std::this_thread::yield();
    return true;
  }

 private:
  // How often a thread looks before it sleeps, first on its core, some 50 us, and then between others that want to run there
  // (docs/notes/gap-on-16-cores.md).
  static constexpr int kLooks = 1000, kYields = 1000;
  struct Call {
    const Work* work = nullptr;
    int threads = 0;
  };

  Pool() = default;

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb");
#endif
  }

  // A helper has a line of its own to say that it is at work: a count that all share would go from one to the next.
  struct alignas(64) Helper {
    enum : uint32_t { kIdle, kAtWork, kWaitedFor };

    std::atomic<uint32_t> state{kIdle};
    std::thread thread;

    Helper(Pool& pool, int number) : thread([this, &pool, number] { pool.help(*this, number); }) {}

    void end_work() {
      if (state.exchange(kIdle) == kWaitedFor) state.notify_one();
    }

    void wait() {
      for (int look = 0; state.load() != kIdle && looks_again(look); ++look) {
      }
      for (uint32_t seen = kAtWork; state.compare_exchange_strong(seen, kWaitedFor) || seen == kWaitedFor; seen = kAtWork)
        state.wait(kWaitedFor);
    }
  };

  void hire(int helpers) {
    try {
      while (static_cast<int>(helpers_.size()) < helpers) helpers_.emplace_back(*this, static_cast<int>(helpers_.size()) + 1);
    } catch (const std::system_error&) {
      // The system grants no more: those that run do the work.
    }
  }

  void call() {
    turn_.fetch_add(1);
    turn_.notify_all();
  }

  static bool is_open(uint32_t turn) { return turn % 2 == 1; }

  void help(Helper& helper, int thread) {
    uint32_t seen = 0;
    for (int look = 0;;) {
      const uint32_t turn = turn_.load();
      if (turn == seen || !is_open(turn)) {
        seen = turn;
        if (!looks_again(look++)) turn_.wait(seen);
        continue;
      }
      seen = turn;
      look = 0;
      // Either the caller, who closes before it looks, sees this helper at work, or the helper sees that the turn is over.
      helper.state.store(Helper::kAtWork);
      if (turn_.load() == turn) {
        if (ends_) return;
        if (thread < call_.threads) (*call_.work)(thread);
      }
      helper.end_work();
    }
  }

  Call call_;          // read by those at work
  bool ends_ = false;  // the same
  std::deque<Helper> helpers_;
  alignas(64) std::atomic<uint32_t> turn_{0};  // how often it has been opened or closed: open while odd
};

// body(i, thread) for i in [0, count), handed out in order as threads come free, which are numbered from 0.
template <class Body>
void parallel_tasks(int64_t count, const Body& body) {
  std::atomic<int64_t> next{0};
  Pool::own().run(static_cast<int>(std::min<int64_t>(num_threads(), count)), [&](int thread) {
    try {
      for (int64_t i; (i = next.fetch_add(1)) < count;) body(i, thread);
    } catch (...) {
      next = count;  // nothing is left to do
      throw;
    }
  });
}

// Numbers of an array that a thread takes at a time: no more are not worth waking another (docs/notes/thresholds.md).
inline constexpr int64_t kItemsOfPiece = 1 << 14;

// body(begin, end) for pieces of [0, count), each but the last of so many items.
template <class Body>
void parallel_pieces(int64_t count, const Body& body, int64_t piece = kItemsOfPiece) {
  parallel_tasks(count / piece + (count % piece != 0),
                 [&](int64_t i, int) { body(i * piece, std::min((i + 1) * piece, count)); });
}

// body(i) for i in [0, count), in such pieces.
template <class Body>
void parallel_for(int64_t count, const Body& body, int64_t chunk = kItemsOfChunk) {
  parallel_pieces(
      count,
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) body(i);
      },
      chunk);
}

// body() by at most so many threads, the caller among them.
template <class Body>
void parallel_team(int threads, const Body& body) {
  Pool::own().run(threads, [&](int) { body(); });
}

}  // namespace hinterland::native
