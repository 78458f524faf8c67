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

const Binding probe([](nb::module_& m) {
  using Released = nb::call_guard<GilReleased>;
  def_native(m, "read_sequence", read_sequence, "base"_a, "bytes"_a);
  def_native(m, "write_chain", write_chain, "base"_a, "count"_a, "stride"_a);
  def_native(m, "read_chain", read_chain, "base"_a, "at"_a, "steps"_a);
  m.def("takes_direct_io", &takes_direct_io, "path"_a, Released());
  m.def("transfer_file", &transfer_file, "path"_a, "offset"_a, "bytes"_a, "threads"_a, "write"_a, "direct"_a, Released());
});

}  // namespace hinterland::native
