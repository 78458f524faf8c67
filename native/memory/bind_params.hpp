// What other bindings share with memory's: structs that theirs have as fields, and what loops on the CPU found wrong.
#pragma once

#include <nanobind/nanobind.h>

#include "hinterland/memory/gather.hpp"
#include "params.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(memory::FaultReport, fault, flag);
HINTERLAND_STRUCT(memory::OneRange, base, rows);
HINTERLAND_STRUCT(memory::DealtRound, memories, count, reciprocal);
HINTERLAND_STRUCT(memory::SlotMap, slots, slot_bytes);
HINTERLAND_STRUCT(memory::Tiers, host, map, local, local_rows, resident, dealt, replicas, others);

// The arguments of the sentences in src/hinterland/memory/faults.py, or None.
inline nanobind::object found(const memory::IndexFault& fault) {
  if (fault.count == 0) return nanobind::none();
  return nanobind::make_tuple(fault.first, fault.value, fault.table_rows, fault.count);
}

}  // namespace hinterland::native
