#include "storage/nvme_transfers.hpp"

#include <algorithm>
#include <cerrno>
#include <thread>

#include "core/thresholds.hpp"

namespace hinterland::native {

using storage::kMemoryPageBytes, storage::Opcode;

NvmeTransfers::NvmeTransfers(NvmeDevice& device, unsigned depth)
    : device_(device), depth_(depth), channel_(device.take_channel()), moves_(depth) {
  for (NvmeMove& move : moves_) free_.push_back(&move);
}

NvmeTransfers::~NvmeTransfers() {
  drain();
  for (const Kept& one : kept_) device_.let_go(one.address);
  device_.leave_channel(channel_);
}

bool NvmeTransfers::try_begin(const Transfer& transfer) {
  return begin(transfer, transfer.writes ? Opcode::kWrite : Opcode::kRead);
}

bool NvmeTransfers::begin(const Transfer& transfer, Opcode opcode) {
  if (free_.empty()) return false;
  NvmeMove& move = *free_.back();
  move.transfer = transfer;
  // As of a file: a read gets what is there.
  const uint64_t most = device_.bytes() - std::min(device_.bytes(), transfer.offset);
  if (opcode == Opcode::kRead) move.transfer.bytes = static_cast<uint32_t>(std::min<uint64_t>(transfer.bytes, most));
  move.opcode = opcode;
  move.address = address_of(transfer);
  move.ended = &ended_;
  move.done = move.tries = 0;
  free_.pop_back();
  const std::lock_guard held(channel_.guard);
  channel_.begin(move);
  return true;
}

// For the device; 0 if it does not know that memory, or cannot begin there.
uint64_t NvmeTransfers::address_of(const Transfer& transfer) const {
  for (const auto& [memory, address] : kept_)
    if (transfer.memory >= memory.data() && transfer.memory + transfer.bytes <= memory.data() + memory.size() &&
        (transfer.memory - memory.data()) % 4 == 0)
      return address + static_cast<uint64_t>(transfer.memory - memory.data());
  return 0;
}

size_t NvmeTransfers::poll(std::span<Ended> to) {
  device_.serve(channel_);
  const std::lock_guard held(channel_.guard);
  const size_t count = std::min(to.size(), ended_.size());
  for (size_t i = 0; i < count; ++i) {
    to[i] = {ended_[i]->transfer.user, ended_[i]->result};
    free_.push_back(ended_[i]);
  }
  ended_.erase(ended_.begin(), ended_.begin() + static_cast<ptrdiff_t>(count));
  return count;
}

// The device has no way to wake anybody here. What answers soon finds the thread awake.
void NvmeTransfers::wait(std::chrono::nanoseconds most, unsigned enough) {
  if (in_flight() < enough) return;
  for (const auto begun = NvmeChannel::Clock::now();;) {
    device_.serve(channel_);
    {
      const std::lock_guard held(channel_.guard);
      if (ended_.size() >= enough) return;
    }
    const auto waited = NvmeChannel::Clock::now() - begun;
    if (waited >= most) return;
    waited < kTransferAwake ? std::this_thread::yield() : std::this_thread::sleep_for(kTransferNap);
  }
}

void NvmeTransfers::keep(std::span<char> memory) {
  // Whole pages of it. Where the process may not lock so much, transfers are as before.
  const uint64_t before = -reinterpret_cast<uint64_t>(memory.data()) % kMemoryPageBytes;
  if (memory.size() < before + kMemoryPageBytes) return;
  const std::span<char> pages = memory.subspan(before, (memory.size() - before) / kMemoryPageBytes * kMemoryPageBytes);
  try {
    kept_.push_back({pages, device_.keep(pages)});
  } catch (const StorageError&) {
  }
}

int NvmeTransfers::flush() {
  begin({}, Opcode::kFlush);
  Ended ended{};
  while (poll({&ended, 1}) == 0) wait(std::chrono::milliseconds(1), 1);
  return -ended.result;
}

}  // namespace hinterland::native
