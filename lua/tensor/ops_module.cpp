// xrun.ops.aten.add, xrun.ops.xrun.linear_head: an operator is found at its first use and then a
// plain field of its table. xrun.cat is xrun.ops.aten.cat unless xrun has its own.

#include <utility>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/config/foreign_names.h"
#include "lua/state/args.h"
#include "lua/state/metatable.h"
#include "lua/tensor/op_rights.h"
#include "lua/tensor/op_table.h"
#include "lua/tensor/tensor_class.h"

namespace xrun {
namespace {

// Sets table (index 1)[name (index 2)] = function of the packet, and returns it.
int cache_function(lua_State* L, const OpPacket& packet) {
  push_binding(L, &packet.as_function);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, -2);
  lua_rawset(L, 1);
  return 1;
}

// Returns the hint for an old name of one of our operators, or "".
std::string renamed_hint(const std::string& home, const std::string& name) {
  if (home == "xrun" && name == "linear_logprob") {
    return "\n"
           "hint: it is now xrun.ops.xrun.linear_head(hidden, weight, index, target), whose first "
           "result is the log-probs";
  }
  return "";
}

int index_namespace(lua_State* L) {
  check_metamethod_table(L);
  // Upvalue 1 is the binding, 2 the namespace.
  const std::string home = read_string(L, lua_upvalueindex(2), nullptr);
  const std::string name = read_string(L, 2, "operator");
  const OpPacket* packet = find_op(home, name);
  XRUN_CHECK(packet != nullptr, "there is no operator {}::{}{}", home, name, [&]() -> std::string {
    if (has_op(home, name)) {
      return " for recipes: it does not check its arguments, so wrong ones could crash the process";
    }
    if (home != "aten") return renamed_hint(home, name);
    const std::string near = nearest_name(name, public_op_names());
    return near.empty() ? "" : "\nhint: did you mean `" + near + "`?";
  }());
  check_op_rights(home, name);
  return cache_function(L, *packet);
}

// A metamethod that finds names; n upvalues are on the stack.
void push_finder(lua_State* L, const char* name, lua_CFunction function, int n = 0) {
  push_function(L,
                {.name = name,
                 .kind = DocKind::kMetamethod,
                 .parameters = {{"name", "string"}},
                 .doc = "Finds an operator by name."},
                function, n);
}

int index_ops(lua_State* L) {
  check_metamethod_table(L);
  const std::string home = read_string(L, 2, "namespace");
  XRUN_CHECK(home == "aten" || home == "xrun",
             "xrun.ops has the operators of aten and xrun; there is no xrun.ops.{}", home);
  // A table for the namespace, with this finder as its __index.
  lua_newtable(L);
  lua_newtable(L);
  push(L, home);
  push_finder(L, "xrun.ops.namespace.__index", index_namespace, 1);
  lua_setfield(L, -2, "__index");
  set_hidden_metatable(L);
  // Kept in xrun.ops: the next access does not come here.
  lua_pushvalue(L, 2);
  lua_pushvalue(L, -2);
  lua_rawset(L, 1);
  return 1;
}

// Returns the hint for a name that another library or the docs suggest, or "".
std::string module_hint(const std::string& name) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"teacher", "xrun.frozen(cfg.teacher) opens a teacher"},
      {"model", "xrun.policy(cfg.model) opens the model that is trained"},
  };
  for (const auto& [word, here] : kWords) {
    if (name == word) return std::string(here);
  }
  // Policy:reference for xrun.reference, DataSet:split for xrun.split.
  for (const DocEntry& entry : doc_entries()) {
    const size_t colon = entry.name.find(':');
    const bool same = entry.kind == DocKind::kMethod && colon != std::string::npos && colon > 0 &&
                      std::string_view(entry.name).substr(colon + 1) == name;
    if (!same) continue;
    const std::string of = entry.name.substr(0, colon);
    std::string object;
    for (const char c : of) {
      const bool upper = c >= 'A' && c <= 'Z';
      if (upper && !object.empty()) object += '_';
      object += upper ? static_cast<char>(c - 'A' + 'a') : c;
    }
    return fmt::format("it is a method of {}: {}:{}({})", of, object, name,
                       entry.parameters.empty() ? "" : "...");
  }
  return foreign_name_hint(name);
}

int index_module(lua_State* L) {
  check_metamethod_table(L);
  const std::string name = read_string(L, 2, "name");
  if (const OpPacket* packet = find_public_op(name)) {
    check_op_rights("aten", name);
    return cache_function(L, *packet);
  }
  // For did-you-mean: our names and the operators'.
  std::vector<std::string> known;
  for (const DocEntry& entry : doc_entries()) {
    if (entry.name.starts_with("xrun.")) known.push_back(entry.name.substr(5));
  }
  const std::vector<std::string>& ops = public_op_names();
  known.insert(known.end(), ops.begin(), ops.end());
  std::string hint = module_hint(name);
  const std::string near = hint.empty() ? nearest_name(name, known) : "";
  if (!near.empty()) hint = "did you mean `xrun." + near + "`?";
  throw Error(fmt::format("xrun has no `{}`{}", name, hint.empty() ? "" : "\nhint: " + hint));
}

int newindex_module(lua_State* L) {
  throw Error(fmt::format("the module xrun is read-only: {} = {}", describe_value(L, 2),
                          describe_value(L, 3)));
}

}  // namespace

void open_ops(LuaState& state) {
  lua_State* L = state;
  const StackGuard guard(L);
  lua_newtable(L);
  lua_newtable(L);
  push_finder(L, "xrun.ops.__index", index_ops);
  lua_setfield(L, -2, "__index");
  set_hidden_metatable(L);
  state.value("ops", "table",
              "Every operator of ATen and of xrun: xrun.ops.aten.add(a, b), "
              "xrun.ops.xrun.linear_head(...).");
  state.push_module(L);
  // The module's own fields come first; only absent names reach these.
  lua_newtable(L);
  push_finder(L, "xrun.__index", index_module);
  lua_setfield(L, -2, "__index");
  push_finder(L, "xrun.__newindex", newindex_module);
  lua_setfield(L, -2, "__newindex");
  set_hidden_metatable(L);
}

}  // namespace xrun
