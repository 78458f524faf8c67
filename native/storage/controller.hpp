// An NVMe controller in software: host threads that read queue pairs in ordinary memory, which whoever submits sees as well (a
// GPU, if it is pinned), and serve them from memory or a file. So no device of its own, and no rights, are needed.
//
// It has one namespace, of blocks of 512 bytes, and reads, writes and flushes it. PRPs are addresses in this process. A thread
// serves its queues alone, so queues never wait for each other's locks. Threads never call CUDA and never take Python's lock: a
// kernel that waits for data must not stop them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "storage/serving.hpp"

namespace hinterland::native {

class Controller {
 public:
  // std::invalid_argument where queues cannot be served. Queues go to the threads in turn.
  Controller(std::vector<QueueView> queues, std::vector<Region> regions, std::shared_ptr<Namespace> blocks, unsigned threads);
  ~Controller() { stop(); }  // Not in a forked process (made_here)
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  // Serves the queues from slot 0 on, as a device whose queues were just created: their rings and doorbells are zero.
  void start();
  // Afterwards no memory is read or written any more. Commands that have not completed never will.
  void stop();

  // While somebody is live, threads look for commands; else they sleep. What was submitted before the last release is done.
  void acquire();
  void release();

  // What NVMe's Abort would tell. True: the command was read, and will neither touch memory nor complete, which is what
  // QueuePair::settle() asks for. False: it will complete, or was not read yet.
  bool abort(uint32_t queue, uint16_t identifier);

  // Of each thread, since the last start.
  std::vector<ServingStats> stats();

 private:
  struct Worker {
    std::vector<NumberedQueue> queues;
    std::unique_ptr<Serving> serving;  // while it runs
    ServingStats last;
    std::mutex guard;                  // of the two above, for a turn
    std::atomic<unsigned> asking = 0;  // who wait for the guard: a thread that never rests would not let them in
    std::thread thread;
  };
  class Asking;

  void serve(Worker& worker);
  void back_off(Worker& worker, uint64_t now, uint64_t idle_ns) const;

  std::vector<Region> regions_;
  std::shared_ptr<Namespace> namespace_;
  std::vector<std::unique_ptr<Worker>> workers_;
  const bool rests_;  // there are few cores: threads that find nothing to do leave them to others
  std::atomic<int> live_ = 0;
  std::atomic<uint64_t> acquired_ = 0;  // so often
  std::atomic<bool> stopped_ = true;
  std::mutex guard_;  // of changes of these
  std::condition_variable changed_;
};

}  // namespace hinterland::native
