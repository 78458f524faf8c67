// Transfers of the threads that use a store: a ring for each, by turns where they are many.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "storage/ring.hpp"

namespace hinterland::native {

// Nobody waits for a ring but attach(), detach() and counts(): all others take one that is free, or do without.
class Rings {
 public:
  using Devices = std::vector<std::shared_ptr<BlockDevice>>;

  Rings(int threads, unsigned depth, Engine engine);

  // Every ring reaches these devices, until detach() was called as often for each. StorageError: as if it had not been called.
  void attach(const Devices& devices);
  void detach(const Devices& devices);

  Ring& own() { return rings_[static_cast<size_t>(thread_number()) % rings_.size()]; }
  TakenRing try_take();  // this thread's own, or another that nobody has; null if there is none
  auto begin() { return rings_.begin(); }
  auto end() { return rings_.end(); }

  int size() const { return static_cast<int>(rings_.size()); }
  unsigned depth() const { return depth_; }
  const char* engine() const { return rings_[0].transfers.name(); }
  bool in_flight() const;  // anything, as far as can be seen
  void add_to(StoreCounts& counts);

 private:
  template <class Visit>
  void visit(const Visit& visit);
  void let_go(const std::shared_ptr<BlockDevice>& device);

  unsigned depth_;
  std::deque<Ring> rings_;
  std::mutex mutex_;                                     // while devices come and go
  std::map<std::shared_ptr<BlockDevice>, int> devices_;  // how often each was attached
};

}  // namespace hinterland::native
