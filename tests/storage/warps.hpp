// Warps, and a store over queues over devices in software, for tests of what kernels do. With lanes in place of a warp, or,
// without tests/lanes on the compiler's path, with one.
#pragma once

#include <chrono>
#include <functional>

#include "../rounds.hpp"
#include "client.hpp"
#include "hinterland_papers/bam/array.hpp"

namespace test {

#if defined(HINTERLAND_UNSEEN)  // tests/lanes
inline void run_warp(const std::function<void()>& body) { Lanes::run(body); }
inline const unsigned kRounds = rounds(12);
#else
inline void run_warp(const std::function<void()>& body) { body(); }
inline const unsigned kRounds = rounds(40);
#endif
constexpr int64_t kPages = 200;
constexpr unsigned kWarps = 3;

struct Shape {
  int64_t line = 4096, sets = 1;
  uint32_t entries = 64;
  int channels = 2;
  std::chrono::milliseconds timeout{60000};
  unsigned spread = 0;  // log2 of how far numbers of pages lie apart
};

struct alignas(4096) MemoryPage {
  uint8_t bytes[4096];
};
using MemoryPages = std::vector<MemoryPage>;

inline MemoryPages memory_pages(int64_t bytes) { return MemoryPages(static_cast<size_t>(bytes / 4096 + 1)); }

template <class Array>
uint64_t address(const Array& array) {
  return reinterpret_cast<uint64_t>(array.data());
}

// A store and, for each of its channels, a device; they have one disk.
class Storage {
 public:
  using Store = DeviceStore;

  Storage(const Shape& shape, const Faults& faults, uint64_t seed)
      : slots_(8 * shape.sets),
        words_(slots_ + 1),
        statuses_(slots_ + 1),
        sets_(shape.sets),
        frames_(memory_pages(slots_ * shape.line)) {
    const uint64_t blocks = kPages * shape.line / test::kBlockBytes;
    store.cache = {{},
                   words_.data(),
                   statuses_.data(),
                   sets_.data(),
                   reinterpret_cast<char*>(frames_.data()),
                   shape.sets,
                   shape.line,
                   shape.spread > 0 ? Line::kPages : 0x1ffff};
    store.blocks = {test::kNamespace, test::kBlockBytes, test::kBase, blocks << shape.spread};
    store.control = &control_;
    store.timeout_ns = std::chrono::nanoseconds(shape.timeout).count();
    for (int i = 0; i < shape.channels; ++i) {
      rings_.push_back(std::make_unique<test::Rings>(shape.entries, shape.entries));
      lines_.push_back(memory_pages(shape.entries * shape.line));
      lists_.emplace_back(shape.entries);
      channels_.push_back({rings_[i]->pair, reinterpret_cast<char*>(lines_[i].data()), address(lines_[i]), lists_[i].data(),
                           address(lists_[i])});
      devices_.push_back(std::make_unique<Controller>(rings_[i]->pair, blocks, faults, seed + i));
      devices_[i]->sealed = false;
      devices_[i]->spread = shape.spread;
      devices_[i]->disk_of = devices_[0].get();
    }
    for (size_t at = 0; at < disk().size(); ++at) disk()[at] = stored(at);
    store.channels = channels_.data();
    store.num_channels = shape.channels;
    for (int i = 0; i < shape.channels; ++i)
      for (int64_t n = 0; n < shape.entries; ++n) store.device(i, 0).prepare(n);
    for (auto& device : devices_)
      servers_.emplace_back([this, &device, channel = servers_.size()] {
        device->run();
        if (device->gone()) store.device(static_cast<int64_t>(channel), 0).abort();  // as the host does
      });
  }
  ~Storage() { stop(); }
  Storage(const Storage&) = delete;

  void stop() {
    for (auto& device : devices_) device->stop();
    for (std::thread& server : servers_) server.join();
    servers_.clear();
  }

  static uint8_t stored(uint64_t at) { return static_cast<uint8_t>(test::mixed(at / 8 + 1) >> at % 8 * 8); }

  template <class T>
  static T stored_at(uint64_t at) {
    T value;
    uint8_t bytes[sizeof(T)];
    for (size_t i = 0; i < sizeof(T); ++i) bytes[i] = stored(at + i);
    std::memcpy(&value, bytes, sizeof(T));
    return value;
  }

  template <class T>
  bam::Array<T, Store> array(uint64_t position) {
    return bam::Array<T, Store>({reinterpret_cast<const void*>(position), nullptr, nullptr, &store}, 0);
  }

  uint32_t status() const { return control_.status & 0xffff; }
  void clear_status() { control_.status = 0; }
  const StoreControl& control() const { return control_; }
  const Controller& device(int channel) const { return *devices_[channel]; }
  Controller& device(int channel) { return *devices_[channel]; }
  // Before anybody reads, or when nothing is in flight.
  std::vector<uint8_t>& disk() { return devices_[0]->disk; }

  // Nobody holds a line, and no lock is taken.
  void check_at_rest() {
    for (const uint64_t word : words_) CHECK(Line{word}.holders() == 0, "held for ever");
    for (const uint32_t set : sets_) CHECK(set % 2 == 0, "locked for ever");
    for (const auto& rings : rings_) CHECK(rings->control.completion_lock == 0, "locked for ever");
  }

  Store store{};

 private:
  int64_t slots_;
  std::vector<uint64_t> words_;
  std::vector<uint32_t> statuses_, sets_;
  MemoryPages frames_;
  StoreControl control_{};
  std::vector<std::unique_ptr<test::Rings>> rings_;
  std::vector<MemoryPages> lines_;
  std::vector<std::vector<PrpList>> lists_;
  std::vector<Channel> channels_;
  std::vector<std::unique_ptr<Controller>> devices_;
  std::vector<std::thread> servers_;
};

// Which warp a lane is of.
inline unsigned& current_warp() {
  static thread_local unsigned warp = 0;
  return warp;
}

// Where ThreadSanitizer looks a page is written once at the most: who writes to a line while the device reads it, and says so
// after that, is right to, and a race all the same.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kOnce = true;
#else
inline constexpr bool kOnce = false;
#endif

// body(random numbers of this lane's own) by all lanes of several warps, each of a thread.
template <class Body>
void run_warps(uint64_t seed, const Body& body) {
  std::vector<std::thread> warps;
  for (unsigned warp = 0; warp < kWarps; ++warp)
    warps.emplace_back([&, warp] {
      current_warp() = warp;
      run_warp([&] {
        std::mt19937_64 random((seed * kWarps + warp) * 64 + Warp::lane());
        body(random);
      });
    });
  for (std::thread& warp : warps) warp.join();
}

}  // namespace test
