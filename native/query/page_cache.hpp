// Files that are mapped: whether the page cache has them, and asking the disk for what it has not.
#pragma once

#include <cstdint>

namespace hinterland::native {

inline constexpr int64_t kFilePage = 4096;

// Whether any of the pages at these addresses is not in the page cache. Those of a file that this user may not write are said
// to be there (mincore(2)).
bool pages_missing(const int64_t* pages, int64_t count);

// Asks the disk for ranges of addresses, [count, 2], and waits for none of them. What cannot be asked for is read when it is
// touched. Of more than the disk's readahead has, `at_once` bytes, Linux would take as many.
void ask_for_pages(const int64_t* ranges, int64_t count, int64_t at_once);

// Whether a page of a mapping that is touched comes with the disk's readahead around it.
void read_around(int64_t address, int64_t bytes, bool around);

}  // namespace hinterland::native
