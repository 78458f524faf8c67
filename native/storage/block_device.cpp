#include "storage/block_device.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/errors.hpp"
#include "core/thresholds.hpp"
#include "storage/descriptor.hpp"
#include "storage/transfers.hpp"

namespace hinterland::native {

void read_device(BlockDevice& device, const std::string& name, uint64_t offset, void* to, uint64_t bytes) {
  if (offset > device.bytes() || bytes > device.bytes() - offset)
    throw StorageError(name + " has " + std::to_string(device.bytes()) + " bytes, none at " + std::to_string(offset + bytes));
  const auto memory = direct_memory(kDevicePiece * kDeviceDepth);
  if (!memory) throw OutOfMemory("no memory for reading " + name);
  const auto transfers = device.make_transfers(kDeviceDepth);
  std::vector<uint64_t> free_places(kDeviceDepth), places(kDeviceDepth);  // the latter: of the device, by place
  for (uint64_t i = 0; i < kDeviceDepth; ++i) free_places[i] = i;
  const uint64_t end = offset + bytes;
  for (uint64_t next = offset / kDevicePiece * kDevicePiece; next < end || transfers->in_flight() != 0;) {
    for (; next < end && !free_places.empty(); next += kDevicePiece) {
      const uint64_t place = free_places.back();
      const Transfer transfer{-1, false, memory.get() + place * kDevicePiece, kDevicePiece, next, place, &device};
      if (!transfers->try_begin(transfer)) break;
      places[place] = next;
      free_places.pop_back();
    }
    transfers->wait(std::chrono::milliseconds(1), 1);
    Ended ended[kDeviceDepth];
    const size_t count = transfers->poll(ended);
    for (size_t i = 0; i < count; ++i) {
      const uint64_t place = ended[i].user, at = places[place], from = std::max(at, offset),
                     until = std::min(at + kDevicePiece, end);
      if (ended[i].result < 0) throw_errno("cannot read " + name + " at byte " + std::to_string(at), -ended[i].result);
      std::memcpy(static_cast<char*>(to) + (from - offset), memory.get() + place * kDevicePiece + (from - at), until - from);
      free_places.push_back(place);
    }
  }
}

}  // namespace hinterland::native
