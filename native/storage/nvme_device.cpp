#include "storage/nvme_device.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <thread>

#include "core/owner.hpp"
#include "storage/nvme_transfers.hpp"
#include "storage/vfio_device.hpp"

namespace hinterland::native {

namespace {

using Clock = NvmeChannel::Clock;

constexpr auto kBetweenLooks = std::chrono::milliseconds(50);  // at what takes too long, and whether the controller has failed

}  // namespace

NvmeDevice::NvmeDevice(std::unique_ptr<PciDevice> device, const std::string& name, uint32_t namespace_number,
                       const Patience& patience)
    : device_(std::move(device)),
      patience_(patience),
      controller_(*device_, name, patience.admin_command),
      blocks_(controller_.namespace_blocks(namespace_number)),
      own_(std::make_unique<NvmeTransfers>(*this, 1)) {}

NvmeDevice::~NvmeDevice() = default;

std::unique_ptr<Transfers> NvmeDevice::make_transfers(unsigned depth) { return std::make_unique<NvmeTransfers>(*this, depth); }

uint32_t NvmeDevice::free_queues() {
  const std::lock_guard held(guard_);
  return static_cast<uint32_t>(controller_.most_queues() - channels_.size() - driven_.size());
}

int NvmeDevice::sync() {
  const std::lock_guard held(sync_guard_);
  return own_->flush();
}

NvmeChannel& NvmeDevice::take_channel() {
  const std::lock_guard held(guard_);
  const auto fewest = std::ranges::min_element(channels_, {}, [](const auto& channel) { return channel->users; });
  if ((fewest == channels_.end() || (*fewest)->users != 0) && channels_.size() + driven_.size() < controller_.most_queues()) {
    const auto number = static_cast<uint16_t>(channels_.size() + 1);
    auto made = std::make_unique<NvmeChannel>(*device_, controller_, blocks_, number, patience_.command);
    controller_.create_queue(number, made->queue.rings());
    made->users = 1;
    channels_.push_back(std::move(made));
    return *channels_.back();
  }
  ++(*fewest)->users;
  return **fewest;
}

void NvmeDevice::leave_channel(NvmeChannel& channel) {
  const std::lock_guard held(guard_);
  --channel.users;
}

void NvmeDevice::serve(NvmeChannel& channel) {
  unsigned restarts;
  bool any;
  {
    const std::lock_guard held(channel.guard);
    channel.serve();
    const auto now = Clock::now();
    if (now - channel.looked_after < kBetweenLooks) return;
    channel.looked_after = now;
    channel.expire();
    any = !channel.overdue().empty();
    restarts = restarts_;
  }
  if (!gone_ && (any || controller_.failed())) mend(channel, restarts);
}

// Somebody has found, after so many restarts, that the device does not answer.
void NvmeDevice::mend(NvmeChannel& channel, unsigned restarts) {
  const std::lock_guard held(guard_);
  if (gone_ || restarts != restarts_) return;
  if (controller_.failed() || !abort_overdue(channel)) restart();
}

// True: nothing is overdue any more.
bool NvmeDevice::abort_overdue(NvmeChannel& channel) {
  {
    // With the guard, so that no other command gets an identifier meanwhile that is told here.
    const std::lock_guard held(channel.guard);
    try {
      for (const auto& [move, identifier] : channel.overdue())
        if (!controller_.abort(channel.number, identifier)) return false;
    } catch (const StorageError&) {
      return false;
    }
  }
  for (const auto until = Clock::now() + patience_.admin_command; Clock::now() < until;) {
    {
      const std::lock_guard held(channel.guard);
      channel.serve();
      if (channel.overdue().empty()) return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

void NvmeDevice::restart() {
  std::vector<std::unique_lock<std::mutex>> held;
  for (const auto& channel : channels_) {
    held.emplace_back(channel->guard);
    channel->close();
  }
  try {
    controller_.restart();
    for (const auto& channel : channels_) {
      channel->reopen();
      controller_.create_queue(channel->number, channel->queue.rings());
    }
    ++restarts_;
  } catch (const StorageError&) {
    gone_ = true;
    device_->cut_off();
    for (const auto& channel : channels_) channel->fail(ENODEV);
  }
}

uint64_t NvmeDevice::keep(std::span<char> memory) {
  const std::lock_guard held(guard_);
  for (Kept& one : kept_)
    if (one.memory.data() == memory.data() && one.memory.size() == memory.size()) return ++one.users, one.address;
  kept_.push_back({memory, device_->map(memory), 1});
  return kept_.back().address;
}

void NvmeDevice::let_go(uint64_t address) {
  const std::lock_guard held(guard_);
  const auto found = std::ranges::find(kept_, address, &Kept::address);
  if (--found->users != 0) return;
  device_->unmap(address, found->memory.size());
  kept_.erase(found);
}

std::shared_ptr<BlockDevice> bare_device(const std::string& name, const std::string& root) {
  if (!name.starts_with("nvme:")) return nullptr;
  unsigned domain = 0, bus = 0, slot = 0, function = 0, number = 1;
  int length = 0;
  std::sscanf(name.c_str(), "nvme:%4x:%2x:%2x.%1x%n/%u%n", &domain, &bus, &slot, &function, &length, &number, &length);
  if (length != static_cast<int>(name.size()) || number == 0)
    throw StorageError(name +
                       " names no NVMe device: give its PCI address, as nvme:0000:01:00.0, and /2 behind it for its second "
                       "namespace");
  char address[16];
  std::snprintf(address, sizeof(address), "%04x:%02x:%02x.%x", domain, bus, slot, function);

  struct Open {
    std::weak_ptr<NvmeDevice> device;
    Owner owner;
  };
  static std::mutex guard;
  static std::map<std::string, Open> all;
  const std::lock_guard held(guard);
  Open& open = all[root + address];
  if (auto found = open.device.lock()) {
    if (!open.owner.is_here())
      throw StorageError(name + " is open in the process from which this one was forked; a device has one at a time");
    if (found->namespace_number() != number)
      throw StorageError(name + " is open already for its namespace " + std::to_string(found->namespace_number()) +
                         "; close that");
    return found;
  }
  auto device = std::make_unique<VfioDevice>(address, root);
  auto made =
      made_here<NvmeDevice>(std::move(device), "the NVMe controller " + std::string(address), number, NvmeDevice::Patience{});
  open = {made, {}};
  return made;
}

}  // namespace hinterland::native
