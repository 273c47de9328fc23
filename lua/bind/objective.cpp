// Calls a Lua objective and reads what it returned; a wrong return value is reported at the
// objective's own line, not at the step that called it.

#include "lua/bind/objective.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>
#include <optional>

#include "core/base/strings.h"
#include "core/config/lua_source.h"
#include "core/train/batches/batch.h"
#include "core/train/batches/micro_batch.h"
#include "lua/bind/recipe.h"
#include "lua/bind/recipe_seed.h"
#include "lua/state/args.h"
#include "lua/state/source_texts.h"
#include "lua/tensor/tensor.h"

namespace xrun {

namespace {

[[noreturn]] void wrong_return(lua_State* L, int i, const char* which, const char* wanted) {
  throw Error(fmt::format("the objective's {} is {}, wanted {}", which,
                          with_article(type_name(L, i)), wanted));
}

// Returns the values of the table at index i as tensors, sorted by name, because the order of a Lua
// table must not reach an output. With `weights`, a value may be a tensor and its weights in a
// list.
std::vector<std::pair<std::string, at::Tensor>> named_tensors(
    lua_State* L, int i, const char* which, std::map<std::string, at::Tensor>* weights = nullptr) {
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (lua_pushnil(L); lua_next(L, i) != 0; lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING) {
      throw Error(fmt::format("the objective's {} has a key that is {}, wanted a string", which,
                              with_article(type_name(L, -2))));
    }
    const std::string name = lua_tostring(L, -2);
    const int value = lua_gettop(L);
    if (lua_type(L, value) == LUA_TNUMBER) {
      named.emplace_back(name, at::scalar_tensor(lua_tonumber(L, value), at::kDouble));
    } else if (weights != nullptr && lua_istable(L, value) && lua_objlen(L, value) == 2) {
      lua_rawgeti(L, value, 1);
      lua_rawgeti(L, value, 2);
      named.emplace_back(name, arg<at::Tensor>(L, value + 1, fmt::format("`{}`[1]", name).c_str()));
      (*weights)[name] = arg<at::Tensor>(L, value + 2, fmt::format("`{}`[2]", name).c_str());
      lua_settop(L, value);
    } else {
      named.emplace_back(
          name, arg<at::Tensor>(L, value, fmt::format("`{}` of the {}", name, which).c_str()));
    }
  }
  std::sort(named.begin(), named.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return named;
}

ObjectiveResult read_result(lua_State* L, int first, const MicroBatch& micro) {
  ObjectiveResult result;
  if (lua_type(L, first) == LUA_TTABLE) {
    for (auto& [name, tensor] : named_tensors(L, first, "table of losses")) {
      result.losses.emplace_back(unit_of(name), tensor);
    }
  } else if (tensor_if(L, first) != nullptr) {
    result.losses.emplace_back(micro.unit(), arg<at::Tensor>(L, first, "loss"));
  } else if (lua_isnil(L, first)) {
    throw Error(fmt::format(
        "the objective returned nothing (nil), wanted a tensor with one loss per {}, or a "
        "table of losses by unit; it has to end with `return` and the losses",
        unit_name(micro.unit())));
  } else {
    wrong_return(L, first, "first value", "a tensor of losses or a table of them by unit");
  }
  if (lua_type(L, first + 1) == LUA_TTABLE) {
    result.metrics = named_tensors(L, first + 1, "table of metrics", &result.metric_weights);
  } else if (!lua_isnil(L, first + 1)) {
    wrong_return(L, first + 1, "second value", "a table of metrics");
  }
  return result;
}

EnteredFunction text_of(lua_State* L, int i) {
  lua_Debug about{};
  lua_pushvalue(L, i);
  lua_getinfo(L, ">S", &about);
  return {about.source, about.linedefined, about.lastlinedefined};
}

// The line of the function's only `return`, else the function's first line: with several, the one
// that was executed is not known.
int return_line(lua_State* L, const EnteredFunction& function) {
  int found = function.first_line;
  for (const LuaToken& token : lua_names(source_text(L, function.source), false)) {
    if (token.line <= function.first_line || token.line > function.last_line) continue;
    if (token.text != "return") continue;
    const bool first = trimmed(source_line(L, function.source, token.line)).starts_with("return");
    if (found != function.first_line || !first) return function.first_line;
    found = token.line;
  }
  return found;
}

// "log_sigmoid" of "... is output 0 of LogSigmoidBackward0 ..." and "Function LogSigmoidBackward0
// returned ...", "igamma" of "the derivative for 'igamma: input' is not implemented"; else "".
std::string differentiated_operator(std::string_view message) {
  constexpr std::string_view kMissing = "derivative for '";
  if (const size_t at = message.find(kMissing); at != message.npos) {
    const std::string_view name = message.substr(at + kMissing.size());
    return std::string(name.substr(0, std::min(name.find_first_of(":'"), name.size())));
  }
  const size_t end = message.find("Backward");
  if (end == message.npos) return "";
  size_t begin = end;
  while (begin > 0 && std::isalnum(static_cast<unsigned char>(message[begin - 1])) != 0) --begin;
  std::string name;
  // LogSigmoid -> log_sigmoid.
  for (const char c : message.substr(begin, end - begin)) {
    const bool upper = c >= 'A' && c <= 'Z';
    if (upper && !name.empty()) name += '_';
    name += upper ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return name;
}

// The line of a function that names an operator; 0 if there are none or several, since naming one
// of them would be a guess.
int only_line_with(lua_State* L, const EnteredFunction& function, const std::string& name) {
  int found = 0;
  for (const LuaToken& token : lua_names(source_text(L, function.source), false)) {
    if (token.line < function.first_line || token.line > function.last_line) continue;
    if (token.text != name || token.line == found) continue;
    if (found != 0) return 0;
    found = token.line;
  }
  return found;
}

// Users look for a wrong loss in the objective, not in the call of adamw:step. The line is the one
// that names `operation`, else that of the `return`.
[[noreturn]] void throw_inside(lua_State* L, const EnteredFunction& function,
                               const std::string& operation, const std::string& message) {
  if (!function.source.starts_with('@')) throw Error(message);
  auto report = std::make_shared<ErrorReport>();
  report->file = function.source.substr(1);
  report->line = operation.empty() ? 0 : only_line_with(L, function, operation);
  if (report->line > 0) report->operation = operation;
  if (report->line == 0) report->line = return_line(L, function);
  set_message(*report, message);
  locate(L, 0, 0, *report);
  throw LuaError(std::move(report));
}

struct OpenMicro {
  MicroBatch* micro = nullptr;
};

// Marks a micro-batch as open while its objective runs.
class OpenMicroScope {
 public:
  OpenMicroScope(lua_State* L, MicroBatch& micro) : open_(LuaState::of(L).service<OpenMicro>()) {
    open_.micro = &micro;
  }
  ~OpenMicroScope() { open_.micro = nullptr; }
  OpenMicroScope(const OpenMicroScope&) = delete;
  OpenMicroScope& operator=(const OpenMicroScope&) = delete;

 private:
  OpenMicro& open_;
};

// The sizes in LibTorch's "The size of tensor a (21) must match the size of tensor b (2543) at
// ..."; nothing for another message.
std::optional<std::pair<int64_t, int64_t>> unequal_sizes(const std::string& message) {
  long long a = 0, b = 0;
  const char* const format = "The size of tensor a (%lld) must match the size of tensor b (%lld)";
  if (std::sscanf(message.c_str(), format, &a, &b) != 2) return std::nullopt;
  return std::pair<int64_t, int64_t>(a, b);
}

// Calls the function below its argument for two results. Adds a hint to two errors: the units that
// unequal sizes count, and that the step calls backward itself.
void call_objective(lua_State* L, MicroBatch& micro) {
  try {
    protected_call(L, 1, 2);
  } catch (const LuaError& error) {
    const auto sizes = unequal_sizes(error.message());
    std::string hint = sizes ? unit_mismatch_hint(sizes->first, sizes->second, micro) : "";
    if (error.report().operation == "Tensor:backward") {
      hint = "the step calls backward itself; return the loss";
    }
    if (hint.empty()) throw;
    auto report = std::make_shared<ErrorReport>(error.report());
    report->hint = std::move(hint);
    throw LuaError(std::move(report));
  }
}

}  // namespace

MicroBatch* open_micro(lua_State* L) { return LuaState::of(L).service<OpenMicro>().micro; }

Batch& whole_batch(lua_State* L, int i) {
  Batch& batch = arg<Batch&>(L, i, "batch");
  XRUN_CHECK(batch.info().ranks == nullptr || open_micro(L) == nullptr,
             "an objective cannot score a whole batch: its micro-batches are shared by the ranks, "
             "which run objectives at different times; score it in the loop, before adamw:step, "
             "and assign the result to the batch (batch.my_score = ...)");
  return batch;
}

Objective lua_objective(lua_State* L, int i, const char* what) {
  auto function = std::make_shared<LuaRef>(read_function(L, i, what));
  return [L, function, text = text_of(L, i)](MicroBatch& micro) {
    const StackGuard guard(L);
    const TensorScope scope(L);
    const OpenMicroScope open(L, micro);
    // Seeded for each micro-batch, as ATen's generator is: its draws do not depend on those before
    // it on this rank.
    seed_lua_as_aten(LuaState::of(L));
    const int base = lua_gettop(L);
    function->push(L);
    push(L, micro.shared_from_this());
    call_objective(L, micro);
    std::string wrong;
    try {
      ObjectiveResult result = read_result(L, base + 1, micro);
      check_result(result, micro);
      return result;
    } catch (const Error& error) {
      wrong = error.what();
    }
    throw_inside(L, text, "", wrong);
  };
}

void throw_at_objective(lua_State* L, const std::string& message) {
  const EnteredFunction objective = LuaState::of(L).service<EnteredFunctions>().last;
  throw_inside(L, objective, differentiated_operator(message), message);
}

}  // namespace xrun
