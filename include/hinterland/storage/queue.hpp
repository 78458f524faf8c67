// An NVMe queue pair that thousands of threads use at once. No call waits for another thread or for the device: what cannot go
// on returns. BaM has threads of a GPU wait for their place and for their completion (Mailthody 2022, section 5.3.1); what is
// kept of it is that whoever gets a lock does the work of all who came before, and rings one doorbell for them.
//
// Positions in the rings are 64-bit counters that never wrap. A mark and a free identifier carry the phase of their position
// (phase_at), as completions do, so a zeroed ring holds nothing.
//
//   1. A submission takes the next ticket by compare-and-swap, and only if the ring has room for its entry and an identifier is
//      free at the ticket's place in the ring of free ones. So one operation takes both, and a refused try leaves nothing
//      behind. The lanes of a warp take theirs together, by one such operation.
//   2. It writes what is known of the command, then the entry, marks the slot, and tries the tail's lock. Who has that moves
//      the tail over all consecutive marked slots, rings, unlocks and looks again. Lock and unlock are read-modify-write
//      operations: whoever finds the lock taken has marked its slot before the holder unlocks, so the holder's second look sees
//      the mark. A thread that is stopped between its ticket and its mark holds back the entries behind its own, but no thread.
//   3. The warp that has the completions' lock looks at as many completions as it has lanes, changes the states of their
// commands,
//      and rings when that is half a ring, or nothing more has come: till then the device has room. Each says how far the
// device has read the submission ring: those slots have room again. What became of
//      the commands is seen to without the lock, and only then are their identifiers, and the memory that goes with them, free.
//   4. A command is ended by whoever changes its state: a completion, a deadline or an abort. So its end is heard of once. An
//      identifier whose command was given up stays taken, since the device may still answer: it is free when that completion
//      arrives, which is counted and told apart, or when settle() says that none will. A completion that comes while somebody
//      gives its command up is left to him, so nobody hears that a command is over before he hears that it was given up.
//   5. Whoever looks at deadlines names to the host, by a word in its memory, what is overdue: before it is given up the host
//      can have the device abort it (NVMe 1.4, section 5.1). Then a completion comes, with kAbortRequested.
//
// Words that only threads share are ordered at the GPU's scope; doorbells and completions, at the system's. Causality goes
// through both: what one thread wrote before its mark is there for the device when another thread rings.
//
// Memory for each entry: 68 bytes of the submission ring (64 the device's), 48 of the completion ring (16 the device's, 4 the
// host's); beside that QueueControl.
#pragma once

#include "hinterland/core/alone.hpp"
#include "hinterland/core/atomic.hpp"
#include "hinterland/core/system.hpp"
#include "hinterland/core/warp.hpp"
#include "hinterland/storage/nvme.hpp"

namespace hinterland::storage {

// What threads contend for, in a cache line each.
struct QueueControl {
  alignas(kLineBytes) uint64_t tickets;   // taken so far
  alignas(kLineBytes) uint64_t reserved;  // places that are set aside
  alignas(kLineBytes) uint32_t tail_lock;
  uint64_t tail;                                 // all before it the device was told of
  alignas(kLineBytes) uint64_t submission_head;  // all before it the device has read, as far as anything says
  alignas(kLineBytes) uint32_t completion_lock;
  uint64_t completion_head;
  uint64_t told_head;                // what the device was told of that
  uint64_t device_head;              // all before it the device has read, by what its completions say
  alignas(kLineBytes) uint64_t put;  // identifiers that were put to the free ones so far
  uint64_t late;                     // completions of commands that had been given up
  uint64_t unexpected;               // completions of commands that there are not
};
static_assert(sizeof(QueueControl) == 6 * kLineBytes);

// What is known of the command that has an identifier. A ticket is given once, so a state never comes back.
struct Command {
  uint64_t state;     // ticket << 3 | stage
  uint64_t deadline;  // ns of the caller's clock
  uint64_t user;

  static constexpr uint64_t kFree = 0, kInFlight = 1, kGivingUp = 2, kGivenUp = 3;
  static constexpr uint64_t kAnswered = 4;  // while it was being given up

  HINTERLAND_FN static constexpr uint64_t stage(uint64_t state) { return state & 7; }
  HINTERLAND_FN static constexpr uint64_t ticket(uint64_t state) { return state >> 3; }
  HINTERLAND_FN static constexpr uint64_t with(uint64_t state, uint64_t stage) { return (state & ~uint64_t{7}) | stage; }
};
static_assert(sizeof(Command) == 24);

inline constexpr uint64_t kNoDeadline = ~uint64_t{0};

enum class Submitted {
  kYes,     // it will be reported
  kFull,    // no room now, and nothing has changed
  kClosed,  // the queue was aborted, and nothing has changed
};

// What there is to hear of a command: that it has completed; or that it was given up and later, perhaps, that the device is
// through with its memory.
enum class End { kNothing, kCompleted, kGivenUp, kLate };

struct CompletionReport {
  End end;
  uint16_t status;
  uint16_t identifier;  // of a command that was given up: what settle() takes
  uint64_t user;
};

// A place in the queue for a command, which the caller of take() must then submit.
struct Place {
  bool is_taken;
  uint16_t identifier;
  uint64_t ticket;
};

// Calls with `Lanes`, which is Warp or Alone, are made by all lanes together. A handler is called with each Report by the lane
// that it came to, and may submit.
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
  // [completion_size], or null: of each identifier whether its command is overdue, as overdue_word() says; the host reads it.
  uint32_t* overdue = nullptr;

  // Of a command that is overdue: another one than any before that had its identifier. 0 is no command's.
  HINTERLAND_FN static uint32_t overdue_word(uint64_t state) { return static_cast<uint32_t>(Command::ticket(state)) << 1 | 1u; }

  // Commands at most, one fewer than the completion ring has entries: what is in flight always fits. (And none is FFFFh, which
  // the specification advises against.)
  HINTERLAND_FN uint32_t identifiers() const { return completion_size - 1; }

  // Sets places aside for as many of the lanes that ask as there are free: whether for this one. Who has one may take() it, or
  // not, and then gives back what was set aside. (Who takes without may get what was set aside, and the other is refused.)
  // `left`: places that are not for these lanes, but for who is in more of a hurry.
  template <class Lanes>
  HINTERLAND_FN bool reserve(bool asks, uint32_t left = 0) const {
    const uint32_t asking = Lanes::ballot(asks);
    const int64_t wanted = stdlib::popcount(asking);
    int64_t given = 0;
    if (Lanes::lane() == 0 && wanted != 0) {
      // take() has room for identifiers, and for slots of the ring. What a closed queue is asked for fails without either.
      const uint64_t put = atomic_load(control->put), ring = atomic_load(control->submission_head) + submission_size - 1;
      const uint64_t end = is_closed() ? ~uint64_t{0} >> 1 : min_of(put, ring) - left;  // of the tickets that there is room for
      if (static_cast<int64_t>(end - atomic_load(control->tickets) - atomic_load(control->reserved)) > 0) {
        const uint64_t before = atomic_add_acquire(control->reserved, static_cast<uint64_t>(wanted));
        // Who gave back had taken before: the tickets are looked at after that.
        const auto free = static_cast<int64_t>(end - atomic_load(control->tickets) - before);
        given = max_of(min_of(free, wanted), int64_t{0});
        if (given < wanted) atomic_add(control->reserved, static_cast<uint64_t>(given - wanted));
      }
    }
    given = Lanes::broadcast(given, 0);
    return asks && stdlib::popcount(asking & ((1u << Lanes::lane()) - 1)) < given;
  }
  template <class Lanes>
  HINTERLAND_FN void give_back(bool had) const {
    const auto given = static_cast<uint64_t>(stdlib::popcount(Lanes::ballot(had)));
    if (given != 0 && Lanes::lane() == 0) atomic_add_release(control->reserved, ~given + 1);
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

  HINTERLAND_FN bool is_closed() const { return (atomic_load(control->tail_lock) & kClosed) != 0; }

  // `given` has no identifier yet. `user` comes back in reports. The handler hears of the command, as of one that was given up,
  // if the queue is closed meanwhile: the device may have been told of it.
  template <class Handler>
  HINTERLAND_FN Submitted try_submit(const SubmissionEntry& given, uint64_t user, uint64_t deadline,
                                     const Handler& handler) const {
    if (is_closed()) return Submitted::kClosed;
    const Place place = take<Alone>(true);
    if (!place.is_taken) return Submitted::kFull;
    submit<Alone>(place, given, user, deadline, handler);
    return Submitted::kYes;
  }

  // The next tickets for the lanes that ask, as many as there is room for, and the identifiers that go with them.
  template <class Lanes>
  HINTERLAND_FN Place take(bool asks) const {
    const uint32_t asking = Lanes::ballot(asks);
    const int rank = stdlib::popcount(asking & ((1u << Lanes::lane()) - 1));
    while (asking != 0) {
      const uint64_t head = atomic_load_acquire(control->submission_head);  // before the tickets, which are never behind it
      const uint64_t first = Lanes::broadcast(atomic_load(control->tickets), 0);
      const uint64_t ticket = first + static_cast<uint64_t>(rank);
      const uint32_t free_identifier = atomic_load_acquire(free_identifiers[ticket & (completion_size - 1)]);
      // A ring is full when one slot is left: section 4.1.
      const bool room = static_cast<int64_t>(ticket - head) < static_cast<int64_t>(submission_size) - 1 &&
                        phase_of(free_identifier) == phase_at(ticket, completion_size);
      const uint32_t refused = Lanes::ballot(asks && !room);  // and all behind the first of them
      const uint32_t taking = refused == 0 ? asking : asking & ((refused & (~refused + 1)) - 1);
      const uint64_t before =
          Lanes::lane() != 0 ? 0
          : taking == 0 ? atomic_load(control->tickets)
                        : atomic_cas_acquire(control->tickets, first, first + static_cast<uint64_t>(stdlib::popcount(taking)));
      if (Lanes::broadcast(before, 0) != first) continue;
      return {(taking >> Lanes::lane() & 1u) != 0, static_cast<uint16_t>(identifier_of(free_identifier)), ticket};
    }
    return {false, 0, 0};
  }

  // What try_submit() does, for the lanes that have taken a place.
  template <class Lanes, class Handler>
  HINTERLAND_FN void submit(const Place& place, const SubmissionEntry& given, uint64_t user, uint64_t deadline,
                            const Handler& handler) const {
    const uint64_t state = place.ticket << 3 | Command::kInFlight;
    if (place.is_taken) {
      const uint32_t slot = static_cast<uint32_t>(place.ticket) & (submission_size - 1);
      SubmissionEntry entry = given;
      entry.identifier = place.identifier;
      submissions[slot] = entry;
      Command& command = commands[place.identifier];
      atomic_store(command.user, user);
      atomic_store(command.deadline, deadline);
      atomic_store_release(command.state, state, marks[slot], phase_at(place.ticket, submission_size));
    }
    Lanes::sync();
    if (!Lanes::any(place.is_taken)) return;
    const bool open = Lanes::lane() != 0 || move_tail();
    // abort() may have seen the command and given it up, or not.
    if (Lanes::any(!open) && place.is_taken) try_give_up(place.identifier, state, kHostPathError, handler);
  }

  // Takes what has completed, `most` commands at a time, and passes it to the handler, which all lanes call together: the end
  // is kNothing for those who have none. When it returns, their commands' identifiers are free. Returns how many commands have
  // completed, those that were given up before left out. None if another thread is at it. `saw_all`: whether what had completed
  // before the call has been seen; else another thread is at it yet, and what it has not come to must not be taken for
  // unanswered.
  template <class Lanes = Alone, class Handler>
  HINTERLAND_FN uint32_t poll(const Handler& handler, bool& saw_all, int most = Lanes::kWidth) const {
    uint32_t completed = 0;
    for (int count = most; count == most;) {
      const CompletionReport own = collect<Lanes>(most, count, saw_all);
      if (count == 0) break;
      handler(own);
      Lanes::sync();
      if (own.end != End::kNothing) put(own.identifier);
      completed += static_cast<uint32_t>(stdlib::popcount(Lanes::ballot(own.end == End::kCompleted)));
    }
    return completed;
  }
  template <class Lanes = Alone, class Handler>
  HINTERLAND_FN uint32_t poll(const Handler& handler) const {
    bool saw_all;
    return poll<Lanes>(handler, saw_all);
  }

  // Gives up what is past its deadline, with the status kAbortedByHost. Until it is settled the device may still read and write
  // the command's memory and, if it was a write, its blocks. Goes over all identifiers. Returns how many this lane gave up.
  // What is past its deadline in less than `overdue_for` is overdue.
  template <class Lanes = Alone, class Handler>
  HINTERLAND_FN uint32_t expire(uint64_t now, const Handler& handler, uint64_t overdue_for = 0) const {
    return give_up<Lanes>(now, kAbortedByHost, handler, overdue_for);
  }

  // Closes the queue, and gives up whatever is in flight: the device is gone, or its queues are to be deleted. Only prepare()
  // opens it again.
  template <class Handler>
  HINTERLAND_FN uint32_t abort(uint16_t status, const Handler& handler) const {
    atomic_or_acq_rel(control->tail_lock, kClosed);
    return give_up<Alone>(kNoDeadline, status, handler);
  }

  // The device has read this command that was given up, and will not post its completion: it said so of an Abort. True if its
  // identifier is free by that, and the handler has heard that the device is through; false if the completion came, the
  // device was never told of the command, or whoever gave it up is still at it.
  template <class Handler>
  HINTERLAND_FN bool settle(uint16_t identifier, const Handler& handler) const {
    Command& command = commands[identifier];
    const uint64_t state = atomic_load_acquire(command.state), ticket = Command::ticket(state);
    if (Command::stage(state) != Command::kGivenUp || ticket >= atomic_load(control->tail)) return false;
    const uint64_t user = atomic_load(command.user);
    if (atomic_cas_acq_rel(command.state, state, Command::with(state, Command::kFree)) != state) return false;
    give_back_slots(ticket + 1);
    handler(CompletionReport{End::kLate, kAbortRequested, identifier, user});
    put(identifier);
    return true;
  }

 private:
  static constexpr uint32_t kLocked = 1, kClosed = 2;

  static constexpr uint32_t kPhaseBit = 1u << 16;

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

  // Words of a completion that the host reads.
  struct Answer {
    uint32_t queue, last;
  };

  HINTERLAND_FN bool load_new(uint64_t position, Answer& answer) const {
    uint32_t words[2];
    system_load_acquire_pair(&completions[position & (completion_size - 1)].queue, words);
    answer = {words[0], words[1]};
    return phase_of(answer.last) == phase_at(position, completion_size);
  }

  // Takes up to `most` completions: `count`, in the device's order, of which this lane's is reported. One warp at a time looks
  // at what lies in the device's memory or the host's. Most find nothing, so first it looks at what comes at once, which is a
  // line of the CPU's, and at the rest if all of that is new.
  template <class Lanes>
  HINTERLAND_FN CompletionReport collect(int most, int& count, bool& is_at_it) const {
    CompletionReport own{End::kNothing, 0, 0, 0};
    count = 0;
    is_at_it = lock_completions<Lanes>();
    if (!is_at_it) return own;
    const uint64_t first = Lanes::broadcast(atomic_load(control->completion_head), 0);
    constexpr uint64_t kAtOnce = 64 / sizeof(CompletionEntry);
    const uint64_t position = first + static_cast<uint64_t>(Lanes::lane());
    Answer answer{};
    for (int looked = min_of(most, static_cast<int>(kAtOnce - first % kAtOnce));; looked = most) {
      // Beyond a lap, what is old would look new.
      const bool looks = Lanes::lane() < looked && static_cast<uint32_t>(Lanes::lane()) < completion_size;
      const uint32_t there = Lanes::ballot(looks && load_new(position, answer));
      count = there == Warp::kAll ? 32 : stdlib::countr_zero(~there);
      if (count < looked || looked >= most) break;
    }
    if (count != 0) {
      const uint64_t device_head = Lanes::max(Lanes::lane() < count ? complete(answer, own) : 0);
      Lanes::sync();  // all have looked, and what the device wrote for one of them is there for all
      if (Lanes::lane() == 0) move_head(first + static_cast<uint64_t>(count), device_head);
    } else if (Lanes::lane() == 0 && control->told_head != first) {
      tell_head(first);
    }
    if (Lanes::lane() == 0) atomic_store_release(control->completion_lock, 0u);
    return own;
  }

  template <class Lanes>
  HINTERLAND_FN bool lock_completions() const {
    const bool locked = Lanes::lane() == 0 && atomic_load(control->completion_lock) == 0 &&
                        atomic_cas_acquire(control->completion_lock, 0u, kLocked) == 0;
    Lanes::sync();
    return Lanes::any(locked);
  }

  HINTERLAND_FN void move_head(uint64_t head, uint64_t device_head) const {
    if (device_head > atomic_load(control->device_head)) atomic_store(control->device_head, device_head);
    give_back_slots(device_head);
    atomic_store(control->completion_head, head);
    if (head - control->told_head >= completion_size / 2) tell_head(head);
  }

  HINTERLAND_FN void tell_head(uint64_t head) const {
    control->told_head = head;
    system_store_release(*completion_doorbell, static_cast<uint32_t>(head) & (completion_size - 1));
  }

  // Ends the command of a completion. Returns how far the device has read the submission ring, as far as this one says.
  HINTERLAND_FN uint64_t complete(Answer answer, CompletionReport& own) const {
    const uint32_t identifier = identifier_of(answer.last);
    Command& command = commands[identifier < identifiers() ? identifier : 0];
    uint64_t state = identifier < identifiers() ? atomic_load_acquire(command.state) : Command::kFree;
    while (Command::stage(state) != Command::kFree && Command::stage(state) != Command::kAnswered) {
      const bool left = Command::stage(state) == Command::kGivingUp;  // to who does that
      const uint64_t user = atomic_load(command.user);
      const uint64_t before =
          atomic_cas_acq_rel(command.state, state, Command::with(state, left ? Command::kAnswered : Command::kFree));
      if (before == state) {
        const bool in_time = Command::stage(state) == Command::kInFlight;
        if (!in_time) atomic_add(control->late, uint64_t{1});
        if (!left)
          own = {in_time ? End::kCompleted : End::kLate, status_of(answer.last), static_cast<uint16_t>(identifier), user};
        return read_until(submission_head_of(answer.queue), Command::ticket(state));
      }
      state = before;  // given up or settled meanwhile
    }
    atomic_add(control->unexpected, uint64_t{1});
    return 0;
  }

  // A completion says, in 16 bits, how far the device has read. That is past the command and not before what earlier
  // completions said; a head beyond what the device was told of is not believed. settle() must not count here: it may know more
  // than this completion did when the device made it.
  HINTERLAND_FN uint64_t read_until(uint32_t device_head, uint64_t ticket) const {
    const uint64_t least = max_of(atomic_load(control->device_head), ticket + 1);
    const uint64_t head = least + ((device_head - static_cast<uint32_t>(least)) & (submission_size - 1));
    return head <= atomic_load(control->tail) ? head : least;
  }

  HINTERLAND_FN void give_back_slots(uint64_t head) const {
    uint64_t seen = atomic_load(control->submission_head);
    while (seen < head) {
      const uint64_t before = atomic_cas_acq_rel(control->submission_head, seen, head);
      if (before == seen) return;
      seen = before;
    }
  }

  template <class Lanes, class Handler>
  HINTERLAND_FN uint32_t give_up(uint64_t now, uint16_t status, const Handler& handler, uint64_t overdue_for = 0) const {
    uint32_t given_up = 0;
    for (uint32_t identifier = static_cast<uint32_t>(Lanes::lane()); identifier < identifiers(); identifier += Lanes::kWidth) {
      Command& command = commands[identifier];
      const uint64_t state = atomic_load_acquire(command.state);
      if (Command::stage(state) != Command::kInFlight) continue;
      const uint64_t deadline = atomic_load(command.deadline);
      if (deadline > now) {
        if (overdue != nullptr && deadline - now < overdue_for) system_store(overdue[identifier], overdue_word(state));
        continue;
      }
      given_up += try_give_up(static_cast<uint16_t>(identifier), state, status, handler) ? 1 : 0;
    }
    return given_up;
  }

  // Gives up the command that was in flight in this state, unless it has ended since.
  template <class Handler>
  HINTERLAND_FN bool try_give_up(uint16_t identifier, uint64_t state, uint16_t status, const Handler& handler) const {
    Command& command = commands[identifier];
    const uint64_t user = atomic_load(command.user);  // this command's, if its state is still the same afterwards
    const uint64_t giving_up = Command::with(state, Command::kGivingUp);
    if (atomic_cas_acq_rel(command.state, state, giving_up) != state) return false;
    handler(CompletionReport{End::kGivenUp, status, identifier, user});
    if (atomic_cas_acq_rel(command.state, giving_up, Command::with(state, Command::kGivenUp)) != giving_up) {
      atomic_store_release(command.state, Command::with(state, Command::kFree));
      handler(CompletionReport{End::kLate, status, identifier, user});
      put(identifier);
    }
    return true;
  }
};

}  // namespace hinterland::storage
