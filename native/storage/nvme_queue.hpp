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

// Where the rings of a queue lie for the device, and their entries.
struct RingAddresses {
  uint64_t submissions, completions;
  uint32_t submission_size, completion_size;
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

  [[nodiscard]] RingAddresses rings() const {
    return {memory_.address(), memory_.address() + completions_at_, pair.submission_size, pair.completion_size};
  }

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
