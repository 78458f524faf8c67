// Where the queue pairs of a controller lie in one region of memory: what its host and the device both see, and what those who
// drive them tell the host. Their own words (queue.hpp) lie where they like.
#pragma once

#include <cstdint>
#include <vector>

#include "hinterland/core/platform.hpp"
#include "storage/request.hpp"

namespace hinterland::native {

struct QueueOffsets {
  uint64_t submissions, completions, submission_doorbell, completion_doorbell, overdue;
};

struct QueueLayout {
  uint32_t submission_size, completion_size;
  std::vector<QueueOffsets> queues;
  uint64_t bytes = 0;  // of the region, which begins with a memory page

  QueueLayout(uint32_t count, uint32_t submission_entries, uint32_t completion_entries)
      : submission_size(submission_entries), completion_size(completion_entries), queues(count) {
    // Doorbells first, each in a line of its own: different sides write them.
    for (QueueOffsets& queue : queues) {
      queue.submission_doorbell = take(kLineBytes, kLineBytes);
      queue.completion_doorbell = take(kLineBytes, kLineBytes);
    }
    for (QueueOffsets& queue : queues) {
      queue.submissions = take(uint64_t{submission_size} * sizeof(storage::SubmissionEntry), storage::kMemoryPageBytes);
      queue.completions = take(uint64_t{completion_size} * sizeof(storage::CompletionEntry), storage::kMemoryPageBytes);
    }
    for (QueueOffsets& queue : queues) queue.overdue = take(uint64_t{completion_size} * sizeof(uint32_t), kLineBytes);
    bytes = ceil_div(bytes, storage::kMemoryPageBytes) * storage::kMemoryPageBytes;
  }

  [[nodiscard]] std::vector<QueueView> views(char* base) const {
    std::vector<QueueView> all;
    for (const QueueOffsets& queue : queues)
      all.push_back({reinterpret_cast<storage::SubmissionEntry*>(base + queue.submissions),
                     reinterpret_cast<storage::CompletionEntry*>(base + queue.completions),
                     reinterpret_cast<uint32_t*>(base + queue.submission_doorbell),
                     reinterpret_cast<uint32_t*>(base + queue.completion_doorbell), submission_size, completion_size});
    return all;
  }

 private:
  uint64_t take(uint64_t count, uint64_t align) {
    const uint64_t at = ceil_div(bytes, align) * align;
    bytes = at + count;
    return at;
  }
};

}  // namespace hinterland::native
