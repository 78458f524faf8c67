#include "storage/store.hpp"

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "core/errors.hpp"
#include "core/parallel.hpp"
#include "storage/file.hpp"

namespace hinterland::native {

using storage::Line, storage::Page, storage::Try;

namespace {

constexpr uint32_t kFileShrank = 1 << 16;  // beside the system's error numbers
constexpr uint32_t kMostRepeats = 100;
constexpr auto kLongestWait = std::chrono::seconds(60);  // for one page: a disk that answers takes milliseconds
constexpr int64_t kManyTransfers = 1 << 14;              // from which on it is worth touching all frames: chosen, not measured
constexpr auto kNap = std::chrono::milliseconds(1);
constexpr int64_t kLargePage = 2 << 20;

int64_t size_of(int fd, const std::string& path) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) throw_errno("cannot read the size of " + path, errno);
  if (S_ISREG(info.st_mode)) return info.st_size;
  uint64_t bytes = 0;
  if (!S_ISBLK(info.st_mode) || ::ioctl(fd, BLKGETSIZE64, &bytes) != 0)
    throw StorageError("cannot use " + path + " as storage: it is neither a regular file nor a block device");
  return static_cast<int64_t>(bytes);
}

bool asks_again(int32_t result) { return result == -EAGAIN || result == -EINTR || result == -ECANCELED; }

}  // namespace

int64_t thread_cpu_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

Store::Store(int64_t bytes, int64_t line_bytes, int threads, unsigned depth, Engine engine)
    : process_(::getpid()), line_shift_(std::countr_zero(static_cast<uint64_t>(line_bytes))), bytes_(bytes), depth_(depth) {
  // A slot's frame, word, status and transfer, and its part of a set.
  const int64_t set = kWays * (line_bytes + static_cast<int64_t>(sizeof(uint64_t) + sizeof(uint32_t) + sizeof(Move))) + 4;
  const int64_t sets = bytes / set;
  if (sets == 0) {
    throw OutOfMemory("a cache of " + std::to_string(bytes) + " bytes holds no set of " + std::to_string(kWays) + " lines of " +
                      std::to_string(line_bytes) + " bytes; give it at least " + std::to_string(set));
  }
  const int64_t slots = sets * kWays, frames = slots * line_bytes;
  char* const memory = static_cast<char*>(std::aligned_alloc(kLargePage, (frames + kLargePage - 1) / kLargePage * kLargePage));
  if (memory == nullptr) throw OutOfMemory("no memory for a cache of " + std::to_string(bytes) + " bytes; give it fewer");
  frames_ = {memory, [](char* at) { std::free(at); }};
  ::madvise(memory, frames, MADV_HUGEPAGE);
  words_.assign(slots, 0);
  statuses_.assign(slots, 0);
  sets_.assign(sets, 0);
  moves_.assign(slots, {});
  lines_ = {words_.data(), statuses_.data(), sets_.data(), memory, sets, line_bytes};
  for (int i = 0; i < std::max(threads, 1); ++i) {
    rings_.emplace_back().transfers = make_transfers(depth, engine);
  }
}

Store::~Store() {
  if (process_ != ::getpid()) {  // the threads and the transfers are the parent's
    if (reader_.joinable()) reader_.detach();
    for (Ring& ring : rings_) static_cast<void>(ring.transfers.release());
    static_cast<void>(frames_.release());
    return;
  }
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
  if (process_ != ::getpid())
    throw StorageError("this array was opened before the process was forked; open it anew in the new process");
}

Store::File::File(const std::filesystem::path& file, bool writable)
    : path(file.native()),
      buffered(path, writable ? O_RDWR : O_RDONLY),
      direct(path, (writable ? O_RDWR : O_RDONLY) | O_DIRECT),
      takes_direct(direct.open()),
      writable(writable) {}

int64_t Store::open(const std::filesystem::path& path, bool writable) {
  auto file = std::make_unique<File>(path, writable);
  if (!file->buffered.open()) throw_errno("cannot open " + file->path, errno);
  file->bytes = size_of(file->buffered.get(), file->path);
  struct stat info{};
  ::fstat(file->buffered.get(), &info);
  file->device = info.st_dev;
  file->inode = S_ISBLK(info.st_mode) ? info.st_rdev : info.st_ino;
  const std::unique_lock held(files_mutex_);
  for (auto& other : files_)  // in one store a page is there once
    if (other->device == file->device && other->inode == file->inode && (other->writable || !writable)) {
      ++other->users;
      return static_cast<int64_t>(other->first << line_shift_);
    }
  if (writable) become_writer(file->buffered, file->path);
  ::posix_fadvise(file->buffered.get(), 0, 0, POSIX_FADV_RANDOM);
  file->first = next_page_;
  file->end = file->first + static_cast<Page>((file->bytes + line_bytes() - 1) >> line_shift_);
  if (file->end >= Line::kMostPages)
    throw StorageError("the cache has no page numbers left for " + file->path + "; make a new one");
  next_page_ = file->end + 1;
  files_.push_back(std::move(file));
  return static_cast<int64_t>(files_.back()->first << line_shift_);
}

// The caller has files_mutex_.
Store::File* Store::file_of(Page page) const {
  const auto after = std::upper_bound(files_.begin(), files_.end(), page, [](Page p, const auto& f) { return p < f->first; });
  return after == files_.begin() || page >= (*(after - 1))->end ? nullptr : (after - 1)->get();
}

bool Store::is_open(Page page) const {
  const std::shared_lock held(files_mutex_);
  const File* const file = file_of(page);
  return file != nullptr && file->users != 0;
}

// The file of a page, which counts a transfer of its own from now on; null if it is closed, or about to be.
Store::File* Store::begin_use(Page page) {
  const std::shared_lock held(files_mutex_);
  File* const file = file_of(page);
  if (file == nullptr || file->users == 0) return nullptr;
  file->in_flight.fetch_add(1, std::memory_order_relaxed);
  return file;
}

void Store::close(int64_t position) {
  const auto is_it = [&](const auto& file) { return file->first == static_cast<Page>(position) >> line_shift_; };
  std::unique_lock held(files_mutex_);
  const auto found = std::ranges::find_if(files_, is_it);
  if (found == files_.end() || --(*found)->users != 0) return;
  File& file = **found;
  held.unlock();
  for (uint32_t round = 0; file.in_flight.load(std::memory_order_acquire) != 0; ++round) progress(round);
  for (uint64_t& word : words_)  // or what could not be written would keep its slot for ever
    for (Line seen{atomic_load(word)}; seen.page() >= file.first && seen.page() < file.end; seen = Line{atomic_load(word)})
      if (!seen.is(Line::kValid | Line::kFailed) || drop(word, seen)) break;
  held.lock();
  std::erase_if(files_, is_it);
}

int Store::descriptor(int64_t position) const {
  const std::shared_lock held(files_mutex_);
  const File* const file = file_of(static_cast<Page>(position) >> line_shift_);
  return file == nullptr ? -1 : file->buffered.get();
}

void Store::read(int64_t position, int64_t offset, void* to, int64_t bytes) {
  constexpr int kThreads = 64;  // as many requests a disk's sequential rate takes (docs/notes/load-on-h200.md)
  if (bytes == 0) return;
  const File* file;
  {
    const std::shared_lock held(files_mutex_);
    file = file_of(static_cast<Page>(position) >> line_shift_);
  }
  if (size_of(file->buffered.get(), file->path) < offset + bytes)
    throw StorageError(file->path + " is shorter than when it was opened; restore it");
  read_file(file->buffered, file->direct, file->path, offset, to, bytes, kThreads, {});
}

storage::Found Store::try_hold(Page page) {
  Device device{*this};
  return lines_.try_hold(page, device);
}

storage::Found Store::prefetch(Page page) {
  Device device{*this};
  return lines_.prefetch(page, device);
}

storage::Found Store::try_fill(Page page) {
  Device device{*this};
  return lines_.try_fill(page, device);
}

int64_t Store::bytes_in(Page page) const {
  const std::shared_lock held(files_mutex_);
  const File* const file = file_of(page);
  return file == nullptr ? 0 : std::min(line_bytes(), file->bytes - (static_cast<int64_t>(page - file->first) << line_shift_));
}

bool Store::begin(Page page, int64_t slot, bool writes) {
  File* const file = begin_use(page);
  if (file == nullptr) return false;
  Ring& ring = own_ring();
  if (!ring.try_take()) {
    file->in_flight.fetch_sub(1, std::memory_order_release);
    return false;
  }
  const int64_t offset = static_cast<int64_t>(page - file->first) << line_shift_;
  moves_[slot] = {file, offset, static_cast<uint32_t>(std::min(line_bytes(), file->bytes - offset)), 0};
  const bool begun = ring.transfers->try_begin(transfer_of(slot, writes));
  if (begun && ++ring.begun == kManyTransfers)
    ring.transfers->keep({lines_.frames, static_cast<size_t>(num_slots() * line_bytes())});
  if (!begun) {
    file->in_flight.fetch_sub(1, std::memory_order_release);
  } else {
    in_flight_.fetch_add(1, std::memory_order_relaxed);
    (writes ? writes_ : reads_).fetch_add(1, std::memory_order_relaxed);
    (writes ? bytes_written_ : bytes_read_).fetch_add(moves_[slot].bytes, std::memory_order_relaxed);
    if (writes) file->wrote.store(true, std::memory_order_relaxed);
  }
  ring.give_back();
  return begun;
}

Transfer Store::transfer_of(int64_t slot, bool writes) const {
  const Move& move = moves_[slot];
  // Direct I/O moves whole blocks: a read goes past the end of the file, but a write would make the file longer. So the last page
  // of a file that ends within it is written by way of the system's cache, and with it what the system may keep in one piece:
  // a direct write that meets a piece of its cache just written to is an error to it (kernel: dio_warn_stale_pagecache).
  const int64_t end = move.file->bytes;
  const bool meets_end = end % line_bytes() != 0 && move.offset / kLargePage == end / kLargePage;
  const bool direct = move.file->takes_direct.load(std::memory_order_relaxed) && (!writes || !meets_end);
  return {.fd = (direct ? move.file->direct : move.file->buffered).get(),
          .writes = writes,
          .memory = frame(slot),
          .bytes = writes ? move.bytes : static_cast<uint32_t>(line_bytes()),
          .offset = static_cast<uint64_t>(move.offset),
          .user = static_cast<uint64_t>(slot) | (writes ? kWrites : 0)};
}

// Ends what the ring's transfers have ended. The ring is taken.
size_t Store::end_some(Ring& ring) {
  Ended ended[64];
  const size_t count = ring.transfers->poll(ended);
  for (size_t i = 0; i < count; ++i) {
    const int64_t slot = static_cast<int64_t>(ended[i].user & ~kWrites);
    const bool writes = (ended[i].user & kWrites) != 0;
    Move& move = moves_[slot];
    const uint32_t status = status_of(move, writes, ended[i].result);
    if (status == EAGAIN && ring.transfers->try_begin(transfer_of(slot, writes))) continue;
    if (!writes && status == 0) std::memset(frame(slot) + move.bytes, 0, static_cast<size_t>(line_bytes()) - move.bytes);
    File* const file = move.file;  // the slot may be another page's as soon as its transfer has ended
    lines_.end(slot, writes, status);
    file->in_flight.fetch_sub(1, std::memory_order_release);
    in_flight_.fetch_sub(1, std::memory_order_relaxed);
  }
  return count;
}

// What a transfer's end says: 0, an error, or EAGAIN for another try, by which something may be better.
uint32_t Store::status_of(Move& move, bool writes, int32_t result) {
  if (result >= static_cast<int32_t>(move.bytes)) return 0;
  if (move.repeats++ >= kMostRepeats) return result < 0 ? static_cast<uint32_t>(-result) : EIO;
  if (asks_again(result)) return EAGAIN;
  if (result == -EINVAL && move.file->takes_direct.exchange(false)) return EAGAIN;  // its blocks are larger than lines are
  if (result == -EINVAL && move.repeats == 1) return EAGAIN;                        // begun before the line above
  if (result < 0) return static_cast<uint32_t>(-result);
  struct stat info{};
  if (!writes && ::fstat(move.file->buffered.get(), &info) == 0 && S_ISREG(info.st_mode) &&
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
  storage::forget(words_[slot], page);
  throw StorageError(sentence(page, false, status));
}

void Store::require_answer(std::chrono::steady_clock::time_point since) {
  if (std::chrono::steady_clock::now() - since > kLongestWait)
    throw StorageError("the disk has not answered for a minute; see the system's log (dmesg)");
}

std::string Store::sentence(Page page, bool writes, uint32_t status) const {
  const std::shared_lock held(files_mutex_);
  const File* const file = file_of(page);
  const std::string path = file == nullptr ? "a file that was closed" : file->path;
  const int64_t offset = file == nullptr ? 0 : static_cast<int64_t>(page - file->first) << line_shift_;
  const std::string where = path + " at offset " + std::to_string(offset);
  if (status == kFileShrank) return "cannot read " + where + ": the file is shorter than when it was opened; restore it";
  const std::string what = (writes ? "cannot write " : "cannot read ") + where + ": " + std::strerror(static_cast<int>(status));
  return status == ENOSPC ? what + "; make room, and call flush() again: what could not be written is still held" : what;
}

void Store::flush() {
  const int64_t begun = thread_cpu_ns();
  std::vector<Due> due;  // in the order of the files
  for (int64_t slot = 0; slot < num_slots(); ++slot)
    if (const Line seen{atomic_load_acquire(words_[slot])}; seen.is(Line::kDirty | Line::kWriting))
      due.push_back({seen.page(), slot, false});
  std::ranges::sort(due, {}, &Due::page);
  std::string error;
  std::vector<Due> under_way;
  auto since = std::chrono::steady_clock::now();
  size_t next = 0;
  for (uint32_t round = 0;; ++round) {
    const size_t before = next - under_way.size();  // are over
    bool refused = false;
    size_t left = 0;
    for (Due& one : under_way)
      if (!is_over(one, error, refused)) under_way[left++] = one;
    under_way.resize(left);
    for (; next < due.size() && !refused; ++next)
      if (!is_over(due[next], error, refused)) under_way.push_back(due[next]);
    if (next - under_way.size() == due.size()) break;
    if (next - under_way.size() != before) since = std::chrono::steady_clock::now(), round = 0;
    require_answer(since);
    progress(round);
  }
  const std::shared_lock held(files_mutex_);
  for (const auto& file : files_) {
    if (file->wrote.exchange(false) && ::fdatasync(file->buffered.get()) != 0) file->lost = errno;
    if (file->lost != 0 && error.empty())
      error = "what was last written to " + file->path + " may be lost: " + std::strerror(file->lost) +
              "; see the system's log (dmesg), open it anew, and write it again";
  }
  cpu_ns_ += thread_cpu_ns() - begun;
  if (!error.empty()) throw StorageError(error);
}

// Whether what a slot held as flush() began is written, or could not be; has it written if it is not yet.
bool Store::is_over(Due& due, std::string& error, bool& refused) {
  const Line seen{atomic_load_acquire(words_[due.slot])};
  if (seen.is(Line::kWriting)) return false;
  if (!seen.is(Line::kDirty)) return true;
  if (due.is_begun) {  // written once since, and dirty again: by a newer write, or because it failed
    if (seen.is(Line::kFailed) && error.empty()) error = sentence(seen.page(), true, lines_.status(due.slot));
    return true;
  }
  Device device{*this};
  due.is_begun = lines_.write_back(due.slot, device) == Try::kStarted;
  refused = refused || !due.is_begun;
  return false;
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
        if ((outcome != Try::kFull && outcome != Try::kRefused) || !is_open(page)) break;
        progress(round);
      }
    // Until they have come: perhaps nobody else looks after them.
    for (uint32_t round = 0; !stops.stop_requested() && in_flight_.load(std::memory_order_relaxed) != 0; ++round)
      progress(round);
    held.lock();
  }
}

StoreCounts Store::counts() const {
  StoreCounts counts{reads_, writes_, bytes_read_, bytes_written_, hits_, misses_, cpu_ns_};
  int64_t holds = 0, started = 0;
  for (const Ring& ring : rings_) {
    holds += ring.holds.load(std::memory_order_relaxed);
    started += ring.started.load(std::memory_order_relaxed);
    counts.cpu_ns += ring.cpu_ns.load(std::memory_order_relaxed);
  }
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
