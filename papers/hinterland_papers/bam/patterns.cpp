// Access patterns, and the time of single reads, on the CPU.
#include "hinterland_papers/bam/patterns.hpp"

#include <nanobind/stl/string.h>
#include <omp.h>

#include "bindings.hpp"
#include "hinterland_papers/bam/latency.hpp"
#include "memory/array_words.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(bam::LatencySums, enqueue, total, hit, copy, asked_at, seen_at, sum);
HINTERLAND_STRUCT(bam::LatencyParams, array, at, count, line, sums);
HINTERLAND_STRUCT(bam::PatternParams, array, elements, line_elements, width, reads, sum);

namespace {

template <class Pattern, class Sources>
void read_in_pattern(const bam::PatternParams& params, int64_t threads) {
#pragma omp parallel
  {
    const int64_t own = omp_get_thread_num(), all = omp_get_num_threads();
    bam::read_pattern<int64_t, Sources, Pattern>(params, threads * own / all, threads * (own + 1) / all, threads);
  }
}

template <class Pattern>
void read_in_pattern(const bam::PatternParams& params, int64_t threads) {
  if (params.array.store == nullptr) return read_in_pattern<Pattern, memory::Unmetered>(params, threads);
  read_in_pattern<Pattern, bam::DeviceSources>(params, threads);
}

// What `threads` threads of a GPU would read; Python knows the patterns.
void read_pattern(const bam::PatternParams& params, const std::string& pattern, int64_t threads) {
  if (pattern == "InOrder") return read_in_pattern<bam::InOrder>(params, threads);
  if (pattern == "FarApart") return read_in_pattern<bam::FarApart>(params, threads);
  if (pattern == "PerLine") return read_in_pattern<bam::PerLine>(params, threads);
  if (pattern == "HeldLines") return read_in_pattern<bam::HeldLines>(params, threads);
  if (pattern == "SeveralLines") return read_in_pattern<bam::SeveralLines>(params, threads);
  if (pattern == "Strided") return read_in_pattern<bam::Strided>(params, threads);
  read_in_pattern<bam::RandomElements>(params, threads);
}

}  // namespace

const Binding bam_patterns([](nb::module_& m) {
  m.attr("PATTERN_THREADS") = bam::kPatternThreads;
  def_native(m, "read_pattern", read_pattern, nb::arg("params"), nb::arg("pattern"), nb::arg("threads"));
  def_native(m, "time_reads", bam::time_reads, nb::arg("params"));
});

}  // namespace hinterland::native
