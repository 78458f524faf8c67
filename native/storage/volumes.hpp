// All volumes of a store as one space of bytes, and how a page moves between a frame and their files. A volume, of one file or
// several, begins at a page of its own, and its page i is the bytes from i * line_bytes on, whatever lies there: a header, rows
// that begin in one page and end in the next. A page lies in one file whole, since stripes are whole pages.
//
// Where there are copies, a page is read from one, and from another if that fails. It is written to all, one after the other,
// and has been written when the last has; other pages are on their way to the other copies meanwhile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "storage/rings.hpp"
#include "storage/volume.hpp"

namespace hinterland::native {

// A slot's page has come, is written, or could not be: a status is 0, or an error and above that which file of the volume had
// it.
struct Moved {
  int64_t slot;
  bool writes;
  uint32_t status;
};

class Volumes {
 public:
  static const int64_t kSlotBytes;  // what a slot of the cache takes here

  Volumes(Rings& rings, const Frames& frames);
  ~Volumes();

  // Where the first byte of a volume of files, or bare devices by their names (bare_device), lies. It stays open until leave()
  // was called as often. StorageError where a file cannot be opened, another writes it, or stripes are no whole pages.
  int64_t open(const std::vector<std::filesystem::path>& paths, bool writable, uint64_t stripe, uint64_t base);
  // That of a page, or of its first one also if it has none, until leave(). StorageError if it was closed.
  Volume& enter(storage::Page page);
  // True: nobody has it open, and no move of its pages begins any more. The caller close()s it once they have no slot.
  [[nodiscard]] bool leave(Volume& volume);
  void close(Volume& volume);

  // The volume of a page; null if it is closed, or about to be. It is not closed while a slot has the page.
  Volume* find(storage::Page page) const;
  // Whether a move of its pages, wherever they lie, can begin now.
  static bool has_room(const Ring& ring, const Volume& volume);
  bool has_room(const Ring& ring, storage::Page page) const;

  // By who has the ring. Begins to move a page to or from a slot's frame: 0; the status of what is over at once; nothing if
  // there is no room.
  std::optional<uint32_t> begin(Ring& ring, Volume& volume, storage::Page page, int64_t slot, bool writes);
  // What a transfer of the ring that has ended makes of the move; nothing if it goes on.
  std::optional<Moved> end(Ring& ring, const Ended& ended);

  // That a page could not be moved.
  std::string sentence(storage::Page page, bool writes, uint32_t status) const;
  // A sentence for each copy that has failed a read since it was opened, each once.
  std::vector<std::string> take_failures();
  // What was written is on the disks; or a sentence on what is not.
  std::string sync();

 private:
  struct Move;

  Volume* volume_of(storage::Page page) const;
  std::optional<int64_t> add(std::unique_ptr<Volume>& volume);
  void begin_transfer(Ring& ring, int64_t slot, bool writes);
  bool ask_another_copy(Ring& ring, int64_t slot, bool writes, uint32_t& status);
  Transfer transfer_of(int64_t slot, bool writes) const;

  Rings& rings_;
  const Frames& frames_;
  std::vector<Move> moves_;  // of each slot
  mutable std::shared_mutex mutex_;
  std::vector<std::unique_ptr<Volume>> volumes_;  // by their first page
  storage::Page next_page_ = 0;
};

}  // namespace hinterland::native
