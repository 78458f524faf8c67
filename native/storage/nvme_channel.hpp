// Transfers through one queue pair of a bare NVMe device, by a thread or by several that share it.
//
// A transfer has one command at a time, for as much as the device takes at once. Its data goes straight to and from memory that
// the device knows, and otherwise through pages of the channel. While none of those is free, or the queue is full, it waits for
// its turn.
#pragma once

#include <chrono>
#include <deque>
#include <mutex>
#include <vector>

#include "storage/nvme_controller.hpp"
#include "storage/transfers.hpp"

namespace hinterland::native {

// A transfer on its way.
struct NvmeMove {
  Transfer transfer;
  storage::Opcode opcode;
  uint64_t address;               // of its memory for the device; 0 where that does not know it
  std::vector<NvmeMove*>* ended;  // where its end is told
  int32_t result;                 // then: as Ended has it
  uint32_t done, now;             // bytes that are moved, and those of its command
  unsigned tries;                 // in vain, of that command
  std::vector<uint32_t> pages;    // that the command has of the channel's, in the order of the data
};

// Calls are made with the guard held.
class NvmeChannel {
 public:
  using Clock = std::chrono::steady_clock;

  // Over the controller's queue pair of this number, which is to be created. A command that takes longer than `patience` is
  // overdue.
  NvmeChannel(PciDevice& device, const NvmeController& controller, const storage::BlockRange& blocks, uint16_t number,
              Clock::duration patience);
  NvmeChannel(const NvmeChannel&) = delete;
  NvmeChannel& operator=(const NvmeChannel&) = delete;

  // The move stays where it is until its end is told.
  void begin(NvmeMove& move);
  // Has what the device has ended end, and what waits for its turn begin.
  void serve();

  // Gives up what is past its time. Its memory stays the device's until that has answered, late, or was switched off.
  void expire();
  struct Overdue {
    NvmeMove* move;
    uint16_t identifier;  // of its command
  };
  [[nodiscard]] const std::vector<Overdue>& overdue() const { return overdue_; }

  // Around switching the device off and on: what had taken too long ends, and all else begins anew.
  void close();
  void reopen();
  // The device does not come back: all ends with an error, from now on.
  void fail(int error);

  std::mutex guard;
  const uint16_t number;
  NvmeQueue queue;
  unsigned users = 0;
  Clock::time_point looked_after;

 private:
  void begin_waiting();
  bool try_submit(NvmeMove& move);
  void copy(const NvmeMove& move, bool writes) const;
  void leave_pages(NvmeMove& move);
  void hear(const storage::CompletionReport& report);
  void end_command(NvmeMove& move, uint16_t status);
  void again(NvmeMove& move);
  static void end(NvmeMove& move, int32_t result);
  auto hearing() {
    return [this](const storage::CompletionReport& report) { hear(report); };
  }

  const storage::BlockRange blocks_;
  const uint64_t most_bytes_;
  const Clock::duration patience_;
  DeviceMemory lists_, pages_;  // of PRPs, by identifier; and where data is put that lies elsewhere
  std::vector<uint32_t> free_pages_;
  std::deque<NvmeMove*> waiting_;  // for their turn
  std::vector<Overdue> overdue_;
  std::vector<NvmeMove*> cut_short_;  // by close()
  int failed_ = 0;
};

}  // namespace hinterland::native
