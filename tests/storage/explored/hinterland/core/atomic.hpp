// A stand-in for include/hinterland/core/atomic.hpp: each operation is a step of the explorer, and what it gives is noted as
// known to the thread. All are sequentially consistent, so what is explored is their order, not what weak memory makes of it.
#pragma once

#include "explorer.hpp"
#include "hinterland/core/platform.hpp"

namespace hinterland {

template <class T, class Operation>
T explored_step(T& place, const Operation& operation) {
  explorer::step();
  const T before = place;
  operation();
  return explorer::note(before);
}

template <class T>
T atomic_load(T& place) {
  return explored_step(place, [] {});
}
template <class T>
void atomic_store(T& place, T value) {
  explorer::step();
  place = value;
}
template <class T>
void atomic_store_release(T& place, T value) {
  atomic_store(place, value);
}
template <class T>
T atomic_add(T& place, T value) {
  return explored_step(place, [&] { place += value; });
}
template <class T>
T atomic_or(T& place, T bits) {
  return explored_step(place, [&] { place |= bits; });
}
template <class T>
T atomic_and(T& place, T bits) {
  return explored_step(place, [&] { place &= bits; });
}
template <class T>
T atomic_cas(T& place, T expected, T value) {
  return explored_step(place, [&] {
    if (place == expected) place = value;
  });
}
template <class T>
T atomic_add_acquire(T& place, T value) {
  return atomic_add(place, value);
}
template <class T>
T atomic_add_release(T& place, T value) {
  return atomic_add(place, value);
}
template <int kCount>
void atomic_add_release(uint64_t* array, const int32_t (&at)[kCount], uint64_t value) {
  for (const int32_t one : at)
    if (one >= 0) atomic_add_release(array[one], value);
}
inline void atomic_fence() {}  // steps are in one order for all
inline void atomic_load_pair(uint64_t* places, uint64_t (&values)[2]) {
  for (int i = 0; i < 2; ++i) values[i] = atomic_load(places[i]);
}
template <class T>
T atomic_or_release(T& place, T bits) {
  return atomic_or(place, bits);
}
template <class T>
T atomic_cas_acquire(T& place, T expected, T value) {
  return atomic_cas(place, expected, value);
}
template <class T>
T atomic_cas_acq_rel(T& place, T expected, T value) {
  return atomic_cas(place, expected, value);
}

}  // namespace hinterland
