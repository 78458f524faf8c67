// An NVMe queue pair that thousands of threads use at once. No call waits for another thread or for the device: what cannot go
// on returns. BaM has threads of a GPU wait for their place and for their completion (Mailthody 2022, section 5.3.1); what is
// kept of it is that whoever gets a lock does the work of all who came before, and rings one doorbell for them.
//
// Positions in the rings are 64-bit counters that never wrap. A mark and a free identifier carry the phase of their position
// (phase_at), as completions do, so a zeroed ring holds nothing.
//
//   1. A submission takes the next ticket by compare-and-swap, and only if the ring has room for its entry and an identifier is
//      free at the ticket's place in the ring of free ones. So one operation takes both, and a refused try leaves nothing
//      behind.
//   2. It writes what is known of the command, then the entry, marks the slot, and tries the tail's lock. Who has that moves
//      the tail over all consecutive marked slots, rings, unlocks and looks again. Lock and unlock are read-modify-write
//      operations: whoever finds the lock taken has marked its slot before the holder unlocks, so the holder's second look sees
//      the mark. A thread that is stopped between its ticket and its mark holds back the entries behind its own, but no thread.
//   3. Who has the completions' lock goes over all new ones, reports each, puts its identifier back and rings once at the end.
//      Each says how far the device has read the submission ring: those slots have room again.
//   4. A command is ended by whoever changes its state: a completion, a deadline or an abort. So it is reported once. An
//      identifier whose command was given up stays taken, since the device may still answer: it is free when that completion
//      arrives, which is counted and told apart, or when settle() says that none will. Until the one who gives a command up has
//      reported it, its completion is kept back, so nobody hears that a command is over before he hears that it was given up.
//
// Words that only threads share are ordered at the GPU's scope; doorbells and completions, at the system's. Causality goes
// through both: what one thread wrote before its mark is there for the device when another thread rings.
//
// Memory for each entry: 68 bytes of the submission ring (64 the device's), 44 of the completion ring (16 the device's); beside
// that QueueControl.
#pragma once

#include "hinterland/core/atomic.hpp"
#include "hinterland/core/system.hpp"
#include "hinterland/storage/nvme.hpp"

namespace hinterland::storage {

// What threads contend for, in a cache line each.
struct QueueControl {
  alignas(kLineBytes) uint64_t tickets;  // taken so far
  alignas(kLineBytes) uint32_t tail_lock;
  uint64_t tail;                                 // all before it the device was told of
  alignas(kLineBytes) uint64_t submission_head;  // all before it the device has read, as far as anything says
  alignas(kLineBytes) uint32_t completion_lock;
  uint64_t completion_head;
  uint64_t device_head;              // all before it the device has read, by what its completions say
  alignas(kLineBytes) uint64_t put;  // identifiers that were put to the free ones so far
  uint64_t late;                     // completions of commands that had been given up
  uint64_t unexpected;               // completions of commands that there are not
};
static_assert(sizeof(QueueControl) == 5 * kLineBytes);

// What is known of the command that has an identifier. A ticket is given once, so a state never comes back.
struct Command {
  uint64_t state;     // ticket << 2 | stage
  uint64_t deadline;  // ns of the caller's clock
  uint64_t user;

  static constexpr uint64_t kFree = 0, kInFlight = 1, kGivingUp = 2, kGivenUp = 3;

  HINTERLAND_FN static constexpr uint64_t stage(uint64_t state) { return state & 3; }
  HINTERLAND_FN static constexpr uint64_t ticket(uint64_t state) { return state >> 2; }
  HINTERLAND_FN static constexpr uint64_t with(uint64_t state, uint64_t stage) { return (state & ~uint64_t{3}) | stage; }
};
static_assert(sizeof(Command) == 24);

inline constexpr uint64_t kNoDeadline = ~uint64_t{0};

enum class Submitted {
  kYes,     // it will be reported, once
  kFull,    // no room now, and nothing has changed
  kClosed,  // the queue was aborted; it will not be reported. If that happened meanwhile, the device may have been told of it
};

// The end of a command.
struct Report {
  uint64_t user;
  uint16_t status;
  uint16_t identifier;  // of a command that was given up: what settle() takes
};

struct QueuePair {
  SubmissionEntry* submissions;   // [submission_size]
  CompletionEntry* completions;   // [completion_size]
  uint32_t* submission_doorbell;  // the device's registers, or words that stand for them
  uint32_t* completion_doorbell;
  QueueControl* control;
  uint32_t* marks;             // [submission_size]: the phase of the last entry that was written there
  uint32_t* free_identifiers;  // [completion_size]: identifiers, with their phase, as in CompletionEntry::last
  Command* commands;           // [completion_size]
  uint32_t submission_size;    // powers of two from 2 to 65536
  uint32_t completion_size;

  // Commands at most, one fewer than the completion ring has entries: what is in flight always fits. (And none is FFFFh, which
  // the specification advises against.)
  HINTERLAND_FN uint32_t identifiers() const { return completion_size - 1; }

  // Commands in flight or given up but not settled.
  HINTERLAND_FN uint64_t outstanding() const {
    const uint64_t put = atomic_load(control->put);
    return atomic_load(control->tickets) + identifiers() - put;
  }

  // By one thread, before all others, when the device has created its queues anew, which start at slot 0.
  HINTERLAND_FN void prepare() const {
    *control = QueueControl{};
    control->put = identifiers();
    for (uint32_t i = 0; i < submission_size; ++i) {
      submissions[i] = SubmissionEntry{};
      marks[i] = 0;
    }
    for (uint32_t i = 0; i < completion_size; ++i) {
      completions[i] = CompletionEntry{};
      free_identifiers[i] = i < identifiers() ? i | kPhaseBit : 0;
      commands[i] = Command{};
    }
  }

  // `given` has no identifier yet. `user` comes back in the report.
  HINTERLAND_FN Submitted try_submit(const SubmissionEntry& given, uint64_t user, uint64_t deadline) const {
    if ((atomic_load(control->tail_lock) & kClosed) != 0) return Submitted::kClosed;
    SubmissionEntry entry = given;
    uint64_t ticket;
    if (!take(ticket, entry.identifier)) return Submitted::kFull;
    Command& command = commands[entry.identifier];
    const uint64_t state = ticket << 2 | Command::kInFlight;
    atomic_store(command.user, user);
    atomic_store(command.deadline, deadline);
    atomic_store_release(command.state, state);
    const uint32_t slot = static_cast<uint32_t>(ticket) & (submission_size - 1);
    submissions[slot] = entry;
    atomic_store_release(marks[slot], phase_at(ticket, submission_size));
    if (move_tail()) return Submitted::kYes;
    // Closed since. abort() may have seen the command and reported it, or not.
    return atomic_cas_acq_rel(command.state, state, Command::with(state, Command::kGivenUp)) == state ? Submitted::kClosed
                                                                                                      : Submitted::kYes;
  }

  // Passes a Report to the handler for each command that has completed; returns how many. None if another thread is at it. The
  // handler runs with the lock of completions taken: it should be short, and may submit. `late` gets a second Report of a
  // command that was given up: the device is through with its memory now.
  template <class Handler, class Late>
  HINTERLAND_FN uint32_t poll(const Handler& handler, const Late& late) const {
    if (!is_new(atomic_load(control->completion_head))) return 0;  // thousands may look, without a write
    if (atomic_or_acq_rel(control->completion_lock, kLocked) != 0) return 0;
    const uint64_t first = atomic_load(control->completion_head);
    uint64_t head = first;
    uint32_t reported = 0;
    for (; is_new(head); ++head) {
      const Ended ended = complete(completions[head & (completion_size - 1)], handler, late);
      if (ended == Ended::kNotYet) break;
      reported += ended == Ended::kReported ? 1 : 0;
    }
    if (head != first) {
      atomic_store(control->completion_head, head);
      system_store_release(*completion_doorbell, static_cast<uint32_t>(head) & (completion_size - 1));
    }
    atomic_store_release(control->completion_lock, 0u);
    return reported;
  }

  template <class Handler>
  HINTERLAND_FN uint32_t poll(const Handler& handler) const {
    return poll(handler, [](const Report&) {});
  }

  // Gives up what is past its deadline: reports it as kAbortedByHost. Until it is settled the device may still read and write
  // the command's memory and, if it was a write, its blocks. Goes over all identifiers.
  template <class Handler>
  HINTERLAND_FN uint32_t expire(uint64_t now, const Handler& handler) const {
    return give_up(now, kAbortedByHost, handler);
  }

  // Closes the queue, and gives up whatever is in flight: the device is gone, or its queues are to be deleted. Only prepare()
  // opens it again.
  template <class Handler>
  HINTERLAND_FN uint32_t abort(uint16_t status, const Handler& handler) const {
    atomic_or_acq_rel(control->tail_lock, kClosed);
    return give_up(kNoDeadline, status, handler);
  }

  // The device has read this command that was given up, and will not post its completion: it said so of an Abort. True if its
  // identifier is free by that; false if the completion came, or the device was never told of the command.
  HINTERLAND_FN bool settle(uint16_t identifier) const {
    Command& command = commands[identifier];
    const uint64_t state = atomic_load_acquire(command.state), ticket = Command::ticket(state);
    if (Command::stage(state) != Command::kGivenUp || ticket >= atomic_load(control->tail)) return false;
    if (atomic_cas_acq_rel(command.state, state, Command::with(state, Command::kFree)) != state) return false;
    give_back_slots(ticket + 1);
    put(identifier);
    return true;
  }

 private:
  static constexpr uint32_t kLocked = 1, kClosed = 2;
  static constexpr uint32_t kPhaseBit = 1u << 16;

  // The next ticket, and the identifier that goes with it.
  HINTERLAND_FN bool take(uint64_t& ticket, uint16_t& identifier) const {
    for (;;) {
      const uint64_t head = atomic_load_acquire(control->submission_head);  // before the tickets, which are never behind it
      ticket = atomic_load(control->tickets);
      const uint32_t free_identifier = atomic_load_acquire(free_identifiers[ticket & (completion_size - 1)]);
      // A ring is full when one slot is left: section 4.1.
      const bool room = ticket - head < submission_size - 1 && phase_of(free_identifier) == phase_at(ticket, completion_size);
      if (!room && atomic_load(control->tickets) == ticket) return false;
      identifier = static_cast<uint16_t>(identifier_of(free_identifier));
      if (room && atomic_cas_acq_rel(control->tickets, ticket, ticket + 1) == ticket) return true;
    }
  }

  HINTERLAND_FN void put(uint32_t identifier) const {
    const uint64_t at = atomic_add(control->put, uint64_t{1});
    atomic_store_release(free_identifiers[at & (completion_size - 1)], identifier | phase_at(at, completion_size) * kPhaseBit);
  }

  HINTERLAND_FN bool is_marked(uint64_t position) const {
    return atomic_load_acquire(marks[position & (submission_size - 1)]) == phase_at(position, submission_size);
  }

  // False if the queue was closed before the caller's mark could count.
  HINTERLAND_FN bool move_tail() const {
    uint32_t before = atomic_or_acq_rel(control->tail_lock, kLocked);
    const bool open = (before & kClosed) == 0;
    while (before == 0) {
      const uint64_t first = atomic_load(control->tail);
      uint64_t tail = first;
      while (is_marked(tail)) ++tail;
      if (tail != first) {
        atomic_store(control->tail, tail);
        // Doorbells only ever go on, so two writes of which the device sees the second alone are as good as both.
        system_store_release(*submission_doorbell, static_cast<uint32_t>(tail) & (submission_size - 1));
      }
      atomic_and_acq_rel(control->tail_lock, ~kLocked);
      if (!is_marked(tail)) break;
      before = atomic_or_acq_rel(control->tail_lock, kLocked);
    }
    return open;
  }

  HINTERLAND_FN bool is_new(uint64_t position) const {
    CompletionEntry& entry = completions[position & (completion_size - 1)];
    return phase_of(system_load_acquire(entry.last)) == phase_at(position, completion_size);
  }

  enum class Ended { kReported, kDropped, kNotYet };

  template <class Handler, class Late>
  HINTERLAND_FN Ended complete(CompletionEntry& entry, const Handler& handler, const Late& late) const {
    const uint32_t last = system_load(entry.last), identifier = identifier_of(last);
    Command& command = commands[identifier < identifiers() ? identifier : 0];
    uint64_t state = identifier < identifiers() ? atomic_load_acquire(command.state) : Command::kFree;
    while (Command::stage(state) != Command::kFree) {
      if (Command::stage(state) == Command::kGivingUp) return Ended::kNotYet;
      const Report report{atomic_load(command.user), status_of(last), static_cast<uint16_t>(identifier)};
      const uint64_t before = atomic_cas_acq_rel(command.state, state, Command::with(state, Command::kFree));
      if (before == state) {
        read_until(submission_head_of(system_load(entry.queue)), Command::ticket(state));
        put(identifier);
        if (Command::stage(state) == Command::kInFlight) return handler(report), Ended::kReported;
        atomic_add(control->late, uint64_t{1});
        late(report);
        return Ended::kDropped;
      }
      state = before;  // given up or settled meanwhile
    }
    atomic_add(control->unexpected, uint64_t{1});
    return Ended::kDropped;
  }

  // A completion says, in 16 bits, how far the device has read. That is past the command and not before what earlier
  // completions said; a head beyond what the device was told of is not believed. settle() must not count here: it may know more
  // than this completion did when the device made it.
  HINTERLAND_FN void read_until(uint32_t device_head, uint64_t ticket) const {
    const uint64_t least = max_of(atomic_load(control->device_head), ticket + 1);
    const uint64_t head = least + ((device_head - static_cast<uint32_t>(least)) & (submission_size - 1));
    const uint64_t known = head <= atomic_load(control->tail) ? head : least;
    atomic_store(control->device_head, known);
    give_back_slots(known);
  }

  HINTERLAND_FN void give_back_slots(uint64_t head) const {
    uint64_t seen = atomic_load(control->submission_head);
    while (seen < head) {
      const uint64_t before = atomic_cas_acq_rel(control->submission_head, seen, head);
      if (before == seen) return;
      seen = before;
    }
  }

  template <class Handler>
  HINTERLAND_FN uint32_t give_up(uint64_t now, uint16_t status, const Handler& handler) const {
    uint32_t reported = 0;
    for (uint32_t identifier = 0; identifier < identifiers(); ++identifier) {
      Command& command = commands[identifier];
      const uint64_t state = atomic_load_acquire(command.state);
      if (Command::stage(state) != Command::kInFlight || atomic_load(command.deadline) > now) continue;
      // Both words are this command's if its state is still the same afterwards.
      const uint64_t user = atomic_load(command.user);
      if (atomic_cas_acq_rel(command.state, state, Command::with(state, Command::kGivingUp)) != state) continue;
      handler(Report{user, status, static_cast<uint16_t>(identifier)});
      atomic_store_release(command.state, Command::with(state, Command::kGivenUp));
      ++reported;
    }
    return reported;
  }
};

}  // namespace hinterland::storage
