#include "storage/driven_queues.hpp"

#include <pthread.h>

#include <chrono>
#include <cstring>
#include <utility>

#include "hinterland/core/system.hpp"

namespace hinterland::native {

namespace {

constexpr auto kWatchPeriod = std::chrono::milliseconds(50);  // at what is overdue: a guess, far below a command's time

}  // namespace

DrivenQueues::DrivenQueues(std::shared_ptr<NvmeDevice> device, std::span<char> memory, QueueLayout layout, bool forwards)
    : device_(std::move(device)), memory_(memory), layout_(std::move(layout)), address_(device_->keep(memory)) {
  try {
    take_numbers();
    open();
  } catch (const StorageError&) {
    close();
    throw;
  }
  if (forwards) {
    std::vector<DoorbellThread::Doorbell> all;
    const std::vector<QueueView> views = layout_.views(memory_.data());
    for (size_t i = 0; i < views.size(); ++i) {
      all.push_back({views[i].submission_doorbell, doorbells_[i].submission});
      all.push_back({views[i].completion_doorbell, doorbells_[i].completion});
    }
    forwards_.emplace(std::move(all));
  }
  watchdog_ = std::thread([this] { watch(); });
  ::pthread_setname_np(watchdog_.native_handle(), "hinterland-dog");
}

DrivenQueues::~DrivenQueues() {
  {
    const std::lock_guard held(watching_);
    stops_ = true;
  }
  changed_.notify_one();
  watchdog_.join();
  forwards_.reset();
  close();
}

void DrivenQueues::take_numbers() {
  const std::lock_guard held(device_->guard_);
  const NvmeController& controller = device_->controller_;
  if (layout_.submission_size > controller.most_entries())
    throw StorageError("the device has rings of " + std::to_string(controller.most_entries()) + " entries at the most");
  for (uint16_t number = controller.most_queues(); numbers_.size() < layout_.queues.size(); --number) {
    if (number <= device_->channels_.size())
      throw StorageError("the device has no " + std::to_string(layout_.queues.size()) + " queues left for others to drive");
    if (!device_->driven_.insert(number).second) continue;
    numbers_.push_back(number);
    doorbells_.push_back(controller.doorbells(number));
  }
}

void DrivenQueues::open() {
  const std::lock_guard held(device_->guard_);
  if (device_->gone_) throw StorageError("the device does not answer any more: it was switched off");
  std::memset(memory_.data(), 0, layout_.bytes);
  opened_ = device_->restarts_;
  silent_ = false;
  seen_.assign(numbers_.size(), std::vector<uint32_t>(layout_.completion_size));
  for (created_ = 0; created_ < numbers_.size(); ++created_)
    device_->controller_.create_queue(
        numbers_[created_], {address_ + layout_.queues[created_].submissions, address_ + layout_.queues[created_].completions,
                             layout_.submission_size, layout_.completion_size});
}

// Where the device does not delete them it is switched off and on, which does.
void DrivenQueues::delete_all() {
  const std::lock_guard held(device_->guard_);
  if (device_->gone_ || lost()) return;
  try {
    for (; created_ > 0; --created_) device_->controller_.delete_queue(numbers_[created_ - 1]);
  } catch (const StorageError&) {
    device_->restart();
  }
}

void DrivenQueues::close() {
  delete_all();
  {
    const std::lock_guard held(device_->guard_);
    for (const uint16_t number : numbers_) device_->driven_.erase(number);
  }
  device_->let_go(address_);
}

void DrivenQueues::reopen() {
  const std::lock_guard held(watching_);
  delete_all();
  if (forwards_) forwards_->restart();
  open();
}

void DrivenQueues::acquire() {
  if (forwards_) forwards_->acquire();
  {
    const std::lock_guard held(watching_);
    ++live_;
  }
  changed_.notify_one();
}

void DrivenQueues::release() {
  if (forwards_) forwards_->release();
  const std::lock_guard held(watching_);
  --live_;
}

void DrivenQueues::watch() {
  std::unique_lock held(watching_);
  while (true) {
    changed_.wait(held, [&] { return stops_ || live_ != 0; });
    if (changed_.wait_for(held, kWatchPeriod, [&] { return stops_; })) return;
    if (live_ != 0) abort_overdue();
  }
}

// A command may have ended meanwhile, and another have its identifier: that is aborted then, and begun anew as well.
void DrivenQueues::abort_overdue() {
  const std::lock_guard held(device_->guard_);
  if (device_->gone_ || lost() || silent_) return;
  for (size_t queue = 0; queue < numbers_.size(); ++queue) {
    auto* const words = reinterpret_cast<uint32_t*>(memory_.data() + layout_.queues[queue].overdue);
    for (uint32_t identifier = 0; identifier < layout_.completion_size; ++identifier) {
      const uint32_t word = system_load(words[identifier]);
      if (word == seen_[queue][identifier]) continue;
      seen_[queue][identifier] = word;
      try {
        aborted_ += device_->controller_.abort(numbers_[queue], static_cast<uint16_t>(identifier)) ? 1 : 0;
      } catch (const StorageError&) {
        silent_ = true;
        return;
      }
    }
  }
}

int64_t DrivenQueues::cpu_ns() { return forwards_ ? forwards_->cpu_ns() : 0; }

}  // namespace hinterland::native
