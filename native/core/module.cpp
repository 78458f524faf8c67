// What each native module begins with: _core, and those of packages that stand on it.
#include <nanobind/stl/string.h>
#include <pthread.h>

#include "bindings.hpp"
#include "core/parallel.hpp"
#include "core/team.hpp"
#include "params.hpp"

namespace hinterland::native {

void begin_module(nanobind::module_& m) {
  pthread_atfork(nullptr, nullptr, [] {
    forked = true;
    set_num_threads(1);
  });
  check_interrupt = [] {
    GilHeld held;
    if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
  };
  nanobind::dict told;
  for (const Struct& one : structs()) {
    nanobind::list fields;
    for (const Field& field : one.fields) fields.append(nanobind::make_tuple(field.name, field.offset, field.kind));
    told[one.name.c_str()] = nanobind::make_tuple(one.size, fields);
  }
  m.attr("STRUCTS") = told;
  for (const auto bind : bindings()) bind(m);
}

}  // namespace hinterland::native
