// xrun.policy and its frozen twin: log-probs and heads of views and of whole batches.

#include "lua/bind/train/policy.h"

#include <ATen/core/Tensor.h>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/config/config_field.h"
#include "core/dist/agreement.h"
#include "core/dist/fetching_ranks.h"
#include "core/model/weights/hf_config.h"
#include "core/model/weights/weight_check.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/batches/batch.h"
#include "core/train/models/policy.h"
#include "core/train/models/reference.h"
#include "lua/bind/data/data_config.h"
#include "lua/bind/modules.h"
#include "lua/bind/objective.h"
#include "lua/bind/session.h"
#include "lua/bind/train/policy_options.h"
#include "lua/bind/type_settings.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

// `temperature` is that of the rows; an option replaces it.
HeadOptions read_head_options(const Options& given, double temperature) {
  HeadOptions options;
  options.temperature = given.get("temperature", temperature);
  options.columns = given.get<int64_t>("columns");
  options.entropy = given.get<bool>("entropy");
  options.lse = given.get<bool>("lse");
  options.top_k = given.get<int64_t>("top_k");
  return options;
}

void set_defined(lua_State* L, const char* name, const at::Tensor& value) {
  if (!value.defined()) return;  // not asked for
  set_field(L, name, value);
}

// Outputs of the head at the temperature of the rows.
HeadResult term_head(LogprobSource& source, lua_State* L, HeadOptions options) {
  if (class_of(L, 2) == &class_info<Batch>) {
    Batch& batch = whole_batch(L, 2);
    options.temperature = batch.info().temperature;
    return source.head(batch, options);
  }
  const View view = read_view(L, 2);
  options.temperature = view.micro().info().temperature;
  return source.head(view, options);
}

int push_entropy(Policy& policy, lua_State* L) {
  push(L, term_head(policy, L, {.entropy = true}).entropy);
  return 1;
}

// log^2 Z, with Z the sum of the exponentials of a token's logits.
int push_z_loss(Policy& policy, lua_State* L) {
  push(L, term_head(policy, L, {.lse = true}).lse.square());
  return 1;
}

double balance_weight(lua_State* L) {
  const Json* weight = recipe_context(L).config.find("moe.aux");
  return (weight == nullptr ? default_value("moe.aux") : *weight).as_double();
}

int open_policy(lua_State* L) {
  const std::filesystem::path dir = read_policy_folder(L, 1);
  const Options given(L, 2);
  const Json table = lua_istable(L, 2) ? to_json(L, 2) : Json::object();
  PolicyOptions options;
  options.dtype = read_dtype(L);
  options.device = recipe_device(recipe_context(L).options);
  // Absent: an export has the type of the folder that the policy came from.
  const Json* const saved_in = recipe_context(L).config.find("export.dtype");
  if (saved_in != nullptr && !saved_in->is_null()) {
    options.export_dtype = dtype_from_name(saved_in->as_string());
  }
  options.head_mb = config_whole(L, "head_mb");
  options.moe_aux = balance_weight(L);
  options.seed = static_cast<uint64_t>(config_whole(L, "seed"));
  options.dist = recipe_dist(L);
  // An option of the call wins over the config, for recipes with two policies.
  options.lora = read_lora(option_or_config(table, L, "lora"));
  options.train = read_train(option_or_config(table, L, "train"));
  const Json recompute = option_or_config(table, L, "recompute");
  if (!recompute.is_null()) {
    check_fields(recompute, "recompute");
    options.recompute = recompute.as_bool();
  }
  if (ranks_to_fetch_from(options.dist, 3) != nullptr) recipe_context(L).fetching->begin_meetings();
  const auto policy = Policy::open(dir, options);
  push(L, policy);
  session_of(L).models.add(policy);
  const ModelConfig config = read_model_config(policy->dir());
  // Measured only now, because the choice depends on the model's shapes.
  policy->use_gemm(read_gemm(L, config, options.dtype, options.device));
  if (options.moe_aux > 0 && config.moe.experts == 0) {
    throw UsageError(fmt::format("moe.aux is {}, but {} is not a mixture of experts; leave it out",
                                 options.moe_aux, dir.string()));
  }
  check_max_length(L, config_whole(L, "max_length"), *policy);
  for (const std::string& notice : config.notices) {
    session_of(L).notices.add(notice);
  }
  session_of(L).notices.add(tied_head_notice(policy->dir(), config));
  return 1;
}

// For prototyping: every logit of the view's loss rows. The memory is reported whenever it grows.
int push_logits(Policy& policy, lua_State* L) {
  const at::Tensor logits = policy.logits(read_view(L, 2));
  Session& session = session_of(L);
  if (logits.numel() > session.notices.largest_logits) {
    session.notices.largest_logits = logits.numel();
    session.console->print_raw(
        fmt::format("policy:logits holds [{}, {}] = {:.0f} MB; a loss over "
                    "logprob needs none of it",
                    logits.size(0), logits.size(1), static_cast<double>(logits.nbytes()) / 1e6));
  }
  push(L, logits);
  return 1;
}

std::string describe_policy(const Policy& policy) {
  return "Policy " + policy.dir().filename().string();
}

}  // namespace

int push_logprobs(LogprobSource& source, lua_State* L, bool by_token) {
  at::Tensor result;
  if (class_of(L, 2) == &class_info<Batch>) {
    Batch& batch = whole_batch(L, 2);
    result = by_token ? source.token_logprob(batch) : source.logprob(batch);
  } else {
    const View view = read_view(L, 2);
    result = by_token ? source.token_logprob(view) : source.logprob(view);
  }
  push(L, result);
  return 1;
}

int push_head(LogprobSource& source, lua_State* L) {
  const Options given(L, 3);
  const auto targets = given.find<at::Tensor>("targets");
  HeadResult result;
  if (class_of(L, 2) == &class_info<Batch>) {
    // Rows of a batch are scored micro-batch by micro-batch, so its targets would have to be cut
    // up.
    XRUN_CHECK(!targets, "targets are of a view's rows; score views, or leave targets out");
    Batch& batch = whole_batch(L, 2);
    result = source.head(batch, read_head_options(given, batch.info().temperature));
  } else {
    const View view = read_view(L, 2);
    result = source.head(view, read_head_options(given, view.micro().info().temperature),
                         targets.value_or(at::Tensor()));
  }
  lua_createtable(L, 0, 5);
  set_defined(L, "logprob", result.logprob);
  set_defined(L, "entropy", result.entropy);
  set_defined(L, "lse", result.lse);
  set_defined(L, "top_logprob", result.top_logprob);
  set_defined(L, "top_id", result.top_id);
  return 1;
}

LuaParameter head_options_parameter() {
  return {"options?",
          "table",
          {{"entropy", "boolean", false},
           {"lse", "boolean", false},
           {"top_k", "integer", 0},
           {"temperature", "number"},
           {"columns", "integer", 0},
           {"targets", "Tensor"}}};
}

namespace {

void register_policy(lua_State* L) {
  const LuaParameter head_options = head_options_parameter();
  Class<Policy>(L, "Policy",
                "A model that can be trained, with its tokenizer. Weights load at the first "
                "forward.")
      .method("logprob", {{"view", "View|Batch"}}, {{"Tensor", "[n]"}},
              "The sum of log-probs over the trained tokens of each sequence. Of a view: in the "
              "micro-batch's one forward; of a batch: all micro-batches, without gradient, in "
              "batch order.",
              [](Policy& self, lua_State* L) { return push_logprobs(self, L, false); })
      .method("token_logprob", {{"view", "View|Batch"}}, {{"Tensor", "[R]"}},
              "The log-prob of each trained token.",
              [](Policy& self, lua_State* L) { return push_logprobs(self, L, true); })
      .method(
          "head", {{"view", "View|Batch"}, head_options}, {"table"},
          "The vocabulary's distribution at each trained token, from one product: logprob [R], "
          "and entropy [R] (nats), lse [R] (log-sum-exp of the logits), top_logprob and top_id "
          "[R, top_k] (ids from 0) as they are asked for, all but top_id with gradients. Logits "
          "are divided by temperature (1; of rollouts theirs); only the first `columns` of them "
          "count (all); targets, i64 [R] or [R, M], replace the trained tokens. Of a batch: "
          "without gradient and targets, in batch order.",
          [](Policy& self, lua_State* L) { return push_head(self, L); })
      .method("entropy", {{"view", "View|Batch"}}, {{"Tensor", "[R]"}},
              "The entropy, in nats, of the distribution of each trained token; a bonus is "
              "loss - 0.01 * policy:entropy(view). One more product with the vocabulary, which "
              "policy:head saves: it gives the log-prob from the same one.",
              push_entropy)
      .method("z_loss", {{"view", "View|Batch"}}, {{"Tensor", "[R]"}},
              "The squared log-sum-exp of the logits of each trained token (PaLM's z-loss, whose "
              "weight there is 1e-4): loss + 1e-4 * policy:z_loss(view) keeps logits from "
              "drifting. One more product, as for entropy; policy:head gives lse.",
              push_z_loss)
      .method("logits", {{"view", "View"}}, {{"Tensor", "[R, V]"}},
              "Every logit of each trained token, for prototyping; prints its memory.", push_logits)
      .method("reference", {}, {"Reference"},
              "A frozen twin of the weights as they are now: shared until the first update, then "
              "a sidecar of log-probs.",
              [](Policy& self, lua_State* L) {
                std::shared_ptr<Reference> reference;
                if (ranks_to_fetch_from(self.options().dist, 1) != nullptr) {
                  recipe_context(L).fetching->begin_meetings();
                }
                // The first rank writes the weights of a reference that is taken after training
                // began.
                on_first_rank(session_ranks(L), "a reference",
                              [&] { reference = self.reference(); });
                if (!reference) reference = self.reference();
                reference->divide();
                session_of(L).models.add(reference);
                push(L, std::move(reference));
                return 1;
              })
      .method("digest", {}, {"string"},
              "The XXH3-128 over names, shapes and bytes of the weights as they are now.",
              [](Policy& self, lua_State* L) {
                push(L, self.digest());
                return 1;
              })
      .property("dir", "string", "The Hugging Face folder it came from.",
                [](Policy& self, lua_State* L) {
                  push(L, self.dir().string());
                  return 1;
                })
      .property("update_count", "number", "Optimizer updates so far.",
                [](Policy& self, lua_State* L) {
                  push(L, self.update_count());
                  return 1;
                })
      .tostring(describe_policy);
}

void register_reference(lua_State* L) {
  const LuaParameter head_options = head_options_parameter();
  Class<Reference>(L, "Reference", "The frozen twin of a policy; never trained, saved or exported.")
      .method("logprob", {{"view", "View|Batch"}}, {{"Tensor", "[n]"}},
              "As Policy:logprob, of the frozen weights; never has a gradient.",
              [](Reference& self, lua_State* L) { return push_logprobs(self, L, false); })
      .method("token_logprob", {{"view", "View|Batch"}}, {{"Tensor", "[R]"}},
              "As Policy:token_logprob, of the frozen weights; runs the frozen model.",
              [](Reference& self, lua_State* L) { return push_logprobs(self, L, true); })
      .method(
          "head", {{"view", "View|Batch"}, head_options}, {"table"},
          "As Policy:head, of the frozen weights; never with gradients. The sidecar holds sums of "
          "log-probs alone: after the policy's first update the frozen model loads, and runs for "
          "each micro-batch that calls it.",
          [](Reference& self, lua_State* L) { return push_head(self, L); })
      .method("digest", {}, {"string"}, "The digest of the frozen weights.",
              [](Reference& self, lua_State* L) {
                push(L, self.digest());
                return 1;
              })
      .property("dir", "string", "The folder of the frozen weights.",
                [](Reference& self, lua_State* L) {
                  push(L, self.dir().string());
                  return 1;
                });
}

}  // namespace

void open_policy(LuaState& state) {
  register_policy(state);
  register_reference(state);
  state.function(
      "policy",
      {{"model", "string|xrun.Config.model"},
       {"options?",
        "table",
        {{"lora", "xrun.Config.lora"}, {"recompute", "boolean"}, {"train", "string[]"}}}},
      {"Policy"},
      "Opens the model to train: a folder, a name from `xrun models`, a repository in the local "
      "Hugging Face cache, the folder of a PEFT adapter, which is trained on, or a table of the "
      "sizes of a new model with random weights (`xrun explain model`). The options override the "
      "config's keys.",
      open_policy);
}

}  // namespace xrun
