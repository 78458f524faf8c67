// Queue pairs of a bare NVMe device that a GPU's threads drive by themselves, or a CPU's with their code
// (include/hinterland/storage/queue.hpp). They write entries, ring doorbells and read completions; the host makes the queues,
// and deletes them. Rings, and what commands name, lie in memory that all three reach.
//
// While somebody is live a thread of the host has the device abort what they call overdue (queue.hpp). What it aborts ends, and
// they begin it anew; what it does not they give up.
//
// Who drives them writes the device's registers. Or, where those cannot be mapped for a GPU, words beside the rings, which a
// thread of the host forwards: then a processor is part of each doorbell, and of nothing else.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "storage/doorbell_thread.hpp"
#include "storage/nvme_device.hpp"
#include "storage/queue_memory.hpp"

namespace hinterland::native {

class DrivenQueues {
 public:
  // Rings lie at the beginning of `memory`, whole pages, as `layout` says; the device reaches all of it from now on.
  // StorageError where it has no such queues, or may not have the memory.
  DrivenQueues(std::shared_ptr<NvmeDevice> device, std::span<char> memory, QueueLayout layout, bool forwards);
  // Not before those who drive them have ended.
  ~DrivenQueues();
  DrivenQueues(const DrivenQueues&) = delete;
  DrivenQueues& operator=(const DrivenQueues&) = delete;

  // Of the memory, for the device.
  [[nodiscard]] uint64_t address() const { return address_; }
  // Of each queue: the registers, whoever writes them.
  [[nodiscard]] const std::vector<Doorbells>& doorbells() const { return doorbells_; }
  // The device was switched off and on meanwhile: these queues are gone.
  [[nodiscard]] bool lost() const { return device_->restarts() != opened_; }
  // Empty queues in their place, while nobody drives them. What was in flight has ended, or never will, and touches no memory
  // any more. StorageError where the device does not come back.
  void reopen();

  // While somebody is live doorbells are forwarded, and what is overdue is aborted.
  void acquire();
  void release();
  [[nodiscard]] int64_t cpu_ns();  // of the thread that forwards
  // Commands that the device has aborted.
  [[nodiscard]] uint64_t aborted() const { return aborted_; }

 private:
  void open();
  void delete_all();
  void close();
  void take_numbers();
  void watch();
  void abort_overdue();

  const std::shared_ptr<NvmeDevice> device_;
  const std::span<char> memory_;
  const QueueLayout layout_;
  const uint64_t address_;
  std::vector<uint16_t> numbers_;
  std::vector<Doorbells> doorbells_;
  size_t created_ = 0;   // of them
  unsigned opened_ = 0;  // after so many restarts of the device
  std::optional<DoorbellThread> forwards_;
  std::atomic<uint64_t> aborted_ = 0;
  std::mutex watching_;  // of what follows; held before the device's guard
  std::condition_variable changed_;
  unsigned live_ = 0;
  bool stops_ = false, silent_ = false;      // the device does not even answer an Abort
  std::vector<std::vector<uint32_t>> seen_;  // words of what is overdue, of each queue
  std::thread watchdog_;
};

}  // namespace hinterland::native
