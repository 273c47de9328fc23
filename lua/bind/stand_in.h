#pragma once
// What models answer through Lua while a session has a stand-in.

#include <lua.hpp>
#include <memory>
#include <string>

#include "core/model/ops/linear_head.h"
#include "core/train/logprob_stand_in.h"

namespace xrun {

class Policy;
class Reference;
class Scorer;
struct Session;

// Notes a policy that was opened, under a name of its own: "policy tiny" by its folder, the next
// one from a folder of that name "policy tiny 2".
void name_policy(Session& session, const std::shared_ptr<Policy>& policy);

// Whether an optimizer of the recipe trains it; where none is made, every policy counts.
bool is_trained(const Session& session, const Policy& policy);
bool is_trained(const Session& session, const Reference& reference);  // never

// The name under which a model is stood in for, each its own.
std::string stand_in_name(const Session& session, const Policy& policy);
std::string stand_in_name(const Session& session, const Reference& reference);

// logprob, or token_logprob (`by_token`), of the view or batch at index 2.
int push_stand_in(LogprobStandIn& stand_in, lua_State* L, const std::string& model, bool by_token,
                  bool trained);

// What head gives of the view or batch at index 2: values of the right shapes, each of its own
// leaves ("policy tiny entropy"). `targets` as policy_head has them; undefined: the trained tokens.
HeadResult stand_in_head(LogprobStandIn& stand_in, lua_State* L, const std::string& model,
                         bool trained, const HeadOptions& options, const at::Tensor& targets);

// Scores of sequences, [n].
at::Tensor stand_in_score(LogprobStandIn& stand_in, lua_State* L, const std::string& model);

// Throws Error that what is asked for needs the model, if the session has a stand-in.
void check_no_stand_in(const Session& session, const char* what);

}  // namespace xrun
