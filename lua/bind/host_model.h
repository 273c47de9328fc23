#pragma once
// The model that decodes for a policy, on the host.

#include <lua.hpp>
#include <memory>

namespace xrun {

class Model;
class Policy;

// Returns the own model of a policy on the CPU, which must outlive the result; of one on another
// device a frozen copy on the host, with an adapter merged, whose products compute as `gemm` says
// for the CPU (type_settings.h). Null while a stand-in answers for the policy: there are no
// weights. The first copy of a session is reported with its size. Throws Error if the host lacks
// the memory.
std::shared_ptr<Model> host_model(lua_State* L, Policy& policy);

}  // namespace xrun
