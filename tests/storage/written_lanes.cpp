// Warps write arrays through a cache over queues over devices in software: what they wrote is what is read and, once it was
// flushed, what is stored; lines that are overwritten are not read; what the device does not take stays, is said, and is
// written when it does. As source_lanes.cpp, with 32 lanes and with one.
#include <unistd.h>

#include "warps.hpp"

using namespace test;

namespace {

// A store that sees to it that whoever says that he has written to a line holds it.
struct Watched : DeviceStore {
  struct Lines : DeviceStore::Pages {
    void wrote(int64_t slot) const {
      CHECK(Line{atomic_load(this->words[slot])}.holders() > 0, "let go too early");
      DeviceStore::Pages::wrote(slot);
    }
  };
  Lines lines() const { return {this->cache}; }
};

template <class T>
bam::Array<T, Watched> array_of(Watched& store, uint64_t position) {
  return bam::Array<T, Watched>({reinterpret_cast<const void*>(position), nullptr, nullptr, &store}, 0);
}

// By all warps, as a kernel does it, and then by one thread.
void flush_all(Storage& storage) {
  run_warps(0, [&](std::mt19937_64&) { write_back(storage.store, current_warp(), kWarps); });
  flush(storage.store);
}

void check_clean(Storage& storage) {
  for (int64_t slot = 0; slot < storage.store.cache.num_slots(); ++slot)
    CHECK(!Line{storage.store.cache.words[slot]}.is(Line::kDirty | Line::kWriting), "not written");
}

// Each warp has elements of its own, which lie between the others'. What it writes it finds, and what is flushed is on the
// disk.
template <class T>
void check_elements(const Shape& shape, uint64_t seed) {
  Storage storage(shape, Faults{.late = 4, .reorder = true}, seed);
  const uint64_t home = 2 * sizeof(T);
  const int64_t of_page = shape.line / static_cast<int64_t>(sizeof(T)), count = kPages / 16 * of_page - 2;
  std::vector<T> model(count);
  for (int64_t i = 0; i < count; ++i) model[i] = Storage::stored_at<T>(home + i * sizeof(T));
  Watched store{storage.store};
  const auto array = array_of<T>(store, home);
  run_warps(seed, [&](std::mt19937_64& random) {
    const int64_t lanes = kWarps * Warp::kWidth, own = static_cast<int64_t>(current_warp()) * Warp::kWidth + Warp::lane();
    memory::NoMeter meter;
    for (unsigned round = 0; round < (kOnce ? kPages / 16 / kWarps : kRounds); ++round) {
      int64_t at[4];
      T values[4];
      const int64_t page = static_cast<int64_t>(round * kWarps + current_warp()) * of_page;
      for (int k = 0; k < 4; ++k) {
        // Neighbours of other warps' in the same lines; or, once, elements of a page that is this warp's.
        at[k] = kOnce ? page + (Warp::lane() * 4 + k) % (of_page - 2)
                      : static_cast<int64_t>(random() % static_cast<uint64_t>(count / lanes)) * lanes + own;
        if (kOnce && Warp::lane() * 4 + k >= of_page - 2) at[k] = memory::kNowhere;
        if (at[k] >= count || random() % 5 == 0) at[k] = memory::kNowhere;
        values[k] = static_cast<T>(random());
        for (int j = 0; j < k; ++j)
          if (at[j] == at[k]) at[k] = memory::kNowhere;  // any would stay
        if (at[k] != memory::kNowhere) model[at[k]] = values[k];
      }
      array.write(at, values);
      if (kOnce || round % 3 != 0) continue;
      T found[4];
      array.read(at, found, meter);
      for (int k = 0; k < 4; ++k) CHECK(at[k] == memory::kNowhere || found[k] == values[k], "is not what was written");
    }
  });
  CHECK(storage.status() == 0, "status %x", storage.status());
  CHECK(storage.control().writes > 0 || shape.sets > 1, "lines made room");
  flush_all(storage);
  CHECK(storage.status() == 0, "status %x", storage.status());
  check_clean(storage);
  storage.stop();
  CHECK(storage.device(0).flushed == storage.disk(), "flushed");
  std::vector<uint8_t> expected(storage.disk().size());
  for (size_t at = 0; at < expected.size(); ++at) expected[at] = Storage::stored(at);
  std::memcpy(&expected[home], model.data(), model.size() * sizeof(T));
  CHECK(expected == storage.disk(), "the disk");
  storage.check_at_rest();
}

// Runs: lines that lie within them are not read, others are, and what lies beside a run stays.
void check_runs(const Shape& shape) {
  Storage storage(shape, Faults{.reorder = true}, 11);
  const int64_t line = shape.line / 8, lines = kPages / 4;
  Watched store{storage.store};
  const auto array = array_of<int64_t>(store, 8);  // the first element of a line is number line * i - 1
  run_warps(11, [&](std::mt19937_64&) {
    for (int64_t i = 1 + current_warp(); i < lines; i += kWarps)
      array.write_run(line * i - 1, line * (i + 1) - 1, [](int64_t at) { return at; });
  });
  CHECK(storage.control().reads == 0, "%llu were read", static_cast<unsigned long long>(storage.control().reads));
  run_warps(11, [&](std::mt19937_64&) {  // three lines, of which the middle one is whole
    const int64_t begin = line * (lines + 4 * current_warp());
    array.write_run(begin, begin + 2 * line - 2, [](int64_t at) { return -at; });
    array.write_run(begin, begin, [](int64_t) { return int64_t{7}; });
  });
  CHECK(storage.control().reads >= 2 * kWarps, "%llu were read", static_cast<unsigned long long>(storage.control().reads));
  flush_all(storage);
  storage.stop();
  const auto* const words = reinterpret_cast<const int64_t*>(storage.disk().data());
  for (int64_t i = -1; i < line * kPages - 1; ++i) {
    const int64_t warp = (i - line * lines) / (4 * line), within = (i - line * lines) % (4 * line);
    const bool first = i >= line - 1 && i < line * lines - 1;
    const bool second = i >= line * lines && warp < kWarps && within < 2 * line - 2;
    const int64_t kept = Storage::stored_at<int64_t>(8 + i * 8);
    CHECK(words[i + 1] == (first ? i : second ? -i : kept), "element %lld", static_cast<long long>(i));
  }
  storage.check_at_rest();
}

// The device takes no writes: whoever writes comes to his end, the error is said, and nothing of what was written is lost.
void check_refused(const Shape& shape, const Faults& faults, uint32_t status) {
  Storage storage(shape, faults, 13);
  const int64_t line = shape.line / 8, lines = 40;
  Watched store{storage.store};
  const auto array = array_of<int64_t>(store, 0);
  const auto write_some = [&](int64_t begin, int64_t end) {
    run_warps(13, [&](std::mt19937_64&) {
      for (int64_t i = begin + current_warp(); i < end; i += kWarps)
        array.write_run(line * i, line * (i + 1), [](int64_t at) { return at + 1; });
    });
  };
  write_some(0, 3);
  flush_all(storage);
  CHECK(storage.status() == (status | kOfWrite), "status %x", storage.status());
  write_some(0, lines);  // nothing is waited for any more
  storage.clear_status();
  write_some(3, lines);  // a writer finds no room, for that reason
  CHECK(storage.status() == (status | kOfWrite), "status %x", storage.status());
  storage.device(0).mend();
  flush_all(storage);  // what the device had taken before it was mended is refused all the same, and tried again
  storage.clear_status();
  write_some(3, lines);
  flush_all(storage);
  CHECK(storage.status() == 0, "status %x", storage.status());
  check_clean(storage);
  storage.stop();
  const auto* const words = reinterpret_cast<const int64_t*>(storage.disk().data());
  for (int64_t i = 0; i < line * lines; ++i) CHECK(words[i] == i + 1, "element %lld", static_cast<long long>(i));
  storage.check_at_rest();
}

// What fails now and then is tried again; what is not answered is said.
void check_retries() {
  const auto written_by = [](Storage& storage) {
    Watched store{storage.store};
    const auto array = array_of<int64_t>(store, 0);
    run_warps(17, [&](std::mt19937_64&) {
      array.write_run(512 * current_warp(), 512 * (current_warp() + 1), [](int64_t at) { return at + 1; });
    });
    flush_all(storage);
  };
  Storage failing({.sets = 4, .channels = 1}, Faults{.retryable = 20}, 17);
  for (unsigned turn = 0; turn < kRounds; ++turn) {
    failing.clear_status();
    written_by(failing);
    CHECK(failing.status() == 0 || failing.control().status >> 16 == kWholeDevice, "status %x", failing.status());
    check_clean(failing);
  }
  Storage silent({.channels = 1, .timeout = std::chrono::milliseconds(30)}, Faults{.lost = 1000}, 17);
  written_by(silent);
  CHECK(silent.status() == (kAbortedByHost | kOfWrite), "status %x", silent.status());
  Storage unflushed({.channels = 1}, Faults{.removed_after = 3}, 17);
  written_by(unflushed);
  CHECK(unflushed.control().status == (kWholeDevice << 16 | kOfWrite | kHostPathError), "status %llx",
        static_cast<unsigned long long>(unflushed.control().status));
}

void check_all() {
  check_elements<int32_t>({.line = 512, .sets = 1}, 1);  // fewer lines than are wanted at once
  check_elements<int64_t>({.line = 4096, .sets = 1, .channels = 2}, 2);
  check_elements<uint8_t>({.line = 512, .sets = 2, .entries = 4}, 3);  // fewer commands
  check_elements<int64_t>({.line = 16384, .sets = 40}, 4);
  check_runs({.line = 512, .sets = 1});
  check_runs({.line = 4096, .sets = 3, .entries = 4, .channels = 2});
  if (!kOnce) check_refused({.channels = 1}, Faults{.fatal_writes = 1000}, kWriteFault | kDoNotRetry);
  check_retries();
}

}  // namespace

int main() {
  alarm(300);
  check_all();
  return 0;
}
