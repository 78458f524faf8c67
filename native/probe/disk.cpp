#include "probe/disk.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "core/errors.hpp"
#include "core/thresholds.hpp"
#include "hinterland/core/philox.hpp"
#include "storage/descriptor.hpp"

namespace hinterland::native {

namespace {

constexpr int64_t kPage = kDirectAlign;

void require(const Descriptor& file, const std::string& path) {
  if (!file.open()) throw_errno("cannot open " + path, errno);
}

void transfer(const Descriptor& file, const std::string& path, char* memory, int64_t bytes, int64_t offset, bool write) {
  for (int64_t done = 0; done < bytes;) {
    const ssize_t n = write ? ::pwrite(file.get(), memory + done, bytes - done, offset + done)
                            : ::pread(file.get(), memory + done, bytes - done, offset + done);
    if (n < 0 && errno == EINTR) continue;
    if (n > 0) {
      done += n;
      continue;
    }
    const int code = errno;
    const std::string where = path + " at offset " + std::to_string(offset + done);
    if (n < 0) throw_errno((write ? "cannot write " : "cannot read ") + where, code);
    throw StorageError("the measured file " + where + " has ended early");
  }
}

DirectMemory pages(int64_t bytes) {
  DirectMemory memory = direct_memory(bytes);
  if (!memory) throw std::bad_alloc();
  return memory;
}

// Runs work(thread) on `threads` threads. An exception ends the others at their next look at `stop` and is thrown here.
template <class Work>
void on_threads(int threads, std::atomic<bool>& stop, Work&& work) {
  std::vector<std::exception_ptr> errors(threads);
  std::vector<std::jthread> running;  // joins also where the system refuses one more thread
  running.reserve(threads);
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      try {
        work(t);
      } catch (...) {
        errors[t] = std::current_exception();
        stop = true;
      }
    });
  }
  for (auto& thread : running) thread.join();
  for (auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace

bool takes_direct_io(const std::string& path) { return Descriptor(path, O_RDONLY | O_DIRECT).open(); }

void transfer_file(const std::string& path, int64_t offset, int64_t bytes, int threads, bool write, bool direct) {
  const Descriptor file(path, (write ? O_WRONLY : O_RDONLY) | (direct ? O_DIRECT : 0));
  require(file, path);
  std::atomic<int64_t> next{offset};
  std::atomic<bool> stop{false};
  on_threads(threads, stop, [&](int) {
    const DirectMemory memory = pages(kSequentialBytes);
    if (write) {
      const Philox philox{static_cast<uint64_t>(offset)};
      for (int64_t i = 0; i < kSequentialBytes / 16; ++i) {
        const Philox::Block random = philox(static_cast<uint64_t>(i));
        std::memcpy(memory.get() + i * 16, random.word, 16);
      }
    }
    for (int64_t at = next.fetch_add(kSequentialBytes); at < offset + bytes && !stop; at = next.fetch_add(kSequentialBytes)) {
      if (write) {
        for (int64_t page = 0; page < kSequentialBytes; page += kPage) {
          const int64_t stamp = at + page;
          std::memcpy(memory.get() + page, &stamp, sizeof stamp);
        }
      }
      transfer(file, path, memory.get(), kSequentialBytes, at, write);
    }
  });
  if (write && ::fdatasync(file.get()) != 0) throw_errno("cannot write " + path + " to the disk", errno);
}

}  // namespace hinterland::native
