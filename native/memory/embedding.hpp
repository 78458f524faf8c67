// The CPU's shells around hinterland/memory/embedding.hpp.
#pragma once

#include <utility>

#include "hinterland/memory/embedding.hpp"
#include "memory/gather.hpp"

namespace hinterland::native {

// What tables are made of: T of the parameters.
enum class ParameterType : int64_t { kFloat32, kFloat16, kBfloat16 };

// What is wrong with offsets, and with entries.
std::pair<FoundFault, FoundFault> pool_bags(const memory::PoolParams& params, ParameterType element);
void weigh_entries(const memory::WeighParams& params, ParameterType element);
void note_entries(const memory::NoteParams& params);

// By Adagrad where there is a state, row-wise where it has one element a row; else by SGD.
void update_rows(const memory::UpdateParams& params, ParameterType element);

}  // namespace hinterland::native
