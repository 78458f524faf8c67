#include "storage/routed_transfers.hpp"

#include <algorithm>

namespace hinterland::native {

void RoutedTransfers::attach(const std::shared_ptr<BlockDevice>& device) {
  devices_.push_back({device, device->make_transfers(depth_)});
  if (!kept_.empty()) devices_.back().transfers->keep(kept_);
}

void RoutedTransfers::detach(const BlockDevice& device) {
  std::erase_if(devices_, [&](const Route& route) { return route.device.get() == &device; });
}

Transfers& RoutedTransfers::of(const BlockDevice* device) const {
  if (device == nullptr) return *files_;
  return *std::ranges::find_if(devices_, [&](const Route& route) { return route.device.get() == device; })->transfers;
}

void RoutedTransfers::begin(const Transfer& transfer) {
  if (!try_begin(transfer)) waiting_.push_back(transfer);
}

void RoutedTransfers::submit() {
  files_->submit();
  for (const Route& route : devices_) route.transfers->submit();
}

size_t RoutedTransfers::poll(std::span<Ended> to) {
  size_t count = files_->poll(to);
  for (const Route& route : devices_) count += route.transfers->poll(to.subspan(count));
  std::erase_if(waiting_, [&](const Transfer& transfer) { return try_begin(transfer); });
  return count;
}

void RoutedTransfers::wait(std::chrono::nanoseconds most, unsigned enough) {
  if (devices_.empty()) return files_->wait(most, enough);
  if (in_flight() < enough) return submit();
  submit();
  // Where several have something in flight, each is waited for in turn.
  for (const Route& route : devices_) {
    const unsigned own = route.transfers->in_flight();
    if (own != 0) route.transfers->wait(most, std::min(own, enough));
  }
  const unsigned own = files_->in_flight();
  if (own != 0) files_->wait(most, std::min(own, enough));
}

unsigned RoutedTransfers::in_flight() const {
  unsigned count = files_->in_flight() + static_cast<unsigned>(waiting_.size());
  for (const Route& route : devices_) count += route.transfers->in_flight();
  return count;
}

void RoutedTransfers::keep(std::span<char> memory) {
  kept_ = memory;
  files_->keep(memory);
  for (const Route& route : devices_) route.transfers->keep(memory);
}

}  // namespace hinterland::native
