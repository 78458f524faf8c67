// Tells Python the fields of the structs that it fills in for kernels and loops (src/hinterland/runtime/params.py), so that
// each struct is declared in one place, its header.
//
//   namespace hinterland::native {
//   HINTERLAND_STRUCT(graph::BfsParams, graph, incoming, source, parents, levels, scratch);
//   }
//
// in a .cpp file, or in a header if other structs have it as a field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace hinterland::native {

struct Field {
  std::string name, kind;
  size_t offset, size;
};

struct Struct {
  std::string name;
  size_t size;
  std::vector<Field> fields;
};

inline std::vector<Struct>& structs() {
  static std::vector<Struct> all;
  return all;
}

// What C++ calls T from within `hinterland`; HINTERLAND_STRUCT specialises it.
template <class T>
struct StructName;

// As runtime/params.py names types: "pointer", "int64", "float", ..., the name of a struct, and "int64[4]" for an array.
template <class T>
std::string kind_of() {
  if constexpr (std::is_array_v<T>) {
    return kind_of<std::remove_extent_t<T>>() + "[" + std::to_string(std::extent_v<T>) + "]";
  } else if constexpr (std::is_pointer_v<T>) {
    return "pointer";
  } else if constexpr (std::is_same_v<T, float>) {
    return "float";
  } else if constexpr (std::is_same_v<T, double>) {
    return "double";
  } else if constexpr (std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8)) {
    return (std::is_signed_v<T> ? "int" : "uint") + std::to_string(8 * sizeof(T));
  } else {
    return StructName<T>::value;
  }
}

// Throws, which ends the process as it loads the module, unless the fields are all that the struct has, in their order, and no
// padding is left between them: a field that is not told could hide there.
inline bool tell(Struct told) {
  size_t end = 0;
  for (const Field& field : told.fields) {
    if (field.offset != end) throw std::logic_error(told.name + ": what comes before " + field.name + "?");
    end = field.offset + field.size;
  }
  if (told.size != end) throw std::logic_error(told.name + ": what comes last?");
  structs().push_back(std::move(told));
  return true;
}

}  // namespace hinterland::native

// HINTERLAND_EACH(f, T, a, b) is f(T, a) f(T, b); for up to 64 names.
#define HINTERLAND_PARENS ()
#define HINTERLAND_TURNS(...) HINTERLAND_TURNS_3(HINTERLAND_TURNS_3(HINTERLAND_TURNS_3(HINTERLAND_TURNS_3(__VA_ARGS__))))
#define HINTERLAND_TURNS_3(...) HINTERLAND_TURNS_2(HINTERLAND_TURNS_2(HINTERLAND_TURNS_2(HINTERLAND_TURNS_2(__VA_ARGS__))))
#define HINTERLAND_TURNS_2(...) HINTERLAND_TURNS_1(HINTERLAND_TURNS_1(HINTERLAND_TURNS_1(HINTERLAND_TURNS_1(__VA_ARGS__))))
#define HINTERLAND_TURNS_1(...) __VA_ARGS__
#define HINTERLAND_EACH(f, T, ...) __VA_OPT__(HINTERLAND_TURNS(HINTERLAND_EACH_STEP(f, T, __VA_ARGS__)))
#define HINTERLAND_EACH_STEP(f, T, name, ...) f(T, name) __VA_OPT__(HINTERLAND_EACH_AGAIN HINTERLAND_PARENS(f, T, __VA_ARGS__))
#define HINTERLAND_EACH_AGAIN() HINTERLAND_EACH_STEP

#define HINTERLAND_FIELD(T, name) {#name, kind_of<decltype(T::name)>(), offsetof(T, name), sizeof(T::name)},

#define HINTERLAND_STRUCT(T, ...)                                                                               \
  template <>                                                                                                   \
  struct StructName<T> {                                                                                        \
    static constexpr const char* value = #T;                                                                    \
    static inline const bool told = tell({#T, sizeof(T), {HINTERLAND_EACH(HINTERLAND_FIELD, T, __VA_ARGS__)}}); \
  };                                                                                                            \
  template struct StructName<T>
