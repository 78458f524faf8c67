// A real NVMe controller, driven from here: switched on and off, asked what it is, and given queues. NVM Express base
// specification, revision 1.4: registers in section 3.1, admin commands in section 5, switching on in 7.6.1 and off in 7.6.2.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "storage/nvme_queue.hpp"

namespace hinterland::native {

class NvmeController {
 public:
  // Switched on. `name` is for sentences. StorageError where that fails, or it cannot do what is needed here.
  NvmeController(PciDevice& device, std::string name, std::chrono::nanoseconds patience);
  ~NvmeController();  // told to shut down, and switched off
  NvmeController(const NvmeController&) = delete;
  NvmeController& operator=(const NvmeController&) = delete;

  // Switched off, and on again: its queues are gone, and it touches none of their memory.
  void restart();
  // It has given up by itself, or does not answer at all.
  [[nodiscard]] bool failed() const;

  // Blocks of a namespace. StorageError where there is none of that number, or its blocks are not from 512 to 4096 bytes
  // without anything beside them.
  storage::BlockRange namespace_blocks(uint32_t number);
  // I/O queues are numbered from 1 to most_queues().
  void create_queue(uint16_t number, const RingAddresses& rings);
  // It touches none of the queue's memory any more, nor of that which commands named (section 5.6).
  void delete_queue(uint16_t number);
  [[nodiscard]] Doorbells doorbells(uint16_t number) const;
  // Of all queues: whole pages.
  [[nodiscard]] std::span<char> all_doorbells() const;
  // Tells it to abort a command. True: it has, and will complete it as aborted.
  bool abort(uint16_t queue, uint16_t identifier);

  [[nodiscard]] uint16_t most_queues() const { return most_queues_; }
  [[nodiscard]] uint32_t most_entries() const;  // of a ring
  // That one command may move: a power of two.
  [[nodiscard]] uint64_t most_bytes() const { return most_bytes_; }

 private:
  [[nodiscard]] uint32_t read(uint32_t at) const;
  void write(uint32_t at, uint32_t value) const;
  void require_usable() const;
  void switch_on();
  void switch_off();
  void wait_for(uint32_t mask, uint32_t value, const char* what) const;
  uint32_t run(const storage::SubmissionEntry& entry, const char* what);
  const char* identify(uint32_t what, uint32_t number);

  const std::string name_;
  const std::chrono::nanoseconds patience_;  // with an admin command
  const std::span<char> registers_;
  const uint64_t capabilities_;
  std::mutex guard_;  // of the admin queue
  NvmeQueue admin_;
  DeviceMemory told_;  // by Identify
  uint16_t most_queues_ = 0;
  uint64_t most_bytes_ = 0;
};

}  // namespace hinterland::native
