// The CPU's shells around hinterland/training/embedding.hpp.
#pragma once

#include "hinterland/training/embedding.hpp"

namespace hinterland::native {

// What tables are made of: T of the parameters.
enum class Element : int64_t { kFloat32, kFloat16, kBfloat16 };

struct BagFaults {
  memory::IndexFault offsets, entries;
};

BagFaults pool_bags(const training::PoolParams& params, Element element);
void weigh_entries(const training::WeighParams& params, Element element);
void note_entries(const training::NoteParams& params);

// By Adagrad where there is a state, else by SGD.
void update_rows(const training::UpdateParams& params, Element element);

}  // namespace hinterland::native
