#include "lua/bind/host_model.h"

#include <algorithm>

#include "core/base/count_text.h"
#include "core/model/memory_limit.h"
#include "core/model/memory_plan.h"
#include "core/model/model.h"
#include "core/train/policy.h"
#include "lua/bind/session.h"
#include "lua/bind/type_settings.h"

namespace xrun {

namespace {

// The report that says notices may be over.
void say_since(Session& session, size_t notices) {
  for (size_t i = notices; i < session.notices.size(); ++i) {
    session.console->say(session.notices[i]);
  }
  session.notices.resize(std::min(notices, session.notices.size()));
}

}  // namespace

std::shared_ptr<Model> host_model(lua_State* L, Policy& policy) {
  const Model& model = policy.model();
  if (model.device().is_cpu()) return nullptr;
  Session& session = session_of(L);
  const c10::ScalarType dtype = model.compute_type();
  check_weights_fit(model.config(), dtype, available_bytes(), "run:sample decodes on the CPU");
  const size_t notices = session.notices.size();
  if (!session.host_copy_said) {
    add_notice(session,
               fmt::format("run:sample decodes on the CPU, from a copy of the weights "
                           "({} of the host's memory) that each call makes",
                           format_bytes(static_cast<double>(weight_bytes(model.config(), dtype)))));
    session.host_copy_said = true;
  }
  const GemmType gemm = read_gemm(L, model.config(), dtype, c10::kCPU);
  say_since(session, notices);
  return model.host_copy(gemm);
}

}  // namespace xrun
