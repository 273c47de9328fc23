#pragma once
// The identity of the sources that this library was built from.

namespace xrun {

// SHA-256 over the names and bytes of core/, kernels/, lua/ and CMakeLists.txt, 64 hexadecimal
// digits; the build writes it (tools/setup/source_digest). Two clones of one commit have the same.
extern const char* const kSourceDigest;

}  // namespace xrun
