// xrun.frozen: models that are only read, as teachers and as references of other folders.

#include <ATen/core/Tensor.h>

#include <string>

#include "core/base/error.h"
#include "core/model/weights/hf_config.h"
#include "core/model/weights/model_registry.h"
#include "core/model/weights/weight_check.h"
#include "core/train/frozen_model.h"
#include "lua/bind/modules.h"
#include "lua/bind/policy.h"
#include "lua/bind/session.h"
#include "lua/bind/type_settings.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

FrozenCache read_cache(const Options& given) {
  const std::string name = given.get<std::string>("cache", "");
  if (name == "topk") return FrozenCache::kTopColumns;
  if (name == "hidden") return FrozenCache::kHidden;
  XRUN_CHECK(name.empty(), "cache is \"{}\", wanted \"topk\" or \"hidden\"", name);
  return FrozenCache::kNone;
}

FrozenOptions read_frozen_options(lua_State* L, const Options& given) {
  FrozenOptions options;
  options.settings.dtype =
      given.has("dtype") ? dtype_from_name(given.get<std::string>("dtype")) : read_dtype(L);
  options.settings.device = recipe_device(recipe_context(L).options);
  options.settings.head_mb = config_whole(L, "head_mb");
  options.cache = read_cache(given);
  XRUN_CHECK(!given.has("k") || options.cache == FrozenCache::kTopColumns,
             "k is the number of columns that cache = \"topk\" stores; leave it out, or set that");
  options.top_k = given.get<int64_t>("k", options.top_k);
  XRUN_CHECK(options.top_k >= 1, "k is {}, wanted at least 1", options.top_k);
  if (given.has("tokenizer")) {
    options.tokenizer = resolve_model(given.get<std::string>("tokenizer"));
  }
  return options;
}

// A resume compares the folder and its bytes.
void note_model(Session& session, FrozenModel& frozen) {
  if (session.previews()) return;  // check and inspect read no weights
  const std::string dir = frozen.dir().string();
  note_input(session, {"models", dir, "the frozen model " + dir,
                       Json(Json::Object{{"digest", frozen.digest()}})});
}

int open_frozen_model(lua_State* L) {
  const std::string name = arg<std::string>(L, 1, "model");
  const Options given(L, 2);
  Session& session = session_of(L);
  const auto dir =
      resolve_model(name, [&](const std::string& text) { session.console->say(text); });
  const auto frozen = FrozenModel::open(dir, read_frozen_options(L, given));
  const ModelConfig config = read_model_config(frozen->base_dir());
  const FrozenSettings& settings = frozen->options().settings;
  frozen->use_gemm(read_gemm(L, config, settings.dtype, settings.device));
  session.models.add(frozen);
  for (const std::string& notice : config.notices) session.notices.add(notice);
  session.notices.add(tied_head_notice(frozen->base_dir(), config));
  note_model(session, *frozen);
  push(L, frozen);
  return 1;
}

std::string describe_frozen(const FrozenModel& frozen) {
  return "FrozenModel " + frozen.dir().filename().string();
}

}  // namespace

void open_distill(LuaState& state) {
  lua_State* L = state;
  Class<FrozenModel>(L, "FrozenModel",
                     "A model that is only read, with its own tokenizer and type: a teacher, or "
                     "the reference of another folder. Never trained, saved or exported.")
      .method("logprob", {{"view", "View|Batch"}}, {{"Tensor", "[n]"}},
              "As Reference:logprob, from a sidecar of sums. Tokens of another vocabulary are an "
              "error that names both.",
              [](FrozenModel& self, lua_State* L) { return push_logprobs(self, L, false); })
      .method("token_logprob", {{"view", "View|Batch"}}, {{"Tensor", "[R]"}},
              "The log-prob of each trained token; runs the model.",
              [](FrozenModel& self, lua_State* L) { return push_logprobs(self, L, true); })
      .method("head", {{"view", "View|Batch"}, head_options_parameter()}, {"table"},
              "As Policy:head; never with gradients.",
              [](FrozenModel& self, lua_State* L) { return push_head(self, L); })
      .method("digest", {}, {"string"}, "A hash of the files of its weights and configuration.",
              [](FrozenModel& self, lua_State* L) {
                push(L, self.digest());
                return 1;
              })
      .property("dir", "string", "The Hugging Face folder it came from.",
                [](FrozenModel& self, lua_State* L) {
                  push(L, self.dir().string());
                  return 1;
                })
      .tostring(describe_frozen);
  state.function(
      "frozen", {{"model", "string"}, {"options?", "table", {"dtype", "tokenizer", "cache", "k"}}},
      {"FrozenModel"},
      "Opens a model that is only read: a teacher, or the reference of another folder. dtype is "
      "its "
      "type (fp32, bf16, fp16; by default that of the recipe), tokenizer a folder whose vocabulary "
      "it has. cache stores what it gives for distillation by row: \"topk\", the k (64) most "
      "likely "
      "tokens, or \"hidden\", hidden states, from which its head gives every log-prob; once all "
      "rows are stored its weights (under \"hidden\", all but the head) never load.",
      open_frozen_model);
}

}  // namespace xrun
