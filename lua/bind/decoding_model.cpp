// Weights in ranges are fetched block by block. Decoding reads them for every token, so on a GPU,
// whose memory they may exceed, a whole copy on the host decodes.

#include "lua/bind/decoding_model.h"

#include <algorithm>

#include "core/base/strings.h"
#include "core/model/model.h"
#include "core/model/ops/device_memory.h"
#include "core/model/weights/weight_check.h"
#include "core/train/models/policy.h"
#include "lua/bind/session.h"
#include "lua/bind/type_settings.h"

namespace xrun {

namespace {

// Prints the notices added since: the opening report, which prints notices, may be out already.
void say_since(Session& session, size_t notices) {
  for (size_t i = notices; i < session.notices.lines.size(); ++i) {
    session.console->print_escaped(session.notices.lines[i]);
  }
  session.notices.lines.resize(std::min(notices, session.notices.lines.size()));
}

}  // namespace

std::shared_ptr<Model> decoding_model(lua_State* L, Policy& policy) {
  Model* const own = policy.find_model();
  // Without an owner: the policy keeps its model.
  if (own == nullptr || own->device().is_cpu() || own->ranged_weights() == nullptr) {
    return {std::shared_ptr<void>(), own};
  }
  const Model& model = *own;
  Session& session = session_of(L);
  const c10::ScalarType dtype = model.compute_type();
  check_weights_fit(model.config(), dtype, available_bytes(), "run:sample decodes on the CPU");
  const size_t notices = session.notices.lines.size();
  if (!session.notices.host_copy_reported) {
    session.notices.add(
        fmt::format("run:sample decodes on the CPU, from a copy of the weights "
                    "({} of the host's memory) that each call makes",
                    format_bytes(static_cast<double>(weight_bytes(model.config(), dtype)))));
    session.notices.host_copy_reported = true;
  }
  const GemmType gemm = read_gemm(L, model.config(), dtype, c10::kCPU);
  say_since(session, notices);
  return model.host_copy(gemm);
}

}  // namespace xrun
