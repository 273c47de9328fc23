// One decode function and one line in kBlockFormats per format.
// Source: ggml-org/ggml, src/ggml-quants.c (dequantize_row_*) and include/ggml.h (ggml_type).
//   Q8_0  f16 d, 32 x int8 q             value = d q
//   Q4_0  f16 d, 16 bytes of nibbles     value = d (q - 8)     low nibbles are values 0..15
//   Q4_1  f16 d, f16 m, 16 bytes         value = d q + m       high nibbles are values 16..31

#include "core/model/weights/gguf_blocks.h"

#include <c10/util/Half.h>
#include <fmt/core.h>

#include <cstring>

namespace xrun {

namespace {

constexpr int64_t kBlock = 32;

// Blocks are unaligned in the file.
template <typename T>
T load_at(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

float half_at(const uint8_t* at) {
  return c10::detail::fp16_ieee_to_fp32_value(load_at<uint16_t>(at));
}

void decode_f32(const uint8_t* data, int64_t count, float* out) {
  std::memcpy(out, data, static_cast<size_t>(count) * sizeof(float));
}

void decode_f16(const uint8_t* data, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = half_at(data + 2 * i);
}

void decode_bf16(const uint8_t* data, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) {
    // A bf16 is the upper half of a float32.
    const uint32_t bits = static_cast<uint32_t>(load_at<uint16_t>(data + 2 * i)) << 16;
    std::memcpy(out + i, &bits, sizeof bits);
  }
}

void decode_q8_0(const uint8_t* data, int64_t count, float* out) {
  // 2 + 32 bytes per block.
  for (int64_t block = 0; block < count; ++block, data += 34, out += kBlock) {
    const float scale = half_at(data);
    for (int64_t i = 0; i < kBlock; ++i) out[i] = scale * static_cast<int8_t>(data[2 + i]);
  }
}

void decode_q4_0(const uint8_t* data, int64_t count, float* out) {
  // 2 + 16 bytes per block; byte i holds values i and i + 16.
  for (int64_t block = 0; block < count; ++block, data += 18, out += kBlock) {
    const float scale = half_at(data);
    for (int64_t i = 0; i < 16; ++i) {
      out[i] = scale * ((data[2 + i] & 15) - 8);
      out[i + 16] = scale * ((data[2 + i] >> 4) - 8);
    }
  }
}

void decode_q4_1(const uint8_t* data, int64_t count, float* out) {
  // 2 + 2 + 16 bytes per block.
  for (int64_t block = 0; block < count; ++block, data += 20, out += kBlock) {
    const float scale = half_at(data), least = half_at(data + 2);
    for (int64_t i = 0; i < 16; ++i) {
      out[i] = scale * (data[4 + i] & 15) + least;
      out[i + 16] = scale * (data[4 + i] >> 4) + least;
    }
  }
}

constexpr BlockFormat kBlockFormats[] = {
    {0, "F32", 1, 4, decode_f32},         {1, "F16", 1, 2, decode_f16},
    {30, "BF16", 1, 2, decode_bf16},      {8, "Q8_0", kBlock, 34, decode_q8_0},
    {2, "Q4_0", kBlock, 18, decode_q4_0}, {3, "Q4_1", kBlock, 20, decode_q4_1},
};

// In order of ggml's numbers; gaps are types that ggml has removed.
constexpr const char* kGgmlTypeNames[] = {
    "F32",    "F16",   "Q4_0",  "Q4_1",   "",      "",      "Q5_0",    "Q5_1",   "Q8_0",    "Q8_1",
    "Q2_K",   "Q3_K",  "Q4_K",  "Q5_K",   "Q6_K",  "Q8_K",  "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S",
    "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8",    "I16",   "I32",     "I64",    "F64",     "IQ1_M",
    "BF16",   "",      "",      "",       "TQ1_0", "TQ2_0", "",        "",       "",        "MXFP4",
};

}  // namespace

const BlockFormat* find_block_format(uint32_t id) {
  for (const BlockFormat& format : kBlockFormats) {
    if (format.id == id) return &format;
  }
  return nullptr;
}

// Also names formats that are not decoded, for the error.
std::string block_format_name(uint32_t id) {
  if (id < std::size(kGgmlTypeNames) && kGgmlTypeNames[id][0] != '\0') return kGgmlTypeNames[id];
  return fmt::format("type {}", id);
}

std::string block_format_list() {
  std::string list;
  for (const BlockFormat& format : kBlockFormats) {
    if (!list.empty()) list += ", ";
    list += format.name;
  }
  return list;
}

}  // namespace xrun
