#include <nanobind/stl/string.h>

#include "bindings.hpp"
#include "hinterland/probe/reads.hpp"
#include "params.hpp"
#include "probe/disk.hpp"
#include "probe/host.hpp"

namespace nb = nanobind;
using namespace nanobind::literals;

namespace hinterland::native {

HINTERLAND_STRUCT(probe::SequenceParams, base, words, sink);
HINTERLAND_STRUCT(probe::RandomParams, base, rows, words, draws, seed, sink);
HINTERLAND_STRUCT(probe::ChainParams, base, steps, at);

void bind_probe(nb::module_& m) {
  using Released = nb::call_guard<GilReleased>;
  m.def(
      "read_sequence", [](uintptr_t base, int64_t bytes) { return read_sequence(reinterpret_cast<const void*>(base), bytes); },
      "base"_a, "bytes"_a, Released());
  m.def(
      "write_chain",
      [](uintptr_t base, int64_t count, int64_t stride) { write_chain(reinterpret_cast<int64_t*>(base), count, stride); },
      "base"_a, "count"_a, "stride"_a, Released());
  m.def(
      "read_chain",
      [](uintptr_t base, int64_t at, int64_t steps) { return read_chain(reinterpret_cast<const int64_t*>(base), at, steps); },
      "base"_a, "at"_a, "steps"_a, Released());
  m.def("takes_direct_io", &takes_direct_io, "path"_a, Released());
  m.def("transfer_file", &transfer_file, "path"_a, "offset"_a, "bytes"_a, "threads"_a, "write"_a, "direct"_a, Released());
  m.def("random_reads", &random_reads, "path"_a, "bytes"_a, "threads"_a, "seconds"_a, "seed"_a, "direct"_a, Released());
}

}  // namespace hinterland::native
