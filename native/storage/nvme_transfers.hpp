// One thread's transfers between memory and a bare NVMe device.
#pragma once

#include "storage/nvme_device.hpp"

namespace hinterland::native {

class NvmeTransfers : public Transfers {
 public:
  NvmeTransfers(NvmeDevice& device, unsigned depth);
  ~NvmeTransfers() override;

  bool try_begin(const Transfer& transfer) override;
  void submit() override {}  // they are on their way at once
  size_t poll(std::span<Ended> to) override;
  void wait(std::chrono::nanoseconds most, unsigned enough) override;
  unsigned in_flight() const override { return depth_ - static_cast<unsigned>(free_.size()); }
  const char* name() const override { return "nvme"; }
  void keep(std::span<char> memory) override;

  // All writes that have ended are safe: 0, or an error number. With nothing in flight.
  int flush();

 private:
  struct Kept {
    std::span<char> memory;
    uint64_t address;
  };

  bool begin(const Transfer& transfer, storage::Opcode opcode);
  [[nodiscard]] uint64_t address_of(const Transfer& transfer) const;

  NvmeDevice& device_;
  const unsigned depth_;
  NvmeChannel& channel_;
  std::vector<NvmeMove> moves_;
  std::vector<NvmeMove*> free_;   // of these
  std::vector<NvmeMove*> ended_;  // of these, with the channel's guard
  std::vector<Kept> kept_;
};

}  // namespace hinterland::native
