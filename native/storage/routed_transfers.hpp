// One thread's transfers to all that its store has open: to files by one engine, and to each bare device by queues of its own.
#pragma once

#include <vector>

#include "storage/block_device.hpp"
#include "storage/transfers.hpp"

namespace hinterland::native {

class RoutedTransfers {
 public:
  RoutedTransfers(unsigned depth, Engine engine) : depth_(depth), files_(make_transfers(depth, engine)) {}

  // From here to detach(), which comes when nothing of it is in flight any more. StorageError.
  void attach(const std::shared_ptr<BlockDevice>& device);
  void detach(const BlockDevice& device);

  // Takes a transfer in any case: where there is no room, it waits in here until poll() has made some.
  void begin(const Transfer& transfer);
  // As of Transfers, or for one more, to the device, or, null, to a file.
  bool has_room(const BlockDevice* device) const { return of(device).in_flight() < depth_; }
  void submit();
  size_t poll(std::span<Ended> to);
  void wait(std::chrono::nanoseconds most, unsigned enough);
  unsigned in_flight() const;
  void keep(std::span<char> memory);
  const char* name() const { return files_->name(); }  // of the files' engine

 private:
  struct Route {
    std::shared_ptr<BlockDevice> device;
    std::unique_ptr<Transfers> transfers;
  };

  Transfers& of(const BlockDevice* device) const;
  bool try_begin(const Transfer& transfer) { return of(transfer.device).try_begin(transfer); }

  unsigned depth_;
  std::unique_ptr<Transfers> files_;
  std::vector<Route> devices_;
  std::vector<Transfer> waiting_;
  std::span<char> kept_;
};

}  // namespace hinterland::native
