#pragma once
// Collects the candidates that may complete a word of an input.

#include <lua.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/lua_source.h"
#include "core/console/terminal/line_editor.h"
#include "lua/prompt/input_names.h"
#include "lua/state/doc.h"
#include "lua/tensor/op_table.h"

namespace xrun {

// Calls nothing: if the value exists, its type is known; if only a call would make it, its doc
// string ("(view) -> Tensor [n]") tells the type. Tokens [begin, end) are a chain such as
// `x.y:z(...)`; `word` is the beginning of the word after it.
class Candidates {
 public:
  Candidates(lua_State* L, InputNames& input) : L_(L), input_names_(input) {}

  // Adds the names of the prompt and the keywords of Lua.
  void names(std::string_view word);
  // Adds the fields (or methods) of the chain's value.
  void members(const std::vector<LuaToken>& tokens, size_t begin, size_t end, bool methods,
               std::string_view word);
  // Adds the keyword arguments of the operator or function that a chain names.
  void keywords(const std::vector<LuaToken>& tokens, size_t begin, size_t end,
                std::string_view word);
  // Adds the files whose path begins with `path`.
  void files(std::string_view path);
  void add(std::string text, std::string hint);
  // Returns all that were found, sorted, each once.
  std::vector<Completion> take();

 private:
  // The meaning of a chain: a value on the Lua stack (0: none), a class ("" unknown), "Tensor",
  // the module "xrun", "xrun.ops" and the namespaces in it.
  struct Meaning {
    int value = 0;
    std::string type = {};
  };
  std::string kind_of_top();
  std::optional<Meaning> resolve_chain(const std::vector<LuaToken>& tokens, size_t begin,
                                       size_t end);
  void classify_top(Meaning& meaning);
  bool step(Meaning& meaning, const std::string& name, bool called);
  void add_fields(int table, bool methods, std::string_view word);
  void add_class(const std::string& type, bool methods, std::string_view word);
  void add_module(std::string_view word);
  void add_operators(const std::vector<std::string>& names, const std::string& home,
                     std::string_view word, bool as_method);
  void add_arguments(const OpPacket* packet, std::string_view word);
  void add_options(const DocEntry& entry, std::string_view word);

  lua_State* L_;
  InputNames& input_names_;
  std::vector<Completion> found_;
  std::set<std::string> seen_;
};

}  // namespace xrun
