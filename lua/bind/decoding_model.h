#pragma once
// The model that decodes for a policy.

#include <lua.hpp>
#include <memory>

namespace xrun {

class Model;
class Policy;

// Returns the policy's own model, on whatever device, which must outlive the result. Of one whose
// weights are in ranges on a GPU, a frozen copy on the host, with an adapter merged, whose products
// compute as `gemm` says for the CPU (type_settings.h). Null while a stand-in answers for the
// policy: there are no weights. The first copy of a session is reported with its size. Throws Error
// if the host lacks the memory for it.
std::shared_ptr<Model> decoding_model(lua_State* L, Policy& policy);

}  // namespace xrun
