#include "storage/rings.hpp"

#include <algorithm>
#include <thread>

#include "core/thresholds.hpp"

namespace hinterland::native {

namespace {}  // namespace

void Ring::begin(const Transfer& transfer, int64_t bytes, const Frames& frames) {
  transfers.begin(transfer);
  (transfer.writes ? writes : reads) += 1;
  (transfer.writes ? bytes_written : bytes_read) += bytes;
  if (!keeps && reads + writes >= frames.slots / kFramesTouched) {
    keeps = true;
    transfers.keep(frames.all());
  }
}

Rings::Rings(int threads, unsigned depth, Engine engine) : depth_(depth) {
  for (int i = 0; i < std::max(threads, 1); ++i) rings_.emplace_back(depth, engine);
}

// Has every ring for a moment.
template <class Visit>
void Rings::visit(const Visit& visit) {
  for (Ring& ring : rings_) {
    while (!ring.try_take()) std::this_thread::yield();
    const TakenRing taken(&ring);
    visit(ring);
  }
}

void Rings::attach(const Devices& devices) {
  const std::lock_guard held(mutex_);
  for (size_t i = 0; i < devices.size(); ++i) try {
      if (devices_[devices[i]]++ == 0) visit([&](Ring& ring) { ring.transfers.attach(devices[i]); });
    } catch (...) {
      for (size_t begun = 0; begun <= i; ++begun) let_go(devices[begun]);
      throw;
    }
}

void Rings::detach(const Devices& devices) {
  const std::lock_guard held(mutex_);
  for (const auto& device : devices) let_go(device);
}

// The caller has mutex_.
void Rings::let_go(const std::shared_ptr<BlockDevice>& device) {
  if (--devices_[device] != 0) return;
  visit([&](Ring& ring) { ring.transfers.detach(*device); });
  devices_.erase(device);
}

TakenRing Rings::try_take() {
  const size_t own = static_cast<size_t>(thread_number());
  for (size_t i = 0; i < rings_.size(); ++i)
    if (Ring& ring = rings_[(own + i) % rings_.size()]; ring.try_take()) return TakenRing(&ring);
  return nullptr;
}

bool Rings::in_flight() const {
  return std::ranges::any_of(rings_, [](const Ring& ring) { return ring.reads + ring.writes != ring.ended; });
}

void Rings::add_to(StoreCounts& counts) {
  visit([&](const Ring& ring) {  // so that transfers and their bytes are of the same moment
    counts.reads += ring.reads;
    counts.writes += ring.writes;
    counts.bytes_read += ring.bytes_read;
    counts.bytes_written += ring.bytes_written;
    counts.failed_reads += ring.failed_reads;
  });
}

}  // namespace hinterland::native
