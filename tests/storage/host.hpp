// One who uses a controller's queue by hand, a thread at a time: memory, entries and doorbells, and nothing that keeps
// him right.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "served_controller.hpp"
#include "storage/queue_memory.hpp"

namespace test {

using native::QueueView;
using native::Region;

struct alignas(4096) MemoryPage {
  uint8_t bytes[4096];
};

inline uint64_t address(const void* memory) { return reinterpret_cast<uint64_t>(memory); }

struct Ending {
  uint16_t identifier, status;
};

// The memory of some queue pairs, and of what is read and written by them.
struct HostMemory {
  HostMemory(uint32_t queues, uint32_t size, size_t data_pages)
      : layout(queues, size, size), rings(layout.bytes / 4096), data(data_pages), views(layout.views(base())) {}

  char* base() { return reinterpret_cast<char*>(rings.data()); }
  uint8_t* at(uint64_t byte) { return reinterpret_cast<uint8_t*>(data.data()) + byte; }
  std::vector<Region> regions() const { return {{address(data.data()), data.size() * sizeof(MemoryPage)}}; }

  native::QueueLayout layout;
  std::vector<MemoryPage> rings, data;
  std::vector<QueueView> views;
};

class Host {
 public:
  explicit Host(const QueueView& view) : view_(view) {}

  // A command over memory in one piece; `list`, three pages or more, is where its PRP list may lie.
  static SubmissionEntry command(Opcode opcode, uint64_t first, uint64_t blocks, const void* memory, uint64_t* list = nullptr) {
    SubmissionEntry entry{};
    entry.opcode = static_cast<uint8_t>(opcode);
    entry.namespace_id = native::kNamespaceId;
    entry.first_block = first;
    entry.last_block = static_cast<uint16_t>(blocks - 1);
    if (opcode == Opcode::kFlush) return entry;
    entry.prp1 = address(memory);
    const uint64_t second = (entry.prp1 / 4096 + 1) * 4096, end = entry.prp1 + blocks * 512;
    if (end > second) entry.prp2 = second;
    if (end <= second + 4096) return entry;
    entry.prp2 = address(list);
    for (uint64_t page = second; page < end; page += 4096) *list++ = page;
    return entry;
  }

  void put(const SubmissionEntry& given) {
    SubmissionEntry entry = given;
    entry.identifier = static_cast<uint16_t>(tail_ & (view_.completion_size - 1));
    view_.submissions[tail_++ & (view_.submission_size - 1)] = entry;
  }
  void ring() { system_store_release(*view_.submission_doorbell, static_cast<uint32_t>(tail_) & (view_.submission_size - 1)); }

  bool poll(Ending& ending) {
    CompletionEntry& entry = view_.completions[head_ & (view_.completion_size - 1)];
    const uint32_t last = system_load_acquire(entry.last);
    if (phase_of(last) != phase_at(head_, view_.completion_size)) return false;
    ending = {static_cast<uint16_t>(identifier_of(last)), status_of(last)};
    system_store_release(*view_.completion_doorbell, static_cast<uint32_t>(++head_) & (view_.completion_size - 1));
    return true;
  }

  // Does one command, with whoever `step` has serve it.
  template <class Step>
  uint16_t run(const SubmissionEntry& entry, const Step& step) {
    put(entry);
    ring();
    Ending ending;
    while (!poll(ending)) step();
    CHECK(ending.identifier == ((tail_ - 1) & (view_.completion_size - 1)), "another's completion");
    return ending.status;
  }

 private:
  QueueView view_;
  uint64_t tail_ = 0, head_ = 0;
};

using native::Namespace;
using native::Timing;

inline constexpr uint64_t kBlocks = 2048;

// A namespace in memory, and what it has at first.
struct Disk {
  Disk() : bytes(kBlocks * 512) {
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i / 512 * 31 + i * 7);
  }
  std::shared_ptr<Namespace> behind(const Timing& timing = native::kNoDelay) {
    return std::make_unique<native::MemoryNamespace>(reinterpret_cast<char*>(bytes.data()), bytes.size(), timing);
  }
  std::shared_ptr<Namespace> behind(const Faults& faults, uint64_t seed) {
    return std::make_unique<native::FaultyNamespace>(behind(), faults, seed);
  }
  std::vector<uint8_t> bytes;
};

// A queue that the test serves itself.
struct ByHand {
  explicit ByHand(std::shared_ptr<Namespace> behind, uint32_t size = 8)
      : memory(1, size, 64),
        blocks(std::move(behind)),
        serving({{memory.views[0], 0}}, memory.regions(), *blocks),
        host(memory.views[0]) {}

  uint16_t run(const SubmissionEntry& entry) {
    return host.run(entry, [&] { serving.turn(++now); });
  }
  uint64_t* list() { return reinterpret_cast<uint64_t*>(memory.at(63 * 4096)); }

  HostMemory memory;
  std::shared_ptr<Namespace> blocks;
  native::Serving serving;
  Host host;
  uint64_t now = 0;
};

}  // namespace test
