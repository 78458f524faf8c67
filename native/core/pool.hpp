// Threads that help one other thread with its loops, and sleep between them.
//
// OpenMP's threads spin where they wait. On a machine with other work, a thread that spins takes the core from the one it waits
// for, and a traversal of a thousand short loops took ten to thirty times as long on two threads as on one. Here a thread looks
// a short while and then sleeps, and nobody waits for a thread that has not come: the loops hand out their items as threads
// come free, so one that the system did not run leaves its share to the others.
#pragma once

#include <omp.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#include "core/parallel.hpp"

namespace hinterland::native {

class Pool {
 public:
  // The pool of the calling thread, as OpenMP has it too: callers do not wait for each other.
  static Pool& own() {
    static thread_local Pool pool;
    return pool;
  }

  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    if (forked) {  // the threads are the parent's
      for (std::thread& helper : helpers_) helper.detach();
      return;
    }
    ends_.store(true, std::memory_order_relaxed);
    call();
    for (std::thread& helper : helpers_) helper.join();
  }

  // work(thread), by the caller as thread 0 and by those of threads 1 to threads - 1 that come before the caller is through.
  // The first exception leaves it once all are through.
  template <class Work>
  void run(int threads, const Work& work) {
    if (threads > 1 && omp_get_proc_bind() != omp_proc_bind_false) {  // the caller is bound to a core, where helpers would stay
      std::exception_ptr thrown;
      std::atomic<bool> failed{false};
#pragma omp parallel num_threads(threads)
      guarded(work, omp_get_thread_num(), failed, thrown);
      if (thrown) std::rethrow_exception(thrown);
      return;
    }
    if (threads > 1) hire(threads - 1);
    std::exception_ptr thrown;
    std::atomic<bool> failed{false};
    const auto guard = [&](int thread) { guarded(work, thread, failed, thrown); };
    work_ = {[](const void* given, int thread) { (*static_cast<const decltype(guard)*>(given))(thread); }, &guard, threads};
    inside_.fetch_and(~kClosed, std::memory_order_release);
    if (threads > 1) call();
    guard(0);
    uint32_t seen = inside_.fetch_or(kClosed, std::memory_order_acquire) | kClosed;
    for (int look = 0; seen != kClosed; seen = inside_.load(std::memory_order_acquire))
      if (++look < kLooks)
        pause();
      else
        inside_.wait(seen, std::memory_order_acquire);
    if (thrown) std::rethrow_exception(thrown);
  }

 private:
  // How often a thread looks before it sleeps, some 20 us: chosen, not measured (docs/notes/thresholds.md).
  static constexpr int kLooks = 1000;
  static constexpr uint32_t kClosed = uint32_t{1} << 31;

  struct Call {
    void (*function)(const void*, int) = nullptr;
    const void* given = nullptr;
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

  template <class Work>
  static void guarded(const Work& work, int thread, std::atomic<bool>& failed, std::exception_ptr& thrown) {
    try {
      work(thread);
    } catch (...) {
      if (!failed.exchange(true)) thrown = std::current_exception();
    }
  }

  void hire(int helpers) {
    try {
      while (static_cast<int>(helpers_.size()) < helpers)
        helpers_.emplace_back([this, thread = static_cast<int>(helpers_.size()) + 1] { help(thread); });
    } catch (const std::system_error&) {
      // The system grants no more: those that run do the work.
    }
  }

  void call() {
    calls_.fetch_add(1, std::memory_order_release);
    calls_.notify_all();
  }

  void help(int thread) {
    uint32_t seen = 0;
    for (int look = 0;;) {
      const uint32_t now = calls_.load(std::memory_order_acquire);
      if (now == seen) {
        if (++look < kLooks)
          pause();
        else
          calls_.wait(seen, std::memory_order_acquire);
        continue;
      }
      if (ends_.load(std::memory_order_relaxed)) return;
      seen = now;
      look = 0;
      if ((inside_.fetch_add(1, std::memory_order_acquire) & kClosed) == 0) {
        seen = calls_.load(std::memory_order_relaxed);  // nobody calls again while this thread is inside
        if (thread < work_.threads) work_.function(work_.given, thread);
      }
      if (inside_.fetch_sub(1, std::memory_order_release) == kClosed + 1) inside_.notify_one();
    }
  }

  Call work_;  // read by those inside
  std::atomic<bool> ends_{false};
  alignas(64) std::atomic<uint32_t> calls_{0};         // how often run() has called
  alignas(64) std::atomic<uint32_t> inside_{kClosed};  // helpers at work, and whether any more may begin
  alignas(64) std::vector<std::thread> helpers_;
};

}  // namespace hinterland::native
