// A search by active tiles by threads that wait for each other as the warps of a GPU do, for ThreadSanitizer. Prints the first
// seed that goes wrong.
#include <unistd.h>

#include <barrier>
#include <cstdio>
#include <thread>

#include "../../rounds.hpp"
#include "deep_search.hpp"

using namespace test;

namespace {

constexpr int kThreads = 3;

struct Meeting {
  int64_t taken[2] = {};
  std::barrier<> barrier{kThreads};
};

// GridTeam (hinterland/core/grid.hpp), a thread for each warp.
struct BarrierTeam {
  Meeting& meeting;
  int own;
  int64_t takes = 0;

  template <class F>
  void single(const F& f) const {
    if (own == 0) f();
  }
  void wait() { meeting.barrier.arrive_and_wait(); }
  template <class Body>
  void static_for(int64_t count, const Body& body) {
    body([&](const auto& each) {
      for (int64_t i = own; i < count; i += kThreads) each(i, i + 1);
    });
    wait();
  }
  template <class Body>
  void dynamic_for(int64_t count, const Body& body) {
    int64_t& taken = meeting.taken[takes % 2];
    single([&] { meeting.taken[(takes + 1) % 2] = 0; });
    ++takes;
    body([&](const auto& each) {
      for (int64_t i = own; i < count;) {
        const int64_t following = kThreads + atomic_add(taken, int64_t{1});
        each(i);
        i = following;
      }
    });
    wait();
  }
};

template <class Edge>
bool agrees(unsigned seed) {
  DeepSearch<Edge> search(seed);
  Meeting meeting;
  std::vector<std::thread> threads;
  for (int own = 0; own < kThreads; ++own)
    threads.emplace_back([&, own] {
      BarrierTeam team{meeting, own};
      bam::search_by_tiles<Edge, memory::Unmetered>(team, search.params);
    });
  for (std::thread& thread : threads) thread.join();
  return search.levels == search.expected;
}

}  // namespace

int main() {
  alarm(300);
  for (unsigned seed = 0; seed < test::rounds(100); ++seed)
    if (!agrees<int32_t>(seed) || !agrees<int64_t>(seed)) {
      std::printf("seed %u\n", seed);
      return 1;
    }
}
