// The user's own kernels, compiled for the CPU (include/hinterland/kernels/on_cpu.hpp): their blocks, by all threads.
#include "bindings.hpp"
#include "core/pool.hpp"
#include "core/thresholds.hpp"
#include "hinterland/kernels/array.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(kernels::ArgumentWords, home, size, kind, number, store, left_out, tiers, row_elements, reciprocal);

namespace {

// Runs blocks [first, last) of a grid, with the packed arguments.
using Blocks = void (*)(const void* arguments, unsigned first, unsigned last, unsigned grid, unsigned block);

void run_blocks(uintptr_t function, uintptr_t arguments, int64_t grid, int64_t block) {
  const int64_t at_once = std::max<int64_t>(std::min(kThreadsOfCore / block, grid / (kTurnsOfCore * num_threads())), 1);
  const auto run = reinterpret_cast<Blocks>(function);
  const GilReleased released;
  parallel_for(
      ceil_div(grid, at_once),
      [&](int64_t i) {
        const int64_t first = i * at_once;
        run(reinterpret_cast<const void*>(arguments), static_cast<unsigned>(first),
            static_cast<unsigned>(std::min(first + at_once, grid)), static_cast<unsigned>(grid), static_cast<unsigned>(block));
      },
      1);
}

constexpr storage::StoredCalls kStoredCalls{
    [](const void* store, uint64_t at, uint64_t bits, int size, bool writes) {
      return storage::DeviceLines<>{store}.access(at, bits, size, writes);
    },
    [](const void* store, uint64_t begin, uint64_t end) { storage::DeviceLines<>{store}.prefetch(begin, end); },
    [](const void* store, uint64_t at) { return storage::DeviceLines<>{store}.keep(at); },
    [](const void* store, int64_t slot, bool wrote, int size, uint64_t elements) {
      storage::DeviceLines<>{store}.let_go(slot, wrote, size, elements);
    },
    &storage::DeviceLines<>::leave_out,
};

}  // namespace

const Binding kernels([](nanobind::module_& m) {
  m.def("run_blocks", &run_blocks, nanobind::arg("function"), nanobind::arg("arguments"), nanobind::arg("grid"),
        nanobind::arg("block"), "Runs a kernel that was compiled for the CPU.");
  m.def(
      "stored_calls", [] { return reinterpret_cast<uintptr_t>(&kStoredCalls); },
      "The address of what such a kernel does with arrays on storage.");
});

}  // namespace hinterland::native
