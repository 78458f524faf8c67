// The part of OpenMP's runtime that the native module calls, on std::thread. ThreadSanitizer sees how threads that it knows
// wait for each other; what libgomp's do is hidden from it. The calls are those of GCC (libgomp_g.h), so all loops are compiled
// as always, and nothing is ordered here that OpenMP leaves open.
//
// Turns of a loop go to the threads one after another, however fast each is: all of them work on every loop, also on a short
// one, and what races is found in every run.
#include <algorithm>
#include <barrier>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr int kThreads = 4;

struct Team {
  explicit Team(int threads) : size(threads), barrier(threads) {}

  int size;
  std::barrier<> barrier;
};

struct Member {
  Team* team = nullptr;
  int number = 0;
  int singles = 0;                     // met so far
  long begin = 0, end = 0, chunk = 1;  // of the loop that it is in, or the turns of its sections
  long following = 0;

  void enter(long first, long last, long each) {
    begin = first, end = last, chunk = each;
    following = number;
  }
  long turn() { return std::exchange(following, following + team->size); }
};

thread_local Member self;
thread_local int threads = kThreads;
std::mutex critical, atomic;

}  // namespace

extern "C" {

void omp_set_num_threads(int count) { threads = count; }
int omp_get_max_threads() { return threads; }
int omp_get_num_threads() { return self.team == nullptr ? 1 : self.team->size; }
int omp_get_thread_num() { return self.number; }

void GOMP_parallel(void (*body)(void*), void* data, unsigned asked, unsigned) {
  Team team(self.team != nullptr ? 1 : asked > 0 ? static_cast<int>(asked) : threads);
  const auto work = [&](int number) {
    const Member outer = std::exchange(self, Member{&team, number});
    body(data);
    self = outer;
  };
  std::vector<std::jthread> others;
  for (int number = 1; number < team.size; ++number) others.emplace_back(work, number);
  work(0);
}

bool GOMP_loop_nonmonotonic_dynamic_next(long* first, long* last) {
  *first = self.begin + self.turn() * self.chunk;
  *last = std::min(*first + self.chunk, self.end);
  return *first < self.end;
}

// The loops of this module count upwards by one.
bool GOMP_loop_nonmonotonic_dynamic_start(long begin, long end, long step, long chunk, long* first, long* last) {
  if (step != 1) std::abort();
  self.enter(begin, end, chunk);
  return GOMP_loop_nonmonotonic_dynamic_next(first, last);
}

void GOMP_loop_end_nowait() {}

unsigned GOMP_sections_next() {
  const long turn = self.turn();
  return turn < self.end ? static_cast<unsigned>(turn) + 1 : 0;
}

unsigned GOMP_sections_start(unsigned count) {
  self.enter(0, count, 1);
  return GOMP_sections_next();
}

void GOMP_sections_end_nowait() {}
bool GOMP_single_start() { return self.singles++ % self.team->size == self.number; }
void GOMP_barrier() { self.team->barrier.arrive_and_wait(); }
void GOMP_critical_start() { critical.lock(); }
void GOMP_critical_end() { critical.unlock(); }
void GOMP_atomic_start() { atomic.lock(); }
void GOMP_atomic_end() { atomic.unlock(); }

}  // extern "C"
