// How a capability adds what stands in its file, or in its bind.cpp, to the module; and how functions let go of Python's lock.
//
//   namespace hinterland::native {
//   const Binding graph_spmv([](nanobind::module_& m) { def_loop(m, "spmv", spmv); });
//   }
#pragma once

#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "params.hpp"

namespace hinterland::native {

// f(), which takes Python's lock. When the process ends, Python (before 3.14) ends the other threads that ask for it there, and
// C++ aborts if that leaves a destructor: such a thread sleeps until the process is gone.
template <class F>
auto take_gil(const F& f) noexcept {
  try {
    return f();
  } catch (abi::__forced_unwind&) {
    for (;;) ::pause();
  }
}

// Other Python threads run while this lives.
class GilReleased {
 public:
  GilReleased() : state_(PyEval_SaveThread()) {}
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;
  ~GilReleased() {
    take_gil([&] { PyEval_RestoreThread(state_); });
  }

 private:
  PyThreadState* state_;
};

// The opposite.
class GilHeld {
 public:
  GilHeld() : state_(take_gil(PyGILState_Ensure)) {}
  GilHeld(const GilHeld&) = delete;
  GilHeld& operator=(const GilHeld&) = delete;
  ~GilHeld() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

// How Python gives native code an argument: a pointer as an address, anything else as it is. Arrays that are several arguments
// have a specialisation of their own.
template <class T>
struct Argument {
  using Parts = std::tuple<T>;
  static T whole(T part) { return part; }
};

template <class T>
struct Argument<T*> {
  using Parts = std::tuple<uintptr_t>;
  static T* whole(uintptr_t address) { return reinterpret_cast<T*>(address); }
};

// A struct that Python fills in by its fields' names.
template <class T>
  requires requires { StructName<T>::value; }
struct Argument<const T&> {
  using Parts = std::tuple<uintptr_t>;
  static const T& whole(uintptr_t address) { return *reinterpret_cast<const T*>(address); }
};

template <class T>
  requires std::is_enum_v<T>
struct Argument<T> {
  using Parts = std::tuple<int64_t>;
  static T whole(int64_t number) { return static_cast<T>(number); }
};

// Python's name for a function that takes what Given knows how to make. Other threads run meanwhile.
template <class Result, class... Args, class... More>
void def_native(nanobind::module_& m, const char* name, Result (*function)(Args...), More... more) {
  constexpr std::array<size_t, sizeof...(Args)> sizes{std::tuple_size_v<typename Argument<Args>::Parts>...};
  const auto whole = [=]<class Arg, size_t which>(const auto& parts) -> decltype(auto) {
    constexpr size_t begin = std::accumulate(sizes.begin(), sizes.begin() + which, size_t{0});
    return [&]<size_t... J>(std::index_sequence<J...>) -> decltype(auto) {
      return Argument<Arg>::whole(std::get<begin + J>(parts)...);
    }(std::make_index_sequence<sizes[which]>{});
  };
  const auto define = [&]<class... Parts, size_t... I>(std::type_identity<std::tuple<Parts...>>, std::index_sequence<I...>) {
    m.def(
        name,
        [=](Parts... parts) -> Result {
          GilReleased released;
          const std::tuple<Parts...> all(parts...);
          return function(whole.template operator()<Args, I>(all)...);
        },
        more...);
  };
  define(std::type_identity<decltype(std::tuple_cat(std::declval<typename Argument<Args>::Parts>()...))>{},
         std::index_sequence_for<Args...>{});
}

// Python's name for a loop over what a struct says, and whatever else it takes, as `more` names it.
template <class Loop, class... More>
void def_loop(nanobind::module_& m, const char* name, Loop* loop, More... more) {
  def_native(m, name, loop, nanobind::arg("params"), more...);
}

// Values by name.
template <class Value>
nanobind::dict named(std::initializer_list<std::pair<const char*, Value>> values) {
  nanobind::dict all;
  for (const auto& [name, value] : values) all[name] = static_cast<int64_t>(value);
  return all;
}

inline std::vector<void (*)(nanobind::module_&)>& bindings() {
  static std::vector<void (*)(nanobind::module_&)> all;
  return all;
}

// One in each file that adds to the module, which calls them all, in any order.
struct Binding {
  explicit Binding(void (*bind)(nanobind::module_&)) { bindings().push_back(bind); }
};

// What each module of ours begins with, for loops have their state in it: what a fork and Ctrl-C do, the structs of its files,
// and all that these add.
void begin_module(nanobind::module_& m);

}  // namespace hinterland::native
