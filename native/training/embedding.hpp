// The CPU's shells around hinterland/training/embedding.hpp.
#pragma once

#include "hinterland/training/embedding.hpp"

namespace hinterland::native {

// What tables are made of.
enum class Element : int64_t { kFloat32, kFloat16, kBfloat16 };

struct BagFaults {
  memory::IndexFault rows, offsets;
};

// Arguments without a type are arrays of `element`. `best` is null unless maxima are asked for.
BagFaults pool_bags(Element element, const memory::TieredTable& table, int64_t dim, const training::Bags& bags, const float* weights, void* pooled,
                    int64_t* best, int64_t* counts);
void weigh_entries(Element element, const memory::TieredTable& table, int64_t dim, const training::Bags& bags, const void* gradient, float* found);
void note_entries(const training::Bags& bags, const float* weights, const int64_t* counts, const training::EntryNotes& notes);

// What update_rows needs of SortedGradients<T> for any T.
struct AnyGradients {
  const void* keys;
  int64_t key_bytes;
  const int64_t* order;
  int64_t count;
  const int64_t* bag;
  const float* factor;
  const int64_t* best;
  const void* rows;
  const int64_t* bad;
};

// By Adagrad where there is a state, else by SGD.
void update_rows(Element element, const memory::TieredTable& table, int64_t dim, float* state, const AnyGradients& given, int64_t rate,
                 int64_t eps);

}  // namespace hinterland::native
