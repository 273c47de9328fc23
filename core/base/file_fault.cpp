// A fault is set by set_file_fault or by XRUN_FILE_FAULT=OPERATION:N in the environment.

#include "core/base/file_fault.h"

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <string>

namespace xrun {

namespace {

// The nth call of the operation and every later one fail. A value that cannot be read injects
// nothing.
struct FileFault {
  std::string operation;
  int64_t nth = 0;
  std::atomic<int64_t> seen = 0;

  FileFault() {
    const char* text = std::getenv("XRUN_FILE_FAULT");
    if (text == nullptr) return;
    const std::string_view view(text);
    const size_t colon = view.find(':');
    if (colon == std::string_view::npos) return;
    operation = view.substr(0, colon);
    std::from_chars(view.data() + colon + 1, view.data() + view.size(), nth);
  }
};

FileFault& file_fault() {
  static FileFault fault;
  return fault;
}

}  // namespace

bool injected_fault(const char* operation, int code) {
  FileFault& fault = file_fault();
  if (fault.nth == 0 || fault.operation != operation) return false;
  // The later ones fail too: a full disk stays full.
  if (++fault.seen < fault.nth) return false;
  errno = code;
  return true;
}

void set_file_fault(std::string_view operation, int64_t nth) {
  FileFault& fault = file_fault();
  fault.operation = operation;
  fault.nth = nth;
  fault.seen = 0;
}

}  // namespace xrun
