// Elements read and written by their numbers, on the CPU.
#include "hinterland_papers/bam/elements.hpp"

#include <omp.h>

#include "bindings.hpp"
#include "core/pool.hpp"
#include "memory/array_words.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(bam::ReadParams, array, elements, at, count, to, sum);
HINTERLAND_STRUCT(bam::WriteParams, array, elements, at, count, run, values);

namespace {

template <class T>
void read_on_threads(const bam::ReadParams& params) {
#pragma omp parallel if (params.count > kItemsOfChunk)
  if (params.array.store != nullptr)
    bam::read_elements<T, bam::DeviceSources>(params, omp_get_thread_num(), omp_get_num_threads());
  else
    bam::read_elements<T, memory::Unmetered>(params, omp_get_thread_num(), omp_get_num_threads());
}

void read_stored(const bam::ReadParams& params, int64_t element_bytes) {
  element_bytes == 8 ? read_on_threads<int64_t>(params) : read_on_threads<int32_t>(params);
}

template <class T>
void write_on_threads(const bam::WriteParams& params) {
#pragma omp parallel if (params.count * params.run > kItemsOfChunk)
  bam::write_elements<T, bam::DeviceSources>(params, omp_get_thread_num(), omp_get_num_threads());
}

void write_stored(const bam::WriteParams& params, int64_t element_bytes) {
  element_bytes == 8 ? write_on_threads<int64_t>(params) : write_on_threads<int32_t>(params);
}

}  // namespace

const Binding bam_elements([](nb::module_& m) {
  m.attr("ELEMENT_THREADS") = bam::kElementThreads;
  def_native(m, "read_stored", read_stored, nb::arg("params"), nb::arg("element_bytes"));
  def_native(m, "write_stored", write_stored, nb::arg("params"), nb::arg("element_bytes"));
});

}  // namespace hinterland::native
