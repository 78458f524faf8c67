// hinterland_papers._core: the CPU's loops of what only reproduces a paper.
#include "bindings.hpp"

NB_MODULE(_core, m) { hinterland::native::begin_module(m); }
