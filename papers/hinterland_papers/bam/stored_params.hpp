// What Python gives a level of EMOGI whose edges are read through a source.
#pragma once

#include "hinterland_papers/bam/stored.hpp"
#include "hinterland_papers/emogi/case.hpp"
#include "memory/array_words.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(bam::EmogiStoredParams, level, edges);

}  // namespace hinterland::native
