// What Python gives a level of EMOGI whose edges are read through a source.
#pragma once

#include "graph/emogi.hpp"
#include "hinterland/graph/emogi_stored.hpp"
#include "memory/array_words.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(graph::EmogiStoredParams, level, edges);

}  // namespace hinterland::native
