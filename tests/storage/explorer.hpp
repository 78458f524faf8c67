// Runs a few threads in every order that their steps can take, and with every choice that they leave open: a model checker for
// code as it is. A thread is a fiber that hands over before each step. A state is the shared memory together with what each
// thread has learnt since it last said where it stands (stand_at); one that was met before is not gone on from. From every
// state the threads must be able to come to their end, else some of them wait for each other, or for nothing.
#pragma once

#include <ucontext.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <unordered_map>
#include <vector>

namespace explorer {

inline constexpr size_t kStack = 1 << 15;

struct Fiber {
  ucontext_t context;
  uint64_t known = 0;  // a hash of what it has learnt
  int choices = 1;     // that its next step leaves open
  int chosen = 0;
  bool done = false;
  alignas(16) char stack[kStack];
};

inline std::vector<Fiber> fibers;
inline ucontext_t scheduler;
inline int current = -1;  // the fiber that runs; none while a state is checked

inline uint64_t mixed(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
  return hash ^ hash >> 29;
}

template <class T>
T note(T value) {
  if (current >= 0) fibers[current].known = mixed(fibers[current].known, static_cast<uint64_t>(value) + 1);
  return value;
}

// Others may go on before what follows.
inline int choose(int choices) {
  if (current < 0) return 0;
  Fiber& fiber = fibers[current];
  fiber.choices = choices;
  swapcontext(&fiber.context, &scheduler);
  return note(fibers[current].chosen);
}
inline void step() {
  if (current < 0) return;
  Fiber& fiber = fibers[current];
  fiber.choices = 1;
  swapcontext(&fiber.context, &scheduler);
  note(0);  // that it has come this far
}

// The thread knows no more than that it is here: what it learnt before does not decide what it does from now on.
inline void stand_at(uint64_t place) { fibers[current].known = mixed(0, place + 1); }

[[noreturn]] inline void fail(const char* what) {
  std::printf("%s\n", what);
  std::exit(1);
}

struct Counts {
  int64_t states = 0, ends = 0;
};

// World: plain memory without padding, shared by the threads. `check` is asked in every state, `check_end` where all threads
// are through, with what it may change.
template <class World>
class Exploration {
 public:
  Exploration(World& world, std::vector<std::function<void()>> threads, std::function<void()> check,
              std::function<void()> check_end)
      : world_(world), threads_(std::move(threads)), check_(std::move(check)), check_end_(std::move(check_end)) {}

  Counts run() {
    begin_fibers();
    enter(-1);
    while (!path_.empty()) {
      Node& node = path_.back();
      if (!advance(node)) {
        path_.pop_back();
        continue;
      }
      const int64_t from = node.state;
      restore(node.snapshot);
      resume(node.fiber, node.choice);
      enter(from);
    }
    check_that_all_come_to_an_end();
    return {static_cast<int64_t>(found_.size()), ends_};
  }

 private:
  struct Saved {
    ucontext_t context;
    uint64_t known;
    int choices;
    bool done;
    std::vector<char> stack;
  };
  struct Snapshot {
    World world;
    std::vector<Saved> fibers;
  };
  struct Node {
    Snapshot snapshot;
    int64_t state;
    int fiber = 0, choice = -1;
  };

  void begin_fibers() {
    fibers = std::vector<Fiber>(threads_.size());
    self() = this;
    for (size_t i = 0; i < fibers.size(); ++i) {
      Fiber& fiber = fibers[i];
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack;
      fiber.context.uc_stack.ss_size = kStack;
      fiber.context.uc_link = nullptr;
      makecontext(&fiber.context, reinterpret_cast<void (*)()>(&Exploration::main_of), 1, static_cast<int>(i));
      resume(static_cast<int>(i), 0);  // up to its first step
    }
  }

  static Exploration*& self() {
    static Exploration* running = nullptr;
    return running;
  }
  static void main_of(int i) {
    self()->threads_[i]();
    fibers[i].done = true;
    swapcontext(&fibers[i].context, &scheduler);
  }

  static void resume(int i, int choice) {
    current = i;
    fibers[i].chosen = choice;
    swapcontext(&scheduler, &fibers[i].context);
    current = -1;
  }

  // The next fiber and choice that the state leaves open; false if there are no more.
  static bool advance(Node& node) {
    const auto& saved = node.snapshot.fibers;
    for (;; ++node.fiber, node.choice = -1) {
      if (node.fiber == static_cast<int>(saved.size())) return false;
      if (!saved[node.fiber].done && ++node.choice < saved[node.fiber].choices) return true;
    }
  }

  // The state that the last step has led to.
  void enter(int64_t from) {
    uint64_t hash = 0;
    bool done = true;
    const char* const bytes = reinterpret_cast<const char*>(&world_);
    for (size_t i = 0; i < sizeof(World); i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, bytes + i, std::min<size_t>(8, sizeof(World) - i));
      hash = mixed(hash, word);
    }
    for (const Fiber& fiber : fibers) {
      hash = mixed(mixed(hash, fiber.known), 2 * fiber.choices + fiber.done);
      done &= fiber.done;
    }
    const auto [at, is_new] = found_.try_emplace(hash, static_cast<int64_t>(found_.size()));
    if (from >= 0) edges_.push_back({from, at->second});
    if (!is_new) return;
    check_();
    if (done) {
      end_states_.push_back(at->second);
      ++ends_;
      check_end_();
      return;
    }
    path_.push_back({snapshot(), at->second});
  }

  Snapshot snapshot() const {
    Snapshot taken{world_, {}};
    for (const Fiber& fiber : fibers) {
      const char* const top = fiber.stack + kStack;
      const char* low = reinterpret_cast<const char*>(fiber.context.uc_mcontext.gregs[REG_RSP]) - 128;  // the red zone
      if (fiber.done) low = top;
      taken.fibers.push_back({fiber.context, fiber.known, fiber.choices, fiber.done, {low, top}});
    }
    return taken;
  }

  void restore(const Snapshot& from) const {
    world_ = from.world;
    for (size_t i = 0; i < fibers.size(); ++i) {
      const Saved& saved = from.fibers[i];
      Fiber& fiber = fibers[i];
      fiber.context = saved.context;
      fiber.known = saved.known;
      fiber.choices = saved.choices;
      fiber.done = saved.done;
      std::copy(saved.stack.begin(), saved.stack.end(), fiber.stack + kStack - saved.stack.size());
    }
  }

  void check_that_all_come_to_an_end() const {
    std::vector<std::vector<int64_t>> into(found_.size());
    for (const auto& [from, to] : edges_) into[to].push_back(from);
    std::vector<bool> reaches(found_.size());
    std::vector<int64_t> open = end_states_;
    for (const int64_t state : open) reaches[state] = true;
    while (!open.empty()) {
      const int64_t state = open.back();
      open.pop_back();
      for (const int64_t before : into[state])
        if (!reaches[before]) {
          reaches[before] = true;
          open.push_back(before);
        }
    }
    for (const bool each : reaches)
      if (!each) fail("threads can come to where they never end");
  }

  World& world_;
  std::vector<std::function<void()>> threads_;
  std::function<void()> check_, check_end_;
  std::vector<Node> path_;
  std::unordered_map<uint64_t, int64_t> found_;
  std::vector<std::pair<int64_t, int64_t>> edges_;
  std::vector<int64_t> end_states_;
  int64_t ends_ = 0;
};

}  // namespace explorer
