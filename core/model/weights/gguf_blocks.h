#pragma once
// Block formats of GGUF tensors and their decoding to fp32.

#include <cstdint>
#include <string>

namespace xrun {

// One element type. Values come in blocks of `values`, each `bytes` long.
struct BlockFormat {
  uint32_t id;       // ggml's number of the type
  const char* name;  // ggml's spelling, "Q4_1"
  int64_t values, bytes;
  // Writes count * values floats to `out` from count * bytes bytes at `data`, at any alignment.
  void (*decode)(const uint8_t* data, int64_t count, float* out);
};

// Returns the format with ggml's number `id`, or nullptr if this reader has none.
const BlockFormat* find_block_format(uint32_t id);

// Returns ggml's name of a type for messages ("Q6_K"), or "type 99" if it has none.
std::string block_format_name(uint32_t id);

// Returns the formats that are read: "F32, F16, ...".
std::string block_format_list();

}  // namespace xrun
