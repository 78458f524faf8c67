#include "storage/raw.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <span>
#include <vector>

#include "core/errors.hpp"
#include "storage/block_device.hpp"
#include "storage/descriptor.hpp"
#include "storage/team.hpp"

namespace hinterland::native {

namespace {

constexpr size_t kTogether =
    32;  // blocks that a thread takes at a time: halves of a file far apart are slower to read in order

// Blocks that threads move, some at a time.
struct BlockMoves {
  BlockDevice* bare;  // null of a file
  int fd;
  const std::string& path;
  std::span<const int64_t> offsets;
  int64_t bytes, write_every;
  unsigned depth;
  Engine engine;
  std::atomic<size_t> next{0};

  void operator()() {
    const auto transfers = bare != nullptr ? bare->make_transfers(depth) : make_transfers(depth, engine);
    const DirectMemory memory = large_pages((bytes + kDirectAlign - 1) / kDirectAlign * kDirectAlign * depth);
    if (!memory)
      throw OutOfMemory("no memory for " + std::to_string(depth) + " transfers of " + std::to_string(bytes) + " bytes");
    std::fill_n(memory.get(), bytes * depth, 'h');
    transfers->keep({memory.get(), static_cast<size_t>(bytes * depth)});
    std::vector<uint64_t> free_places(depth);
    for (unsigned i = 0; i < depth; ++i) free_places[i] = i;
    Ended ended[64];
    for (size_t at = 0, end = 0;;) {
      while (!free_places.empty()) {
        if (at == end) at = std::min(next.fetch_add(kTogether), offsets.size()), end = std::min(at + kTogether, offsets.size());
        if (at == end) break;
        const uint64_t place = free_places.back();
        const bool writes = write_every != 0 && static_cast<int64_t>(at) % write_every == 0;
        if (!transfers->try_begin({fd, writes, memory.get() + place * bytes, static_cast<uint32_t>(bytes),
                                   static_cast<uint64_t>(offsets[at]), place}))
          break;
        ++at;
        free_places.pop_back();
      }
      if (transfers->in_flight() == 0) return;
      transfers->wait(std::chrono::milliseconds(1), std::max(transfers->in_flight() / 8, 1u));
      const size_t now = transfers->poll(ended);
      for (size_t i = 0; i < now; ++i) {
        if (ended[i].result < 0) throw_errno("cannot move blocks of " + path, -ended[i].result);
        free_places.push_back(ended[i].user);
      }
    }
  }
};

}  // namespace

RawRun run_raw(const std::filesystem::path& file, const int64_t* offsets, int64_t count, int64_t bytes, int64_t write_every,
               int threads, unsigned depth, Engine engine) {
  const std::string& path = file.native();
  const int mode = write_every != 0 ? O_RDWR : O_RDONLY;
  const std::shared_ptr<BlockDevice> bare = bare_device(path);
  const Descriptor buffered(path, mode), direct(path, mode | O_DIRECT);
  if (bare == nullptr && !buffered.open()) throw_errno("cannot open " + path, errno);
  BlockMoves run{bare.get(), (direct.open() ? direct : buffered).get(),
                 path,       {offsets, static_cast<size_t>(count)},
                 bytes,      write_every,
                 depth,      engine};
  std::atomic<int64_t> cpu_ns{0};
  const auto begin = std::chrono::steady_clock::now();
  for_each_of_team(threads, threads, [&](int64_t) {
    const int64_t started = thread_cpu_ns();
    run();
    cpu_ns += thread_cpu_ns() - started;
  });
  if (write_every != 0) {
    const int failed = bare != nullptr ? bare->sync() : ::fdatasync(buffered.get()) != 0 ? errno : 0;
    if (failed != 0) throw_errno("cannot write " + path + " to the disk", failed);
  }
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin).count();
  return {ns, cpu_ns};
}

}  // namespace hinterland::native
