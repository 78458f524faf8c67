#include "storage/controller.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/thresholds.hpp"
#include "storage/team.hpp"

namespace hinterland::native {

namespace {

uint64_t now_ns() { return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()); }

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void check(const QueueView& queue, size_t number) {
  const auto wrong = [&](const std::string& what) {
    throw std::invalid_argument("queue " + std::to_string(number) + ": " + what);
  };
  for (const uint32_t size : {queue.submission_size, queue.completion_size})
    if (size < 2 || size > 65536 || (size & (size - 1)) != 0)
      wrong("a ring of " + std::to_string(size) + " entries; give a power of two from 2 to 65536");
  if (queue.submissions == nullptr || queue.completions == nullptr || queue.submission_doorbell == nullptr ||
      queue.completion_doorbell == nullptr)
    wrong("an address is 0; give the memory of both rings and both doorbells");
}

// Threads that are made meanwhile get no signals: these are for those whose program it is.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

// Holds a worker's guard for somebody else than its thread.
class Controller::Asking {
 public:
  explicit Asking(Worker& worker) : worker_(worker) {
    ++worker_.asking;
    worker_.guard.lock();
    --worker_.asking;
  }
  ~Asking() { worker_.guard.unlock(); }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

 private:
  Worker& worker_;
};

Controller::Controller(std::vector<QueueView> queues, std::vector<Region> regions, std::shared_ptr<Namespace> blocks,
                       unsigned threads)
    : regions_(std::move(regions)),
      namespace_(std::move(blocks)),
      rests_(std::thread::hardware_concurrency() < 2 * std::min<size_t>(threads, queues.size()) + 2) {
  if (queues.empty() || threads == 0) throw std::invalid_argument("a controller needs a queue and a thread; give at least one");
  for (size_t i = 0; i < std::min<size_t>(threads, queues.size()); ++i) workers_.push_back(std::make_unique<Worker>());
  for (size_t i = 0; i < queues.size(); ++i) {
    check(queues[i], i);
    workers_[i % workers_.size()]->queues.push_back({queues[i], static_cast<uint32_t>(i)});
  }
}

void Controller::start() {
  if (!stopped_) return;
  const SignalsBlocked blocked;  // for the threads of backends as well
  for (const auto& worker : workers_) {
    worker->serving = std::make_unique<Serving>(worker->queues, regions_, *namespace_);
    worker->last = {};
  }
  stopped_ = false;
  for (const auto& worker : workers_) worker->thread = std::thread([this, &worker = *worker] { serve(worker); });
}

void Controller::stop() {
  {
    const std::lock_guard<std::mutex> held(guard_);
    stopped_ = true;
  }
  changed_.notify_all();
  for (const auto& worker : workers_)
    if (worker->thread.joinable()) worker->thread.join();
}

void Controller::acquire() {
  {
    const std::lock_guard<std::mutex> held(guard_);
    ++live_;
    ++acquired_;
  }
  changed_.notify_all();
}

void Controller::release() {
  const std::lock_guard<std::mutex> held(guard_);
  --live_;
}

bool Controller::abort(uint32_t queue, uint16_t identifier) {
  Worker& worker = *workers_[queue % workers_.size()];
  const Asking asking(worker);
  return worker.serving != nullptr && worker.serving->abort(queue, identifier);
}

std::vector<ServingStats> Controller::stats() {
  std::vector<ServingStats> all;
  for (const auto& worker : workers_) {
    const Asking asking(*worker);
    clockid_t clock;
    all.push_back(worker->last);
    if (worker->serving == nullptr) continue;
    all.back() = worker->serving->stats();
    if (pthread_getcpuclockid(worker->thread.native_handle(), &clock) == 0)
      all.back().cpu_ns = static_cast<uint64_t>(clock_ns(clock));
  }
  return all;
}

void Controller::serve(Worker& worker) {
  ::prctl(PR_SET_TIMERSLACK, 1000);  // ns: sleeps are short
  ::pthread_setname_np(::pthread_self(), "hinterland-nvme");
  for (uint64_t busy = now_ns(); !stopped_;) {
    // Before the turn: it sees what was submitted until then. Who comes and goes meanwhile has submitted more.
    const uint64_t acquired = acquired_;
    const bool nobody = live_ == 0;
    const uint64_t now = now_ns();
    while (worker.asking != 0) std::this_thread::yield();
    std::unique_lock<std::mutex> turn(worker.guard);
    if (worker.serving->turn(now)) {
      busy = now;
    } else if (nobody && worker.serving->in_flight() == 0) {
      turn.unlock();
      std::unique_lock<std::mutex> held(guard_);
      changed_.wait(held, [&] { return stopped_ || acquired_ != acquired; });
      busy = now_ns();
    } else {
      back_off(worker, now, now - busy);
    }
  }
  const std::lock_guard<std::mutex> held(worker.guard);
  worker.last = worker.serving->stats();
  worker.serving.reset();  // here, since transfers are bound to the thread that has begun them
  worker.last.cpu_ns = static_cast<uint64_t>(thread_cpu_ns());
}

// A command that comes soon finds the thread awake, and one that comes late waits for kLongestNap at most.
void Controller::back_off(Worker& worker, uint64_t now, uint64_t idle_ns) const {
  if (idle_ns < kControllerSpins) return pause_briefly();
  if (!rests_ || idle_ns < kControllerYields) {
    std::this_thread::yield();
    return;
  }
  const uint64_t most = std::min(kLongestNap, (idle_ns - kControllerYields) / 16 + 1000);
  if (worker.serving->in_flight() != 0) return worker.serving->wait(now, most);
  std::this_thread::sleep_for(std::chrono::nanoseconds(most));
}

}  // namespace hinterland::native
