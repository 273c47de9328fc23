// xrun.frozen: models that are only read.

#include <ATen/core/Tensor.h>

#include <string>

#include "core/base/error.h"
#include "core/dist/fetching_ranks.h"
#include "core/distill/kd_view.h"
#include "core/model/weights/hf_config.h"
#include "core/model/weights/model_registry.h"
#include "core/model/weights/weight_check.h"
#include "core/train/batches/batch.h"
#include "core/train/models/frozen_model.h"
#include "lua/bind/modules.h"
#include "lua/bind/objective.h"
#include "lua/bind/session.h"
#include "lua/bind/train/kd.h"
#include "lua/bind/train/policy.h"
#include "lua/bind/train/policy_options.h"
#include "lua/bind/type_settings.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

FrozenCache read_cache(const Options& given) {
  const std::string name = given.get<std::string>("cache", "");
  if (name == "topk") return FrozenCache::kTopColumns;
  if (name == "hidden") return FrozenCache::kHidden;
  if (!name.empty()) {
    throw UsageError(fmt::format("cache is \"{}\", wanted \"topk\" or \"hidden\"", name));
  }
  return FrozenCache::kNone;
}

// The run's device, or the CPU beside a run on a GPU.
c10::Device read_device(lua_State* L, const Options& given) {
  const c10::Device own = recipe_device(recipe_context(L).options);
  const auto name = given.find<std::string>("device");
  if (!name || *name == own.str() || *name == c10::DeviceTypeName(own.type(), true)) return own;
  if (*name != "cpu") {
    throw UsageError(
        fmt::format("device is \"{}\", wanted \"cpu\"{}", *name,
                    own.is_cpu() ? "; --device cuda puts the whole run on a GPU" : " or \"cuda\""));
  }
  return at::kCPU;
}

FrozenOptions read_frozen_options(lua_State* L, const Options& given) {
  FrozenOptions options;
  options.settings.dtype =
      given.has("dtype") ? dtype_from_name(given.get<std::string>("dtype")) : read_dtype(L);
  options.settings.device = read_device(L, given);
  options.stays_on_cpu = given.find<std::string>("device") == "cpu";
  options.settings.head_mb = config_whole(L, "head_mb");
  options.cache = read_cache(given);
  if (given.has("k") && options.cache != FrozenCache::kTopColumns) {
    throw UsageError(
        "k is the number of columns that cache = \"topk\" stores; leave k out, or set cache");
  }
  options.top_k = given.get<int64_t>("k");
  if (options.top_k < 1) {
    throw UsageError(fmt::format("k is {}, wanted at least 1", options.top_k));
  }
  if (given.has("tokenizer")) {
    options.tokenizer = resolve_model(
        local_input(L, InputKind::kModel, given.get<std::string>("tokenizer")), {}, "tokenizer");
  }
  return options;
}

// A resume compares the folder and its bytes.
void note_model(lua_State* L, FrozenModel& frozen) {
  // A preview takes no digest, which would read the weights.
  if (recipe_context(L).options.purpose == RecipePurpose::kPreview) return;
  const std::string dir = frozen.dir().string();
  note_input(session_of(L), {"models", dir, "the frozen model " + dir,
                             Json(Json::Object{{"digest", frozen.digest()}})});
}

int open_frozen_model(lua_State* L) {
  const std::string name = arg<std::string>(L, 1, "model");
  const Options given(L, 2);
  Session& session = session_of(L);
  const std::filesystem::path dir = find_model_folder(L, name);
  FrozenOptions options = read_frozen_options(L, given);
  options.dist = recipe_dist(L);
  if (ranks_to_fetch_from(options.dist, 1) != nullptr) recipe_context(L).fetching->begin_meetings();
  const auto frozen = FrozenModel::open(dir, options);
  const ModelConfig& config = frozen->config();
  const FrozenSettings& settings = frozen->options().settings;
  frozen->use_gemm(read_gemm(L, config, settings.dtype, settings.device));
  session.models.add(frozen);
  for (const std::string& notice : config.notices) session.notices.add(notice);
  session.notices.add(tied_head_notice(frozen->base_dir(), config));
  note_model(L, *frozen);
  // Noted now, not at the first loss: a resume is refused before it changes anything.
  const Json* projection = recipe_context(L).config.find("kd.projection");
  if (projection != nullptr) note_projection(L, projection->as_string());
  push(L, frozen);
  return 1;
}

using ViewAnswer = at::Tensor (FrozenModel::*)(const View&);
using BatchAnswer = at::Tensor (FrozenModel::*)(Batch&);

template <ViewAnswer of_view, BatchAnswer of_batch>
int push_answer(FrozenModel& self, lua_State* L) {
  if (class_of(L, 2) == &class_info<Batch>) {
    push(L, (self.*of_batch)(arg<Batch&>(L, 2, "batch")));
  } else {
    push(L, (self.*of_view)(read_view(L, 2)));
  }
  return 1;
}

int push_columns(FrozenModel& teacher, lua_State* L) {
  const View view = read_view(L, 2);
  const Options given(L, 3);
  const ChunkColumns columns =
      chunk_columns(view, teacher, given.get<int64_t>("k", teacher.options().top_k),
                    given.get<double>("temperature"));
  lua_createtable(L, 0, 6);
  set_field(L, "logprob", columns.logprob);
  set_field(L, "lse", columns.lse);
  set_field(L, "top_logprob", columns.top_logprob);
  set_field(L, "top_id", columns.top_id);
  // In fp64: in fp32 a rest near 0 would be rounding alone.
  const at::Tensor mass = columns.top_logprob.to(at::kDouble).exp().sum(1);
  set_field(L, "rest", mass.neg().add(1).clamp_min(0).to(at::kFloat));
  set_field(L, "chunk", columns.chunk);
  return 1;
}

std::string describe_frozen(const FrozenModel& frozen) {
  return "FrozenModel " + frozen.dir().filename().string();
}

}  // namespace

void open_frozen(LuaState& state) {
  lua_State* L = state;
  Class<FrozenModel>(L, "FrozenModel",
                     "A model that is only read, with its own tokenizer and type: a teacher, the "
                     "reference of another folder, or a reward or value model (a sequence "
                     "classifier of one label). Never trained, saved or exported.")
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
      .method(
          "chunk_logprob", {{"view", "View|Batch"}}, {{"Tensor", "[C]"}},
          "The log-prob of each chunk: the sum over the model's own tokens of an aligned batch, "
          "beside view:chunk_sum(student:token_logprob(view)). Without alignment of each "
          "trained token, [R].",
          push_answer<&FrozenModel::chunk_logprob, &FrozenModel::chunk_logprob>)
      .method("score", {{"view", "View|Batch"}}, {{"Tensor", "[n]"}},
              "Of a classifier: the score of each sequence, at its last token; in its own template "
              "and tokens if the batch is aligned with it.",
              push_answer<&FrozenModel::score, &FrozenModel::score>)
      .method("token_score", {{"view", "View|Batch"}}, {{"Tensor", "[R]"}},
              "Of a classifier: the score of the text before each trained token, its value.",
              push_answer<&FrozenModel::token_score, &FrozenModel::token_score>)
      .method(
          "columns",
          {{"view", "View"},
           {"options?", "table", {{"k", "integer"}, {"temperature", "number", 1}}}},
          {"table"},
          "The teacher's distribution where it predicts the chunks of a view, over its own "
          "tokens, for objectives in Lua: logprob [Rt] of its tokens, lse [Rt], top_logprob "
          "and top_id [Rt, k] (64), rest [Rt], the probability outside them, and chunk [Rt], the "
          "number of each row's chunk from 0. top_id has the tokens of the highest mean log-prob "
          "over the rows of a chunk, the same for each of them.",
          push_columns)
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
      "frozen",
      {{"model", "string"},
       {"options?",
        "table",
        {{"dtype", "string"},
         {"device", "string"},
         {"tokenizer", "string"},
         {"cache", "\"topk\"|\"hidden\""},
         {"k", "integer", FrozenOptions().top_k}}}},
      {"FrozenModel"},
      "Opens a model that is only read: a teacher, the reference of another folder, or a sequence "
      "classifier as a reward or value model. dtype is its type (fp32, bf16, fp16; by default that "
      "of the recipe), device \"cpu\" keeps it off the GPU of the run, tokenizer is a folder whose "
      "vocabulary it has. cache stores what it gives for "
      "distillation by row: \"topk\", the k most likely tokens, or \"hidden\", hidden states, "
      "from which its head gives every log-prob; once all rows are stored its weights (under "
      "\"hidden\", all but the head) never load.",
      open_frozen_model);
}

}  // namespace xrun
