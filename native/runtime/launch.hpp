// Kernel launches through CUDA's driver. Its library is opened when the first kernel is launched, and its functions are
// declared
// here: the module is built and loaded where there is no CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace hinterland::native {

constexpr int kInvalidContext = 201;  // CUDA_ERROR_INVALID_CONTEXT

// One-dimensional, as all of ours are.
struct Launch {
  uintptr_t function;  // a CUfunction, or the CUkernel that the driver takes for one
  int device;
  unsigned grid, block;  // blocks, threads of each
  unsigned shared;       // bytes of shared memory of each block
  uintptr_t stream;      // a CUstream
  bool cooperative;      // all blocks run at once
};

// Queues a kernel whose one parameter is the struct at `params`, which the driver copies. The driver's error number; also
// kInvalidContext, with nothing queued, where the calling thread has no context, or one of another device. Waits while the
// stream's queue is full.
int launch(const Launch& kernel, void* params);

// The same of a kernel of several parameters, which lie at `params` as in a struct, and the last of which ends after so many
// bytes: the driver refuses what a struct has behind it.
int launch_packed(const Launch& kernel, void* params, size_t bytes);

// Queues the call of a function on a stream, or adds it to the graph that is being captured: a thread of the driver's calls it,
// which must not call CUDA. The driver's error number.
int call_host(uintptr_t stream, void (*function)(void*), void* argument);

// Which capture of a CUDA graph a stream is part of: a number of its own in this process, 0 for none.
uint64_t capture_id(uintptr_t stream);

// Queues the copy of so many bytes of pinned memory to an address of a GPU. The driver's error number, as of the next two.
int copy_to_gpu(uintptr_t to, uintptr_t from, size_t bytes, uintptr_t stream);

// Records a CUevent behind what a stream has.
int record_event(uintptr_t event, uintptr_t stream);

// Waits for what stands before an event; not for one that was never recorded.
int wait_for_event(uintptr_t event);

// Whether all that stands before an event is done.
bool is_done(uintptr_t event);

// What the driver calls one of its error numbers.
std::string error_name(int error);

}  // namespace hinterland::native
