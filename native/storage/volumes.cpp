#include "storage/volumes.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <mutex>
#include <thread>

#include "core/errors.hpp"

namespace hinterland::native {

using storage::Page;

namespace {

constexpr uint32_t kMostRepeats = 100;
constexpr uint64_t kWrites = uint64_t{1} << 63;  // beside the slot in what a transfer comes back with
constexpr int kMemberShift = 20;                 // of a status
constexpr uint32_t kErrorBits = (1u << kMemberShift) - 1;

bool asks_again(int32_t result) { return result == -EAGAIN || result == -EINTR || result == -ECANCELED; }

}  // namespace

// What a slot's transfer is, or, where it goes to or comes from several copies, the one at hand.
struct Volumes::Move {
  Volume* volume;
  int64_t offset;    // in the file
  uint64_t asked;    // a bit for each copy that was asked
  uint32_t bytes;    // that the volume has there
  uint32_t repeats;  // of what the system asks to be asked again
  uint32_t member;   // which file of the volume
  uint32_t status;   // of the first copy that could not be written

  StoredFile& file() const { return *volume->files[member]; }
  bool is_another_copy_due(Ring& ring, bool writes, uint32_t status);
  uint32_t status_of(bool writes, int32_t result);
};
const int64_t Volumes::kSlotBytes = sizeof(Volumes::Move);

Volumes::Volumes(Rings& rings, const Frames& frames)
    : rings_(rings), frames_(frames), moves_(static_cast<size_t>(frames.slots)) {}

Volumes::~Volumes() = default;

int64_t Volumes::open(const std::vector<std::filesystem::path>& paths, bool writable, uint64_t stripe, uint64_t base) {
  auto volume = std::make_unique<Volume>(paths, writable, stripe, base);
  const auto line = static_cast<uint64_t>(frames_.line_bytes);
  if (stripe % line != 0)
    throw StorageError("stripes of " + std::to_string(stripe) + " bytes are no whole pages of " + std::to_string(line) +
                       "; open " + volume->files[0]->path + " with a cache of smaller pages");
  for (const auto& file : volume->files)
    if (file->bare != nullptr && line < file->bare->block_bytes())
      throw StorageError(file->path + " has blocks of " + std::to_string(file->bare->block_bytes()) +
                         " bytes; give it a cache of which line_bytes is at least that");
  const Rings::Devices devices = volume->bare_devices();
  rings_.attach(devices);
  std::optional<int64_t> position;
  try {
    while (!(position = add(volume))) std::this_thread::yield();
  } catch (...) {
    rings_.detach(devices);
    throw;
  }
  if (volume != nullptr) rings_.detach(devices);
  return *position;
}

// Takes the volume, or finds the same one open. Nothing if that is about to be closed: it is no use any more, but still their
// only writer.
std::optional<int64_t> Volumes::add(std::unique_ptr<Volume>& volume) {
  const std::unique_lock held(mutex_);
  const auto is_closing = [&](const auto& other) { return other->users == 0 && other->is_like(*volume); };
  if (std::ranges::any_of(volumes_, is_closing)) return std::nullopt;
  for (auto& other : volumes_)  // in one store a page is there once
    if (other->is_like(*volume) && (other->writable || !volume->writable)) {
      ++other->users;
      return static_cast<int64_t>(other->first << frames_.line_shift);
    }
  if (volume->writable) volume->become_writer();
  volume->first = next_page_;
  volume->end = volume->first + static_cast<Page>((volume->bytes() + frames_.line_bytes - 1) >> frames_.line_shift);
  if (volume->end >= storage::Line::kMostPages)
    throw StorageError("the cache has no page numbers left for " + volume->files[0]->path + "; make a new one");
  next_page_ = volume->end + 1;
  volumes_.push_back(std::move(volume));
  return static_cast<int64_t>(volumes_.back()->first << frames_.line_shift);
}

// The caller has mutex_.
Volume* Volumes::volume_of(Page page) const {
  const auto after =
      std::upper_bound(volumes_.begin(), volumes_.end(), page, [](Page p, const auto& v) { return p < v->first; });
  if (after == volumes_.begin()) return nullptr;
  Volume& volume = **(after - 1);
  return page == volume.first || volume.has(page) ? &volume : nullptr;
}

Volume& Volumes::enter(Page page) {
  const std::unique_lock held(mutex_);
  Volume* const volume = volume_of(page);
  if (volume == nullptr || volume->users == 0) throw StorageError("a file was closed while it was used; open it again");
  ++volume->users;
  return *volume;
}

bool Volumes::leave(Volume& volume) {
  const std::unique_lock held(mutex_);
  return --volume.users == 0;
}

void Volumes::close(Volume& volume) {
  std::unique_ptr<Volume> closed;
  {
    const std::unique_lock held(mutex_);
    const auto at = std::ranges::find(volumes_, &volume, [](const auto& one) { return one.get(); });
    closed = std::move(*at);
    closed->end_writing();  // before others know that it is closed
    volumes_.erase(at);
  }
  rings_.detach(closed->bare_devices());
}

// A volume is not let go while a slot's move of it goes on, and a page's slot is claimed before its volume is asked for here.
Volume* Volumes::find(Page page) const {
  const std::shared_lock held(mutex_);
  Volume* const volume = volume_of(page);
  return volume == nullptr || volume->users == 0 ? nullptr : volume;
}

bool Volumes::has_room(const Ring& ring, const Volume& volume) {
  return std::ranges::all_of(volume.files, [&](const auto& file) { return ring.transfers.has_room(file->bare.get()); });
}

bool Volumes::has_room(const Ring& ring, Page page) const {
  const std::shared_lock held(mutex_);  // no slot keeps it from being closed yet
  const Volume* const volume = volume_of(page);
  return volume != nullptr && volume->users != 0 && has_room(ring, *volume);
}

std::optional<uint32_t> Volumes::begin(Ring& ring, Volume& volume, Page page, int64_t slot, bool writes) {
  if (!has_room(ring, volume)) return std::nullopt;
  const int64_t at = static_cast<int64_t>(page - volume.first) << frames_.line_shift;
  const Spread::Place place = volume.spread.place(static_cast<uint64_t>(at));
  const uint64_t member = volume.has_copies() && !writes ? volume.choose_copy(0, page) : place.member;
  const auto bytes = static_cast<uint32_t>(std::min(frames_.line_bytes, volume.bytes() - at));
  moves_[slot] = {&volume, static_cast<int64_t>(volume.base + place.offset), 0, bytes, 0, static_cast<uint32_t>(member), 0};
  if (writes && moves_[slot].file().has_shrunk())  // what is written would be behind a hole that reads as zeros
    return kFileShrank | static_cast<uint32_t>(member) << kMemberShift;
  begin_transfer(ring, slot, writes);
  return 0;
}

void Volumes::begin_transfer(Ring& ring, int64_t slot, bool writes) {
  const Move& move = moves_[slot];
  ring.begin(transfer_of(slot, writes), move.bytes, frames_);
  if (move.volume->has_copies()) move.file().in_flight.fetch_add(1, std::memory_order_relaxed);
}

Transfer Volumes::transfer_of(int64_t slot, bool writes) const {
  const Move& move = moves_[slot];
  // Direct I/O moves whole blocks: a read goes past the end of the file, but a write would make the file longer. So the last
  // page of a file that ends within it is written by way of the system's cache, and with it what the system may keep in one
  // piece: a direct write that meets a piece of its cache just written to is an error to it (kernel: dio_warn_stale_pagecache).
  const StoredFile& file = move.file();
  const int64_t end = file.bytes;
  const bool meets_end = end % frames_.line_bytes != 0 && move.offset / kLargePage == end / kLargePage;
  const bool direct = file.takes_direct.load(std::memory_order_relaxed) && (!writes || !meets_end);
  return {.fd = (direct ? file.direct : file.buffered).get(),
          .writes = writes,
          .memory = frames_.at(slot),
          .bytes = writes ? move.bytes : static_cast<uint32_t>(frames_.line_bytes),
          .offset = static_cast<uint64_t>(move.offset),
          .user = static_cast<uint64_t>(slot) | (writes ? kWrites : 0),
          .device = file.bare.get()};
}

std::optional<Moved> Volumes::end(Ring& ring, const Ended& ended) {
  const auto slot = static_cast<int64_t>(ended.user & ~kWrites);
  const bool writes = (ended.user & kWrites) != 0;
  Move& move = moves_[slot];
  uint32_t status = move.status_of(writes, ended.result);
  if (status == EAGAIN) return ring.transfers.begin(transfer_of(slot, writes)), std::nullopt;
  ring.ended += 1;
  // Now, not as it began: a flush that came meanwhile has not made it durable.
  if (writes) move.file().wrote.store(true, std::memory_order_relaxed);
  if (status != 0) status |= move.member << kMemberShift;
  if (move.volume->has_copies()) {
    move.file().in_flight.fetch_sub(1, std::memory_order_relaxed);
    if (ask_another_copy(ring, slot, writes, status)) return std::nullopt;
  }
  if (!writes && status == 0)
    std::memset(frames_.at(slot) + move.bytes, 0, static_cast<size_t>(frames_.line_bytes) - move.bytes);
  return Moved{slot, writes, status};
}

// Has the page go to another copy, or come from one. False: it is over, with this status.
bool Volumes::ask_another_copy(Ring& ring, int64_t slot, bool writes, uint32_t& status) {
  Move& move = moves_[slot];
  while (move.is_another_copy_due(ring, writes, status)) {
    if (!writes || !move.file().has_shrunk()) return begin_transfer(ring, slot, writes), true;
    status = kFileShrank | move.member << kMemberShift;
  }
  if (move.status != 0) status = move.status;
  return false;
}

// Whether the page goes to another copy now, or comes from one: a write goes to each, a read to those that are left if it
// failed.
bool Volumes::Move::is_another_copy_due(Ring& ring, bool writes, uint32_t status) {
  if (!writes && status == 0) return false;
  asked |= uint64_t{1} << member;
  if (writes && this->status == 0) this->status = status;
  const uint64_t next = writes ? (member + 1 < volume->files.size() ? member + 1 : kNobody) : volume->choose_copy(asked, 0);
  if (next == kNobody) return false;
  if (!writes) {
    ring.failed_reads += 1;
    volume->count_failure(member, volume->sentence(member, offset, false, status & kErrorBits));
  }
  member = static_cast<uint32_t>(next);
  repeats = 0;
  return true;
}

// What a transfer's end says: 0, an error, or EAGAIN for another try, by which something may be better.
uint32_t Volumes::Move::status_of(bool writes, int32_t result) {
  if (result >= static_cast<int32_t>(bytes)) return 0;
  if (repeats++ >= kMostRepeats) return result < 0 ? static_cast<uint32_t>(-result) : EIO;
  if (asks_again(result)) return EAGAIN;
  if (result == -EINVAL && file().takes_direct.exchange(false)) return EAGAIN;  // its blocks are larger than lines are
  if (result == -EINVAL && repeats == 1) return EAGAIN;                         // begun before the line above
  if (result < 0) return static_cast<uint32_t>(-result);
  struct stat info{};
  if (!writes && ::fstat(file().buffered.get(), &info) == 0 && S_ISREG(info.st_mode) && info.st_size < offset + int64_t{bytes})
    return kFileShrank;
  return EAGAIN;  // only a part was moved; a disk that is full says so when it is asked for the rest
}

std::string Volumes::sentence(Page page, bool writes, uint32_t status) const {
  const std::shared_lock held(mutex_);
  const Volume* const volume = volume_of(page);
  if (volume == nullptr) return std::string(writes ? "cannot write" : "cannot read") + " a file that was closed";
  const Spread::Place place = volume->spread.place((page - volume->first) << frames_.line_shift);
  return volume->sentence(status >> kMemberShift, volume->base + place.offset, writes, status & kErrorBits);
}

std::vector<std::string> Volumes::take_failures() {
  const std::shared_lock held(mutex_);
  std::vector<std::string> all;
  for (const auto& volume : volumes_) std::ranges::move(volume->take_failures(), std::back_inserter(all));
  return all;
}

std::string Volumes::sync() {
  const std::shared_lock held(mutex_);
  std::string error;
  for (const auto& volume : volumes_)
    for (const auto& file : volume->files)
      if (const int lost = file->sync(); lost != 0 && error.empty())
        error = "what was last written to " + file->path + " may be lost: " + std::strerror(lost) +
                "; see the system's log (dmesg), open it anew, and write it again";
  return error;
}

}  // namespace hinterland::native
