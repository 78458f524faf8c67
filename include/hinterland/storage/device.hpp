// The cache's device behind a queue pair: a page is a run of blocks, and moves between them and a slot's frame.
//
// A slot has one transfer at most, so its number and the direction are all that has to come back with a completion, and the
// PRPs of a slot are always the same: lists, where a line is longer than two memory pages, are written once.
//
// Who waits for a page calls poll(), and after a while expire(). A command that was given up leaves its line failed, but the
// slot is not used again before the device has answered.
#pragma once

#include "hinterland/storage/cache.hpp"
#include "hinterland/storage/queue.hpp"

namespace hinterland::storage {

template <class CacheType>
struct PageDevice {
  CacheType cache;
  QueuePair queue;
  BlockRange blocks;        // page 0 begins at the first, a line is a whole number of them, and no page lies outside
  PrpList* lists;           // [slots], if a line is longer than two memory pages
  uint64_t frames_address;  // of the frames as the device sees them: the beginning of a memory page
  uint64_t lists_address;
  uint64_t deadline;  // of what is asked for, in ns of the caller's clock

  // Once for each slot.
  HINTERLAND_FN void prepare(int64_t slot) const {
    if (line() <= 2 * kMemoryPageBytes) return;
    for (uint64_t i = 1; i < line() / kMemoryPageBytes; ++i) lists[slot].pages[i - 1] = frame(slot) + i * kMemoryPageBytes;
  }

  HINTERLAND_FN bool try_read(Page page, int64_t slot) { return submit(Opcode::kRead, page, slot); }
  HINTERLAND_FN bool try_write(Page page, int64_t slot) { return submit(Opcode::kWrite, page, slot); }

  // Ends what the device has ended; returns how many transfers.
  HINTERLAND_FN uint32_t poll() const {
    return queue.poll([&](const Report& report) { cache.end(slot_of(report), writes(report), error_of(report)); },
                      [&](const Report& report) { cache.late(slot_of(report), writes(report)); });
  }

  HINTERLAND_FN uint32_t expire(uint64_t now) const { return queue.expire(now, given_up()); }

  // The device is gone: all that waits for it fails, and so does what is asked for from now on. Slots stay given up, since a
  // completion that was there before may still be polled.
  HINTERLAND_FN uint32_t abort() const { return queue.abort(kHostPathError, given_up()); }

 private:
  static constexpr uint64_t kWrites = uint64_t{1} << 63;

  HINTERLAND_FN static int64_t slot_of(const Report& report) { return static_cast<int64_t>(report.user & ~kWrites); }
  HINTERLAND_FN static bool writes(const Report& report) { return (report.user & kWrites) != 0; }
  HINTERLAND_FN static uint32_t error_of(const Report& report) { return is_success(report.status) ? 0u : report.status; }

  HINTERLAND_FN auto given_up() const {
    return [this](const Report& report) { cache.give_up(slot_of(report), writes(report), report.status); };
  }

  HINTERLAND_FN uint64_t line() const { return static_cast<uint64_t>(cache.line_bytes); }
  HINTERLAND_FN uint64_t frame(int64_t slot) const { return frames_address + static_cast<uint64_t>(slot) * line(); }

  HINTERLAND_FN bool submit(Opcode opcode, Page page, int64_t slot) const {
    SubmissionEntry entry{};
    const uint64_t each = line() / blocks.block_bytes;
    if (!blocks.address(entry, opcode, page * each, each)) return false;
    entry.prp1 = frame(slot);
    if (line() > 2 * kMemoryPageBytes)
      entry.prp2 = lists_address + static_cast<uint64_t>(slot) * sizeof(PrpList);
    else if (line() > kMemoryPageBytes)
      entry.prp2 = frame(slot) + kMemoryPageBytes;
    const bool writes = opcode == Opcode::kWrite;
    const Submitted submitted = queue.try_submit(entry, static_cast<uint64_t>(slot) | (writes ? kWrites : 0), deadline);
    if (submitted == Submitted::kClosed) cache.end(slot, writes, kHostPathError);
    return submitted != Submitted::kFull;
  }
};

}  // namespace hinterland::storage
