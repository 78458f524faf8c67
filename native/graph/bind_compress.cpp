#include <nanobind/stl/pair.h>

#include "bindings.hpp"
#include "graph/bind_arrays.hpp"
#include "graph/compress.hpp"
#include "graph/reorder.hpp"
#include "hinterland/graph/compress.hpp"

namespace nb = nanobind;

namespace hinterland::native {

void bind_graph_compress(nb::module_& m) {
  m.def("packed_bytes", &graph::packed_bytes);
  def_native(m, "pack_offsets", pack_offsets);
  def_native(m, "pack_rows", pack_rows);
  def_native(m, "unpack_rows", unpack_rows);
  def_native(m, "unpack_heads", unpack_heads);
  def_native(m, "first_wrong_list", first_wrong_list);
  def_native(m, "queue_order", queue_order);
  def_native(m, "check_undirected", check_undirected);
  def_native(m, "renumber_rows", renumber_rows);
}

}  // namespace hinterland::native
