// In run.json: {"dtype": "bf16"}, and for each shape of the run's models {"measured": {"gemm":
// {"512 x 576 x 1536": {"gemm", "fp32_ms", "storage_ms"}}}}. A run without dtype, of an older
// version, began in the default type of machine.device.

#include "lua/bind/type_settings.h"

#include <optional>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/dist/agreement.h"
#include "core/model/cost/gemm_choice.h"
#include "core/model/cost/row_probe.h"
#include "core/model/weights/hf_config.h"
#include "core/run/run.h"
#include "core/run/run_dir.h"
#include "core/train/models/policy.h"
#include "lua/bind/recipe.h"
#include "lua/bind/session.h"

namespace xrun {

namespace {

constexpr const char* kDtype = "dtype";

std::optional<c10::ScalarType> configured(lua_State* L) {
  const Json* value = recipe_context(L).config.find(kDtype);
  if (value == nullptr || value->is_null()) return std::nullopt;
  return dtype_from_name(value->as_string());
}

c10::ScalarType default_type(const std::string& device) {
  return device == "cpu" ? c10::ScalarType::Float : c10::ScalarType::BFloat16;
}

// The type of the resumed run; nullopt if none is resumed or it had not begun.
std::optional<c10::ScalarType> type_of_run(const RunDir* dir) {
  if (dir == nullptr || !dir->resuming()) return std::nullopt;
  const Json& record = dir->record();
  if (record.find(kDtype) == nullptr && record.find("machine") == nullptr) return std::nullopt;
  try {
    if (const Json* dtype = record.find(kDtype)) return dtype_from_name(dtype->as_string());
    return default_type(record.at("machine").at("device").as_string());
  } catch (const Error& error) {
    throw Error(fmt::format("{}: the type that the run began in cannot be read: {}; set dtype",
                            dir->file("run.json").string(), error.what()));
  }
}

c10::ScalarType type_without_setting(lua_State* L, const RunDir* dir) {
  return type_of_run(dir).value_or(default_type(recipe_context(L).options.device));
}

constexpr const char* kGemm = "gemm";

// The choices of this recipe's models, as run.json holds them.
struct MeasuredGemm {
  Json json;
};

Json& measured_of(lua_State* L) { return LuaState::of(L).service<MeasuredGemm>().json; }

std::string shape_name(const GemmShape& shape) {
  return fmt::format("{} x {} x {}", shape.rows, shape.in, shape.out);
}

const Json* find_choice(const Json& measured, const std::string& shape) {
  const Json* gemm = measured.find(kGemm);
  return gemm == nullptr ? nullptr : gemm->find(shape);
}

void set_choice(Json& measured, const std::string& shape, const Json& choice) {
  Json all = Json::object();
  if (const Json* known = measured.find(kGemm); known != nullptr && known->is_object())
    all = *known;
  all.set(shape, choice);
  if (!measured.is_object()) measured = Json::object();
  measured.set(kGemm, std::move(all));
}

// The choice of the resumed run; nullopt, with a notice, if its record has no valid one.
std::optional<GemmChoice> choice_of_run(Session& session, const std::string& shape) {
  const RunDir* dir = run_dir_of(session);
  if (dir == nullptr || !dir->resuming()) return std::nullopt;
  const Json* measured = dir->record().find("measured");
  const Json* all = measured == nullptr ? nullptr : measured->find(kGemm);
  if (all == nullptr || !all->is_object()) {
    session.notices.add(
        fmt::format("{}: measured.gemm is {}; products are measured again, so the "
                    "last digits may differ",
                    dir->file("run.json").string(), all == nullptr ? "missing" : "not an object"));
    return std::nullopt;
  }
  const Json* choice = all->find(shape);
  if (choice == nullptr) return std::nullopt;  // the run had not reached this model
  try {
    return gemm_from_json(*choice);
  } catch (const Error& error) {
    session.notices.add(
        fmt::format("{}: measured.gemm cannot be used: {}; it is measured again, so "
                    "the last digits may differ",
                    dir->file("run.json").string(), error.what()));
    return std::nullopt;
  }
}

// The choice of the run that a bundle recorded, on another machine: the bits depend on it.
std::optional<GemmChoice> choice_of_bundle(const RecipeOptions& options, const std::string& shape) {
  if (!options.bundle || !options.bundle->lock.run) return std::nullopt;
  const Json* choice = find_choice(options.bundle->lock.run->measured, shape);
  if (choice == nullptr) return std::nullopt;
  return gemm_from_json(*choice);
}

GemmType choose(lua_State* L, const ModelConfig& config, c10::ScalarType dtype) {
  Session& session = session_of(L);
  const std::string shape = shape_name(gemm_shape(config));
  // Once per shape and run: policy and reference must compute alike.
  if (const Json* known = find_choice(measured_of(L), shape)) return gemm_from_json(*known).gemm;
  std::optional<GemmChoice> choice = choice_of_run(session, shape);
  const bool resumed = choice.has_value();
  // After the resumed run, whose bits matter more than the bundle's.
  if (!choice) choice = choice_of_bundle(recipe_context(L).options, shape);
  if (!choice) {
    // Measured, so each rank might come to another choice.
    const std::string measured = from_first_rank(session_ranks(L), "measuring products", [&] {
      // Kept in the closure too, or rank 0 would read its own message back.
      choice = choose_gemm(config, dtype);
      return dump_json(to_json(*choice));
    });
    if (!choice) choice = gemm_from_json(parse_json(measured, "rank 0"));
  }
  session.notices.add(choice->notice);
  session.notices.add(
      fmt::format("products in {}{}", describe(*choice), resumed ? " (run.json)" : ""));
  set_choice(measured_of(L), shape, to_json(*choice));
  // For a model opened after xrun.run; the choices of earlier ones are written when the run is
  // made.
  if (session.open_run != nullptr) {
    RunDir& dir = session.open_run->dir();
    keep_measured(L, dir);
    dir.write_record();
  }
  return choice->gemm;
}

}  // namespace

c10::ScalarType read_dtype(lua_State* L) {
  if (const auto set = configured(L)) return *set;
  Session& session = session_of(L);
  const std::string& device = recipe_context(L).options.device;
  const c10::ScalarType type = type_without_setting(L, run_dir_of(session));
  if (type != default_type(device)) {
    session.notices.add(
        fmt::format("dtype is {}, as when the run began; a new run on {} without the "
                    "setting would use {}",
                    dtype_name(type), device, dtype_name(default_type(device))));
  }
  return type;
}

void keep_dtype(lua_State* L, RunDir& dir) {
  // The recipe states it, and the record has the recipe's config.
  if (configured(L)) return;
  dir.record().set(kDtype, dtype_name(type_without_setting(L, &dir)));
}

GemmType read_gemm(lua_State* L, const ModelConfig& config, c10::ScalarType dtype,
                   c10::Device device) {
  const RecipeContext& context = recipe_context(L);
  const Json* value = context.config.find(kGemm);
  const std::string wanted = value == nullptr || value->is_null() ? "auto" : value->as_string();
  const bool narrow = wanted != "auto" && dtype_from_name(wanted) == c10::ScalarType::BFloat16;
  if (dtype == c10::ScalarType::Float) {
    if (narrow) {
      throw UsageError(
          "gemm = \"bf16\" computes with bf16 weights; set dtype = \"bf16\" too, or "
          "leave gemm out");
    }
    if (device.is_cpu() && context.options.purpose != RecipePurpose::kCache) {
      session_of(L).notices.add(dependent_rows_notice());
    }
    return GemmType::kStorage;
  }
  if (wanted != "auto") return narrow ? GemmType::kStorage : GemmType::kFloat;
  // Only CPUs are measured.
  if (!device.is_cpu()) return GemmType::kStorage;
  // Caches of data need no products.
  if (context.options.purpose == RecipePurpose::kCache) return GemmType::kStorage;
  return choose(L, config, dtype);
}

void check_max_length(lua_State* L, int64_t length, const Policy& policy) {
  const ModelConfig config = read_model_config(policy.dir());
  if (config.max_length <= 0 || length <= config.max_length) return;
  const std::string name = policy.dir().filename().string();
  // Beyond learned positions there is no embedding at all; rotary ones extrapolate.
  if (config.positions == Positions::kLearned) {
    throw UsageError(
        fmt::format("max_length is {}, but {} has {} learned positions; set max_length={} or less",
                    count_text(length), name, count_text(config.max_length), config.max_length));
  }
  session_of(L).notices.add(
      fmt::format("warning: max_length is {}, beyond the {} positions that {} was made for",
                  count_text(length), count_text(config.max_length), name));
}

void keep_measured(lua_State* L, RunDir& dir) {
  const Json& chosen = measured_of(L);
  if (!chosen.is_object()) return;
  Json measured = Json::object();
  if (const Json* known = dir.record().find("measured"); known != nullptr && known->is_object()) {
    measured = *known;
  }
  for (const auto& [shape, choice] : chosen.at(kGemm).as_object()) {
    const Json* known = dir.resuming() ? find_choice(measured, shape) : nullptr;
    if (known != nullptr && *known != choice) {
      dir.add_notice(
          fmt::format("products of {} compute differently than when the run began, so the "
                      "last digits may differ; set gemm to keep them equal",
                      shape));
    }
    set_choice(measured, shape, choice);
  }
  dir.record().set("measured", std::move(measured));
}

}  // namespace xrun
