#pragma once
// Fault injection for tests: the gate that every durable write, fsync and rename, and every read of
// a data file, passes.

#include <cerrno>
#include <cstdint>
#include <string_view>

namespace xrun {

// Makes the nth operation (1-based) of a kind and all later ones fail: "write", "fsync" and
// "rename" as on a full disk, "read" (read_open_file only) as on a lost disk. nth = 0 switches it
// off. Child processes read XRUN_FILE_FAULT="write:3" instead. Not thread-safe.
void set_file_fault(std::string_view operation, int64_t nth);

// Returns true if the operation must fail, with errno set to `code`.
bool injected_fault(const char* operation, int code = ENOSPC);

}  // namespace xrun
