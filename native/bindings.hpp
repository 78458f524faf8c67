// One function for each bind*.cpp under native/, which adds that file's functions to the module, and how they let go of
// Python's lock.
#pragma once

#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

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

// Python's name for a loop over the struct that Python has filled in: it gets the struct's address, and whatever else the loop
// takes, as `more` names it.
template <class Params, class... Rest, class... More>
void def_loop(nanobind::module_& m, const char* name, void (*loop)(const Params&, Rest...), More... more) {
  m.def(
      name,
      [loop](uintptr_t params, Rest... rest) {
        GilReleased released;
        loop(*reinterpret_cast<const Params*>(params), rest...);
      },
      nanobind::arg("params"), more...);
}

void bind_memory(nanobind::module_& m);
void bind_storage(nanobind::module_& m);
void bind_graph_build(nanobind::module_& m);
void bind_graph_formats(nanobind::module_& m);
void bind_graph_generate(nanobind::module_& m);
void bind_graph_pagerank(nanobind::module_& m);
void bind_graph_bfs(nanobind::module_& m);
void bind_graph_sssp(nanobind::module_& m);
void bind_graph_bc(nanobind::module_& m);
void bind_graph_msbfs(nanobind::module_& m);
void bind_graph_compress(nanobind::module_& m);
void bind_graph_cc(nanobind::module_& m);
void bind_graph_emogi(nanobind::module_& m);
void bind_graph_scan(nanobind::module_& m);
void bind_hotness(nanobind::module_& m);
void bind_datasets(nanobind::module_& m);
void bind_probe(nanobind::module_& m);
void bind_traffic(nanobind::module_& m);
void bind_sampling(nanobind::module_& m);

}  // namespace hinterland::native
