#include <nanobind/stl/string.h>

#include "bindings.hpp"
#include "runtime/launch.hpp"

namespace nb = nanobind;

namespace hinterland::native {

namespace {

// Where the bytes of a ctypes struct lie, as long as the object lives.
uintptr_t address_of(nb::handle object) {
  Py_buffer bytes;
  if (PyObject_GetBuffer(object.ptr(), &bytes, PyBUF_SIMPLE) != 0) throw nb::python_error();
  const auto address = reinterpret_cast<uintptr_t>(bytes.buf);
  PyBuffer_Release(&bytes);
  return address;
}

}  // namespace

const Binding runtime([](nb::module_& m) {
  m.def("address_of", &address_of, nb::arg("object"), "ctypes.addressof, of which torch.compile would warn.");
  m.attr("CUDA_ERROR_INVALID_CONTEXT") = kInvalidContext;
  // No more than eight arguments and none with a name: nanobind's shortest way in. A launch waits where the stream's queue is
  // full, perhaps for a host function that takes Python's lock: that is let go of, for 0.06 us.
  m.def(
      "launch",
      [](uintptr_t function, int device, unsigned grid, unsigned block, unsigned shared, uintptr_t stream, bool cooperative,
         nb::handle params) {
        const uintptr_t address = address_of(params);
        GilReleased released;
        return launch({function, device, grid, block, shared, stream, cooperative}, reinterpret_cast<void*>(address));
      },
      "Queues a kernel of one parameter, a struct. Takes the kernel's handle, the device, blocks, threads of each, bytes of "
      "shared memory of each, the stream, whether all blocks run at once, and the struct; returns the driver's error number.");
  m.def(
      "launch_packed",
      [](uintptr_t function, int device, unsigned grid, unsigned block, uintptr_t stream, nb::handle params, size_t bytes) {
        const uintptr_t address = address_of(params);
        GilReleased released;
        return launch_packed({function, device, grid, block, 0, stream, false}, reinterpret_cast<void*>(address), bytes);
      },
      "Queues a kernel of several parameters, which are the fields of a struct, and end after so many bytes; returns the "
      "driver's "
      "error number.");
  m.def(
      "call_host",
      [](uintptr_t stream, uintptr_t function, uintptr_t argument) {
        const GilReleased released;
        return call_host(stream, reinterpret_cast<void (*)(void*)>(function), reinterpret_cast<void*>(argument));
      },
      nb::arg("stream"), nb::arg("function"), nb::arg("argument"),
      "Queues the call of a C function of one pointer on a stream, without Python; returns the driver's error number.");
  m.def("capture_id", &capture_id, nb::arg("stream"), "Which capture of a CUDA graph a stream is part of; 0 for none.");
  m.def("cuda_error_name", &error_name, nb::arg("error"));
});

}  // namespace hinterland::native
