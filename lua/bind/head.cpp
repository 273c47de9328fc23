#include "lua/bind/head.h"

#include <ATen/core/Tensor.h>

#include "core/base/error.h"
#include "core/train/batch.h"
#include "core/train/policy.h"
#include "core/train/policy_head.h"
#include "core/train/reference.h"
#include "lua/bind/session.h"
#include "lua/bind/stand_in.h"
#include "lua/bind/view.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

HeadOptions read_head_options(const Options& given) {
  HeadOptions options;
  options.temperature = given.get("temperature", options.temperature);
  options.columns = given.get("columns", options.columns);
  options.entropy = given.get("entropy", options.entropy);
  options.lse = given.get("lse", options.lse);
  options.top_k = given.get("top_k", options.top_k);
  return options;
}

void set_field(lua_State* L, const char* name, const at::Tensor& value) {
  if (!value.defined()) return;  // not asked for
  push(L, value);
  lua_setfield(L, -2, name);
}

// `head` is policy_head or reference_head of a view with targets, or of a batch.
template <typename Model, typename Head>
int push_head(const Model& model, lua_State* L, const Head& head) {
  const Options given(L, 3);
  const HeadOptions options = read_head_options(given);
  const auto targets = given.find<at::Tensor>("targets");
  HeadResult result;
  if (const auto& stand_in = session_of(L).stand_in) {
    result =
        stand_in_head(*stand_in, L, stand_in_name(session_of(L), model),
                      is_trained(session_of(L), model), options, targets.value_or(at::Tensor()));
  } else if (class_of(L, 2) == &class_info<Batch>) {
    XRUN_CHECK(!targets, "targets are of a view's rows; score views, or leave targets out");
    result = head(arg<Batch&>(L, 2, "batch"), options);
  } else {
    result = head(read_view(L, 2), options, targets.value_or(at::Tensor()));
  }
  lua_createtable(L, 0, 5);
  set_field(L, "logprob", result.logprob);
  set_field(L, "entropy", result.entropy);
  set_field(L, "lse", result.lse);
  set_field(L, "top_logprob", result.top_logprob);
  set_field(L, "top_id", result.top_id);
  return 1;
}

}  // namespace

int push_policy_head(Policy& policy, lua_State* L) {
  return push_head(policy, L, [&](auto&&... of) { return policy_head(policy, of...); });
}

int push_reference_head(Reference& reference, lua_State* L) {
  return push_head(reference, L, [&](auto&&... of) { return reference_head(reference, of...); });
}

}  // namespace xrun
