#pragma once
// The model that decodes for a policy: decoding is the CPU's alone.

#include <lua.hpp>
#include <memory>

namespace xrun {

class Model;
class Policy;

// A frozen copy on the host of a policy that lies on another device, with an adapter merged; null
// of a policy of the CPU, whose own model decodes. Its products compute as `gemm` says for the CPU
// (type_settings.h). The first copy of a session is said, with its size. Throws Error if the host
// lacks the memory for it.
std::shared_ptr<Model> host_model(lua_State* L, Policy& policy);

}  // namespace xrun
