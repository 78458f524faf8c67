// What a controller in software is given, and how it reads a command: queue pairs as a device sees them, the memory that
// commands may name, and a command taken apart.
#pragma once

#include <cstdint>
#include <span>

#include "hinterland/storage/nvme.hpp"

namespace hinterland::native {

inline constexpr uint32_t kNamespaceId = 1;
inline constexpr uint32_t kBlockBytes = 512;
inline constexpr uint64_t kMostLine = 65536;  // of a cache: its last one is read whole

// A queue pair as its device sees it. The doorbells are words of ordinary memory.
struct QueueView {
  storage::SubmissionEntry* submissions;
  storage::CompletionEntry* completions;
  uint32_t* submission_doorbell;
  uint32_t* completion_doorbell;
  uint32_t submission_size;  // powers of two from 2 to 65536
  uint32_t completion_size;
};

// Memory that PRPs and their lists may lie in.
struct Region {
  uint64_t base, bytes;

  [[nodiscard]] bool holds(uint64_t address, uint64_t count) const {
    return address >= base && address - base <= bytes && count <= bytes - (address - base);
  }
};

// Memory that lies in one piece, whatever pages it was named by.
struct MemoryRun {
  char* memory;
  uint64_t bytes;
};

inline constexpr uint32_t kMostRuns = storage::kPrpListEntries + 1;  // 64 KiB that begin within a page

// A command on its way through a controller's thread. Its place never moves, and is used again when the command is over.
struct Request {
  storage::SubmissionEntry entry;  // as it was read
  storage::Opcode opcode;
  uint16_t status;
  uint32_t queue;          // among those of the thread
  uint32_t index;          // among the thread's requests
  bool taken;              // between being read and its completion
  uint64_t offset, bytes;  // in the namespace
  uint32_t run_count;
  MemoryRun runs[kMostRuns];
  Request* next;  // in whichever list it is
  uint64_t picked_up, submitted, ended;

  // What the backend notes.
  uint64_t due;
  uint32_t parts;  // transfers in flight
  uint32_t run;    // how far they have been begun: in this run,
  uint64_t at;     // up to here in it,
  uint64_t done;   // and this much in all
  bool direct;
};

// The first error of a request counts.
inline void fail(Request& request, uint16_t status) {
  if (request.status == storage::kSuccess) request.status = status;
}

// Requests in a row.
class RequestList {
 public:
  [[nodiscard]] Request* first() const { return first_; }

  void push(Request& request) {
    request.next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = &request;
    last_ = &request;
  }

  Request* pop() {
    Request* const popped = first_;
    if (popped != nullptr) first_ = popped->next;
    return popped;
  }

 private:
  Request *first_ = nullptr, *last_ = nullptr;
};

// Takes the request's entry apart for a namespace of so many blocks. Whatever is wrong with it is the status, and then nothing
// that it names was touched.
uint16_t decode(Request& request, uint64_t blocks, std::span<const Region> regions);

// Leaves of a request only `count` blocks from `first` on.
void trim(Request& request, uint64_t first, uint64_t count);

}  // namespace hinterland::native
