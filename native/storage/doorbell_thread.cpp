#include "storage/doorbell_thread.hpp"

#include <pthread.h>

#include <chrono>
#include <utility>

#include "core/thresholds.hpp"
#include "hinterland/core/system.hpp"
#include "storage/team.hpp"

namespace hinterland::native {

using Clock = std::chrono::steady_clock;

DoorbellThread::DoorbellThread(std::vector<Doorbell> doorbells) : doorbells_(std::move(doorbells)), thread_([this] { run(); }) {
  ::pthread_setname_np(thread_.native_handle(), "hinterland-bell");
}

DoorbellThread::~DoorbellThread() {
  {
    const std::lock_guard held(guard_);
    stops_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void DoorbellThread::acquire() {
  {
    const std::lock_guard held(guard_);
    ++live_;
    ++acquired_;
  }
  changed_.notify_one();
}

void DoorbellThread::release() {
  const std::lock_guard held(guard_);
  --live_;
}

void DoorbellThread::restart() {
  const std::lock_guard held(guard_);
  for (Doorbell& each : doorbells_) system_store(*each.word, each.told = 0);
}

int64_t DoorbellThread::cpu_ns() {
  clockid_t clock;
  return pthread_getcpuclockid(thread_.native_handle(), &clock) == 0 ? clock_ns(clock) : 0;
}

void DoorbellThread::run() {
  std::unique_lock held(guard_);
  for (auto busy = Clock::now(); !stops_;) {
    // Before it looks: whoever comes and goes meanwhile has rung since, perhaps.
    const uint64_t acquired = acquired_;
    const bool nobody = live_ == 0;
    if (forward_new()) {
      busy = Clock::now();
    } else if (nobody) {
      changed_.wait(held, [&] { return stops_ || acquired_ != acquired; });
      busy = Clock::now();
    }
    held.unlock();
    const auto idle = Clock::now() - busy;
    if (idle > std::chrono::nanoseconds(kControllerYields))
      std::this_thread::sleep_for(kTransferNap);
    else if (idle > std::chrono::nanoseconds(kControllerSpins))
      std::this_thread::yield();
    held.lock();
  }
}

bool DoorbellThread::forward_new() {
  bool any = false;
  for (Doorbell& each : doorbells_) {
    const uint32_t rung = system_load_acquire(*each.word);
    if (rung == each.told) continue;
    system_store_release(*each.doorbell, each.told = rung);
    any = true;
  }
  return any;
}

}  // namespace hinterland::native
