#pragma once
// Which overload the kinds of arguments chose last time: no scoring on the hot path.

#include <mutex>
#include <unordered_map>

#include "lua/tensor/op_table.h"

namespace xrun {

struct OpPacket::Cache {
  std::mutex mutex;
  std::unordered_map<uint64_t, const OpOverload*> chosen;  // key: hash of the kinds, in order
};

}  // namespace xrun
