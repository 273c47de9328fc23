// xrun.kd: the distillation loss of a student against its teachers.

#include "lua/bind/train/kd.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/hash.h"
#include "core/config/config_field.h"
#include "core/distill/kd_view.h"
#include "core/distill/projection_build.h"
#include "core/distill/vocabulary_map.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/text/tokenizer/vocabulary_fingerprint.h"
#include "core/train/batches/batch.h"
#include "core/train/models/frozen_model.h"
#include "core/train/models/policy.h"
#include "lua/bind/modules.h"
#include "lua/bind/objective.h"
#include "lua/bind/session.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

constexpr const char* kMadeProjection = "auto";  // kd.projection without a file

}  // namespace

void note_projection(lua_State* L, const std::string& setting) {
  if (setting == kMadeProjection) return;
  const std::string file = local_input(L, InputKind::kProjection, setting);
  if (!path_exists(file)) {
    throw UsageError(fmt::format(
        "kd.projection = \"{}\": there is no such file; build it with `xrun projection build "
        "--student DIR --teacher DIR {}`, or leave the setting out",
        setting, setting));
  }
  // By digest: a resume with another projection would train towards other targets.
  note_input(session_of(L), {"files", setting, "the projection " + setting,
                             Json(Json::Object{{"digest", hash_file(file)}})});
}

namespace {

// Vocabulary maps by projection, loss and tokenizers; each is made once.
struct VocabularyMaps {
  std::map<std::string, std::shared_ptr<const VocabularyMap>> known;
};

// The smallest projection weight at which two tokens count as the same. h-kl also accepts a token
// spelled by two (arXiv 2605.21699).
double least_common_weight(KdLoss loss) { return loss == KdLoss::kRelaxed ? 0.6 : 1.0; }

// The projection of two tokenizers, made once and stored in the cache folder. Its key has the
// tokenizers' files, since the roles of special tokens and the normalisers decide it too, and a
// version of the builder.
Projection made_projection(lua_State* L, const Tokenizer& student, const Tokenizer& teacher,
                           const std::string& from, const std::string& to) {
  constexpr const char* kBuilderVersion = "2";
  const std::string key = fmt::format("{} {} {} {}", student.digest(), teacher.digest(),
                                      dump_json(projection_options_json({})), kBuilderVersion);
  // In the cache and not in the run: the same two tokenizers serve all runs.
  const auto path = cache_root() / "projections" / (hash_hex(key) + ".safetensors");
  if (path_exists(path)) {
    try {
      return load_projection(path, from, to);
    } catch (const Error& error) {  // damaged
      session_of(L).notices.add(fmt::format("warning: {}; it is built again", error.what()));
    }
  }
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
          ? made_projection(L, from, to, from_name, to_name)
          : load_projection(local_input(L, InputKind::kProjection, setting), from_name, to_name);
  // p-kl compares no pairs, and two vocabularies may have none.
  std::vector<std::pair<int32_t, int32_t>> common;
  if (loss != KdLoss::kProjected) {
    try {
      common = exact_map(projection, least_common_weight(loss));
    } catch (const Error& error) {
      throw UsageError(fmt::format("kd.projection = \"{}\": {}", setting, error.what()));
    }
  }
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
  // A setting that the loss does not read is an error, not ignored.
  std::vector<std::string> names;
  for (const auto& [name, value] : given.as_object()) {
    if (name != "loss" && !(value == default_value("kd." + name))) names.push_back(name);
  }
  check_kd_settings(options.loss, names);
  if (const Json* mean = given.find("mean")) options.mean = chunk_mean_of(mean->as_string());
  // After the check, which must see only what the recipe wrote.
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

// The micro-batch whose tokens decide which losses are possible; null for a batch without any.
const MicroBatch* some_micro(lua_State* L, int i) {
  if (class_of(L, i) != &class_info<Batch>) return &read_view(L, i).micro();
  const Batch& batch = arg<Batch&>(L, i, "batch");
  return batch.micros().empty() ? nullptr : batch.micros().front().get();
}

// Reads a teacher, or a list of teachers whose logits are averaged.
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
  // The first one decides vocabulary and loss; check_others compares the rest with it.
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

}  // namespace

void open_kd(LuaState& state) {
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
