// Those who use a queue pair in tests: its memory, buffers in pages that lie anywhere, and threads whose every read is compared
// with what a sequential program would have seen.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <numeric>
#include <utility>

#if defined(SERVED)
#include "served_controller.hpp"
#else
#include "controller.hpp"
#endif

namespace test {

inline uint64_t mixed(uint64_t word) {
  word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
  word = (word ^ word >> 27) * 0x94d049bb133111ebu;
  return word ^ word >> 31;
}

// The memory of a queue pair.
struct Rings {
  Rings(uint32_t submission_size, uint32_t completion_size)
      : submissions(submission_size),
        completions(completion_size),
        marks(submission_size),
        free_identifiers(completion_size),
        commands(completion_size),
        pair{submissions.data(), completions.data(),      &doorbells[0],   &doorbells[32],  &control,
             marks.data(),       free_identifiers.data(), commands.data(), submission_size, completion_size} {
    clear();
  }

  // As after the device has created its queues.
  void clear() {
    doorbells = {};
    pair.prepare();
  }

  // As after `position` commands, a multiple of two laps of both rings: then rings and phases are as in the beginning.
  void start_at(uint64_t position) {
    CHECK(position % (2 * std::max(pair.submission_size, pair.completion_size)) == 0, "laps");
    for (uint64_t* counter : {&control.tickets, &control.tail, &control.submission_head, &control.completion_head,
                              &control.device_head, &control.put})
      *counter += position;
  }

  // Nothing is in flight, every identifier is free, once, and all counters agree.
  void check_at_rest(uint64_t start) const {
    CHECK(outstanding(pair) == 0, "%llu outstanding", static_cast<unsigned long long>(outstanding(pair)));
    CHECK(control.tail_lock == 0 && control.completion_lock == 0, "locks");
    CHECK(control.tail == control.tickets && control.submission_head <= control.tail, "tickets");
    CHECK(control.device_head <= control.submission_head && control.completion_head >= start, "heads");
    CHECK(doorbells[0] == (control.tail & (pair.submission_size - 1)), "submission doorbell");
    CHECK(doorbells[32] == (control.completion_head & (pair.completion_size - 1)), "completion doorbell");
    std::vector<bool> found(pair.identifiers());
    for (uint64_t at = control.tickets; at < control.put; ++at) {
      const uint32_t word = free_identifiers[at & (pair.completion_size - 1)], identifier = identifier_of(word);
      CHECK(phase_of(word) == phase_at(at, pair.completion_size), "a free identifier of another lap");
      CHECK(identifier < pair.identifiers() && !found[identifier], "identifier %u is free twice", identifier);
      found[identifier] = true;
    }
    CHECK(control.put - control.tickets == pair.identifiers(), "identifiers");
    for (const Command& command : commands) CHECK(Command::stage(command.state) == Command::kFree, "a command");
  }

  std::vector<SubmissionEntry> submissions;
  std::vector<CompletionEntry> completions;
  std::vector<uint32_t> marks, free_identifiers;
  std::vector<Command> commands;
  std::array<uint32_t, 64> doorbells{};
  mutable QueueControl control{};
  QueuePair pair;
};

// Memory for one transfer: 17 pages in any order, and the list of them.
class Buffer {
 public:
  Buffer() : memory_(new Memory) { shuffle(0); }

  // Another order, another offset, and nothing in it.
  void shuffle(uint64_t seed) {
    std::iota(order_.begin(), order_.end(), 0);
    for (uint32_t i = kPages; i > 1; --i) std::swap(order_[i - 1], order_[(seed = mixed(seed)) % i]);
    offset_ = mixed(seed + 1) % 3 == 0 ? 0 : mixed(seed + 2) % 1024 * 4;
    std::memset(memory_->pages, kUntouched, sizeof(memory_->pages));
  }

  SubmissionEntry command(Opcode opcode, uint64_t first, uint64_t blocks, uint64_t serial) {
    SubmissionEntry entry{};
    CHECK((BlockRange{kNamespace, kBlockBytes, kBase, uint64_t{1} << 30}.address(entry, opcode, first, blocks)), "blocks");
    const auto page = [&](uint32_t i) { return reinterpret_cast<uint64_t>(memory_->pages[order_[i]]); };
    const uint64_t list = reinterpret_cast<uint64_t>(&memory_->list);
    CHECK(set_data(entry, offset_, blocks * kBlockBytes, page, memory_->list, list), "data");
    entry.metadata = serial;
    entry.reserved = seal(entry);
    return entry;
  }

  void fill(const uint8_t* bytes, uint64_t count) {
    pieces(offset_, count, [&](uint8_t* at, uint64_t from, uint64_t length) { std::memcpy(at, bytes + from, length); });
  }

  bool holds(const uint8_t* bytes, uint64_t count) {
    bool same = true;
    pieces(offset_, count,
           [&](uint8_t* at, uint64_t from, uint64_t length) { same &= std::memcmp(at, bytes + from, length) == 0; });
    return same && untouched(count);
  }

 private:
  static constexpr uint32_t kPages = 17;
  static constexpr uint8_t kUntouched = 0xa5;

  struct Memory {
    alignas(4096) uint8_t pages[kPages][4096];
    PrpList list;
  };

  template <class Piece>
  void pieces(uint64_t from, uint64_t count, const Piece& piece) {
    for (uint64_t done = 0; done < count;) {
      const uint64_t at = from + done, length = std::min(count - done, 4096 - at % 4096);
      piece(memory_->pages[order_[at / 4096]] + at % 4096, done, length);
      done += length;
    }
  }

  // Nothing was written before the data and behind it.
  bool untouched(uint64_t count) {
    static const std::vector<uint8_t> expected(4096, kUntouched);
    bool same = true;
    const auto look = [&](uint8_t* at, uint64_t, uint64_t length) { same &= std::memcmp(at, expected.data(), length) == 0; };
    pieces(0, offset_, look);
    pieces(offset_ + count, kPages * 4096 - offset_ - count, look);
    return same;
  }

  std::unique_ptr<Memory> memory_;
  std::array<uint32_t, kPages> order_;
  uint64_t offset_ = 0;
};

struct Counts {
  uint64_t retried = 0, failed = 0, timed_out = 0, settled = 0, removed = 0;

  Counts& operator+=(const Counts& other) {
    retried += other.retried, failed += other.failed, timed_out += other.timed_out;
    settled += other.settled, removed += other.removed;
    return *this;
  }
};

// One who has at most one operation at a time, on blocks that nobody else writes.
class Lane {
 public:
  static constexpr uint64_t kOwnBlocks = 192, kSharedBlocks = 256, kDeadlineTurns = 500;

  Lane(uint64_t number, uint64_t seed) : number_(number), random_(seed * 1000 + number), model_(kOwnBlocks * kBlockBytes) {}

  static uint8_t shared_byte(uint64_t at) { return static_cast<uint8_t>(mixed(at / 8) >> at % 8 * 8); }

  // From any thread: this lane's command has ended.
  void hear(const CompletionReport& report) {
    if (report.end == End::kLate) return;
    CHECK(expected_.load(std::memory_order_relaxed) == report.user, "a report of another command");
    const uint64_t word = uint64_t{1} << 63 | uint64_t{report.status} << 16 | report.identifier;
    CHECK(report_.exchange(word, std::memory_order_acq_rel) == 0, "a command was reported twice");
  }

  bool finished(uint64_t operations) const { return gone_ || (done_ >= operations && !busy_ && unsettled_.empty()); }
  bool gone() const { return gone_; }

  // Does what can be done now; true if that was anything.
  bool step(const QueuePair& queue, Controller& controller, uint64_t operations, Counts& counts) {
    if (!unsettled_.empty() && controller.now() >= unsettled_.front().ask_at) settle(queue, controller, counts);
    if (waiting_) {
      const uint64_t word = report_.load(std::memory_order_acquire);
      if (word == 0) return false;
      waiting_ = false;
      ended(static_cast<uint16_t>(word >> 16), static_cast<uint16_t>(word), controller.now(), counts);
      return true;
    }
    if (!busy_) {
      if (done_ >= operations) return false;
      choose();
    }
    return submit(queue, controller.now(), counts);
  }

 private:
  struct Unsettled {
    uint64_t serial;
    uint16_t identifier;
    bool write;
    uint64_t ask_at;  // when the device is asked about it: at once, or when it would have answered if it did
    Buffer buffer;    // the device may still use it
  };

  void choose() {
    busy_ = true;
    // While the device may still write what was given up, these blocks may not change any more.
    write_ = unsettled_writes_ == 0 && random_() % 2 == 0;
    shared_ = !write_ && random_() % 4 == 0;
    blocks_ = random_() % 3 == 0 ? 1 + random_() % 128 : 1 + random_() % 17;
    first_ = random_() % ((shared_ ? kSharedBlocks : kOwnBlocks) - blocks_ + 1);
    if (!write_) return;
    const uint64_t version = random_();
    for (uint64_t i = 0; i < blocks_ * kBlockBytes; i += 8) {
      const uint64_t word = version + i * 0x9e3779b97f4a7c15u;
      std::memcpy(&model_[first_ * kBlockBytes + i], &word, 8);
    }
  }

  uint64_t first_on_disk() const { return first_ + (shared_ ? 0 : kSharedBlocks + number_ * kOwnBlocks); }

  bool submit(const QueuePair& queue, uint64_t now, Counts& counts) {
    buffer_.shuffle(random_());
    if (write_) buffer_.fill(&model_[first_ * kBlockBytes], blocks_ * kBlockBytes);
    const uint64_t serial = number_ << 32 | ++serial_;
    report_.store(0, std::memory_order_relaxed);
    expected_.store(serial, std::memory_order_relaxed);
    const SubmissionEntry entry = buffer_.command(write_ ? Opcode::kWrite : Opcode::kRead, first_on_disk(), blocks_, serial);
    const Submitted outcome =
        queue.try_submit(entry, serial, now + kDeadlineTurns, [this](const CompletionReport& report) { hear(report); });
    waiting_ = outcome == Submitted::kYes;
    if (outcome == Submitted::kClosed) removed(counts);
    return waiting_;
  }

  void removed(Counts& counts) {
    gone_ = true;
    ++counts.removed;
  }

  void ended(uint16_t status, uint16_t identifier, uint64_t now, Counts& counts) {
    if (status == kHostPathError) return removed(counts);
    if (is_success(status)) {
      check_data();
      busy_ = false;
      ++done_;
    } else if (status == kAbortedByHost) {
      ++counts.timed_out;
      unsettled_writes_ += write_ ? 1 : 0;
      const uint64_t ask_at = random_() % 2 == 0 ? now : now + 2 * Controller::kLateTurns;
      const uint64_t serial = expected_.load(std::memory_order_relaxed);
      unsettled_.push_back({serial, identifier, write_, ask_at, std::exchange(buffer_, Buffer())});
    } else if (is_retryable(status)) {
      ++counts.retried;
    } else {
      // What blocks hold after a write that failed nobody knows, so it is done again.
      ++counts.failed;
      busy_ = write_;
    }
  }

  void check_data() {
    if (write_) return;
    std::vector<uint8_t> expected;
    for (uint64_t i = 0; shared_ && i < blocks_ * kBlockBytes; ++i) expected.push_back(shared_byte(first_ * kBlockBytes + i));
    CHECK(buffer_.holds(shared_ ? expected.data() : &model_[first_ * kBlockBytes], blocks_ * kBlockBytes), "wrong data");
  }

  void settle(const QueuePair& queue, Controller& controller, Counts& counts) {
    const Unsettled& oldest = unsettled_.front();
    const Controller::Fate fate = controller.abort(oldest.serial);
    if (fate == Controller::Fate::kUnread) return;
    if (fate == Controller::Fate::kDropped) {
      const auto through = [](const CompletionReport& report) { CHECK(report.end == End::kLate, "settled"); };
      while (!queue.settle(oldest.identifier, through)) std::this_thread::yield();  // who gave it up is not through
      ++counts.settled;
    }
    unsettled_writes_ -= oldest.write ? 1 : 0;
    unsettled_.pop_front();
  }

  uint64_t number_;
  std::mt19937_64 random_;
  std::vector<uint8_t> model_;
  Buffer buffer_;
  std::deque<Unsettled> unsettled_;
  std::atomic<uint64_t> expected_ = 0, report_ = 0;
  uint64_t serial_ = 0, first_ = 0, blocks_ = 0, done_ = 0, unsettled_writes_ = 0;
  bool busy_ = false, waiting_ = false, write_ = false, shared_ = false, gone_ = false;
};

// Eight threads, each with some lanes, and the device.
class Clients {
 private:
  auto hear() {
    return [this](const CompletionReport& report) {
      if (report.end != End::kNothing) lanes_[report.user >> 32]->hear(report);
    };
  }

 public:
  static constexpr unsigned kThreads = 8, kLanes = 32;

  Clients(const Rings& rings, const Faults& faults, uint64_t seed)
      : queue_(rings.pair),
        controller_(rings.pair, Lane::kSharedBlocks + kLanes * Lane::kOwnBlocks, faults, seed),
        seed_(seed) {
    for (uint64_t i = 0; i < kLanes; ++i) lanes_.push_back(std::make_unique<Lane>(i, seed));
    for (uint64_t i = 0; i < Lane::kSharedBlocks * kBlockBytes; ++i) controller_.disk[i] = Lane::shared_byte(i);
  }

  void run(uint64_t operations) {
    std::vector<std::thread> threads;
    std::vector<Counts> each(kThreads);
    std::thread device([&] { controller_.run(); });
    for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back([&, i] { serve(i, operations, each[i]); });
    for (std::thread& thread : threads) thread.join();
    // What was posted late may still be there to be seen.
    while (!controller_.gone() && outstanding(queue_) != 0) queue_.poll(hear()), std::this_thread::yield();
    controller_.stop();
    device.join();
    for (const Counts& one : each) counts += one;
  }

  Counts counts;

 private:
  void serve(unsigned thread, uint64_t operations, Counts& counts) {
    std::mt19937_64 random(seed_ * 100 + thread);
    for (bool finished = false; !finished;) {
      finished = true;
      bool any = false;
      for (unsigned i = thread; i < kLanes; i += kThreads) {
        if (lanes_[i]->finished(operations)) continue;
        finished = false;
        any |= lanes_[i]->step(queue_, controller_, operations, counts);
      }
      any |= queue_.poll(hear()) != 0;
      if (random() % 8 == 0) queue_.expire(controller_.now(), hear());
      if (controller_.gone()) queue_.abort(kHostPathError, hear());
      if (!any) std::this_thread::yield();
    }
  }

  const QueuePair queue_;
  Controller controller_;
  uint64_t seed_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace test
