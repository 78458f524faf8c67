// Pages of files in host memory: the software cache of include/hinterland/storage over transfers between files and its frames.
// It is to the CPU what a queue pair with a controller behind it is to a GPU, without the detour.
//
// All volumes of a store are one space of bytes. A volume, of one file or several, begins at a page of its own, and its page i is
// the bytes from i * line_bytes on, whatever lies there: a header, rows that begin in one page and end in the next. A page lies
// in one file whole, since stripes are whole pages.
//
// Where there are copies, a page is read from one, and from another if that fails. It is written to all, one after the other, and
// has been written when the last has; other pages are on their way to the other copies meanwhile.
//
// Threads have transfers of their own, by turns where they are many. Whoever waits for a page holds none, and sees to it that
// others' transfers end as well: a thread that began some may be at something else by now.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/owner.hpp"
#include "hinterland/storage/cache.hpp"
#include "storage/descriptor.hpp"
#include "storage/expected.hpp"
#include "storage/host_pages.hpp"
#include "storage/routed_transfers.hpp"

namespace hinterland::native {

struct StoredFile;
struct Volume;

// Of all volumes together, since the store was made.
struct StoreCounts {
  int64_t reads, writes;  // transfers
  int64_t bytes_read, bytes_written;
  int64_t hits, misses;  // pages that were there, and not, as they were asked for
  int64_t cpu_ns;        // of the threads that asked, in planned reads and writes and in flush; of sources' waits and requests
  int64_t failed_reads;  // of one copy, so that another was asked
  int64_t pinned;        // pages, at present
  int64_t expected_bytes;  // that Expected takes at present
};

// A thread of this process, numbered as it first asks.
inline int thread_number() {
  static std::atomic<int> next{0};
  static thread_local const int number = next++;
  return number;
}

class Store {
 public:
  using Lines = storage::Cache<storage::Belady>;
  static constexpr int64_t kWays = 8;

  // Frames and all that finds them take `bytes` at the most. A line is a power of two from 512 bytes to 64 KiB. `depth`:
  // transfers in flight for each of the threads. OutOfMemory, or StorageError where kUring is asked for and not to be had.
  Store(int64_t bytes, int64_t line_bytes, int threads, unsigned depth, Engine engine);
  ~Store();  // What was written since the last flush is lost. Not in a forked process (made_here)

  // A forked process has none of the threads, and shares what the kernel knows of the parent's transfers: StorageError.
  bool is_own() const { return owner_.is_here(); }
  void require_same_process() const;

  // Where the first byte of a volume (volume.hpp) of files, or bare devices by their names (bare_device), lies in the store's space.
  // StorageError where a file cannot be opened, another writes it, or stripes are no whole pages.
  int64_t open(const std::vector<std::filesystem::path>& paths, bool writable, uint64_t stripe, uint64_t base);
  // No more transfers of it, and it is closed: what was not flushed is lost. Nobody reads it any more.
  void close(int64_t position);

  // The files of the volume at `position` were written by another way: pages that the cache has of them are read anew. What was
  // written here and not flushed, or is kept, stays.
  void forget_pages(int64_t position);

  // The descriptors of the open files of the volume at `position`, to open them anew.
  std::vector<int> descriptors(int64_t position);
  // The bytes of the volume at `position`, from `offset` on, as they are on the disk. StorageError where it has fewer.
  void read(int64_t position, int64_t offset, void* to, int64_t bytes);
  // A sentence for each copy that has failed a read since it was opened, each once.
  std::vector<std::string> take_failures();

  // Every write that was done before is in the files, on the disk. StorageError for the first page that cannot be written.
  void flush();

  class InUse;
  class Turn;

  // What sources stand on (include/hinterland/storage/source.hpp).
  storage::Found try_hold(storage::Page page);
  storage::Found prefetch(storage::Page page);
  storage::Line seen(int64_t slot) const { return {atomic_load(words_[slot])}; }
  storage::Hold hold(int64_t slot, storage::Page page) {
    lines_.mark_used(slot, seen(slot));
    return storage::hold(words_[slot], page);
  }
  void filled(int64_t slot) { lines_.filled(slot); }
  void forget(int64_t slot, storage::Page page) { storage::forget(words_[slot], page); }
  void release(int64_t slot) { storage::release(lines_.words[slot]); }
  void wrote(int64_t slot) { storage::wrote(lines_.words[slot]); }
  char* frame(int64_t slot) const { return lines_.frame(slot); }
  int line_shift() const { return line_shift_; }
  // For who waits, in the given round of waiting, and holds nothing: has transfers end, and sleeps a while if none does.
  void progress(uint32_t round);
  // What was begun is on its way.
  void submit();
  // A page could not be read. Readers that cannot throw say so here, between begin_run() and end_run().
  void fail(storage::Page page, uint32_t status);
  bool failed() const { return failed_status_.load(std::memory_order_relaxed) != 0; }
  // A run of such readers. end_run() throws StorageError if a page failed since it began, or before, while others went on: of runs
  // at the same time nobody knows whose page it was. What failed is read anew when it is asked for again.
  void begin_run();
  void end_run();
  const HostPages& pages() const { return host_pages_; }

  // The exception for a page that could not be moved, which is read anew when it is asked for again.
  [[noreturn]] void throw_failed(storage::Page page, int64_t slot);
  // Whether who has waited for room since then should ask why there is none: StorageError where a page of those in whose place his
  // may lie could not be written, to a full disk as a rule.
  static bool waits_long(std::chrono::steady_clock::time_point since);
  void require_room(storage::Page page) const;
  // StorageError after rounds of waiting that have taken too long.
  static void require_answer(std::chrono::steady_clock::time_point since);

  // Keeps the page that the caller holds in its slot, until let_go() was called as often. False: its set has no room for another
  // that stays. OutOfMemory: the cache has none. The caller holds it no more in any case. (Whoever waits must hold nothing, but
  // may keep what he likes: every set has slots whose pages nobody keeps.)
  bool keep(int64_t slot);
  void let_go(int64_t slot);
  int64_t most_kept() const { return num_slots() / 2; }
  std::string most_kept_sentence() const;

  // Batches that are known to come: the cache goes by them.
  Expected& expected() { return expected_; }
  void expect(Expected::Told told) { expected_.replace(std::move(told), words_); }

  // Begins reading pages in the background, in this order, as room comes free. Returns at once.
  void read_ahead(std::vector<storage::Page> pages);

  int64_t line_bytes() const { return lines_.line_bytes; }
  int64_t num_slots() const { return lines_.num_slots(); }
  int64_t bytes() const { return bytes_; }
  unsigned depth() const { return depth_; }
  int threads() const { return static_cast<int>(rings_.size()); }
  const char* engine() const { return rings_[0].transfers->name(); }
  StoreCounts counts();
  void count(int64_t hits, int64_t misses, int64_t cpu_ns);

 private:
  // A number that whoever has the ring counts on, and others may look at.
  struct Counter {
    std::atomic<int64_t> value{0};
    void operator+=(int64_t more) { value.store(value.load(std::memory_order_relaxed) + more, std::memory_order_relaxed); }
    operator int64_t() const { return value.load(std::memory_order_relaxed); }
  };

  // Transfers that one thread at a time has.
  struct alignas(64) Ring {
    std::atomic<bool> is_taken{false};
    std::unique_ptr<RoutedTransfers> transfers;
    Counter reads, writes, bytes_read, bytes_written, failed_reads, ended;
    bool keeps = false;  // Transfers::keep() was told of all frames
    // Of its threads' sources: pages held, reads begun, and processor time of having transfers begin and end.
    std::atomic<int64_t> holds{0}, started{0}, cpu_ns{0};

    bool try_take() { return !is_taken.load(std::memory_order_relaxed) && !is_taken.exchange(true, std::memory_order_acquire); }
    void give_back() { is_taken.store(false, std::memory_order_release); }
  };

  // A ring for a while: this thread's own, or another that nobody has. Null if there is none.
  class Taken {
   public:
    explicit Taken(Store& store);
    ~Taken() {
      if (ring_ != nullptr) ring_->give_back();
    }
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;
    Ring* get() const { return ring_; }

   private:
    Ring* ring_ = nullptr;
  };

  // What a slot's transfer is, or, where it goes to or comes from several copies, the one at hand.
  struct Move {
    Volume* volume;
    int64_t offset;    // in the file
    uint64_t asked;    // a bit for each copy that was asked
    uint32_t bytes;    // that the volume has there
    uint32_t repeats;  // of what the system asks to be asked again
    uint32_t member;   // which file of the volume
    uint32_t status;   // of the first copy that could not be written

    StoredFile& file() const;
  };

  // A slot that flush() has written.
  struct Due {
    storage::Page page;
    int64_t slot;
    bool is_begun;
  };

  // The cache's device: a ring that is taken, or null, by which nothing moves; a volume that is in use, or null.
  struct Device {
    Store& store;
    Ring* ring = nullptr;
    Volume* volume = nullptr;
    bool uses(storage::Page page) const;
    bool try_read(storage::Page page, int64_t slot) { return store.begin(*this, page, slot, false); }
    bool try_write(storage::Page page, int64_t slot) { return store.begin(*this, page, slot, true); }
  };

  static constexpr uint64_t kWrites = uint64_t{1} << 63;
  // A status is an error, and above that which file of the volume had it.
  static constexpr int kMemberShift = 20;
  static constexpr uint32_t kErrorBits = (1u << kMemberShift) - 1;

  using Devices = std::vector<std::shared_ptr<BlockDevice>>;

  friend class HostPages;

  Ring& own_ring() { return rings_[static_cast<size_t>(thread_number()) % rings_.size()]; }
  Volume* volume_of(storage::Page page) const;
  Volume* open_volume_of(storage::Page page) const;
  Volume& opened_at(int64_t position) const;
  std::optional<int64_t> add(std::unique_ptr<Volume>& volume);
  void leave(Volume& volume);
  template <class Stays>
  void drop_pages(const Volume& volume, const Stays& stays);
  storage::Found bring(storage::Page page, Device& device);
  storage::Found bring(storage::Page page);  // by any ring that is free
  bool has_room(const Device& device, storage::Page page) const;
  static bool has_room(const Ring& ring, const Volume& volume);
  bool begin(const Device& device, storage::Page page, int64_t slot, bool writes);
  bool begin(Ring& ring, Volume& volume, storage::Page page, int64_t slot, bool writes);
  bool begin_transfer(Ring& ring, int64_t slot, bool writes);
  static bool is_another_copy_due(Ring& ring, Move& move, bool writes, uint32_t status);
  bool ask_another_copy(Ring& ring, int64_t slot, bool writes, uint32_t& status);
  Devices not_had(const Volume& volume) const;
  void detach(const Devices& devices);
  void await_closed(const Volume& volume) const;
  template <class Visit>
  void visit_rings(const Visit& visit);
  Transfer transfer_of(int64_t slot, bool writes) const;
  size_t end_some(Ring& ring);
  static uint32_t status_of(Move& move, bool writes, int32_t result);
  std::string write_due(std::span<Due> due, std::atomic<size_t>& next);
  bool is_over(Due& due, Device& device, std::string& error, bool& refused);
  std::string sentence(storage::Page page, bool writes, uint32_t status) const;
  void serve_read_ahead(std::stop_token stops);

  const Owner owner_;
  Lines lines_{};
  int line_shift_;
  int64_t bytes_;
  unsigned depth_;
  DirectMemory frames_;
  std::vector<uint64_t> words_;
  std::vector<uint32_t> statuses_, sets_;
  std::vector<Move> moves_;
  Expected expected_;
  std::mutex kept_mutex_;
  std::vector<uint32_t> kept_;  // how often each slot's page is kept
  std::atomic<int64_t> kept_slots_{0};
  std::deque<Ring> rings_;

  std::mutex syncing_mutex_;  // whoever finds nothing to make durable knows that it is
  std::mutex devices_mutex_;  // while bare devices come and go
  mutable std::shared_mutex volumes_mutex_;
  std::vector<std::unique_ptr<Volume>> volumes_;  // by their first page
  storage::Page next_page_ = 0;

  std::mutex runs_mutex_;
  int64_t runs_ = 0;
  std::atomic<uint32_t> failed_status_{0};
  std::atomic<storage::Page> failed_page_{0};
  const HostPages host_pages_{*this};

  std::atomic<int64_t> hits_{0}, misses_{0}, cpu_ns_{0};

  std::mutex ahead_mutex_;
  std::condition_variable_any has_ahead_;
  std::deque<std::vector<storage::Page>> ahead_;
  std::jthread reader_;  // last: it ends first
};

// The processor time that this thread has taken.
int64_t thread_cpu_ns();

// A volume is used for a while, and stays open meanwhile.
class Store::InUse {
 public:
  // The volume of a page; StorageError if it was closed.
  InUse(Store& store, storage::Page page);
  ~InUse() { store_.leave(*volume_); }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

  // Of a page, those that the volume has.
  int64_t bytes_in(storage::Page page) const;

 private:
  friend class Turn;
  Store& store_;
  Volume* volume_;
};

// What one thread asks of a volume's pages at once, for which it takes a ring once. It waits for nothing meanwhile.
class Store::Turn {
 public:
  explicit Turn(const InUse& used) : ring_(used.store_), device_{used.store_, ring_.get(), used.volume_} {}

  storage::Found prefetch(storage::Page page);
  // Cache::try_fill(), for a page of which all bytes_in() are written.
  storage::Found try_fill(storage::Page page);
  // Whether a transfer of the page can begin now.
  bool has_room(storage::Page page);
  // Has a slot written back, if there is room for that.
  void write_back(int64_t slot);

 private:
  Taken ring_;
  Device device_;
};

inline storage::Found HostPages::try_hold(storage::Page page) const {
  const storage::Found found = store_.lines_.try_hold(page);
  if (found.outcome == storage::Try::kHeld) store_.own_ring().holds.fetch_add(1, std::memory_order_relaxed);
  return found;
}
inline void HostPages::release(int64_t slot) const { store_.release(slot); }
inline const char* HostPages::frame(int64_t slot) const { return store_.frame(slot); }
inline int HostPages::line_shift() const { return store_.line_shift(); }
inline bool HostPages::failed() const { return store_.failed(); }

}  // namespace hinterland::native
