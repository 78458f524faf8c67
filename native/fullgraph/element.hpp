// The types of elements that rows are made of, by number.
#pragma once

#include <cstdint>

#include "hinterland/core/floats.hpp"

namespace hinterland::native {

enum class RowElement : int64_t { kFloat32, kFloat64, kFloat16, kBfloat16 };

// each(T{}) for that type.
template <class Each>
void with_row_element(RowElement element, const Each& each) {
  switch (element) {
    case RowElement::kFloat32: each(float{}); break;
    case RowElement::kFloat64: each(double{}); break;
    case RowElement::kFloat16: each(Float16{}); break;
    case RowElement::kBfloat16: each(Bfloat16{}); break;
  }
}

}  // namespace hinterland::native
