// xrun.frozen and xrun.kd: models that are only read, and the loss of a student to its teacher.

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/hash.h"
#include "core/config/config_field.h"
#include "core/dist/fetching_ranks.h"
#include "core/distill/kd_view.h"
#include "core/distill/projection_build.h"
#include "core/distill/vocabulary_map.h"
#include "core/model/weights/hf_config.h"
#include "core/model/weights/model_registry.h"
#include "core/model/weights/weight_check.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/text/tokenizer/vocabulary_fingerprint.h"
#include "core/train/batch.h"
#include "core/train/frozen_model.h"
#include "core/train/policy.h"
#include "lua/bind/modules.h"
#include "lua/bind/objective.h"
#include "lua/bind/policy.h"
#include "lua/bind/session.h"
#include "lua/bind/type_settings.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

// ---- xrun.frozen

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
    options.tokenizer =
        resolve_model(local_input(L, InputKind::kModel, given.get<std::string>("tokenizer")));
  }
  return options;
}

constexpr const char* kMadeProjection = "auto";  // kd.projection without a file

// A resume compares the file of a projection. Throws Error if it cannot be read.
void note_projection(lua_State* L, const std::string& setting) {
  if (setting == kMadeProjection) return;
  const std::string file = local_input(L, InputKind::kProjection, setting);
  note_input(session_of(L), {"files", setting, "the projection " + setting,
                             Json(Json::Object{{"digest", hash_file(file)}})});
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
  const auto dir = resolve_model(local_input(L, InputKind::kModel, name),
                                 [&](const std::string& text) { session.console->say(text); });
  FrozenOptions options = read_frozen_options(L, given);
  options.dist = recipe_dist(L);
  if (sharding_ranks(options.dist, 1) != nullptr) recipe_context(L).fetching->begin_meetings();
  const auto frozen = FrozenModel::open(dir, options);
  const ModelConfig& config = frozen->config();
  const FrozenSettings& settings = frozen->options().settings;
  frozen->use_gemm(read_gemm(L, config, settings.dtype, settings.device));
  session.models.add(frozen);
  for (const std::string& notice : config.notices) session.notices.add(notice);
  session.notices.add(tied_head_notice(frozen->base_dir(), config));
  note_model(session, *frozen);
  // Now, and not at the first loss: a resume is refused before it changes anything.
  const Json* projection = recipe_context(L).config.find("kd.projection");
  if (projection != nullptr) note_projection(L, projection->as_string());
  push(L, frozen);
  return 1;
}

// ---- xrun.kd

// Maps of two vocabularies by projection and least weight, read once.
struct VocabularyMaps {
  std::map<std::string, std::shared_ptr<const VocabularyMap>> known;
};

// The weight from which a token of the student's and one of the teacher's are the same one: in h-kl
// a token that two tokens write counts too (arXiv 2605.21699).
double least_common_weight(KdLoss loss) { return loss == KdLoss::kRelaxed ? 0.6 : 1.0; }

// The projection of two tokenizers, made once and stored in the cache folder. Its key has the
// tokenizers' files, since the roles of special tokens and the normalisers decide it too, and a
// version of the builder.
Projection made_projection(const Tokenizer& student, const Tokenizer& teacher,
                           const std::string& from, const std::string& to) {
  constexpr const char* kBuilderVersion = "2";
  const std::string key = fmt::format("{} {} {} {}", student.digest(), teacher.digest(),
                                      dump_json(projection_options_json({})), kBuilderVersion);
  const auto path = cache_root() / "projections" / (hash_hex(key) + ".safetensors");
  if (path_exists(path)) return load_projection(path, from, to);
  Projection made = build_projection(student, teacher);
  make_dirs(path.parent_path());
  save_projection(made, path);
  return made;
}

std::shared_ptr<const VocabularyMap> find_map(lua_State* L, const std::string& setting, KdLoss loss,
                                              const Policy& student, const FrozenModel& teacher) {
  const Tokenizer &from = *student.tokenizer(), &to = *teacher.tokenizer();
  std::shared_ptr<const VocabularyMap>& known =
      LuaState::of(L).service<VocabularyMaps>().known[fmt::format(
          "{} {} {} {}", setting, kd_loss_name(loss), from.digest(), to.digest())];
  if (known != nullptr) return known;
  note_projection(L, setting);
  const std::string from_name = vocabulary_fingerprint(from), to_name = vocabulary_fingerprint(to);
  const Projection projection =
      setting == kMadeProjection
          ? made_projection(from, to, from_name, to_name)
          : load_projection(local_input(L, InputKind::kProjection, setting), from_name, to_name);
  // p-kl compares no pairs, and two vocabularies may have none.
  std::vector<std::pair<int32_t, int32_t>> common;
  if (loss != KdLoss::kProjected) common = exact_map(projection, least_common_weight(loss));
  known = std::make_shared<const VocabularyMap>(
      make_vocabulary_map(projection.student_vocab, projection.teacher_vocab, projection.begin,
                          projection.id, projection.weight, std::move(common)));
  return known;
}

struct KdSettings {
  KdOptions options;
  std::string projection = kMadeProjection;
};

KdLoss default_loss(const FrozenModel& teacher, bool one_vocabulary) {
  if (!one_vocabulary) return KdLoss::kProjected;
  return teacher.options().cache == FrozenCache::kTopColumns ? KdLoss::kTopK : KdLoss::kFull;
}

KdSettings read_kd_settings(lua_State* L, int i, const FrozenModel& teacher, bool one_vocabulary) {
  Json given = lua_istable(L, i) ? to_json(L, i) : Json::object();
  check_fields(given, "kd");
  KdSettings settings;
  KdOptions& options = settings.options;
  const Json* loss = given.find("loss");
  options.loss =
      loss != nullptr ? kd_loss_of(loss->as_string()) : default_loss(teacher, one_vocabulary);
  // The configuration has the defaults of all settings; only what differs from them was asked for.
  std::vector<std::string> names;
  for (const auto& [name, value] : given.as_object()) {
    if (name != "loss" && !(value == default_value("kd." + name))) names.push_back(name);
  }
  check_kd_settings(options.loss, names);
  if (const Json* mean = given.find("mean")) options.mean = chunk_mean_of(mean->as_string());
  add_defaults(given, "kd");
  options.temperature = given.at("temperature").as_double();
  if (const Json* topk = given.find("topk")) {
    options.top_k = topk->as_int();  // beyond a teacher's cache it is an error
  } else if (teacher.options().cache == FrozenCache::kTopColumns) {
    options.top_k = std::min(options.top_k, teacher.options().top_k);
  }
  options.reverse = given.at("reverse").as_bool();
  options.beta = given.at("beta").as_double();
  options.head_mb = config_whole(L, "head_mb");
  settings.projection = given.at("projection").as_string();
  check_kd_options(options);
  return settings;
}

bool reads_projection(KdLoss loss) {
  const std::vector<std::string>& settings = kd_settings(loss);
  return std::find(settings.begin(), settings.end(), "projection") != settings.end();
}

// The micro-batch whose tokens decide which losses there are; null for a batch without any.
const MicroBatch* some_micro(lua_State* L, int i) {
  if (class_of(L, i) != &class_info<Batch>) return &read_view(L, i).micro();
  const Batch& batch = arg<Batch&>(L, i, "batch");
  return batch.micros().empty() ? nullptr : batch.micros().front().get();
}

// A teacher, or a list of those whose logits are averaged.
std::vector<std::shared_ptr<FrozenModel>> read_teachers(lua_State* L, int i) {
  if (!lua_istable(L, i)) return {arg<std::shared_ptr<FrozenModel>>(L, i, "teacher")};
  std::vector<std::shared_ptr<FrozenModel>> teachers;
  const auto count = static_cast<int>(lua_objlen(L, i));
  XRUN_CHECK(count > 0, "xrun.kd: the list of teachers is empty");
  for (int n = 1; n <= count; ++n) {
    const StackGuard guard(L);
    lua_rawgeti(L, i, n);
    teachers.push_back(arg<std::shared_ptr<FrozenModel>>(L, lua_gettop(L), "teacher"));
  }
  return teachers;
}

int push_kd(lua_State* L) {
  const auto student = arg<std::shared_ptr<Policy>>(L, 2, "student");
  const std::vector<std::shared_ptr<FrozenModel>> teachers = read_teachers(L, 3);
  const std::shared_ptr<FrozenModel>& teacher = teachers.front();
  const MicroBatch* micro = some_micro(L, 1);
  const bool one_vocabulary = micro == nullptr || teacher->reads_tokens_of(*micro);
  const KdSettings settings = read_kd_settings(L, 4, *teacher, one_vocabulary);
  KdPair pair{*student, *teacher, settings.options};
  pair.others.assign(teachers.begin() + 1, teachers.end());
  if (reads_projection(settings.options.loss)) {
    pair.map = find_map(L, settings.projection, settings.options.loss, *student, *teacher);
  }
  if (class_of(L, 1) == &class_info<Batch>) {
    push(L, kd_loss_of(whole_batch(L, 1), pair));
  } else {
    push(L, kd_loss_of(read_view(L, 1), pair));
  }
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
                    given.get<double>("temperature", 1));
  lua_createtable(L, 0, 5);
  set_field(L, "logprob", columns.logprob);
  set_field(L, "lse", columns.lse);
  set_field(L, "top_logprob", columns.top_logprob);
  set_field(L, "top_id", columns.top_id);
  set_field(L, "chunk", columns.chunk);
  return 1;
}

std::string describe_frozen(const FrozenModel& frozen) {
  return "FrozenModel " + frozen.dir().filename().string();
}

}  // namespace

void open_distill(LuaState& state) {
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
      .method("columns", {{"view", "View"}, {"options?", "table", {"k", "temperature"}}}, {"table"},
              "The teacher's distribution where it predicts the chunks of a view, over its own "
              "tokens, for objectives in Lua: logprob [Rt] of its tokens, lse [Rt], top_logprob "
              "and top_id [Rt, k] (64), and chunk [Rt], the number of each row's chunk from 0.",
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
      "frozen", {{"model", "string"}, {"options?", "table", {"dtype", "tokenizer", "cache", "k"}}},
      {"FrozenModel"},
      "Opens a model that is only read: a teacher, the reference of another folder, or a sequence "
      "classifier as a reward or value model. dtype is its type (fp32, bf16, fp16; by default that "
      "of the recipe), tokenizer a folder whose vocabulary it has. cache stores what it gives for "
      "distillation by row: \"topk\", the k (64) most likely tokens, or \"hidden\", hidden states, "
      "from which its head gives every log-prob; once all rows are stored its weights (under "
      "\"hidden\", all but the head) never load.",
      open_frozen_model);
  state.function(
      "kd",
      {{"view", "View|Batch"},
       {"student", "Policy"},
       {"teacher", "FrozenModel|FrozenModel[]"},
       {"options?", "xrun.Config.kd"}},
      {{"Tensor", "[C]"}},
      "The divergence of the student's distribution from the teacher's in each chunk: one loss per "
      "trained token, [R], if both have one vocabulary, else per chunk of the alignment. For a "
      "view it reads the step's forward and carries the student's gradient; for a batch it has no "
      "gradient. Of a list of teachers of one vocabulary the logits are averaged.",
      push_kd);
}

}  // namespace xrun
