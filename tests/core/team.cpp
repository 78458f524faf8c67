// Loops of a team of threads: each item once, an exception reaches the caller, and a loop is over when its items are, whether
// or not all threads have come to it.
#include "core/team.hpp"

#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace hinterland;

int main() {
  const int threads = 4 * static_cast<int>(std::max(4u, std::thread::hardware_concurrency())), loops = 500;
  native::set_num_threads(threads);
  native::ThreadTeam team;
  std::vector<int64_t> visits(1000);
  int64_t came = 0;
  bool known = true;
  for (int loop = 0; loop < loops; ++loop)
    team.dynamic_for(static_cast<int64_t>(visits.size()), [&](const auto& items) {
      atomic_add(came, int64_t{1});
      if (team.thread() < 0 || team.thread() >= threads) known = false;
      items([&](int64_t i) { ++visits[i]; });
    });
  for (const int64_t each : visits)
    if (each != loops) return std::printf("an item was visited %lld times\n", static_cast<long long>(each)), 1;
  if (!known) return std::printf("a thread without a number\n"), 1;
  if (came < loops || came >= int64_t{threads} * loops) return std::printf("%lld came\n", static_cast<long long>(came)), 1;
  for (int time = 0; time < 50; ++time) {
    bool caught = false;
    try {
      team.dynamic_for(1000, [](const auto& items) {
        items([](int64_t i) {
          if (i == 500) throw std::runtime_error("item 500");
        });
      });
    } catch (const std::runtime_error&) {
      caught = true;
    }
    if (!caught) return std::printf("an exception was lost\n"), 1;
  }
  // Tasks: each once, by threads with numbers of their own, none after one that failed.
  for (const int64_t count : {0, 1, 7, 1000}) {
    std::vector<int64_t> done(count);
    std::vector<int> at_work(threads);
    bool alone = true;
    native::parallel_tasks(count, [&](int64_t i, int64_t thread) {
      if (thread < 0 || thread >= threads || at_work[thread]++ != 0) alone = false;
      ++done[i];
      --at_work[thread];
    });
    for (const int64_t each : done)
      if (each != 1) return std::printf("a task was done %lld times\n", static_cast<long long>(each)), 1;
    if (!alone) return std::printf("two threads of a number\n"), 1;
  }
  for (const int by : {1, threads}) {
    native::set_num_threads(by);
    for (int time = 0; time < 50; ++time) {
      int64_t last = 0;
      bool caught = false;
      try {
        native::parallel_tasks(1000, [&](int64_t i, int64_t) {
          if (i == 500) throw std::runtime_error("task 500");
          if (by == 1) last = i;
        });
      } catch (const std::runtime_error&) {
        caught = true;
      }
      if (!caught) return std::printf("a task's exception was lost\n"), 1;
      if (by == 1 && last != 499) return std::printf("task %lld came last\n", static_cast<long long>(last)), 1;
    }
  }
  // Pieces: each number once, none after a piece that failed; and teams whose threads share a counter.
  for (const int64_t count : {0, 1, 9, 10, 11, 1001}) {
    std::vector<int64_t> done(count);
    native::parallel_pieces(
        count,
        [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) ++done[i];
        },
        10);
    native::parallel_for(count, [&](int64_t i) { ++done[i]; }, 7);
    std::atomic<int64_t> next{0};
    native::parallel_team(threads, [&] {
      for (int64_t i; (i = next.fetch_add(1)) < count;) ++done[i];
    });
    for (const int64_t each : done)
      if (each != 3) return std::printf("a number was met %lld times\n", static_cast<long long>(each)), 1;
  }
  bool failed = false;
  try {
    native::parallel_for(1 << 16, [](int64_t i) {
      if (i == 500) throw std::runtime_error("number 500");
    });
  } catch (const std::runtime_error&) {
    failed = true;
  }
  if (!failed) return std::printf("a number's exception was lost\n"), 1;
  native::forked = true;  // as in a child, whose own threads ask OpenMP anew
  int in_child = 0;
  std::thread([&] { in_child = native::num_threads(); }).join();
  native::forked = false;
  if (in_child != 1) return std::printf("%d threads in a forked process\n", in_child), 1;
  // By one thread, in shares that do not come out even, and in order from one counter.
  for (const int64_t count : {0, 1, 129, 1001, (1 << 14) - 1, (1 << 14) + 1, 1 << 17}) {
    std::vector<int64_t> seen(count);
    team.static_for(count, [&](const auto& ranges) { ranges([&](int64_t first, int64_t) { ++seen[first]; }); });
    team.dynamic_for(count, [&](const auto& items) { items([&](int64_t i) { ++seen[i]; }); });
    for (const int64_t each : seen)
      if (each != 2)
        return std::printf("of %lld items one was visited %lld times\n", static_cast<long long>(count),
                           static_cast<long long>(each)),
               1;
  }
  int64_t sum = 0;
  team.static_for(1000, [&](const auto& ranges) { ranges([&](int64_t first, int64_t) { atomic_add(sum, first); }); });
  return sum == 499500 ? 0 : 1;
}
