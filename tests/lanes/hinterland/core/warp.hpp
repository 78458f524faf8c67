// A stand-in for include/hinterland/core/warp.hpp: 32 lanes on the CPU. Code written against Warp runs as it does on a GPU,
// with every vote and shuffle, on a machine without one. Put this folder before include/ on the compiler's path.
//
// Lanes are fibers of one thread. A shuffle or vote is an exchange of values through slots and a barrier: a lane that leaves
// one out meets the others in the wrong one, and results go wrong, as on a GPU.
#pragma once

#include <ucontext.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>

#include "hinterland/core/platform.hpp"

// To ThreadSanitizer each lane is a thread, and only Warp::sync() orders what lanes do to memory. A GPU promises no more:
// shuffles and votes exchange values, and order nothing else.
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
// Of a thread's accesses in between ThreadSanitizer takes no notice.
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#define HINTERLAND_TSAN(call) call
#define HINTERLAND_UNSEEN __attribute__((no_sanitize("thread")))
#else
#define HINTERLAND_TSAN(call)
#define HINTERLAND_UNSEEN
#endif

namespace hinterland {

class Lanes {
 public:
  static constexpr int kCount = 32;

  // body() once in each lane; returns when all have.
  HINTERLAND_UNSEEN static void run(std::function<void()> body) {
    Lanes& lanes = current();
    lanes.body_ = std::move(body);
    for (Fiber& lane : lanes.lanes_) lanes.prepare(lane);
    HINTERLAND_TSAN(lanes.caller_.thread = __tsan_get_current_fiber());
    HINTERLAND_TSAN(__tsan_release(&lanes));
    lanes.go_on_in(lanes.lanes_[0]);
    HINTERLAND_TSAN(__tsan_acquire(&lanes.caller_));
  }

  // Each thread has a warp of its own.
  HINTERLAND_UNSEEN static Lanes& current() {
    static thread_local Lanes lanes;
    return lanes;
  }

  HINTERLAND_UNSEEN int lane() const { return static_cast<int>(running_ - lanes_.data()); }

  // Which lanes take a branch with this one, until it says that all do: what Warp::active() is.
  HINTERLAND_UNSEEN void diverge(uint32_t group) { running_->active = group; }
  HINTERLAND_UNSEEN uint32_t active() const { return running_->active; }

  // Every lane's value, of those of a group, given to each of them, to be used before the next exchange.
  using Values = std::array<std::atomic<uint64_t>, kCount>;
  static constexpr uint32_t kAll = 0xffffffffu;
  const Values& exchange(uint64_t value, uint32_t group = kAll) {
    Meeting& meeting = meeting_of(group);
    Values& slots = meeting.now();
    slots[lane()].store(value, std::memory_order_relaxed);
    barrier(meeting, group);
    return slots;
  }

  void sync(uint32_t group = kAll) {
    Meeting& meeting = meeting_of(group);
    [[maybe_unused]] Values& place = meeting.now();  // others may be on their way to the next before this lane goes on
    HINTERLAND_TSAN(__tsan_release(&place));
    barrier(meeting, group);
    HINTERLAND_TSAN(__tsan_acquire(&place));
  }

 private:
  static constexpr size_t kStackBytes = 1 << 16;

  struct Fiber {
    ucontext_t context;  // where it begins
    void* stand[5];      // where it goes on: __builtin_setjmp()'s
    bool begun = true;   // the caller has; prepare() sets a lane's anew
    std::unique_ptr<char[]> stack;
    void* thread = nullptr;  // ThreadSanitizer's
    bool done = false;
    uint32_t active = 0xffffffffu;
  };

  // Where the lanes of a group exchange values. Two places in turn are enough to use the same again.
  struct Meeting {
    Values slots[2]{};
    int arrived = 0;
    int64_t round = 0;

    HINTERLAND_UNSEEN Values& now() { return slots[round % 2]; }
  };

  HINTERLAND_UNSEEN Meeting& meeting_of(uint32_t group) {
    if (group == kAll) return of_all_;
    HINTERLAND_TSAN(AnnotateIgnoreReadsBegin(__FILE__, __LINE__));
    HINTERLAND_TSAN(AnnotateIgnoreWritesBegin(__FILE__, __LINE__));
    Meeting& meeting = of_groups_[group];
    HINTERLAND_TSAN(AnnotateIgnoreWritesEnd(__FILE__, __LINE__));
    HINTERLAND_TSAN(AnnotateIgnoreReadsEnd(__FILE__, __LINE__));
    return meeting;
  }

  HINTERLAND_UNSEEN void prepare(Fiber& lane) {
    getcontext(&lane.context);
    if (lane.stack == nullptr) {
      lane.stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
      HINTERLAND_TSAN(lane.thread = __tsan_create_fiber(0));
    }
    lane.context.uc_stack.ss_sp = lane.stack.get();
    lane.context.uc_stack.ss_size = kStackBytes;
    makecontext(&lane.context, &Lanes::enter, 0);
    lane.begun = lane.done = false;
    lane.active = kAll;
  }

  HINTERLAND_UNSEEN static void enter() {
    Lanes& lanes = current();
    HINTERLAND_TSAN(__tsan_acquire(&lanes));
    lanes.body_();
    HINTERLAND_TSAN(__tsan_release(&lanes.caller_));
    lanes.running_->done = true;
    lanes.go_on_in(lanes.next());
  }

  // All lanes of the group wait for each other.
  HINTERLAND_UNSEEN void barrier(Meeting& meeting, uint32_t group) {
    const int64_t round = meeting.round;
    if (++meeting.arrived == __builtin_popcount(group)) {
      meeting.arrived = 0;
      ++meeting.round;
    }
    while (meeting.round == round) go_on_in(next());
  }

  // The next lane that is not done, or who called run().
  HINTERLAND_UNSEEN Fiber& next() {
    for (int i = 1; i <= kCount; ++i)
      if (Fiber& fiber = lanes_[(lane() + i) % kCount]; !fiber.done) return fiber;
    return caller_;
  }

  // swapcontext() would ask the kernel for the mask of signals, which takes several times as long as all else that a test does.
  HINTERLAND_UNSEEN __attribute__((noinline)) void go_on_in(Fiber& fiber) {
    if (__builtin_setjmp(running_->stand) == 0) leave_for(fiber);
  }

  HINTERLAND_UNSEEN __attribute__((noinline)) void leave_for(Fiber& fiber) {
    running_ = &fiber;
    HINTERLAND_TSAN(__tsan_switch_to_fiber(fiber.thread, __tsan_switch_to_fiber_no_sync));
    if (fiber.begun) __builtin_longjmp(fiber.stand, 1);
    fiber.begun = true;
    setcontext(&fiber.context);
  }

  std::function<void()> body_;
  Fiber caller_;
  std::array<Fiber, kCount> lanes_;
  Fiber* running_ = &caller_;
  Meeting of_all_;
  std::map<uint32_t, Meeting> of_groups_;
};

struct Warp {
  static constexpr int kWidth = Lanes::kCount;
  static constexpr uint32_t kAll = 0xffffffffu;
  static constexpr int kScratchWords = 512;

  static int lane() { return Lanes::current().lane(); }

  static uint32_t ballot(bool holds) {
    uint32_t votes = 0;
    const auto& all = Lanes::current().exchange(holds);
    for (int i = 0; i < kWidth; ++i) votes |= static_cast<uint32_t>(all[i]) << i;
    return votes;
  }

  static bool any(bool holds) { return ballot(holds) != 0; }

  template <class T>
  static T broadcast(T value, int from) {
    return value_of<T>(Lanes::current().exchange(bits_of(value))[from % kWidth]);
  }

  template <class T>
  static T exclusive_sum(T value) {
    T sum{};
    const auto& all = Lanes::current().exchange(bits_of(value));
    for (int i = 0; i < lane(); ++i) sum += value_of<T>(all[i]);
    return sum;
  }

  template <class T>
  static T sum(T value) {
    T sum{};
    for (const uint64_t bits : Lanes::current().exchange(bits_of(value))) sum += value_of<T>(bits);
    return sum;
  }

  template <class T>
  static T max(T value) {
    for (const uint64_t bits : Lanes::current().exchange(bits_of(value))) value = max_of(value, value_of<T>(bits));
    return value;
  }

  static uint32_t same(uint64_t value) {
    uint32_t found = 0;
    const auto& all = Lanes::current().exchange(value);
    for (int i = 0; i < kWidth; ++i) found |= static_cast<uint32_t>(all[i] == value) << i;
    return found;
  }

  template <class T>
  static T sum_within(T value, int lanes) {
    for (int step = lanes / 2; step > 0; step /= 2) {
      value += value_of<T>(Lanes::current().exchange(bits_of(value))[lane() ^ step]);
    }
    return value;
  }

  template <class T>
  static T swapped(T value, int step) {
    return value_of<T>(Lanes::current().exchange(bits_of(value))[lane() ^ step]);
  }

  template <class T>
  static T bits_of_all(T own) {
    T all{};
    for (const uint64_t bits : Lanes::current().exchange(bits_of(own))) all |= value_of<T>(bits);
    return all;
  }

  static uint32_t* scratch() {
    static uint32_t words[kScratchWords];
    return words;
  }

  template <class T, int kItems>
  static T* shared() {
    static T items[kItems];
    return items;
  }

  static void sync() { Lanes::current().sync(); }

  static uint32_t active() { return Lanes::current().active(); }

  static uint32_t same(uint32_t group, uint64_t value) {
    uint32_t found = 0;
    const auto& all = Lanes::current().exchange(value, group);
    for (int i = 0; i < kWidth; ++i) found |= static_cast<uint32_t>((group >> i & 1) != 0 && all[i] == value) << i;
    return found;
  }

  template <class T>
  static T broadcast(uint32_t group, T value, int from) {
    return value_of<T>(Lanes::current().exchange(bits_of(value), group)[from % kWidth]);
  }

  static void sync(uint32_t group) { Lanes::current().sync(group); }

 private:
  template <class T>
  static uint64_t bits_of(T value) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    return bits;
  }

  template <class T>
  static T value_of(uint64_t bits) {
    T value;
    std::memcpy(&value, &bits, sizeof(T));
    return value;
  }
};

}  // namespace hinterland
