// What kernels of the user's own do with arrays on storage (coalesced.hpp), by positions in bytes, whatever the type. A kernel
// that is compiled for a CPU (HINTERLAND_STORED_CALLS) finds it compiled in the library.
#pragma once

#include "hinterland/core/platform.hpp"

namespace hinterland::storage {

// A line that is held, also while others are waited for: bytes [first, first + size) lie at `memory`. Slot -1: none.
struct HeldLine {
  char* memory = nullptr;
  uint64_t first = 0;
  int64_t size = 0;
  int64_t slot = -1;
};

// What was to become of an element that its array does not have.
enum class Beside : uint64_t { kRead = 1, kWritten = 2, kEither = 3 };

// The first such element of a call; zero at first.
struct LeftOut {
  uint64_t which;    // the array's number << 2 | Beside; 0 if there is none
  int64_t at;        // and the element's number
  uint64_t nowhere;  // where such an element is written, if a place is asked for
};

// Of a DeviceStore, as DeviceLines has it (coalesced.hpp).
struct StoredCalls {
  uint64_t (*access)(const void* store, uint64_t at, uint64_t bits, int size, bool writes);
  void (*prefetch)(const void* store, uint64_t begin, uint64_t end);
  HeldLine (*keep)(const void* store, uint64_t at);
  void (*let_go)(const void* store, int64_t slot, bool wrote, int size, uint64_t elements);
  void* (*leave_out)(void* first, int64_t array, int64_t at, Beside how);
};

}  // namespace hinterland::storage

#if defined(HINTERLAND_STORED_CALLS)

// Who loads the kernel says which.
extern "C" {
extern const hinterland::storage::StoredCalls* hinterland_stored_calls;
const hinterland::storage::StoredCalls* hinterland_stored_calls = nullptr;
}

namespace hinterland::storage {

struct LibraryLines {
  const void* store;

  uint64_t access(uint64_t at, uint64_t bits, int size, bool writes) const {
    return hinterland_stored_calls->access(store, at, bits, size, writes);
  }
  void prefetch(uint64_t begin, uint64_t end) const { hinterland_stored_calls->prefetch(store, begin, end); }
  HeldLine keep(uint64_t at) const { return hinterland_stored_calls->keep(store, at); }
  void let_go(int64_t slot, bool wrote, int size, uint64_t elements) const {
    hinterland_stored_calls->let_go(store, slot, wrote, size, elements);
  }
  static void* leave_out(void* first, int64_t array, int64_t at, Beside how) {
    return hinterland_stored_calls->leave_out(first, array, at, how);
  }
};

}  // namespace hinterland::storage

#endif
