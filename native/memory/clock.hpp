// The CPU's shell around hinterland/memory/clock.hpp.
#pragma once

#include "hinterland/memory/clock.hpp"

namespace hinterland::native {

// Gives slots to the rows of a batch.
void admit_rows(const memory::AdmitParams& params);

// Copies those rows to their slots.
void fill_slots(const memory::FillParams& params);

}  // namespace hinterland::native
