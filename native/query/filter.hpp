// Predicates on the CPU.
#pragma once

#include "hinterland/query/predicate.hpp"

namespace hinterland::native {

// Sets the bits of the rows for which the predicate is true. Returns whether the file is damaged: a code that its dictionary does not
// have, or a decimal of more than 18 digits.
bool filter_rows(const query::FilterParams& params);

}  // namespace hinterland::native
