#pragma once
// The model that decodes for a policy.

#include <lua.hpp>
#include <memory>

namespace xrun {

class Model;
class Policy;

// Returns one of
//   the policy's own model  on whatever device; the policy must outlive it
//   a frozen copy           on the host, adapter merged, if the weights are in ranges on a GPU
//   null                    while a stand-in answers for the policy: there are no weights
// Products of a copy compute as `gemm` says for the CPU (type_settings.h); the first copy of a
// session is reported with its size. Throws Error if the host lacks the memory for a copy.
std::shared_ptr<Model> decoding_model(lua_State* L, Policy& policy);

}  // namespace xrun
