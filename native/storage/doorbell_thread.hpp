// A thread that writes a device's doorbells for somebody who cannot reach them: a GPU for which registers cannot be mapped
// writes words in pinned memory, and what is new there is written to the registers. It looks while somebody is live, else it
// sleeps. It never calls CUDA, nor takes Python's lock.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace hinterland::native {

class DoorbellThread {
 public:
  struct Doorbell {
    uint32_t *word, *doorbell;  // what is rung, and the register that is to have it
    uint32_t told = 0;
  };

  // Words and registers are 0 at first.
  explicit DoorbellThread(std::vector<Doorbell> doorbells);
  ~DoorbellThread();
  DoorbellThread(const DoorbellThread&) = delete;
  DoorbellThread& operator=(const DoorbellThread&) = delete;

  void acquire();
  // What was rung before the last release is forwarded.
  void release();
  // Words are 0 again, as at first: the queues are made anew. Nobody is live.
  void restart();
  // Processor time of the thread.
  [[nodiscard]] int64_t cpu_ns();

 private:
  void run();
  bool forward_new();

  std::mutex guard_;
  std::condition_variable changed_;
  std::vector<Doorbell> doorbells_;
  unsigned live_ = 0;
  uint64_t acquired_ = 0;  // so often
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace hinterland::native
