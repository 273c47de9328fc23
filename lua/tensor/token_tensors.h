#pragma once
// Tokens between C++ and Lua: ids, masks and offsets as tensors.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/text/tokenizer/tokenizer.h"
#include "lua/state/lua_state.h"

namespace xrun {

// The tokenizer that class Tokenizer holds; never null.
struct LuaTokenizer {
  std::shared_ptr<const Tokenizer> tokenizer;
  const Tokenizer* operator->() const { return tokenizer.get(); }
  const Tokenizer& operator*() const { return *tokenizer; }
};

at::Tensor ids_tensor(std::span<const int32_t> ids);            // [T] int64
at::Tensor mask_tensor(std::span<const uint8_t> mask);          // [T] bool
at::Tensor offsets_tensor(std::span<const ByteRange> offsets);  // [T, 2] int64

// Reads argument i: a list of whole numbers, or a tensor [n] of them on any device. Throws Error.
std::vector<int64_t> read_whole_numbers(lua_State* L, int i, const char* what);
// Reads argument i as token ids; throws Error if one is negative or beyond int32.
std::vector<int32_t> read_ids(lua_State* L, int i, const char* what);

}  // namespace xrun
