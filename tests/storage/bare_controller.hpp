// An NVMe controller in software behind registers, for tests of the driver of bare devices (native/storage/nvme_device.hpp):
// what QEMU's does not do by itself. Its memory is the process's, by the same addresses.
#pragma once

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "check.hpp"
#include "hinterland/core/system.hpp"
#include "storage/pci_device.hpp"
#include "storage/request.hpp"

namespace test {

using native::StorageError;

// What a controller says of itself.
struct Says {
  uint32_t entries = 64;  // of a ring, at most
  uint32_t stride = 0;    // of doorbells: 4 << stride bytes
  uint32_t page = 0;      // the smallest memory page: 4096 << page bytes
  uint16_t queues = 4;
  uint8_t most = 0;     // a command moves 4096 << most bytes; 0: any number
  uint8_t shift = 9;    // of blocks
  uint16_t beside = 0;  // bytes beside each block
  bool aborts = true;   // commands, when it is told to
};

// What a command meets: the status with which it fails; kSuccess, and it is served; or kNever, and it is never answered.
using Fate = std::function<uint16_t(const SubmissionEntry&, bool is_admin)>;
inline constexpr uint16_t kNever = 0xffff;
inline uint16_t as_ever(const SubmissionEntry&, bool) { return kSuccess; }

class BareController : public native::PciDevice {
 public:
  static constexpr uint64_t kBytes = 4 << 20;

  explicit BareController(const Says& says, Fate fate = as_ever)
      : disk(kBytes), says_(says), fate_(std::move(fate)), registers_(0x6000 / 4) {
    set(0x00, (says.entries - 1) | 1 << 24);  // half a second to switch on
    set(0x04, says.stride | 1 << 5 | says.page << 16);
    thread_ = std::thread([this] {
      while (!stops_) turn(), std::this_thread::yield();
    });
  }
  ~BareController() override {
    stops_ = true;
    thread_.join();
    CHECK(mapped_.empty(), "memory that is still the device's");
    if (left != nullptr) *left = shut_down_;
  }

  std::span<char> registers() override { return {reinterpret_cast<char*>(registers_.data()), registers_.size() * 4}; }
  uint64_t map(std::span<char> memory) override {
    const std::lock_guard held(guard_);
    CHECK(reinterpret_cast<uint64_t>(memory.data()) % 4096 == 0 && memory.size() % 4096 == 0, "no whole pages");
    if (memory.size() > lockable) throw StorageError("the limit of locked memory");
    mapped_[reinterpret_cast<uint64_t>(memory.data())] = memory.size();
    return reinterpret_cast<uint64_t>(memory.data());
  }
  void unmap(uint64_t address, uint64_t) noexcept override {
    const std::lock_guard held(guard_);
    mapped_.erase(address);
  }
  void cut_off() noexcept override { is_cut_off = true; }

  // It has failed, and comes back when it is switched off and on, or does not.
  void fail(bool for_good) {
    sticks = for_good;
    fails_ = true;
  }
  // It is not there any more: all that is read is ones.
  void remove() { removed_ = true; }

  std::vector<char> disk;
  std::atomic<uint64_t> lockable = ~uint64_t{0};
  std::atomic<bool> sticks = false;  // does not switch on or off
  std::atomic<bool> is_cut_off = false;
  std::atomic<uint64_t> largest = 0, commands = 0, flushes = 0;  // bytes of one; those of I/O queues
  bool* left = nullptr;                                          // is told at the end whether it was shut down in order

 private:
  struct Queue {
    SubmissionEntry* submissions;
    CompletionEntry* completions;
    uint32_t size;
    uint64_t read = 0, posted = 0;
  };

  uint32_t get(size_t at) { return system_load_acquire(registers_[at / 4]); }
  void set(size_t at, uint32_t value) { system_store_release(registers_[at / 4], value); }

  void turn() {
    const uint32_t wanted = get(0x14);
    if (removed_) return registers_all_ones();
    if (fails_.exchange(false)) set(0x1c, get(0x1c) | 2);
    if ((wanted >> 14 & 3) == 1) shut_down_ = true, set(0x1c, (get(0x1c) & ~12u) | 8);
    if ((wanted & 1) == 0 && !sticks) queues_.clear(), held_.clear(), set(0x1c, 0);
    if ((wanted & 1) != 0 && !sticks && get(0x1c) == 0) switch_on();
    if ((get(0x1c) & 3) != 1) return;
    for (auto& [number, queue] : queues_) read(number, queue);
    queues_.merge(created_);
  }

  void registers_all_ones() {
    for (size_t at = 0; at < 0x1000; at += 4) set(at, ~0u);
  }

  void switch_on() {
    const auto address = [&](size_t at) { return get(at) | uint64_t{get(at + 4)} << 32; };
    CHECK((get(0x24) & 0xfff) < says_.entries && (get(0x24) >> 16) < says_.entries, "a ring too large");
    queues_[0] = {reinterpret_cast<SubmissionEntry*>(address(0x28)), reinterpret_cast<CompletionEntry*>(address(0x30)),
                  (get(0x24) & 0xfff) + 1};
    // As if its queues had never been.
    for (size_t at = 0x1000; at < registers_.size() * 4; at += 4) set(at, 0);
    shut_down_ = false;
    set(0x1c, 1);
  }

  size_t doorbell(uint16_t number, bool completions) const {
    return 0x1000 + ((2 * size_t{number} + completions) * 4 << says_.stride);
  }

  void read(uint16_t number, Queue& queue) {
    const uint32_t tail = get(doorbell(number, false));
    for (; (queue.read & (queue.size - 1)) != tail && (get(0x1c) & 3) == 1; ++queue.read) {
      const SubmissionEntry entry = queue.submissions[queue.read & (queue.size - 1)];
      const uint16_t status = fate_(entry, number == 0);
      if (status == kNever)
        held_.emplace_back(number, entry.identifier);
      else if (status != kSuccess)
        complete(number, queue, entry.identifier, status, 0, 1);
      else
        number == 0 ? administrate(queue, entry) : serve(number, queue, entry);
    }
  }

  // `behind`: whether the entry at hand does not count as read yet.
  void complete(uint16_t number, Queue& queue, uint16_t identifier, uint16_t status, uint32_t result, uint64_t behind) {
    CompletionEntry& entry = queue.completions[queue.posted & (queue.size - 1)];
    const uint32_t phase = phase_at(queue.posted++, queue.size), head = (queue.read + behind) & (queue.size - 1);
    system_store(entry.result, result);
    system_store(entry.queue, head | uint32_t{number} << 16);
    system_store_release(entry.last, identifier | phase << 16 | uint32_t{status} << 17);
  }

  void administrate(Queue& queue, const SubmissionEntry& entry) {
    const auto word10 = static_cast<uint32_t>(entry.first_block), word11 = static_cast<uint32_t>(entry.first_block >> 32);
    const auto number = static_cast<uint16_t>(word10);
    uint32_t result = 0;
    if (entry.opcode == 0x06) identify(reinterpret_cast<char*>(entry.prp1), word10, entry.namespace_id);
    if (entry.opcode == 0x09) result = (says_.queues - 1) * 0x10001u;
    if (entry.opcode == 0x05) completions_[number] = reinterpret_cast<CompletionEntry*>(entry.prp1);
    if (entry.opcode == 0x01) {
      CHECK(word10 >> 16 < says_.entries, "a ring too large");
      CHECK(number <= says_.queues && word11 == (number << 16 | 1u), "queue %u", number);
      for (const bool completions : {false, true}) set(doorbell(number, completions), 0);  // whatever was written before
      created_[number] = {reinterpret_cast<SubmissionEntry*>(entry.prp1), completions_.at(number), (word10 >> 16) + 1};
    }
    if (entry.opcode == 0x00) {
      CHECK(queues_.erase(number) == 1, "no submission queue %u", number);
      std::erase_if(held_, [&](const auto& one) { return one.first == number; });
    }
    if (entry.opcode == 0x04) CHECK(completions_.erase(number) == 1, "no completion queue %u", number);
    if (entry.opcode == 0x08) result = abort(number, static_cast<uint16_t>(word10 >> 16)) ? 0 : 1;
    complete(0, queue, entry.identifier, kSuccess, result, 1);
  }

  void identify(char* to, uint32_t what, uint32_t number) const {
    std::memset(to, 0, 4096);
    const uint64_t blocks = number == 1 ? kBytes >> says_.shift : 0;
    const uint32_t format = says_.beside | uint32_t{says_.shift} << 16;
    if (what == 1) return static_cast<void>(to[77] = static_cast<char>(says_.most));
    std::memcpy(to, &blocks, 8);
    to[26] = 3;
    std::memcpy(to + 128 + 4 * 3, &format, 4);
  }

  bool abort(uint16_t number, uint16_t identifier) {
    const auto found = std::find(held_.begin(), held_.end(), std::pair(number, identifier));
    if (!says_.aborts || found == held_.end()) return false;
    held_.erase(found);
    complete(number, queues_[number], identifier, kAbortRequested, 0, 0);
    return true;
  }

  void serve(uint16_t number, Queue& queue, const SubmissionEntry& entry) {
    native::Request request{};
    request.entry = entry;
    const uint64_t unit = uint64_t{1} << says_.shift;
    // decode() knows blocks of 512 bytes.
    request.entry.first_block = entry.first_block * (unit / 512);
    request.entry.last_block = static_cast<uint16_t>((entry.last_block + 1) * (unit / 512) - 1);
    std::vector<native::Region> regions;
    {
      const std::lock_guard held(guard_);
      for (const auto& [base, bytes] : mapped_) regions.push_back({base, bytes});
    }
    const uint16_t status = native::decode(request, kBytes / 512, regions);
    CHECK(status == kSuccess, "status %03x", status);
    largest = std::max<uint64_t>(largest, request.bytes);
    ++commands;
    flushes += entry.opcode == static_cast<uint8_t>(Opcode::kFlush);
    char* at = disk.data() + request.offset;
    for (uint32_t i = 0; i < request.run_count; at += request.runs[i++].bytes)
      entry.opcode == static_cast<uint8_t>(Opcode::kRead) ? std::memcpy(request.runs[i].memory, at, request.runs[i].bytes)
                                                          : std::memcpy(at, request.runs[i].memory, request.runs[i].bytes);
    complete(number, queue, entry.identifier, kSuccess, 0, 1);
  }

  const Says says_;
  const Fate fate_;
  std::vector<uint32_t> registers_;
  std::mutex guard_;
  std::map<uint64_t, uint64_t> mapped_;
  std::map<uint16_t, CompletionEntry*> completions_;
  std::map<uint16_t, Queue> queues_, created_;
  std::vector<std::pair<uint16_t, uint16_t>> held_;  // queue and identifier
  bool shut_down_ = false;
  std::atomic<bool> stops_ = false, fails_ = false, removed_ = false;
  std::thread thread_;
};

}  // namespace test
