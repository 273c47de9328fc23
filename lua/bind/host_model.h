#pragma once
// The copy of a policy that decodes on the host.

#include <lua.hpp>
#include <memory>

namespace xrun {

class Model;
class Policy;

// Returns a frozen copy on the host of a policy that is on another device, with an adapter merged;
// null for a policy on the CPU, whose own model decodes. Its products compute as `gemm` says for
// the CPU (type_settings.h). The first copy of a session is reported with its size. Throws Error if
// the host lacks the memory.
std::shared_ptr<Model> host_model(lua_State* L, Policy& policy);

}  // namespace xrun
