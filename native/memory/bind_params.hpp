// What other bindings share with memory's: structs that theirs have as fields, and what loops on the CPU found wrong.
#pragma once

#include <nanobind/nanobind.h>

#include "hinterland/memory/tiers.hpp"
#include "params.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(memory::FaultReport, fault, flag);
HINTERLAND_STRUCT(memory::TieredTable, host, rows, slots, slot_bytes, local, local_rows, resident, shards, gpus, reciprocal,
                  replicas, others);

// The arguments of the sentences in src/hinterland/memory/faults.py, or None.
inline nanobind::object found(const memory::IndexFault& fault) {
  if (fault.count == 0) return nanobind::none();
  return nanobind::make_tuple(fault.first, fault.value, fault.table_rows, fault.count);
}

}  // namespace hinterland::native
