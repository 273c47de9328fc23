#include "lua/bind/stand_in.h"

#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/train/adamw.h"
#include "core/train/batch.h"
#include "core/train/policy.h"
#include "core/train/reference.h"
#include "core/train/scorer.h"
#include "lua/state/args.h"
#include "lua/bind/session.h"
#include "lua/bind/view.h"

namespace xrun {

namespace {

// Of the view or the batch at index 2.
at::Tensor token_values(LogprobStandIn& stand_in, lua_State* L, const std::string& model,
                        bool trained) {
  if (class_of(L, 2) == &class_info<Batch>) {
    return stand_in.token_logprob(arg<Batch&>(L, 2, "batch"), model);
  }
  return stand_in.token_logprob(read_view(L, 2), model, trained);
}

}  // namespace

void name_policy(Session& session, const std::shared_ptr<Policy>& policy) {
  const std::string first = "policy " + policy->dir().filename().string();
  std::string name = first;
  const auto taken = [&](const auto& known) { return known.second == name; };
  for (int n = 2; std::any_of(session.policies.begin(), session.policies.end(), taken); ++n) {
    name = fmt::format("{} {}", first, n);
  }
  session.policies.emplace_back(policy, std::move(name));
}

bool is_trained(const Session& session, const Policy& policy) {
  bool made = false;
  for (const auto& known : session.made_optimizers) {
    const auto adamw = known.lock();
    if (adamw == nullptr) continue;
    made = true;
    for (const auto& one : adamw->trainables()) {
      const auto* scorer = dynamic_cast<const Scorer*>(one.get());
      const Trainable* of = scorer == nullptr ? one.get() : scorer->policy().get();
      if (of == &policy) return true;
    }
  }
  return !made;
}

bool is_trained(const Session&, const Reference&) { return false; }

std::string stand_in_name(const Session& session, const Policy& policy) {
  for (const auto& [known, name] : session.policies) {
    if (known.lock().get() == &policy) return name;
  }
  return "policy " + policy.dir().filename().string();  // of no recipe's own
}

std::string stand_in_name(const Session& session, const Reference& reference) {
  const auto found = std::find_if(session.references.begin(), session.references.end(),
                                  [&](const auto& known) { return known.get() == &reference; });
  return fmt::format("reference {}", found - session.references.begin() + 1);
}

int push_stand_in(LogprobStandIn& stand_in, lua_State* L, const std::string& model, bool by_token,
                  bool trained) {
  if (by_token) {
    push(L, token_values(stand_in, L, model, trained));
  } else if (class_of(L, 2) == &class_info<Batch>) {
    push(L, stand_in.logprob(arg<Batch&>(L, 2, "batch"), model));
  } else {
    push(L, stand_in.logprob(read_view(L, 2), model, trained));
  }
  return 1;
}

HeadResult stand_in_head(LogprobStandIn& stand_in, lua_State* L, const std::string& model,
                         bool trained, const HeadOptions& options, const at::Tensor& targets) {
  const auto values = [&](const std::string& what) {
    return token_values(stand_in, L, model + what, trained);
  };
  HeadResult result;
  if (targets.defined() && targets.dim() == 2) {
    std::vector<at::Tensor> columns;
    for (int64_t m = 0; m < targets.size(1); ++m) {
      columns.push_back(values(fmt::format(" target {}", m)));
    }
    result.logprob = at::stack(columns, 1);
  } else {
    result.logprob = values(targets.defined() ? " target" : "");
  }
  // -log p lies in [0, 4], as an entropy may.
  if (options.entropy) result.entropy = values(" entropy").neg();
  if (options.lse) result.lse = values(" lse").neg();
  if (options.top_k == 0) return result;
  std::vector<at::Tensor> best, ids;
  for (int64_t k = 0; k < options.top_k; ++k) {
    const at::Tensor one = values(fmt::format(" top {}", k)).mul(0.1).sub(static_cast<double>(k));
    best.push_back(one);  // in [-0.4 - k, -k]: falling
    ids.push_back(at::full_like(one, k, one.options().dtype(at::kLong).requires_grad(false)));
  }
  result.top_logprob = at::stack(best, 1);
  result.top_id = at::stack(ids, 1);
  return result;
}

at::Tensor stand_in_score(LogprobStandIn& stand_in, lua_State* L, const std::string& model) {
  const std::string name = model + " score";
  if (class_of(L, 2) != &class_info<Batch>) {
    const View view = read_view(L, 2);
    return view.mean(stand_in.token_logprob(view, name, true));
  }
  Batch& batch = arg<Batch&>(L, 2, "batch");
  std::vector<at::Tensor> parts;
  for (const auto& micro : batch.micros()) {
    const View view = micro->all();
    parts.push_back(view.mean(stand_in.token_logprob(view, name, false)));
  }
  return batch.in_batch_order(parts, /*by_row=*/false);
}

void check_no_stand_in(const Session& session, const char* what) {
  XRUN_CHECK(session.stand_in == nullptr,
             "{} needs the model, and this is a dry run on stand-ins for log-probs", what);
}

}  // namespace xrun
