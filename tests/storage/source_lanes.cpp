// Warps read arrays through a cache over queues over a device in software (controller.hpp) that is late, fails, loses
// completions and is removed: what they read is what is stored, and all of them come to their end. With lanes in place of a
// warp, or, without tests/lanes on the compiler's path, with one. (Threads that wait give way, so on a busy machine it takes
// long.)
#include <unistd.h>

#include "hinterland/graph/visit.hpp"
#include "hinterland/storage/mixed.hpp"
#include "warps.hpp"

using namespace test;

namespace {

// Reads up to four elements of an array of which `count` can be read: next to each other, the same ones, none, or anywhere.
template <class T, class Source, class Draw>
void read_some(const Source& source, uint64_t home, int64_t count, std::mt19937_64& random, unsigned kind, const Draw& drawn) {
  memory::Meter meter;
  int64_t at[4];
  T to[4];
  for (int k = 0; k < 4; ++k) {
    const int64_t near = static_cast<int64_t>(kind / 8 * 7919) + Warp::kWidth * k + Warp::lane();
    at[k] = kind % 4 == 0 ? near % count : kind % 4 == 1 ? kind / 8 % count : drawn(static_cast<int64_t>(random() % count));
    if (random() % 5 == 0) at[k] = memory::kNowhere;
  }
  if (kind % 8 == 7) {  // by some of the lanes, which do not wait for the others
    for (int k = 0; k < 4; ++k) {
      if (at[k] == memory::kNowhere) continue;
      CHECK(source.read_alone(at[k]) == (Storage::stored_at<T>(home + at[k] * sizeof(T))), "alone");
    }
    return;
  }
  if (kind % 8 == 6) {  // a run, of which each element comes to one lane
    const int64_t begin = kind / 8 % count, end = std::min<int64_t>(count, begin + kind / 64 % 3000);
    int64_t visits = 0, sum = 0;
    const auto visit = [&](int64_t i, T element) {
      CHECK(element == (Storage::stored_at<T>(home + i * sizeof(T))), "element %lld of a run", static_cast<long long>(i));
      ++visits, sum += i;
    };
    source.read_run(begin, end, visit, meter);
    visits = Warp::sum(visits), sum = Warp::sum(sum);
    CHECK(visits == end - begin && 2 * sum == (begin + end - 1) * visits, "elements of a run");
    return;
  }
  kind / 8 % 2 == 0 ? source.read(at, to, meter) : source.read_scattered(at, to, meter);
  for (int k = 0; k < 4; ++k)
    CHECK(to[k] == (at[k] == memory::kNowhere ? T{} : Storage::stored_at<T>(home + at[k] * sizeof(T))), "element %lld",
          static_cast<long long>(at[k]));
}

// Arrays of several types in one page space: none is found in place of another, and they need not begin with a line.
void check_arrays(const Shape& shape, uint64_t seed) {
  const Faults faults{.late = 4, .reorder = true};
  Storage storage(shape, faults, seed);
  const uint64_t bytes = kPages * shape.line, homes[] = {8, bytes / 4 + 8, bytes / 2};
  const auto anywhere = [](int64_t at) { return at; };
  run_warps(seed, [&](std::mt19937_64& random) {
    for (unsigned round = 0; round < kRounds; ++round) {
      const unsigned kind = static_cast<unsigned>(test::mixed(seed * 1000 + round));
      read_some<int32_t>(storage.array<int32_t>(homes[0]), homes[0], bytes / 16 - 2, random, kind, anywhere);
      read_some<int64_t>(storage.array<int64_t>(homes[1]), homes[1], bytes / 32 - 1, random, kind / 2, anywhere);
      read_some<uint8_t>(storage.array<uint8_t>(homes[2]), homes[2], bytes / 2, random, kind / 4, anywhere);
    }
  });
  CHECK(storage.status() == 0 && storage.control().reads > 0, "status %x", storage.status());
  storage.stop();
  storage.check_at_rest();
  uint64_t read = 0;
  for (int i = 0; i < shape.channels; ++i) read += storage.device(i).read;
  CHECK(read == storage.control().reads, "each read was counted");
}

// Numbers of pages that differ in their high bits alone (BaM cut them short, its pull request 39).
void check_high_bits() {
  const Shape shape{.sets = 2, .spread = 33};
  Storage storage(shape, Faults{}, 5);
  const auto source = storage.array<int32_t>(0);
  run_warps(5, [&](std::mt19937_64& random) {
    for (unsigned round = 0; round < kRounds; ++round) {
      memory::Meter meter;
      int64_t at[2];
      int32_t to[2];
      uint64_t page[2], within[2];
      for (int k = 0; k < 2; ++k) {
        page[k] = random() % 60, within[k] = random() % 1024;
        at[k] = static_cast<int64_t>((page[k] << 33) * 1024 + within[k]);
      }
      round % 2 == 0 ? source.read(at, to, meter) : source.read_scattered(at, to, meter);
      for (int k = 0; k < 2; ++k) CHECK(to[k] == Storage::stored_at<int32_t>(page[k] * 4096 + within[k] * 4), "another page's");
    }
  });
  CHECK(storage.status() == 0, "status %x", storage.status());
}

// Whatever the device does, warps come to their end; what could not be read is zero, and the status says why.
void check_failure(const char* what, const Shape& shape, const Faults& faults, const std::vector<uint32_t>& statuses,
                   int64_t beyond = 0) {
  Storage storage(shape, faults, 3);
  const auto begun = std::chrono::steady_clock::now();
  std::atomic<bool> any_zero = false;
  run_warps(3, [&](std::mt19937_64& random) {
    const auto source = storage.array<int64_t>(8);
    for (unsigned round = 0; round < kRounds; ++round) {
      memory::Meter meter;
      int64_t at[2], to[2];
      for (int64_t& one : at) one = static_cast<int64_t>(random() % (kPages * shape.line / 8 - 1)) + beyond;
      round % 2 == 0 ? source.read(at, to, meter) : source.read_scattered(at, to, meter);
      if (round % 4 == 0 && random() % 2 == 0) to[0] = source.read_alone(at[0]);
      for (int k = 0; k < 2; ++k) {
        CHECK(to[k] == 0 || to[k] == Storage::stored_at<int64_t>(8 + at[k] * 8), "%s: wrong data", what);
        if (to[k] == 0) any_zero = true;
      }
    }
  });
  const auto passed = std::chrono::steady_clock::now() - begun;
  const bool expected = std::count(statuses.begin(), statuses.end(), storage.status() & 0x7ff) == 1;
  CHECK(expected && any_zero, "%s: status %x", what, storage.status());
  CHECK(passed < std::chrono::seconds(60), "%s: waited too long", what);
  storage.stop();
  storage.check_at_rest();
}

// Lines that lanes wrote make room for others, by writes that a warp's lanes begin together, and are read again as they were.
void check_writes() {
  constexpr uint64_t kTurns = Warp::kWidth == 1 ? 40 : 4;
  Storage storage({.entries = 16, .channels = 1}, Faults{.reorder = true}, 9);
  const auto& store = storage.store;
  run_warps(9, [&](std::mt19937_64& random) {
    const uint64_t first = random();
    for (uint64_t turn = 0; turn < kTurns; ++turn) {
      bool wants = Warp::lane() % 4 == 0;
      const Page page = (first + turn) % 40;
      for (uint32_t round = 0; Warp::any(wants); ++round) {
        const CacheLookup found = store.start<Warp>(wants, page);
        if (found.outcome == Try::kHeld) {
          auto& word = *reinterpret_cast<uint64_t*>(storage.store.cache.frame(found.slot) + page * 8);
          atomic_add(word, uint64_t{1});
          wrote(store.cache.words[found.slot]);
          store.lines().release(found.slot);
          wants = false;
        }
        CHECK(store.progress<Warp>(round, ~uint64_t{0}), "time");
      }
    }
  });
  auto device = store.device(0, kNoDeadline);
  for (int64_t slot = 0; slot < store.cache.num_slots(); ++slot)
    while (Line{store.cache.words[slot]}.is(Line::kBusy) || store.cache.write_back(slot, device) != Try::kHeld)
      store.progress<Alone>(0, 0);
  storage.stop();
  uint64_t added = 0;
  for (uint64_t page = 0; page < 40; ++page) {
    uint64_t word;
    std::memcpy(&word, &storage.disk()[page * 4096 + page * 8], 8);
    added += word - Storage::stored_at<uint64_t>(page * 4096 + page * 8);
  }
  CHECK(added == kWarps * kTurns * ((Warp::kWidth + 3) / 4), "%llu writes", static_cast<unsigned long long>(added));
  CHECK(storage.control().writes > 0, "lines made room");
  storage.check_at_rest();
}

struct Adder {
  int64_t sum = 0, edges = 0;

  template <class Batch>
  void operator()(const Batch& batch) {
    for (int k = 0; k < batch.kSize; ++k)
      if (batch.from[k] >= 0) sum += batch.from[k] * 31 + static_cast<int64_t>(batch.to[k]) * batch.weight[k], ++edges;
  }
};

struct Counts {
  memory::Meter meter;
  int64_t bad = stdlib::numeric_limits<int64_t>::max();
};

template <class Graph>
std::pair<int64_t, int64_t> visited(const graph::GraphWords& words) {
  const Graph graph(words);
  std::atomic<int64_t> sum = 0, edges = 0;
  run_warps(1, [&](std::mt19937_64&) {
    Adder adder;
    Counts counts;
    for (int64_t v = Warp::lane(); v - Warp::lane() < graph.num_vertices; v += Warp::kWidth) {
      const auto lists = graph::lists_of(graph, v, v < graph.num_vertices, counts);
      graph::visit_chunks(graph, lists, v, 0, lists.chunks, adder, counts);
    }
    for (int64_t v = 0; v < graph.num_vertices; v += 7) {
      const graph::Piece list = graph.offsets.list_alone(v);
      adder.sum += graph::find_neighbor(graph, v, list.begin, list.end, [](int64_t to) { return to % 5 == 0; }, counts);
    }
    CHECK(counts.bad == stdlib::numeric_limits<int64_t>::max(), "a neighbour that there is not");
    sum += adder.sum, edges += adder.edges;
  });
  return {sum, edges};
}

// Lists and weights of a graph, of a vertex after the other, are what they are in memory.
void check_graph(int64_t line) {
  Storage storage({.line = line, .sets = 2}, Faults{.late = 4, .reorder = true}, 7);
  std::vector<int64_t> offsets{0};
  std::mt19937_64 random(7);
  const int64_t weights = kPages / 2 * line;
  while (offsets.back() < weights / 4 - 5000)
    offsets.push_back(offsets.back() + static_cast<int64_t>(random() % 9 == 0 ? random() % 4000 : random() % 20));
  graph::GraphWords words{};
  words.num_vertices = static_cast<int64_t>(offsets.size()) - 1;
  words.num_edges = offsets.back();
  words.offsets = {offsets.data(), 8};
  std::vector<int32_t> edges;
  while (static_cast<int64_t>(edges.size()) < words.num_edges)
    edges.push_back(static_cast<int32_t>(random() % words.num_vertices));
  std::memcpy(&storage.disk()[36], edges.data(), edges.size() * 4);
  words.edges = {edges.data(), nullptr, nullptr, nullptr};
  words.weights = {&storage.disk()[weights], nullptr, nullptr, nullptr};
  graph::GraphWords stored = words;
  stored.edges = {reinterpret_cast<const void*>(uint64_t{36}), nullptr, nullptr, &storage.store};
  stored.weights = {reinterpret_cast<const void*>(static_cast<uint64_t>(weights)), nullptr, nullptr, &storage.store};
  const auto expected = visited<graph::Csr<int32_t, uint8_t, memory::Metered>>(words);
  const auto found = visited<graph::Csr<int32_t, uint8_t, bam::DeviceSources>>(stored);
  CHECK(expected == found && found.second == words.num_edges * kWarps, "%lld edges", static_cast<long long>(found.second));
}

// A kernel asks for lines and ends; the device answers, and nobody looks for longer than a command may take. Whoever comes then
// finds them there, whichever queue they came by.
void check_nobody_has_looked() {
  constexpr std::chrono::milliseconds kSoon{1000};  // or a busy machine is late by itself
  Storage storage({.sets = 8, .entries = 16, .channels = 4, .timeout = kSoon}, Faults{}, 11);
  run_warps(11, [&](std::mt19937_64&) {
    for (Page page = 0; page < 8; ++page) storage.store.prefetch<Warp>(Warp::lane() == 0, page);
  });
  std::this_thread::sleep_for(kSoon + kSoon / 2);
  run_warps(12, [&](std::mt19937_64&) {
    const auto source = storage.array<int64_t>(8);
    memory::Meter meter;
    for (int64_t page = 0; page < 8; ++page) {
      const int64_t at[] = {page * 512 + Warp::lane()};
      int64_t to[1];
      source.read(at, to, meter);
      CHECK(to[0] == Storage::stored_at<int64_t>(8 + at[0] * 8), "wrong data");
    }
  });
  CHECK(storage.status() == 0, "status %x", storage.status());
  storage.stop();
  storage.check_at_rest();
}

// Lanes ask for runs of their own, which overlap or are empty: each line of them is read once, no other is, and who reads the
// elements later reads no line again.
void check_asked() {
  Storage storage({.line = 512, .sets = 64, .entries = 64}, Faults{.late = 4, .reorder = true}, 15);
  const StoredOrNear<int32_t, DeviceStore> source(
      {reinterpret_cast<const void*>(uint64_t{1024}), nullptr, nullptr, &storage.store}, 0);
  CHECK(source.bytes_ahead() == 64 * 8 * 512 / 4 && source.bytes_read(1) == 512 && source.bytes_read(2048) == 8192, "bytes");
  const auto begin_of = [](int64_t turn) { return (turn * 37 + Warp::lane() * 90) % 6000; };
  const auto end_of = [&](int64_t turn) {
    return begin_of(turn) + std::max<int64_t>(0, (turn * 7 + Warp::lane()) % 400 - 100);
  };
  constexpr int64_t kTurns = Warp::kWidth == 1 ? 12 : 3;
  std::vector<std::atomic<int>> wanted(kPages);
  std::atomic<int64_t> begun = 0;
  run_warp([&] {
    for (int64_t turn = 0; turn < kTurns; ++turn) {
      for (int64_t at = begin_of(turn); at < end_of(turn); ++at) wanted[(1024 + at * 4) / 512] = 1;
      begun += source.ask(begin_of(turn), end_of(turn));
      Warp::sync();
    }
  });
  const auto lines = static_cast<uint64_t>(std::count(wanted.begin(), wanted.end(), 1));
  CHECK(storage.control().reads == lines && begun == static_cast<int64_t>(lines), "%llu reads of %llu lines",
        static_cast<unsigned long long>(storage.control().reads), static_cast<unsigned long long>(lines));
  run_warp([&] {
    memory::NoMeter meter;
    for (int64_t turn = 0; turn < kTurns; ++turn)
      for (int64_t i = 0; i < 400; ++i) {
        const int64_t wants = begin_of(turn) + i;
        const int64_t at[] = {wants < end_of(turn) ? wants : memory::kNowhere};
        int32_t to[1];
        source.read(at, to, meter);
        CHECK(to[0] == (at[0] < 0 ? 0 : Storage::stored_at<int32_t>(1024 + wants * 4)), "wrong data");
      }
  });
  CHECK(storage.control().reads == lines && storage.status() == 0, "a line was read again");
  storage.stop();
  storage.check_at_rest();
}

// Far more lines are wanted at once than the queue has room for. Whoever must wait for a place takes no line's room meanwhile:
// what has come for others stays until they come by. (It did not: a line was claimed, so its page gone, before the queue
// refused.)
void check_full_queue() {
  Storage storage({.sets = 8, .entries = 4, .channels = 1}, Faults{.late = 4}, 13);
  const auto read_own = [&](int64_t first, int64_t wanted) {  // a page for each lane of each warp
    run_warps(13, [&](std::mt19937_64&) {
      const auto source = storage.array<int64_t>(8);
      const int64_t own = static_cast<int64_t>(current_warp()) * Warp::kWidth + Warp::lane();
      const int64_t at[] = {own < wanted ? (first + own) * 512 + own : memory::kNowhere};
      int64_t to[1];
      memory::Meter meter;
      source.read(at, to, meter);
      CHECK(own >= wanted || to[0] == Storage::stored_at<int64_t>(8 + at[0] * 8), "wrong data");
    });
  };
  for (int64_t first = 0; first < 160; first += 40) read_own(first, 40);
  const uint64_t before = storage.control().reads;
  read_own(160, 40);
  const uint64_t read = storage.control().reads - before;
  CHECK(read <= 50, "%llu lines were read for 40", static_cast<unsigned long long>(read));
  CHECK(storage.status() == 0, "status %x", storage.status());
  storage.stop();
  storage.check_at_rest();
}

void check_all() {
  check_arrays({.line = 512, .sets = 1, .entries = 64}, 1);   // fewer lines than are wanted at once
  check_arrays({.line = 16384, .sets = 8, .entries = 4}, 2);  // fewer commands
  check_high_bits();
  constexpr std::chrono::milliseconds kSoon{30};
  check_failure("errors", {}, Faults{.fatal = 1000}, {kUnrecoveredReadError, kWriteFault});
  check_failure("out of range", {}, Faults{}, {kOutOfRange}, kPages * 4096 / 8);
  check_failure("removal", {}, Faults{.removed_after = 20}, {kHostPathError});
  check_failure("deadlines", {.timeout = kSoon}, Faults{.lost = 1000}, {kAbortedByHost});
  check_failure("no room any more", {.entries = 2, .channels = 1, .timeout = kSoon}, Faults{.lost = 300}, {kAbortedByHost});
  check_nobody_has_looked();
  check_full_queue();
  check_asked();
#if !defined(__SANITIZE_THREAD__)  // a device, or who copies for it, reads lines that others may be writing
  check_writes();
#endif
  check_graph(4096);
}

}  // namespace

int main() {
  alarm(300);
  check_all();
  return 0;
}
