// hinterland._core: what only compiled code on the CPU can do. Python passes pointers and sizes (tensor.data_ptr()), so the
// module knows neither torch nor CUDA.
#include <nanobind/nanobind.h>

#include <exception>

#include "bindings.hpp"
#include "core/errors.hpp"
#include "core/parallel.hpp"

namespace {

std::terminate_handler terminate_before;

// What take_gil() does for our code, for that of others, as torch's: a thread that Python ends as the process does, and whose
// stack has a frame that nothing may leave so, sleeps until the process is gone.
void terminate() {
  const bool is_main = ::gettid() == ::getpid();
  if (!is_main && Py_IsInitialized() == 0 && std::current_exception() == nullptr)
    for (;;) ::pause();
  terminate_before();
}

// What daemon threads hold as the process ends is no leak, of which nanobind would tell, nor what a forked child leaves as it
// is (core/owner.hpp), nor the globals of a script whose functions torch has compiled.
void end() {
  const nanobind::dict modules = nanobind::module_::import_("sys").attr("modules");
  if (hinterland::native::forked || modules.contains("torch._dynamo")) nanobind::set_leak_warnings(false);
  for (const nanobind::handle thread : nanobind::module_::import_("threading").attr("enumerate")())
    if (nanobind::cast<bool>(thread.attr("daemon"))) nanobind::set_leak_warnings(false);
}

}  // namespace

NB_MODULE(_core, m) {
  namespace hn = hinterland::native;
  hn::register_errors();
  terminate_before = std::set_terminate(terminate);
  nanobind::module_::import_("atexit").attr("register")(nanobind::cpp_function(end));
  hn::begin_module(m);
  m.def("num_threads", &hn::num_threads, "Threads that the parallel loops of this module use.");
  m.def("set_num_threads", &hn::set_num_threads, nanobind::arg("threads"));
}
