// A queue pair of a bare device (include/hinterland/storage/queue.hpp): its rings lie in memory that the device reads and
// writes, its doorbells among the device's registers.
#pragma once

#include <vector>

#include "hinterland/storage/queue.hpp"
#include "storage/pci_device.hpp"

namespace hinterland::native {

struct Doorbells {
  uint32_t *submission, *completion;
};

class NvmeQueue {
 public:
  // `entries` of each ring: a power of two.
  NvmeQueue(PciDevice& device, uint32_t entries, const Doorbells& doorbells)
      : completions_at_(whole_pages(entries * sizeof(storage::SubmissionEntry))),
        memory_(device, completions_at_ + entries * sizeof(storage::CompletionEntry)),
        marks_(entries),
        free_identifiers_(entries),
        commands_(entries),
        pair{.submissions = reinterpret_cast<storage::SubmissionEntry*>(memory_.data()),
             .completions = reinterpret_cast<storage::CompletionEntry*>(memory_.data() + completions_at_),
             .submission_doorbell = doorbells.submission,
             .completion_doorbell = doorbells.completion,
             .control = &control_,
             .marks = marks_.data(),
             .free_identifiers = free_identifiers_.data(),
             .commands = commands_.data(),
             .submission_size = entries,
             .completion_size = entries} {
    pair.prepare();
  }
  NvmeQueue(const NvmeQueue&) = delete;
  NvmeQueue& operator=(const NvmeQueue&) = delete;

  // Of the rings, for the device.
  [[nodiscard]] uint64_t submissions_address() const { return memory_.address(); }
  [[nodiscard]] uint64_t completions_address() const { return memory_.address() + completions_at_; }

 private:
  uint64_t completions_at_;
  DeviceMemory memory_;
  std::vector<uint32_t> marks_, free_identifiers_;
  std::vector<storage::Command> commands_;
  storage::QueueControl control_{};

 public:
  const storage::QueuePair pair;
};

}  // namespace hinterland::native
