#include "core/errors.hpp"

#include <nanobind/nanobind.h>

#include <cerrno>
#include <cstring>

namespace hinterland::native {

namespace {

void raise(const char* name, const char* message) {
  nanobind::object type = nanobind::module_::import_("hinterland.runtime.errors").attr(name);
  // As Python's own errors have it: bytes of a file name that are no UTF-8 come through.
  nanobind::object text = nanobind::steal(PyUnicode_DecodeUTF8(message, std::strlen(message), "surrogateescape"));
  PyErr_SetObject(type.ptr(), text.ptr());
}

void translate(const std::exception_ptr& error, void*) {
  try {
    std::rethrow_exception(error);
  } catch (const FormatError& e) {
    raise("FormatError", e.what());
  } catch (const StorageError& e) {
    raise("StorageError", e.what());
  } catch (const OutOfMemory& e) {
    raise("OutOfMemory", e.what());
  } catch (const DeviceError& e) {
    raise("DeviceError", e.what());
  }
}

}  // namespace

void throw_errno(const std::string& what, int code) {
  const bool too_many = code == EMFILE || code == ENFILE;
  throw StorageError(what + ": " + std::strerror(code) + (too_many ? "; close some, or raise the limit (ulimit -n)" : ""));
}

void register_errors() { nanobind::register_exception_translator(translate, nullptr); }

}  // namespace hinterland::native
