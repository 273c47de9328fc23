// The session holds the record until the end of the body, and run.json the pass limit.

#include "lua/bind/rollout/body_rollouts.h"

#include <algorithm>
#include <memory>

#include "core/base/json.h"
#include "core/run/run.h"
#include "lua/bind/session.h"

namespace xrun {

BodyRollouts* body_rollouts(lua_State* L) {
  Session& session = session_of(L);
  // Samples outside a body belong to no step, so nothing records them.
  if (session.open_run == nullptr || !session.open_run->in_body()) return nullptr;
  if (session.rollouts == nullptr) session.rollouts = std::make_shared<BodyRollouts>();
  return session.rollouts.get();
}

void settle_pass(Run& run, BodyRollouts& body) {
  constexpr const char* kPass = "pass";
  if (body.pass) return;
  RunDir& dir = run.dir();
  const Json* known = dir.record().find(kPass);
  // An earlier body has decided, so that pass_at_1 means the same in the whole run. A body that is
  // repeated after a resume decides again.
  if (known != nullptr && known->at("step").as_int() < run.step()) {
    const Json& limit = known->at("limit");
    if (!limit.is_null()) body.pass = limit.as_double();
  } else {
    if (std::none_of(body.all.begin(), body.all.end(),
                     [](const auto& one) { return one->reward.has_value(); })) {
      return;
    }
    body.pass = pass_limit(body);
    dir.record().set(kPass, Json(Json::Object{{"step", run.step()},
                                              {"limit", body.pass ? Json(*body.pass) : Json()}}));
    dir.write_record();
  }
  body.pass_settled = true;
}

}  // namespace xrun
