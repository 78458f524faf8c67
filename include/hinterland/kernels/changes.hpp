// x += y and its like, of what can be read as a Value and assigned one, without being a place in memory: an element that is
// widened, or that lies on storage. A Self derives from Changes<Self, Value>.
#pragma once

#include "hinterland/core/platform.hpp"

namespace hinterland::kernels {

// What elements are computed with: themselves, but for those of 16 bits (halves.hpp).
template <class Element>
struct Computing {
  using As = Element;
};
template <class Element>
using Computed = typename Computing<Element>::As;

template <class Self, class Value>
struct Changes {
#define HINTERLAND_CHANGE(operation)                                                  \
  template <class By>                                                                 \
  HINTERLAND_FN Self& operator operation## = (const By& by) {                         \
    return own() = static_cast<Value>(static_cast<Value>(own()) operation by), own(); \
  }
  HINTERLAND_CHANGE(+)
  HINTERLAND_CHANGE(-)
  HINTERLAND_CHANGE(*)
  HINTERLAND_CHANGE(/)
  HINTERLAND_CHANGE(%)
  HINTERLAND_CHANGE(&)
  HINTERLAND_CHANGE(|)
  HINTERLAND_CHANGE(^)
  HINTERLAND_CHANGE(<<)
  HINTERLAND_CHANGE(>>)
#undef HINTERLAND_CHANGE

  HINTERLAND_FN Self& operator++() { return *this += 1; }
  HINTERLAND_FN Self& operator--() { return *this -= 1; }
  HINTERLAND_FN Value operator++(int) {
    const Value before = static_cast<Value>(own());
    return ++*this, before;
  }
  HINTERLAND_FN Value operator--(int) {
    const Value before = static_cast<Value>(own());
    return --*this, before;
  }

 private:
  HINTERLAND_FN Self& own() { return static_cast<Self&>(*this); }
};

}  // namespace hinterland::kernels
