// A namespace of a bare NVMe device: its controller, and channels through which any number of threads move blocks. A command
// that is not answered in time is aborted; where that does not help, or the controller has failed, it is switched off and on,
// and what others were waiting for begins anew. So every transfer ends.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "storage/block_device.hpp"
#include "storage/nvme_channel.hpp"

namespace hinterland::native {

class DrivenQueues;
class NvmeTransfers;

class NvmeDevice : public BlockDevice {
 public:
  struct Patience {
    NvmeChannel::Clock::duration command = std::chrono::seconds(30), admin_command = std::chrono::seconds(5);
  };

  // StorageError where the controller cannot be used, or has no such namespace.
  NvmeDevice(std::unique_ptr<PciDevice> device, const std::string& name, uint32_t namespace_number, const Patience& patience);
  ~NvmeDevice() override;

  std::unique_ptr<Transfers> make_transfers(unsigned depth) override;
  [[nodiscard]] uint64_t bytes() const override { return blocks_.blocks * blocks_.block_bytes; }
  [[nodiscard]] uint32_t block_bytes() const override { return blocks_.block_bytes; }
  int sync() override;

  [[nodiscard]] const NvmeController& controller() const { return controller_; }
  [[nodiscard]] uint32_t namespace_number() const { return blocks_.namespace_id; }
  [[nodiscard]] unsigned restarts() const { return restarts_; }

  // Queue pairs that nobody has, for DrivenQueues.
  [[nodiscard]] uint32_t free_queues();

 private:
  friend class DrivenQueues;
  friend class NvmeTransfers;

  struct Kept {
    std::span<char> memory;
    uint64_t address;
    unsigned users;
  };

  // A channel for one more user: one that nobody uses, else a new one, else the one that has the fewest.
  NvmeChannel& take_channel();
  void leave_channel(NvmeChannel& channel);
  void serve(NvmeChannel& channel);
  void mend(NvmeChannel& channel, unsigned restarts);
  bool abort_overdue(NvmeChannel& channel);
  void restart();
  // The address of memory for the device, of whoever is the first to keep it.
  uint64_t keep(std::span<char> memory);
  void let_go(uint64_t address);

  const std::unique_ptr<PciDevice> device_;
  const Patience patience_;
  std::vector<std::unique_ptr<NvmeChannel>> channels_;  // over the controller's queues from 1 on
  NvmeController controller_;                           // switched off before the memory of these goes
  const storage::BlockRange blocks_;
  std::mutex guard_;  // of the channels, what is kept, and switching off and on. Nobody waits for it with a channel's guard.
  std::vector<Kept> kept_;
  std::set<uint16_t> driven_;  // numbers of others' queues, from the controller's last one down
  std::atomic<bool> gone_ = false;
  std::atomic<unsigned> restarts_ = 0;
  std::mutex sync_guard_;
  std::unique_ptr<NvmeTransfers> own_;
};

}  // namespace hinterland::native
