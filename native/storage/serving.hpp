// What one thread of a controller does: reads the queues that are its own, has a backend serve their commands, and completes
// them.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "storage/backend.hpp"

namespace hinterland::native {

// Whether the time that requests spend in each stage is added up, by threads that begin to serve from now on.
inline std::atomic<bool> counts_stages = false;

struct ServingStats {
  uint64_t commands = 0, failed = 0;  // completed; of those, with an error
  uint64_t read_bytes = 0, written_bytes = 0;
  uint64_t turns = 0, doorbell_looks = 0;
  uint64_t cpu_ns = 0;
  // If stages are counted: from being picked up to being submitted, from there to the end of the transfer, and to completion;
  // and when requests were picked up and completed, by this machine's steady clock, all added up.
  uint64_t submit_ns = 0, transfer_ns = 0, complete_ns = 0;
  uint64_t picked_up_at = 0, completed_at = 0;
};

// A queue pair, and its place among those of the controller.
struct NumberedQueue {
  QueueView view;
  uint32_t number;
};

class Serving {
 public:
  Serving(const std::vector<NumberedQueue>& queues, std::vector<Region> regions, Namespace& blocks);

  // Reads all that is new, and completes all that has ended. True if there was anything. Allocates nothing.
  bool turn(uint64_t now);
  // True: the command was read, and will neither touch memory nor complete. False: it will complete, or was not read yet.
  bool abort(uint32_t number, uint16_t identifier);
  // Taken by the backend, and will end.
  [[nodiscard]] size_t in_flight() const { return backend_->in_flight(); }
  void wait(uint64_t now, uint64_t most) { backend_->wait(now, most); }
  [[nodiscard]] const ServingStats& stats() const { return stats_; }

 private:
  struct Queue {
    QueueView view;
    uint32_t number;
    uint64_t read = 0, posted = 0;  // positions that count on over all laps
    uint32_t host_head = 0;         // how far the host has read completions
    uint32_t taken = 0;             // requests that are its own
    RequestList ended{};
  };

  Request* free_place();
  void leave(Request& request);
  bool pick_up(uint32_t queue, uint64_t now);
  bool collect(uint64_t now);
  bool post(Queue& queue);
  bool has_room(Queue& queue);
  void complete(Queue& queue, Request& request);
  [[nodiscard]] uint64_t stage_clock() const;

  const bool stages_ = counts_stages;
  std::vector<Region> regions_;
  Namespace& namespace_;
  std::vector<Queue> queues_;
  uint32_t first_ = 0;  // queue of the next turn
  std::unique_ptr<Request[]> requests_;
  uint32_t request_count_ = 0, used_ = 0;  // all from `used_` on never were
  Request* free_ = nullptr;
  std::vector<Request*> picked_up_;
  ServingStats stats_;
  std::unique_ptr<Backend> backend_;  // last: it ends first, and then touches no request any more
};

}  // namespace hinterland::native
