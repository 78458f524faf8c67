#include "storage/store.hpp"

#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "core/errors.hpp"
#include "core/pool.hpp"
#include "storage/volume.hpp"

namespace hinterland::native {

using storage::Line, storage::Page, storage::Try;

namespace {

constexpr uint32_t kMostRepeats = 100;
constexpr auto kPatience = std::chrono::milliseconds(100);  // for others to make room; chosen, not measured
constexpr auto kLongestWait = std::chrono::seconds(60);     // for one page: a disk that answers takes milliseconds
constexpr int64_t kTouched = 4;  // all frames are touched once a ring has moved such a part of them: chosen, not measured
constexpr auto kNap = std::chrono::milliseconds(1);
constexpr size_t kWrittenTogether = 32;  // pages that a thread of a flush takes at a time: chosen, not measured

bool asks_again(int32_t result) { return result == -EAGAIN || result == -EINTR || result == -ECANCELED; }

}  // namespace

int64_t thread_cpu_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

Store::Store(int64_t bytes, int64_t line_bytes, int threads, unsigned depth, Engine engine)
    : line_shift_(std::countr_zero(static_cast<uint64_t>(line_bytes))), bytes_(bytes), depth_(depth) {
  // A slot's frame, word, status, transfer, next use and how often it is kept, and its part of a set.
  const int64_t set = kWays * (line_bytes + static_cast<int64_t>(sizeof(uint64_t) + 3 * sizeof(uint32_t) + sizeof(Move))) + 4;
  const int64_t sets = bytes / set;
  if (sets == 0) {
    throw OutOfMemory("a cache of " + std::to_string(bytes) + " bytes holds no set of " + std::to_string(kWays) + " lines of " +
                      std::to_string(line_bytes) + " bytes; give it at least " + std::to_string(set));
  }
  const int64_t slots = sets * kWays, frames = slots * line_bytes;
  frames_ = large_pages(frames);
  if (!frames_) throw OutOfMemory("no memory for a cache of " + std::to_string(bytes) + " bytes; give it fewer");
  words_.assign(slots, 0);
  statuses_.assign(slots, 0);
  sets_.assign(sets, 0);
  moves_.assign(slots, {});
  expected_.assign(slots);
  kept_.assign(slots, 0);
  lines_ = {expected_.policy(), words_.data(), statuses_.data(), sets_.data(), frames_.get(), sets, line_bytes};
  for (int i = 0; i < std::max(threads, 1); ++i) {
    rings_.emplace_back().transfers = std::make_unique<RoutedTransfers>(depth, engine);
  }
}

Store::~Store() {
  if (reader_.joinable()) {
    reader_.request_stop();
    reader_.join();
  }
  for (Ring& ring : rings_)
    while (ring.transfers->in_flight() != 0) {
      ring.transfers->wait(kNap, 1);
      end_some(ring);
    }
}

void Store::require_same_process() const {
  if (!is_own()) throw StorageError("this array was opened before the process was forked; open it anew in the new process");
}

StoredFile& Store::Move::file() const { return *volume->files[member]; }

int64_t Store::open(const std::vector<std::filesystem::path>& paths, bool writable, uint64_t stripe, uint64_t base) {
  auto volume = std::make_unique<Volume>(paths, writable, stripe, base);
  const StoredFile& first = *volume->files[0];
  if (stripe % static_cast<uint64_t>(line_bytes()) != 0)
    throw StorageError("stripes of " + std::to_string(stripe) + " bytes are no whole pages of " + std::to_string(line_bytes()) +
                       "; open " + first.path + " with a cache of smaller pages");
  for (const auto& file : volume->files)
    if (file->bare != nullptr && line_bytes() < file->bare->block_bytes())
      throw StorageError(file->path + " has blocks of " + std::to_string(file->bare->block_bytes()) +
                         " bytes; give it a cache of which line_bytes is at least that");
  const bool is_bare = std::ranges::any_of(volume->files, [](const auto& file) { return file->bare != nullptr; });
  for (;;) {
    await_closed(*volume);
    std::unique_lock held(devices_mutex_, std::defer_lock);
    if (is_bare) held.lock();
    const auto devices = not_had(*volume);
    try {
      for (const auto& device : devices) visit_rings([&](Ring& ring) { ring.transfers->attach(device); });
      if (const auto position = add(volume)) return *position;
    } catch (...) {
      detach(devices);
      throw;
    }
    detach(devices);
  }
}

// Until none of the same files is about to be closed: it is no use any more, but still their only writer.
void Store::await_closed(const Volume& volume) const {
  const auto is_it = [&](const auto& other) { return other->users == 0 && other->is_like(volume); };
  for (;; std::this_thread::yield()) {
    const std::shared_lock held(volumes_mutex_);
    if (std::ranges::none_of(volumes_, is_it)) return;
  }
}

// Nothing if the same files are about to be closed.
std::optional<int64_t> Store::add(std::unique_ptr<Volume>& volume) {
  const std::unique_lock held(volumes_mutex_);
  const auto is_closing = [&](const auto& other) { return other->users == 0 && other->is_like(*volume); };
  if (std::ranges::any_of(volumes_, is_closing)) return std::nullopt;
  for (auto& other : volumes_)  // in one store a page is there once
    if (other->is_like(*volume) && (other->writable || !volume->writable)) {
      ++other->users;
      return static_cast<int64_t>(other->first << line_shift_);
    }
  if (volume->writable) volume->become_writer();
  volume->first = next_page_;
  volume->end = volume->first + static_cast<Page>((volume->bytes() + line_bytes() - 1) >> line_shift_);
  if (volume->end >= Line::kMostPages)
    throw StorageError("the cache has no page numbers left for " + volume->files[0]->path + "; make a new one");
  next_page_ = volume->end + 1;
  volumes_.push_back(std::move(volume));
  return static_cast<int64_t>(volumes_.back()->first << line_shift_);
}

// The caller has volumes_mutex_.
Volume* Store::volume_of(Page page) const {
  const auto after =
      std::upper_bound(volumes_.begin(), volumes_.end(), page, [](Page p, const auto& v) { return p < v->first; });
  return after == volumes_.begin() || page >= (*(after - 1))->end ? nullptr : (after - 1)->get();
}

// Null if it is closed, or about to be. A volume is not let go while a slot's transfer of it goes on (leave()), and a page's slot is
// claimed before its volume is asked for here.
Volume* Store::open_volume_of(Page page) const {
  const std::shared_lock held(volumes_mutex_);
  Volume* const volume = volume_of(page);
  return volume == nullptr || volume->users == 0 ? nullptr : volume;
}

// That is open there, also if it has no page.
Volume& Store::opened_at(int64_t position) const {
  const std::shared_lock held(volumes_mutex_);
  return **std::ranges::find(volumes_, static_cast<Page>(position) >> line_shift_, [](const auto& v) { return v->first; });
}

Store::InUse::InUse(Store& store, Page page) : store_(store) {
  const std::unique_lock held(store.volumes_mutex_);
  volume_ = store.volume_of(page);
  if (volume_ == nullptr || volume_->users == 0) throw StorageError("a file was closed while it was used; open it again");
  ++volume_->users;
}

int64_t Store::InUse::bytes_in(Page page) const {
  return std::min(store_.line_bytes(), volume_->bytes() - (static_cast<int64_t>(page - volume_->first) << store_.line_shift()));
}

void Store::close(int64_t position) { leave(opened_at(position)); }

// The last one who leaves a volume closes it.
void Store::leave(Volume& volume) {
  {
    const std::unique_lock held(volumes_mutex_);
    if (--volume.users != 0) return;
  }
  // None of its pages keeps a slot, or what could not be written would for ever.
  drop_pages(volume, [](int64_t, Line) { return false; });
  const std::lock_guard changing(devices_mutex_);
  std::unique_ptr<Volume> closed;
  {
    const std::unique_lock held(volumes_mutex_);
    const auto at = std::ranges::find(volumes_, &volume, [](const auto& one) { return one.get(); });
    closed = std::move(*at);
    closed->end_writing();  // before others know that it is closed
    volumes_.erase(at);
  }
  detach(not_had(*closed));
}

// Empties the slots of a volume's pages, but for those of which stays(slot, line) holds, once they are at rest.
template <class Stays>
void Store::drop_pages(const Volume& volume, const Stays& stays) {
  for (int64_t slot = 0; slot < num_slots(); ++slot)
    for (uint32_t round = 0;; ++round) {
      const Line seen{atomic_load_acquire(words_[slot])};
      if (seen.page() < volume.first || seen.page() >= volume.end || stays(slot, seen)) break;
      if (seen.is(Line::kBusy | Line::kWriting)) {
        progress(round);
      } else if (!seen.is(Line::kValid | Line::kFailed) || drop(words_[slot], seen)) {
        break;
      }
    }
}

void Store::forget_pages(int64_t position) {
  const InUse used(*this, static_cast<Page>(position) >> line_shift_);
  drop_pages(opened_at(position), [&](int64_t slot, Line line) {
    for (uint32_t round = 0; line.holders() != 0; ++round) {  // who reads it, or writes to it, does not take long
      {
        const std::lock_guard held(kept_mutex_);
        if (kept_[slot] != 0) return true;
      }
      progress(round);
      line = seen(slot);
    }
    return line.is(Line::kDirty);
  });
}

// Bare devices of the volume that no open one has.
Store::Devices Store::not_had(const Volume& volume) const {
  const std::shared_lock held(volumes_mutex_);
  Devices found;
  for (const auto& file : volume.files)
    if (file->bare != nullptr && std::ranges::none_of(volumes_, [&](const auto& other) { return other->has(*file->bare); }))
      found.push_back(file->bare);
  return found;
}

void Store::detach(const Devices& devices) {
  for (const auto& device : devices) visit_rings([&](Ring& ring) { ring.transfers->detach(*device); });
}

// Has every ring for a moment. Who has one may ask for volumes_mutex_, so nobody has that here.
template <class Visit>
void Store::visit_rings(const Visit& visit) {
  for (Ring& ring : rings_) {
    while (!ring.try_take()) std::this_thread::yield();
    const std::unique_ptr<Ring, void (*)(Ring*)> taken(&ring, [](Ring* one) { one->give_back(); });
    visit(ring);
  }
}

std::vector<int> Store::descriptors(int64_t position) {
  std::vector<int> found;
  for (const auto& file : opened_at(position).files) found.push_back(file->buffered.get());
  return found;
}

void Store::read(int64_t position, int64_t offset, void* to, int64_t bytes) {
  opened_at(position).read(offset, static_cast<char*>(to), bytes);
}

std::vector<std::string> Store::take_failures() {
  const std::shared_lock held(volumes_mutex_);
  std::vector<std::string> all;
  for (const auto& volume : volumes_) std::ranges::move(volume->take_failures(), std::back_inserter(all));
  return all;
}

storage::Found Store::try_hold(Page page) {
  const storage::Found found = lines_.try_hold(page);
  return found.slot < 0 ? bring(page) : found;
}

storage::Found Store::prefetch(Page page) {
  const storage::Found found = lines_.look(page);
  return found.slot < 0 ? bring(page) : found;
}

storage::Found Store::Turn::prefetch(Page page) {
  const storage::Found found = device_.store.lines_.look(page);
  return found.slot < 0 ? device_.store.bring(page, device_) : found;
}

// Gives a page that is not there a slot and has it read, if there is room for a transfer: before that no page gives way. Who waits
// for room asks again and again, and would empty a set of the cache.
storage::Found Store::bring(Page page, Device& device) {
  return has_room(device, page) ? lines_.bring(page, device) : storage::Found{Try::kRefused, -1};
}

storage::Found Store::bring(Page page) {
  const Taken ring(*this);
  Device device{*this, ring.get()};
  return bring(page, device);
}

bool Store::has_room(const Device& device, Page page) const {
  if (device.ring == nullptr) return false;
  if (device.uses(page)) return has_room(*device.ring, *device.volume);
  const std::shared_lock held(volumes_mutex_);  // no slot keeps it from being closed yet
  const Volume* const volume = volume_of(page);
  return volume != nullptr && volume->users != 0 && has_room(*device.ring, *volume);
}

// Wherever in the volume.
bool Store::has_room(const Ring& ring, const Volume& volume) {
  return std::ranges::all_of(volume.files, [&](const auto& file) { return ring.transfers->has_room(file->bare.get()); });
}

Store::Taken::Taken(Store& store) {
  const size_t own = static_cast<size_t>(thread_number());
  for (size_t i = 0; i < store.rings_.size() && ring_ == nullptr; ++i)
    if (Ring& ring = store.rings_[(own + i) % store.rings_.size()]; ring.try_take()) ring_ = &ring;
}

bool Store::Device::uses(Page page) const { return volume != nullptr && page >= volume->first && page < volume->end; }

bool Store::begin(const Device& device, Page page, int64_t slot, bool writes) {
  Volume* const volume = device.uses(page) ? device.volume : open_volume_of(page);
  return device.ring != nullptr && volume != nullptr && begin(*device.ring, *volume, page, slot, writes);
}

bool Store::begin(Ring& ring, Volume& volume, Page page, int64_t slot, bool writes) {
  if (writes && !has_room(ring, volume)) return false;  // before the system is asked for the file's size, at each try
  const int64_t at = static_cast<int64_t>(page - volume.first) << line_shift_;
  const Spread::Place place = volume.spread.place(static_cast<uint64_t>(at));
  const uint64_t member = volume.has_copies() && !writes ? volume.choose_copy(0, page) : place.member;
  const auto bytes = static_cast<uint32_t>(std::min(line_bytes(), volume.bytes() - at));
  moves_[slot] = {&volume, static_cast<int64_t>(volume.base + place.offset), 0, bytes, 0, static_cast<uint32_t>(member), 0};
  if (writes && moves_[slot].file().has_shrunk()) {  // what is written would be behind a hole that reads as zeros
    lines_.end(slot, true, kFileShrank | static_cast<uint32_t>(member) << kMemberShift);
    return true;
  }
  if (!writes) expected_.place(page, slot);
  return begin_transfer(ring, slot, writes);
}

bool Store::begin_transfer(Ring& ring, int64_t slot, bool writes) {
  if (!ring.transfers->try_begin(transfer_of(slot, writes))) return false;
  const Move& move = moves_[slot];
  if (move.volume->has_copies()) move.file().in_flight.fetch_add(1, std::memory_order_relaxed);
  (writes ? ring.writes : ring.reads) += 1;
  (writes ? ring.bytes_written : ring.bytes_read) += move.bytes;
  if (!ring.keeps && ring.reads + ring.writes >= num_slots() / kTouched) {
    ring.keeps = true;
    ring.transfers->keep({lines_.frames, static_cast<size_t>(num_slots() * line_bytes())});
  }
  return true;
}

Transfer Store::transfer_of(int64_t slot, bool writes) const {
  const Move& move = moves_[slot];
  // Direct I/O moves whole blocks: a read goes past the end of the file, but a write would make the file longer. So the last page
  // of a file that ends within it is written by way of the system's cache, and with it what the system may keep in one piece:
  // a direct write that meets a piece of its cache just written to is an error to it (kernel: dio_warn_stale_pagecache).
  const StoredFile& file = move.file();
  const int64_t end = file.bytes;
  const bool meets_end = end % line_bytes() != 0 && move.offset / kLargePage == end / kLargePage;
  const bool direct = file.takes_direct.load(std::memory_order_relaxed) && (!writes || !meets_end);
  return {.fd = (direct ? file.direct : file.buffered).get(),
          .writes = writes,
          .memory = frame(slot),
          .bytes = writes ? move.bytes : static_cast<uint32_t>(line_bytes()),
          .offset = static_cast<uint64_t>(move.offset),
          .user = static_cast<uint64_t>(slot) | (writes ? kWrites : 0),
          .device = file.bare.get()};
}

// Ends what the ring's transfers have ended. The ring is taken.
size_t Store::end_some(Ring& ring) {
  Ended ended[64];
  const size_t count = ring.transfers->poll(ended);
  for (size_t i = 0; i < count; ++i) {
    const int64_t slot = static_cast<int64_t>(ended[i].user & ~kWrites);
    const bool writes = (ended[i].user & kWrites) != 0;
    Move& move = moves_[slot];
    uint32_t status = status_of(move, writes, ended[i].result);
    if (status == EAGAIN && ring.transfers->try_begin(transfer_of(slot, writes))) continue;
    ring.ended += 1;
    // Now, not as it began: a flush that came meanwhile has not made it durable.
    if (writes) move.file().wrote.store(true, std::memory_order_relaxed);
    if (status != 0) status |= move.member << kMemberShift;
    if (move.volume->has_copies()) {
      move.file().in_flight.fetch_sub(1, std::memory_order_relaxed);
      if (ask_another_copy(ring, slot, writes, status)) continue;
    }
    if (!writes && status == 0) std::memset(frame(slot) + move.bytes, 0, static_cast<size_t>(line_bytes()) - move.bytes);
    lines_.end(slot, writes, status);  // its volume may be closed from now on
  }
  return count;
}

// Has the page go to another copy, or come from one. False: it is over, with this status.
bool Store::ask_another_copy(Ring& ring, int64_t slot, bool writes, uint32_t& status) {
  Move& move = moves_[slot];
  while (is_another_copy_due(ring, move, writes, status)) {
    status = writes && move.file().has_shrunk() ? kFileShrank : begin_transfer(ring, slot, writes) ? 0 : uint32_t{ENOMEM};
    if (status == 0) return true;
    status |= move.member << kMemberShift;
  }
  if (move.status != 0) status = move.status;
  return false;
}

// Whether the page goes to another copy now, or comes from one: a write goes to each, a read to those that are left if it failed.
bool Store::is_another_copy_due(Ring& ring, Move& move, bool writes, uint32_t status) {
  if (!writes && status == 0) return false;
  const uint32_t member = move.member;
  move.asked |= uint64_t{1} << member;
  if (writes && move.status == 0) move.status = status;
  const uint64_t next = writes ? (member + 1 < move.volume->files.size() ? member + 1 : Volume::kNobody)
                               : move.volume->choose_copy(move.asked, 0);
  if (next == Volume::kNobody) return false;
  if (!writes) {
    ring.failed_reads += 1;
    move.volume->count_failure(member, move.volume->sentence(member, move.offset, false, status & kErrorBits));
  }
  move.member = static_cast<uint32_t>(next);
  move.repeats = 0;
  return true;
}

storage::Found Store::Turn::try_fill(Page page) {
  const storage::Found found = device_.store.lines_.try_fill(page, device_);
  if (found.outcome == Try::kStarted) device_.store.expected_.place(page, found.slot);
  return found;
}

void Store::Turn::write_back(int64_t slot) { device_.store.lines_.write_back(slot, device_); }

bool Store::Turn::has_room(Page page) {
  Store& store = device_.store;
  if (store.has_room(device_, page)) return true;
  if (device_.ring != nullptr) store.end_some(*device_.ring);
  return store.has_room(device_, page);
}

// What a transfer's end says: 0, an error, or EAGAIN for another try, by which something may be better.
uint32_t Store::status_of(Move& move, bool writes, int32_t result) {
  if (result >= static_cast<int32_t>(move.bytes)) return 0;
  if (move.repeats++ >= kMostRepeats) return result < 0 ? static_cast<uint32_t>(-result) : EIO;
  if (asks_again(result)) return EAGAIN;
  if (result == -EINVAL && move.file().takes_direct.exchange(false)) return EAGAIN;  // its blocks are larger than lines are
  if (result == -EINVAL && move.repeats == 1) return EAGAIN;                         // begun before the line above
  if (result < 0) return static_cast<uint32_t>(-result);
  struct stat info{};
  if (!writes && ::fstat(move.file().buffered.get(), &info) == 0 && S_ISREG(info.st_mode) &&
      info.st_size < move.offset + int64_t{move.bytes})
    return kFileShrank;
  return EAGAIN;  // only a part was moved; a disk that is full says so when it is asked for the rest
}

void Store::submit() {
  Ring& ring = own_ring();
  if (!ring.try_take()) return;
  ring.transfers->submit();
  ring.give_back();
}

void Store::progress(uint32_t round) {
  Ring& own = own_ring();
  size_t ended = 0;
  bool waits = false;
  if (own.try_take()) {
    ended = end_some(own);
    if (ended == 0 && own.transfers->in_flight() != 0) {
      waits = true;
      // Several at a time where many are on their way: to sleep, to wake and to tell the device of new ones costs more than one.
      own.transfers->wait(kNap, std::max(own.transfers->in_flight() / 8, 1u));
      ended = end_some(own);
    }
    own.give_back();
  }
  if (ended != 0) return;
  for (Ring& ring : rings_) {
    if (&ring == &own || !ring.try_take()) continue;
    ring.transfers->submit();
    ended += end_some(ring);
    ring.give_back();
  }
  if (ended == 0 && !waits) round < 16 ? std::this_thread::yield() : std::this_thread::sleep_for(std::chrono::microseconds(50));
}

void Store::fail(Page page, uint32_t status) {
  uint32_t none = 0;
  if (failed_status_.compare_exchange_strong(none, status == 0 ? EIO : status)) failed_page_ = page;
}

void Store::begin_run() {
  const std::lock_guard held(runs_mutex_);
  if (runs_++ != 0) return;
  if (failed_status_ != 0)
    for (uint64_t& word : words_) storage::forget(word, Line{atomic_load(word)}.page());
  failed_status_ = 0;
}

void Store::end_run() {
  const std::lock_guard held(runs_mutex_);
  --runs_;
  if (failed()) throw StorageError(sentence(failed_page_, false, failed_status_));
}

void Store::throw_failed(Page page, int64_t slot) {
  const uint32_t status = lines_.status(slot);
  for (uint64_t& word : words_) storage::forget(word, Line{atomic_load(word)}.page());  // others may have failed with it
  throw StorageError(sentence(page, false, status));
}

bool Store::waits_long(std::chrono::steady_clock::time_point since) {
  return std::chrono::steady_clock::now() - since > kPatience;
}

void Store::require_room(Page page) const {
  for (int64_t slot = lines_.first_slot(page), end = slot + kWays; slot < end; ++slot)
    if (const Line seen{atomic_load(words_[slot])}; seen.is(Line::kDirty) && seen.is(Line::kFailed))
      throw StorageError(sentence(seen.page(), true, lines_.status(slot)));
}

void Store::require_answer(std::chrono::steady_clock::time_point since) {
  if (std::chrono::steady_clock::now() - since > kLongestWait)
    throw StorageError("the disk has not answered for a minute; see the system's log (dmesg)");
}

std::string Store::sentence(Page page, bool writes, uint32_t status) const {
  const std::shared_lock held(volumes_mutex_);
  const Volume* const volume = volume_of(page);
  if (volume == nullptr) return std::string(writes ? "cannot write" : "cannot read") + " a file that was closed";
  const Spread::Place place = volume->spread.place((page - volume->first) << line_shift_);
  return volume->sentence(status >> kMemberShift, volume->base + place.offset, writes, status & kErrorBits);
}

void Store::flush() {
  const int64_t begun = thread_cpu_ns();
  std::vector<Due> due;  // in the order of the files
  for (int64_t slot = 0; slot < num_slots(); ++slot)
    if (const Line seen{atomic_load_acquire(words_[slot])}; seen.is(Line::kDirty | Line::kWriting))
      due.push_back({seen.page(), slot, false});
  std::ranges::sort(due, {}, &Due::page);
  cpu_ns_ += thread_cpu_ns() - begun;
  std::string error;
  std::mutex guard;
  std::atomic<size_t> next{0};
  const size_t threads = std::min(static_cast<size_t>(num_threads()), due.size() / kWrittenTogether + 1);
  parallel_team(static_cast<int>(threads), [&] {
    const int64_t started = thread_cpu_ns();
    const std::string failed = write_due(due, next);
    cpu_ns_ += thread_cpu_ns() - started;
    const std::lock_guard held(guard);
    if (error.empty()) error = failed;
  });
  const std::lock_guard syncing(syncing_mutex_);
  const std::shared_lock held(volumes_mutex_);
  for (const auto& volume : volumes_)
    for (const auto& file : volume->files) {
      if (const int failed = file->wrote.exchange(false) ? file->sync() : 0; failed != 0) file->lost = failed;
      if (file->lost != 0 && error.empty())
        error = "what was last written to " + file->path + " may be lost: " + std::strerror(file->lost) +
                "; see the system's log (dmesg), open it anew, and write it again";
    }
  if (!error.empty()) throw StorageError(error);
}

// One thread's part of a flush: takes slots from `next` on, some at a time, until none is left. Returns what failed first, or
// nothing.
std::string Store::write_due(std::span<Due> due, std::atomic<size_t>& next) {
  std::string error;
  std::vector<Due> under_way;
  auto since = std::chrono::steady_clock::now();
  for (uint32_t round = 0;; ++round) {
    const size_t before = under_way.size();
    {
      const Taken ring(*this);
      Device device{*this, ring.get()};
      bool refused = false;
      size_t left = 0;
      for (Due& one : under_way)
        if (!is_over(one, device, error, refused)) under_way[left++] = one;
      under_way.resize(left);
      if (under_way.size() != before) since = std::chrono::steady_clock::now(), round = 0;
      while (!refused) {
        const size_t first = next.fetch_add(kWrittenTogether, std::memory_order_relaxed);
        if (first >= due.size()) break;
        for (Due& one : due.subspan(first, std::min(kWrittenTogether, due.size() - first)))
          if (!is_over(one, device, error, refused)) under_way.push_back(one);
      }
    }
    if (under_way.empty()) return error;
    require_answer(since);
    progress(round);
  }
}

// Whether what a slot held as flush() began is written, or could not be; has it written if it is not yet.
bool Store::is_over(Due& due, Device& device, std::string& error, bool& refused) {
  const Line seen{atomic_load_acquire(words_[due.slot])};
  if (seen.is(Line::kWriting)) return false;
  if (!seen.is(Line::kDirty)) return true;
  if (due.is_begun) {  // written once since, and dirty again: by a newer write, or because it failed
    if (seen.is(Line::kFailed) && error.empty()) error = sentence(seen.page(), true, lines_.status(due.slot));
    return true;
  }
  if (refused) return false;
  due.is_begun = lines_.write_back(due.slot, device) == Try::kStarted;
  refused = !due.is_begun;
  return false;
}

bool Store::keep(int64_t slot) {
  constexpr int64_t kLeft = 2;  // of a set, for all that comes and goes
  const std::lock_guard held(kept_mutex_);
  const auto set = kept_.begin() + slot / kWays * kWays;
  const bool is_kept = kept_[slot] != 0, is_too_much = !is_kept && kept_slots_ == most_kept();
  const bool stays = is_kept || (!is_too_much && std::count(set, set + kWays, 0u) > kLeft);
  if (is_kept || !stays) storage::release(words_[slot]);
  if (is_too_much) throw OutOfMemory(most_kept_sentence());
  if (stays) ++kept_[slot];
  kept_slots_ += stays && !is_kept;
  return stays;
}

std::string Store::most_kept_sentence() const {
  return "half of the cache may be pinned, " + std::to_string(most_kept()) + " pages of " + std::to_string(line_bytes()) +
         " bytes, and " + std::to_string(kept_slots_) + " are; pin fewer rows, or give the cache more room";
}

void Store::let_go(int64_t slot) {
  const std::lock_guard held(kept_mutex_);
  if (--kept_[slot] != 0) return;
  --kept_slots_;
  storage::release(words_[slot]);
}

void Store::read_ahead(std::vector<Page> pages) {
  // More would make room by giving away what has just come.
  if (static_cast<int64_t>(pages.size()) > num_slots() / 2) pages.resize(static_cast<size_t>(num_slots() / 2));
  const std::lock_guard held(ahead_mutex_);
  if (!reader_.joinable()) reader_ = std::jthread([this](std::stop_token stops) { serve_read_ahead(stops); });
  ahead_.push_back(std::move(pages));
  has_ahead_.notify_one();
}

void Store::serve_read_ahead(std::stop_token stops) {
  std::unique_lock held(ahead_mutex_);
  while (has_ahead_.wait(held, stops, [&] { return !ahead_.empty(); })) {
    const std::vector<Page> pages = std::move(ahead_.front());
    ahead_.pop_front();
    held.unlock();
    for (const Page page : pages)
      for (uint32_t round = 0; !stops.stop_requested(); ++round) {
        const Try outcome = prefetch(page).outcome;
        if ((outcome != Try::kFull && outcome != Try::kRefused) || open_volume_of(page) == nullptr) break;
        progress(round);
      }
    // Until they have come, or there are more: perhaps nobody else looks after them.
    const auto in_flight = [](const Ring& ring) { return ring.reads + ring.writes != ring.ended; };
    held.lock();
    for (uint32_t round = 0; !stops.stop_requested() && ahead_.empty() && std::ranges::any_of(rings_, in_flight); ++round) {
      held.unlock();
      progress(round);
      held.lock();
    }
  }
}

StoreCounts Store::counts() {
  StoreCounts counts{0, 0, 0, 0, hits_, misses_, cpu_ns_, 0, kept_slots_, expected_.bytes()};
  int64_t holds = 0, started = 0;
  visit_rings([&](Ring& ring) {  // so that transfers and their bytes are of the same moment
    counts.reads += ring.reads;
    counts.writes += ring.writes;
    counts.bytes_read += ring.bytes_read;
    counts.bytes_written += ring.bytes_written;
    counts.failed_reads += ring.failed_reads;
    holds += ring.holds.load(std::memory_order_relaxed);
    started += ring.started.load(std::memory_order_relaxed);
    counts.cpu_ns += ring.cpu_ns.load(std::memory_order_relaxed);
  });
  counts.hits += holds - started;  // a page that was read for somebody is held once more than it was found there
  counts.misses += started;
  return counts;
}

void Store::count(int64_t hits, int64_t misses, int64_t cpu_ns) {
  hits_ += hits;
  misses_ += misses;
  cpu_ns_ += cpu_ns;
}

}  // namespace hinterland::native
