// Lanes read and write elements as they come, some of them or all, in branches at the same time: what they find is what is
// stored or was written, what was flushed is on the disk, and all come to their end through fewer lines than they want at once.
// As source_lanes.cpp, with 32 lanes and with one.
#include <unistd.h>

#define HINTERLAND_ARRAY_KINDS 13  // near, stored, written
#include "hinterland/kernels/array.hpp"
#include "warps.hpp"

using namespace test;

namespace {

// Elements of eight bytes.
template <bool kSeveral = false>
struct Array {
  uint64_t home;
  DeviceLines<kSeveral> lines;

  int64_t read(int64_t at) const { return static_cast<int64_t>(lines.access(position(at), 0, 8, false)); }
  void write(int64_t at, int64_t value) const { lines.access(position(at), static_cast<uint64_t>(value), 8, true); }
  void prefetch(int64_t begin, int64_t end) const { lines.prefetch(position(begin), position(end)); }

 private:
  uint64_t position(int64_t at) const { return home + static_cast<uint64_t>(at) * 8; }
};

// body() by the lanes of the warp that are in `mask`, which the others do not take part in, and then other() by those.
template <class Body, class Other>
void branch([[maybe_unused]] uint32_t mask, const Body& body, const Other& other) {
#if defined(HINTERLAND_UNSEEN)
  const bool takes = (mask >> Warp::lane() & 1) != 0;
  Lanes::current().diverge(takes ? mask : ~mask);
  takes ? body() : other();
  Lanes::current().diverge(Warp::kAll);
  Warp::sync();
#else
  mask % 2 != 0 ? body() : other();
#endif
}

// Elements of eight bytes that a store was asked for, and those of all sizes that were missed.
std::pair<uint64_t, uint64_t> asked(Storage& storage) {
  uint64_t elements = 0, missed = 0;
  for (uint32_t i = 0; i < kAskedCounters; ++i) {
    const uint64_t* const own = storage.control().asked + i * kAskedWords;
    elements += own[3], missed += own[4];
  }
  return {elements, missed};
}

uint32_t mask_of(uint64_t drawn) {
  const auto bits = static_cast<uint32_t>(drawn >> 8);
  return drawn % 4 == 0 ? Warp::kAll : drawn % 4 == 1 ? bits : drawn % 4 == 2 ? bits & bits >> 7 : 1u << bits % 32;
}

// Each lane has elements of its own, which lie between the others' in the same lines.
void check_elements(const Shape& shape, uint64_t seed) {
  Storage storage(shape, Faults{.late = 4, .reorder = true}, seed);
  const uint64_t home = 24;
  const int64_t count = kPages / 8 * shape.line / 8 - 3, lanes = kWarps * Warp::kWidth;
  std::vector<int64_t> model(count);
  for (int64_t i = 0; i < count; ++i) model[i] = Storage::stored_at<int64_t>(home + i * 8);
  const Array<> array{home, {&storage.store}};
  run_warps(seed, [&](std::mt19937_64& random) {
    const int64_t own = static_cast<int64_t>(current_warp()) * Warp::kWidth + Warp::lane();
    for (unsigned round = 0; round < kRounds; ++round) {
      const uint64_t drawn = test::mixed(seed * 1000 + round * kWarps + current_warp());
      const int64_t turns = (count - own - 1) / lanes + 1;
      const auto pick = [&] {  // near the other lanes' own, or anywhere
        const uint64_t turn = drawn >> 40 & 1 ? drawn >> 41 : random();
        return own + static_cast<int64_t>(turn % static_cast<uint64_t>(turns)) * lanes;
      };
      const auto reads = [&] {
        const int64_t at = pick();
        CHECK(array.read(at) == model[at], "element %lld", static_cast<long long>(at));
      };
      const auto writes = [&] {
        if (kOnce) return reads();
        const int64_t at = pick();
        model[at] = static_cast<int64_t>(random());
        array.write(at, model[at]);
        if (drawn % 3 == 0) CHECK(array.read(at) == model[at], "is not what was written");
      };
      const auto asks = [&] {
        const int64_t begin = pick();
        array.prefetch(begin, begin + static_cast<int64_t>(drawn % 3 == 0 ? random() % 2 : drawn % 900));
      };
      const auto rests = [] {};
      const uint32_t mask = mask_of(drawn);
      drawn % 7 < 2   ? branch(mask, writes, rests)
      : drawn % 7 < 4 ? branch(mask, writes, reads)
      : drawn % 7 < 6 ? branch(mask, reads, asks)
                      : branch(mask, asks, writes);
    }
  });
  CHECK(storage.status() == 0, "status %x", storage.status());
  run_warps(0, [&](std::mt19937_64&) { write_back(storage.store, current_warp(), kWarps); });
  flush(storage.store);
  CHECK(storage.status() == 0, "status %x", storage.status());
  storage.stop();
  std::vector<uint8_t> expected(storage.disk().size());
  for (size_t at = 0; at < expected.size(); ++at) expected[at] = Storage::stored(at);
  std::memcpy(&expected[home], model.data(), model.size() * 8);
  CHECK(expected == storage.disk(), "the disk");
  storage.check_at_rest();
}

kernels::array<int64_t> array_at(uint64_t home, int64_t count, const Storage& storage, int64_t line) {
  const kernels::ArgumentWords words{
      reinterpret_cast<void*>(home), count, HINTERLAND_STORED, 0, &storage.store, nullptr, nullptr, line / 8, 0};
  return std::bit_cast<kernels::array<int64_t>>(words);
}

// References of threads and of warps, several at once, whose lines are kept while others are waited for: also where there are
// fewer lines than references. One array is written, by each lane its own elements, and one only read.
void check_references(const Shape& shape, uint64_t seed) {
  Storage storage(shape, Faults{.late = 4, .reorder = true}, seed);
  const int64_t count = kPages / 4 * shape.line / 8 - 3, lanes = kWarps * Warp::kWidth;
  const uint64_t home = 24, constant = kPages / 2 * shape.line + 40;
  std::vector<int64_t> model(count);
  for (int64_t i = 0; i < count; ++i) model[i] = Storage::stored_at<int64_t>(home + i * 8);
  const auto changed = array_at(home, count, storage, shape.line), same = array_at(constant, count, storage, shape.line);
  const auto stored = [&](int64_t at) { return at < count ? Storage::stored_at<int64_t>(constant + at * 8) : 0; };
  run_warps(seed, [&](std::mt19937_64& random) {
    const int64_t own = static_cast<int64_t>(current_warp()) * Warp::kWidth + Warp::lane();
    kernels::array_ref ref(&changed), other(&same);
    kernels::warp_ref whole(&same), writer(&changed);
    for (unsigned round = 0; round < kRounds; ++round) {
      const uint64_t drawn = test::mixed(seed * 1000 + round * kWarps + current_warp());
      const auto rests = [] {};
      const auto reads = [&] {
        const int64_t begin = static_cast<int64_t>(random() % static_cast<uint64_t>(count));
        for (int64_t at = begin; at < std::min<int64_t>(count, begin + 20); ++at)
          CHECK(other[at] == stored(at), "element %lld by a thread", static_cast<long long>(at));
      };
      const auto writes = [&] {
        if (kOnce) return reads();
        int64_t at = own + static_cast<int64_t>(random() % static_cast<uint64_t>(count / lanes)) * lanes;
        for (int k = 0; k < 3 && at < count; ++k, at += lanes) {
          CHECK(ref[at] == model[at], "element %lld to be written", static_cast<long long>(at));
          ref[at] = model[at] = static_cast<int64_t>(random());
        }
      };
      // One after the other: they go round loops, and ask the array itself, each as often as it happens.
      for (int lane = 0; lane < Warp::kWidth; ++lane)
        drawn >> lane & 1 ? branch(1u << lane, writes, rests) : branch(1u << lane, reads, rests);
      const int64_t first = static_cast<int64_t>(drawn >> 20) % count;
      int64_t some[5];
      for (int64_t at = first; at < std::min(count, first + 900); at += 5 * Warp::kWidth) {
        whole.read(at, some);
        for (int k = 0; k < 5; ++k)
          CHECK(some[k] == stored(at + k * Warp::kWidth + Warp::lane()), "element %lld by a warp", static_cast<long long>(at));
      }
      const int64_t mine = own + static_cast<int64_t>(drawn >> 20) % (count / lanes) * lanes;
      if (!kOnce) writer.write(mine, model[mine] = static_cast<int64_t>(random()));
    }
  });
  CHECK(storage.status() == 0, "status %x", storage.status());
  run_warps(0, [&](std::mt19937_64&) { write_back(storage.store, current_warp(), kWarps); });
  flush(storage.store);
  storage.stop();
  CHECK(std::memcmp(&storage.disk()[home], model.data(), model.size() * 8) == 0, "the disk");
  storage.check_at_rest();
}

// A run that a thread or a warp reads through a reference looks a line up once, and holds it till then.
void check_one_look() {
  Storage storage({.sets = 16}, Faults{}, 9);
  const auto array = array_at(0, 3 * 512, storage, 4096);
  run_warps(9, [&](std::mt19937_64&) {
    if (current_warp() != 0) return;
    const auto holders = [&] {
      uint64_t sum = 0;
      for (int64_t slot = 0; slot < storage.store.cache.num_slots(); ++slot)
        sum += Line{atomic_load(storage.store.cache.words[slot])}.holders();
      return sum;
    };
    {
      kernels::warp_ref ref(&array);
      int64_t own[1];
      for (int64_t at = 0; at < 3 * 512; at += Warp::kWidth) {
        ref.read(at, own);
        CHECK(own[0] == Storage::stored_at<int64_t>((at + Warp::lane()) * 8), "element %lld", static_cast<long long>(at));
        Warp::sync();
        if (at % 512 >= Warp::kWidth) CHECK(holders() == 1, "%llu hold a line", static_cast<unsigned long long>(holders()));
        Warp::sync();
      }
    }
    Warp::sync();
    CHECK(holders() == 0, "held behind its end");
    const auto reads = [&] {
      kernels::array_ref ref(&array);
      for (int64_t at = 0; at < 3 * 512; ++at) {
        CHECK(ref[at] == Storage::stored_at<int64_t>(at * 8), "element %lld", static_cast<long long>(at));
        CHECK(holders() == 1, "%llu hold a line", static_cast<unsigned long long>(holders()));
      }
    };
    branch(1, reads, [] {});
  });
  CHECK(asked(storage).first == 2 * 3 * 512, "%llu elements were counted",
        static_cast<unsigned long long>(asked(storage).first));
}

// Lanes that want one line ask for it once.
void check_one_hold() {
  Storage storage({.sets = 8}, Faults{}, 3);
  const Array<> array{0, {&storage.store}};
  run_warps(3, [&](std::mt19937_64&) {
    const auto reads = [&] {
      const int64_t at = 512 * current_warp() + Warp::lane();
      CHECK(array.read(at) == Storage::stored_at<int64_t>(at * 8), "element %lld", static_cast<long long>(at));
    };
    branch(0x0ff0ff01, reads, reads);
  });
  CHECK(storage.control().reads == kWarps, "%llu lines were read", static_cast<unsigned long long>(storage.control().reads));
  const auto [elements, missed] = asked(storage);
  CHECK(elements == kWarps * Warp::kWidth, "%llu elements were counted", static_cast<unsigned long long>(elements));
  CHECK(missed >= kWarps && missed <= elements, "%llu were missed", static_cast<unsigned long long>(missed));
}

// Lanes that come together with arrays of two stores, of which pages have the same numbers, each find and write their own.
void check_two_stores(const Shape& shape) {
  Storage storages[] = {{shape, Faults{.late = 4, .reorder = true}, 6}, {shape, Faults{.reorder = true}, 7}};
  const auto of = [&](uint64_t which) { return Array<true>{0, {&storages[which].store}}; };
  constexpr int64_t kTurns = 40;
  const auto at = [](int64_t turn) { return (turn * kWarps + current_warp()) * Warp::kWidth + Warp::lane(); };
  const auto own = [](int64_t turn) { return test::mixed(turn * Warp::kWidth + Warp::lane()) % 2; };
  run_warps(6, [&](std::mt19937_64&) {
    for (int64_t turn = 0; turn < kTurns; ++turn) {
      const auto array = of(own(turn));
      const auto asks = [&] { array.prefetch(at(turn), at(turn) + 70); };
      branch(mask_of(test::mixed(turn)), asks, [] {});
      array.write(at(turn), -1);
    }
  });
  run_warps(7, [&](std::mt19937_64&) {
    for (int64_t turn = 0; turn < kTurns; ++turn) {
      const auto reads = [&] { CHECK(of(own(turn)).read(at(turn)) == -1, "the own"); };
      const auto others = [&] {
        CHECK(of(1 - own(turn)).read(at(turn)) == Storage::stored_at<int64_t>(at(turn) * 8), "the other");
      };
      branch(mask_of(test::mixed(turn)), reads, others);
    }
  });
  uint64_t elements = 0;
  for (Storage& storage : storages) {
    CHECK(storage.status() == 0, "status %x", storage.status());
    elements += asked(storage).first;
    storage.stop();
  }
  CHECK(elements == 2 * kTurns * kWarps * Warp::kWidth, "%llu elements", static_cast<unsigned long long>(elements));
}

// Pages of a hole are written, and found again, without being read before they were.
void check_hole(const Shape& shape) {
  Storage storage(shape, Faults{.reorder = true}, 5);
  const int64_t line = shape.line / 8, first = 3, pages = 40;
  std::vector<uint32_t> met(pages / 32 + 1);
  storage.store.hole_first = first, storage.store.hole_end = first + pages, storage.store.hole_met = met.data();
  std::memset(&storage.disk()[first * shape.line], 0, pages * shape.line);
  const Array<> array{0, {&storage.store}};
  run_warps(5, [&](std::mt19937_64&) {
    for (int64_t i = current_warp(); i < pages * line / Warp::kWidth; i += kWarps) {
      const int64_t at = first * line + i * Warp::kWidth + Warp::lane();
      const auto writes = [&] { array.write(at, at); };
      const auto reads = [&] { CHECK(array.read(at) == 0, "element %lld", static_cast<long long>(at)); };
      branch(mask_of(test::mixed(i)), writes, reads);
    }
  });
  CHECK(shape.sets == 1 || storage.control().reads == 0, "a page of zeros was read");
  run_warps(5, [&](std::mt19937_64&) {
    for (int64_t i = current_warp(); i < pages * line / Warp::kWidth; i += kWarps) {
      const int64_t at = first * line + i * Warp::kWidth + Warp::lane();
      const uint32_t mask = mask_of(test::mixed(i));
      const bool written = Warp::kWidth == 1 ? mask % 2 != 0 : (mask >> Warp::lane() & 1) != 0;
      CHECK(array.read(at) == (written ? at : 0), "element %lld", static_cast<long long>(at));
    }
    write_back(storage.store, current_warp(), kWarps);
  });
  CHECK((shape.sets == 1) == (storage.control().reads > 0), "what was given away is read again");
  flush(storage.store);
  CHECK(storage.status() == 0, "status %x", storage.status());
  storage.stop();
  const auto* const words = reinterpret_cast<const int64_t*>(storage.disk().data());
  for (int64_t i = 0; i < pages * line; ++i) {
    const uint32_t mask = mask_of(test::mixed(i / Warp::kWidth));
    const bool written = Warp::kWidth == 1 ? mask % 2 != 0 : (mask >> i % Warp::kWidth & 1) != 0;
    CHECK(words[first * line + i] == (written ? first * line + i : 0), "word %lld", static_cast<long long>(i));
  }
  storage.check_at_rest();
}

// What cannot be read is said, is zero, and keeps nobody.
void check_failure() {
  Storage storage({.channels = 1, .timeout = std::chrono::milliseconds(30)}, Faults{.lost = 1000}, 7);
  const Array<> array{0, {&storage.store}};
  run_warps(7, [&](std::mt19937_64& random) {
    const auto reads = [&] { CHECK(array.read(static_cast<int64_t>(random() % 5000)) == 0, "was not read"); };
    const auto writes = [&] { array.write(static_cast<int64_t>(random() % 5000), 1); };
    branch(0xffff, reads, writes);
    branch(Warp::kAll, writes, reads);
  });
  CHECK(storage.status() == kAbortedByHost, "status %x", storage.status());
}

}  // namespace

int main() {
  alarm(300);
  check_elements({.line = 512, .sets = 1}, 1);  // fewer lines than are wanted at once
  check_elements({.line = 4096, .sets = 1, .channels = 1}, 2);
  check_elements({.line = 512, .sets = 3, .entries = 4}, 3);  // fewer commands
  check_elements({.line = 16384, .sets = 20}, 4);
  check_references({.line = 512, .sets = 1}, 5);
  check_references({.line = 4096, .sets = 9, .channels = 1}, 6);
  check_one_look();
  check_one_hold();
  if (!kOnce) check_hole({.line = 512, .sets = 1});
  check_hole({.line = 4096, .sets = 30, .channels = 1});
  check_two_stores({.line = 512, .sets = kOnce ? 20 : 2});  // where a page is written once there is room for all
  check_two_stores({.line = 4096, .sets = 20, .channels = 1});
  check_failure();
  return 0;
}
