// The cache's device behind a queue pair: a page is a run of blocks, and moves between them and a slot's frame.
//
// A slot has one transfer at most, so its number and the direction are all that has to come back with a completion. Frames lie
// in a GPU's memory and the device is a CPU's threads, so each command's identifier has a buffer of a line that both reach: a
// line that is to be written is copied there before its command is submitted, and one that was read is copied to its frame
// before it is said to have arrived and before the identifier is free again. Lanes of a warp copy together, a line of each at a
// time, without any lock. The PRPs of a buffer are always the same: lists, where a line is longer than two memory pages, are
// written once.
//
// A read that failed, but may succeed if it is tried again, is, up to kTries times in all; then its line fails. (A line that
// could not be written stays dirty, and so is tried again by whoever needs its slot, or flushes.)
//
// Who waits for a page calls poll(), and after a while expire(). A command that was given up leaves its line failed, but the
// slot is not used again before the device has answered, or said that it was told to abort the command (settle).
#pragma once

#include "hinterland/storage/cache.hpp"
#include "hinterland/storage/queue.hpp"

namespace hinterland::storage {

// A queue pair and the memory that its commands name: a line for each identifier.
struct Channel {
  QueuePair queue;
  char* lines;
  uint64_t address;  // of these as the device sees them: the beginning of a memory page
  PrpList* lists;    // of each, if a line is longer than two memory pages
  uint64_t lists_address;
};

// What a cache asked of its device for one lane: at most a write, to make room, and a read. PageDevice::begin() begins it, for
// all lanes together.
struct Requests {
  bool writes = false, reads = false;
  Page written = 0, read = 0;
  int64_t written_slot = 0, read_slot = 0;

  HINTERLAND_FN bool try_read(Page page, int64_t slot) {
    reads = true, read = page, read_slot = slot;
    return true;
  }
  HINTERLAND_FN bool try_write(Page page, int64_t slot) {
    writes = true, written = page, written_slot = slot;
    return true;
  }
};

// Copies a line for each lane that asks for it, line `of` of `from` to line `at` of `to`; all lanes copy together. Loads are
// ordinary ones: what lies there changes while a kernel runs.
template <class Lanes>
HINTERLAND_APART void copy_lines(bool asks, int line_shift, const char* from, int32_t of, char* to, int32_t at) {
  struct alignas(16) Unit {
    uint64_t words[2];
  };
  constexpr int kLoads = 8, kUnitShift = 4;  // in flight at once: 4 KiB of a warp
  const uint32_t asking = Lanes::ballot(asks);
  const int64_t units = static_cast<int64_t>(32 - stdlib::countl_zero(asking)) << (line_shift - kUnitShift);
  const int64_t within = (int64_t{1} << (line_shift - kUnitShift)) - 1;
  for (int64_t first = Lanes::lane(); first - Lanes::lane() < units; first += kLoads * Lanes::kWidth) {
    Unit held[kLoads];
    Unit* target[kLoads];
    HINTERLAND_UNROLLED
    for (int i = 0; i < kLoads; ++i) {
      const int64_t unit = first + i * Lanes::kWidth;
      const int lane = static_cast<int>(unit >> (line_shift - kUnitShift)) & (Lanes::kWidth - 1);
      const int64_t source = int64_t{Lanes::broadcast(of, lane)} << (line_shift - kUnitShift) | (unit & within);
      const int64_t place = int64_t{Lanes::broadcast(at, lane)} << (line_shift - kUnitShift) | (unit & within);
      const bool there = unit < units && (asking >> lane & 1u) != 0;
      target[i] = there ? reinterpret_cast<Unit*>(to) + place : nullptr;
      if (there) held[i] = reinterpret_cast<const Unit*>(from)[source];
    }
    HINTERLAND_UNROLLED
    for (int i = 0; i < kLoads; ++i)
      if (target[i] != nullptr) *target[i] = held[i];
  }
}

// Zeros in a line for each lane that asks, line `at` of `to`; all lanes store together.
template <class Lanes>
HINTERLAND_FN void clear_lines(bool asks, int line_shift, char* to, int64_t at) {
  struct alignas(16) Unit {
    uint64_t words[2];
  };
  for (uint32_t asking = Lanes::ballot(asks); asking != 0; asking &= asking - 1) {
    Unit* const line = reinterpret_cast<Unit*>(to + (Lanes::broadcast(at, stdlib::countr_zero(asking)) << line_shift));
    for (int64_t i = Lanes::lane(); i < int64_t{1} << (line_shift - 4); i += Lanes::kWidth) line[i] = {};
  }
}

template <class CacheType>
struct PageDevice {
  CacheType cache;
  Channel channel;
  BlockRange blocks;  // page 0 begins at the first, and a line is a whole number of them; pages that lie outside fail
  uint64_t deadline;  // of what is asked for, in ns of the caller's clock

  // Once for each identifier, before all others.
  HINTERLAND_FN void prepare(int64_t number) const {
    if (line() <= 2 * kMemoryPageBytes) return;
    for (uint64_t i = 1; i < line() / kMemoryPageBytes; ++i)
      channel.lists[number].pages[i - 1] = address_of(number) + i * kMemoryPageBytes;
  }

  // By one lane. False: the queue is full.
  HINTERLAND_FN bool try_read(Page page, int64_t slot) const { return submit<Alone>(true, Opcode::kRead, page, slot); }
  HINTERLAND_FN bool try_write(Page page, int64_t slot) const { return submit<Alone>(true, Opcode::kWrite, page, slot); }

  // Has the device make durable what it has written before. It ends as a write of `slot` does, which is no line's. False: the
  // queue is full.
  HINTERLAND_FN bool try_flush(int64_t slot) const {
    SubmissionEntry entry{};
    entry.opcode = static_cast<uint8_t>(Opcode::kFlush);
    entry.namespace_id = blocks.namespace_id;
    const Submitted outcome = channel.queue.try_submit(entry, static_cast<uint64_t>(slot) | kWrites, deadline, hearing());
    if (outcome == Submitted::kClosed) cache.end(slot, true, kHostPathError);
    return outcome != Submitted::kFull;
  }

  // Begins what all lanes asked for, and forgets that they did; what stays asked for finds the queue full. Reads first: places
  // are set aside for them.
  template <class Lanes>
  HINTERLAND_FN void begin(Requests& requests) const {
    HINTERLAND_ROLLED
    for (int turn = 0; turn < 2; ++turn) {
      const bool writes = turn == 1;
      bool& asks = writes ? requests.writes : requests.reads;
      if (!Lanes::any(asks)) continue;
      asks &= !submit<Lanes>(asks, writes ? Opcode::kWrite : Opcode::kRead, writes ? requests.written : requests.read,
                             writes ? requests.written_slot : requests.read_slot);
    }
  }

  // Ends what the device has ended, or has it read again; returns how many transfers. `saw_all`: as QueuePair::poll() says.
  template <class Lanes = Alone>
  HINTERLAND_FN uint32_t poll(bool& saw_all) const {
    const auto hears = [&](const CompletionReport& report) {
      const bool arrived = report.end == End::kCompleted && error_of(report) == 0 && !writes(report);
      copy_lines<Lanes>(arrived, line_shift(), channel.lines, report.identifier, cache.frames, slot_of(report));
      Lanes::sync();
      Requests again;
      if (!try_again(report, again)) hear(report);
      if (!Lanes::any(again.reads)) return;
      begin<Lanes>(again);
      if (again.reads) cache.not_begun(again.read_slot, false);  // whoever wants the page asks anew
    };
    return channel.queue.template poll<Lanes>(hears, saw_all, at_once<Lanes>());
  }
  template <class Lanes = Alone>
  HINTERLAND_FN uint32_t poll() const {
    bool saw_all;
    return poll<Lanes>(saw_all);
  }

  template <class Lanes = Alone>
  HINTERLAND_APART uint32_t expire(uint64_t now, uint64_t overdue_for = 0) const {
    return channel.queue.template expire<Lanes>(now, hearing(), overdue_for);
  }

  // The device is gone: all that waits for it fails, and so does what is asked for from now on. Slots stay given up, since a
  // completion that was there before may still be polled.
  HINTERLAND_FN uint32_t abort() const { return channel.queue.abort(kHostPathError, hearing()); }

  // The device was told to abort a command that had been given up, and answered that it has: QueuePair::settle().
  HINTERLAND_FN bool settle(uint16_t identifier) const { return channel.queue.settle(identifier, hearing()); }

 private:
  static constexpr uint64_t kWrites = uint64_t{1} << 63;
  static constexpr uint32_t kTries = 4, kTry = 1 << 16;  // a try that failed, counted above the bits of a status

  HINTERLAND_FN static int64_t slot_of(const CompletionReport& report) { return static_cast<int64_t>(report.user & ~kWrites); }
  HINTERLAND_FN static bool writes(const CompletionReport& report) { return (report.user & kWrites) != 0; }
  HINTERLAND_FN static uint32_t error_of(const CompletionReport& report) {
    return is_success(report.status) ? 0u : report.status;
  }

  // Whether what was read is to be read again, which is asked for then.
  HINTERLAND_FN bool try_again(const CompletionReport& report, Requests& again) const {
    if (report.end != End::kCompleted || writes(report)) return false;
    const int64_t slot = slot_of(report);
    if (!is_retryable(report.status)) return end_tries(slot), false;
    const uint32_t tries = atomic_load(cache.statuses[slot]) / kTry + 1;
    if (tries >= kTries) return false;
    atomic_store(cache.statuses[slot], tries * kTry);
    return again.try_read(cache.page_of(Line{atomic_load(cache.words[slot])}), slot);
  }
  HINTERLAND_FN void end_tries(int64_t slot) const { atomic_store(cache.statuses[slot], 0u); }

  HINTERLAND_FN void hear(const CompletionReport& report) const {
    if (report.end == End::kCompleted) cache.end(slot_of(report), writes(report), error_of(report));
    if (report.end == End::kGivenUp) cache.give_up(slot_of(report), writes(report), report.status);
    if (report.end == End::kLate) cache.late(slot_of(report), writes(report));
  }
  HINTERLAND_FN auto hearing() const {
    return [this](const CompletionReport& report) { hear(report); };
  }

  // Completions that a warp takes together. It copies their lines one after the other, a line of 4 KiB in some 4.5 us, and all
  // of them arrive when the last has: long ones are left to others who wait.
  template <class Lanes>
  HINTERLAND_FN int at_once() const {
    constexpr uint64_t kCopied = 128 << 10;
    return static_cast<int>(min_of(max_of(kCopied >> line_shift(), uint64_t{1}), static_cast<uint64_t>(Lanes::kWidth)));
  }

  HINTERLAND_FN uint64_t line() const { return static_cast<uint64_t>(cache.line_bytes); }
  HINTERLAND_FN int line_shift() const { return stdlib::countr_zero(line()); }
  HINTERLAND_FN uint64_t address_of(int64_t number) const { return channel.address + static_cast<uint64_t>(number) * line(); }

  // For the lanes that ask: false if the queue is full. What cannot be asked of the device at all fails at once.
  template <class Lanes>
  HINTERLAND_APART bool submit(bool asks, Opcode opcode, Page page, int64_t slot) const {
    const bool writes = opcode == Opcode::kWrite;
    const uint64_t each = static_cast<uint32_t>(line()) / blocks.block_bytes;
    SubmissionEntry entry{};
    const uint32_t error = !blocks.address(entry, opcode, page * each, each) ? kOutOfRange
                           : channel.queue.is_closed()                       ? kHostPathError
                                                                             : 0u;
    const bool fails = asks && error != 0;
    if (fails) cache.end(slot, writes, error);
    const Place place = channel.queue.template take<Lanes>(asks && !fails);
    if (writes) {
      Lanes::sync();  // each lane knows that its own buffer is free
      copy_lines<Lanes>(place.is_taken, line_shift(), cache.frames, slot, channel.lines, place.identifier);
      Lanes::sync();
    }
    entry.prp1 = address_of(place.identifier);
    if (line() > 2 * kMemoryPageBytes)
      entry.prp2 = channel.lists_address + uint64_t{place.identifier} * sizeof(PrpList);
    else if (line() > kMemoryPageBytes)
      entry.prp2 = entry.prp1 + kMemoryPageBytes;
    channel.queue.template submit<Lanes>(place, entry, static_cast<uint64_t>(slot) | (writes ? kWrites : 0), deadline,
                                         hearing());
    return fails || place.is_taken;
  }
};

}  // namespace hinterland::storage
