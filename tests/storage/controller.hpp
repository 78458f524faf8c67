// A device in software, for tests of queues: it sees what a device sees (the rings, two doorbells, memory by the addresses that
// commands name) and nothing of the host's own words. By a seed it answers late, out of order, with errors after half of the
// data, not at all, or is removed.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <unordered_set>
#include <vector>

#include "check.hpp"
#include "hinterland/storage/queue.hpp"

namespace test {

inline constexpr uint32_t kBlockBytes = 512, kNamespace = 7;

// How many commands of a thousand meet each fault.
struct Faults {
  unsigned retryable = 0, fatal = 0, late = 0, lost = 0;
  unsigned fatal_writes = 0;
  bool reorder = false;
  uint64_t removed_after = ~uint64_t{0};  // commands
};

class Controller {
 public:
  static constexpr uint64_t kLateTurns = 1500;

  Controller(const QueuePair& seen, uint64_t blocks, const Faults& faults, uint64_t seed)
      : disk(blocks * kBlockBytes),
        submissions_(seen.submissions),
        completions_(seen.completions),
        submission_doorbell_(seen.submission_doorbell),
        completion_doorbell_(seen.completion_doorbell),
        submission_size_(seen.submission_size),
        completion_size_(seen.completion_size),
        faults_(faults),
        random_(seed),
        identifier_held_(65536) {}

  // The clock of the tests: it goes on as fast as the device does.
  uint64_t now() const { return turns_.load(std::memory_order_relaxed); }
  bool gone() const { return gone_.load(std::memory_order_relaxed); }
  void stop() { stopped_ = true; }

  void run() {
    while (!stopped_ && !gone()) {
      if (!turn()) std::this_thread::yield();
    }
  }

  // True if anything was done.
  bool turn() {
    const std::lock_guard<std::mutex> guard(mutex_);
    const bool read = read_entries(), answered = answer();
    turns_.fetch_add(1, std::memory_order_relaxed);
    return read || answered;
  }

  enum class Fate { kDropped, kPosted, kUnread };

  // What a device's Abort command tells: after kDropped, the command will neither touch memory nor complete.
  Fate abort(uint64_t serial) {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (known_.count(serial) == 0) return Fate::kUnread;
    const auto held = std::find_if(held_.begin(), held_.end(), [&](const Held& h) { return h.entry.metadata == serial; });
    if (held == held_.end()) return Fate::kPosted;
    identifier_held_[held->entry.identifier] = false;
    held_.erase(held);
    return Fate::kDropped;
  }

  // From now on nothing fails.
  void mend() {
    const std::lock_guard<std::mutex> guard(mutex_);
    faults_ = Faults{};
  }

  bool sealed = true;   // commands carry a serial number and a checksum
  unsigned spread = 0;  // log2 of how far numbers of blocks lie apart
  std::vector<uint8_t> disk;
  Controller* disk_of = this;     // which has the disk: several queues may lead to one
  std::vector<uint8_t> flushed;   // what the disk had as it was last flushed
  uint64_t read = 0, posted = 0;  // when it has stopped

 private:
  struct Held {
    SubmissionEntry entry;
    uint64_t due;
    uint16_t status;
    bool lost;
  };

  unsigned draw(unsigned below) { return static_cast<unsigned>(random_() % below); }

  bool read_entries() {
    const uint32_t tail = system_load_acquire(*submission_doorbell_);
    CHECK(tail < submission_size_, "doorbell %u of %u", tail, submission_size_);
    const uint64_t before = read;
    for (unsigned most = draw(64); (read & (submission_size_ - 1)) != tail && most > 0; --most) {
      if (read >= faults_.removed_after) return remove(), true;
      take(submissions_[read++ & (submission_size_ - 1)]);
    }
    return read != before;
  }

  void take(const SubmissionEntry& entry) {
    CHECK(!sealed || entry.reserved == seal(entry), "entry %llu is not as it was written",
          static_cast<unsigned long long>(read));
    CHECK(entry.identifier < completion_size_ - 1, "identifier %u", entry.identifier);
    CHECK(!identifier_held_[entry.identifier], "identifier %u is in flight twice", entry.identifier);
    CHECK(!sealed || known_.insert(entry.metadata).second, "a command was read twice");
    identifier_held_[entry.identifier] = true;
    Held held{entry, now() + draw(8), kSuccess, false};
    unsigned fault = draw(1000);
    const auto meets = [&](unsigned of) { return fault < of ? fault = 1000, true : (fault -= of, false); };
    if (meets(faults_.retryable)) held.status = draw(2) != 0 ? kInternalError : kNamespaceNotReady;
    if (meets(faults_.fatal)) held.status = kDoNotRetry | (draw(2) != 0 ? kUnrecoveredReadError : kWriteFault);
    if (entry.opcode == static_cast<uint8_t>(Opcode::kWrite) && meets(faults_.fatal_writes))
      held.status = kDoNotRetry | kWriteFault;
    if (meets(faults_.late)) held.due += draw(2 * kLateTurns);
    if (meets(faults_.lost)) held.lost = true;
    held_.push_back(held);
  }

  bool answer() {
    bool any = false;
    for (unsigned most = 1 + draw(16); most > 0 && !held_.empty(); --most) {
      const size_t first = faults_.reorder ? draw(static_cast<unsigned>(held_.size())) : 0;
      size_t i = first;
      while (i < held_.size() && (held_[i].lost || held_[i].due > now())) ++i;
      if (i == held_.size()) continue;
      if (((posted + 1) & (completion_size_ - 1)) == system_load_acquire(*completion_doorbell_)) return any;  // no room
      const Held held = held_[i];
      held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
      move_data(held.entry, held.status != kSuccess);
      post(held);
      any = true;
    }
    return any;
  }

  // As a device goes by PRPs. `half`: only every other block.
  void move_data(const SubmissionEntry& entry, bool half) {
    CHECK(entry.namespace_id == kNamespace && entry.flags == 0, "entry");
    if (entry.opcode == static_cast<uint8_t>(Opcode::kFlush)) {
      flushed = disk_of->disk;
      return;
    }
    const bool write = entry.opcode == static_cast<uint8_t>(Opcode::kWrite);
    CHECK(write || entry.opcode == static_cast<uint8_t>(Opcode::kRead), "opcode %u", entry.opcode);
    const uint64_t bytes = (uint64_t{entry.last_block} + 1) * kBlockBytes;
    CHECK(entry.first_block >= kBase, "block");
    std::vector<uint8_t>& disk = disk_of->disk;
    uint8_t* disk_at = &disk[((entry.first_block - kBase) >> spread) * kBlockBytes];
    CHECK(disk_at + bytes <= disk.data() + disk.size(), "blocks");
    CHECK(entry.prp1 % 4 == 0, "PRP1");
    const uint64_t pages = (entry.prp1 % 4096 + bytes + 4095) / 4096;
    const uint64_t* list = pages == 2 ? &entry.prp2 : reinterpret_cast<const uint64_t*>(entry.prp2);
    CHECK(pages <= 2 || entry.prp2 % 8 == 0, "the list's address");
    CHECK(pages <= 2 || entry.prp2 % 4096 + 8 * (pages - 1) <= 4096, "the list crosses a page");
    for (uint64_t i = 0, done = 0; i < pages; ++i) {
      const uint64_t page = i == 0 ? entry.prp1 : list[i - 1], within = std::min(bytes - done, 4096 - page % 4096);
      CHECK(i == 0 || page % 4096 == 0, "a PRP has an offset");
      copy(reinterpret_cast<uint8_t*>(page), disk_at + done, within, write, half, done);
      done += within;
    }
  }

  static void copy(uint8_t* memory, uint8_t* disk, uint64_t bytes, bool write, bool half, uint64_t position) {
    for (uint64_t i = 0; i < bytes;) {
      const uint64_t run = std::min(bytes - i, half ? kBlockBytes - (position + i) % kBlockBytes : bytes);
      const bool skip = half && (position + i) / kBlockBytes % 2 != 0;
      if (!skip && write) std::memcpy(disk + i, memory + i, run);
      if (!skip && !write) std::memcpy(memory + i, disk + i, run);
      i += run;
    }
  }

  // The words before the last arrive in any way.
  void post(const Held& held) {
    CompletionEntry& entry = completions_[posted & (completion_size_ - 1)];
    const uint32_t phase = phase_at(posted, completion_size_);
    system_store(entry.queue, static_cast<uint32_t>(random_()));
    if (draw(8) == 0) std::this_thread::yield();
    system_store(entry.result, static_cast<uint32_t>(random_()));
    system_store(entry.queue, static_cast<uint32_t>(read & (submission_size_ - 1)) | 1u << 16);
    identifier_held_[held.entry.identifier] = false;
    system_store_release(entry.last, held.entry.identifier | phase << 16 | uint32_t{held.status} << 17);
    ++posted;
  }

  // In the middle of what it did.
  void remove() {
    if (!held_.empty() && !held_[0].lost) move_data(held_[0].entry, true);
    gone_ = true;
  }

  SubmissionEntry* submissions_;
  CompletionEntry* completions_;
  uint32_t *submission_doorbell_, *completion_doorbell_;
  uint32_t submission_size_, completion_size_;
  Faults faults_;
  std::mt19937_64 random_;
  std::atomic<uint64_t> turns_ = 0;
  std::atomic<bool> stopped_ = false, gone_ = false;
  std::mutex mutex_;
  std::vector<Held> held_;
  std::vector<bool> identifier_held_;
  std::unordered_set<uint64_t> known_;
};

}  // namespace test
