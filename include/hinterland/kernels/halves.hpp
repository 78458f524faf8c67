// Elements of 16 bits in kernels, by CUDA's names: numbers that are float32 as they are computed with, and rounded as they are
// kept. The same on both processors, and no header of CUDA's is needed.
#pragma once

#include "hinterland/core/floats.hpp"
#include "hinterland/kernels/changes.hpp"

namespace hinterland::kernels {

template <class Kept>
class Half : public Changes<Half<Kept>, float> {
 public:
  Half() = default;
  template <class From>
    requires requires(const From& from) { static_cast<float>(from); }
  HINTERLAND_FN Half(const From& from) {
    narrow(static_cast<float>(from), kept_);
  }
  HINTERLAND_FN operator float() const { return widen(kept_); }

 private:
  Kept kept_;
};

template <class Kept>
struct Computing<Half<Kept>> {
  using As = float;
};

using half = Half<Float16>;
using bfloat16 = Half<Bfloat16>;
using __half = half;
using __nv_bfloat16 = bfloat16;

}  // namespace hinterland::kernels
