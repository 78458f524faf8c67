// Pages of host memory: mapping them, touching them, filling them, by many threads.
#pragma once

#include <cstdint>

namespace hinterland::native {

// Zeroed pages, in huge pages where the system has them. Of the shared memory object `fd`, or private where fd is -1. `at`: in
// place of what is there, which is the caller's; null: where the system likes.
void* map_pages(int fd, int64_t bytes, void* at);

// Addresses that nothing else gets, from a multiple of `alignment` on; no memory. unmap_pages() gives them back, in parts too.
void* reserve_pages(int64_t bytes, int64_t alignment);
// Those from `at` on, a page's beginning; false where some are taken.
bool reserve_pages_at(void* at, int64_t bytes);
void unmap_pages(void* address, int64_t bytes);

// An anonymous shared memory object of `bytes` bytes; the caller closes it.
int shared_pages(int64_t bytes);

// Makes the system give every page now, its content unchanged: pages come to the CPU's memory, and a loop that fills them
// later does not wait for them one by one.
void touch_pages(void* address, int64_t bytes);

void copy_bytes(void* to, const void* from, int64_t bytes);

}  // namespace hinterland::native
