// Finds the meaning of a chain of names from left to right without calling anything, then lists the
// fields, methods, operators or options that its last word may become.

#include "lua/prompt/candidates.h"

#include <algorithm>
#include <filesystem>

#include "core/config/lua_source.h"
#include "core/console/terminal/shown_text.h"
#include "lua/state/args.h"
#include "lua/tensor/tensor.h"

namespace xrun {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFiles = 1000;  // read of a folder, since completion must answer at once

// Returns the type of a property or of the first result of a call: "Tensor" for "Tensor|nil".
std::string result_type(const DocEntry& entry) {
  if (entry.results.empty()) return "";
  const std::string& type = entry.results.front().type;
  return type.substr(0, type.find('|'));
}

// Returns the index after the bracket that closes the one at `open`; `end` if none does.
size_t after_bracket(const std::vector<LuaToken>& tokens, size_t open, size_t end) {
  int depth = 0;
  for (size_t t = open; t < end; ++t) {
    const std::string& sign = tokens[t].text;
    if (tokens[t].kind != LuaTokenKind::kSign) continue;
    if (sign == "(" || sign == "{" || sign == "[") ++depth;
    if ((sign == ")" || sign == "}" || sign == "]") && --depth == 0) return t + 1;
  }
  return end;
}

}  // namespace

void Candidates::names(std::string_view word) {
  for (const std::string& name : all_input_names(L_, input_names_)) {
    if (!name.starts_with(word)) continue;
    push_input_name(L_, input_names_, name);
    add(name, kind_of_top());
    lua_pop(L_, 1);
  }
  for (const std::string_view name : kLuaKeywords) {
    if (name.starts_with(word)) add(std::string(name), "");
  }
}

void Candidates::members(const std::vector<LuaToken>& tokens, size_t begin, size_t end,
                         bool methods, std::string_view word) {
  const StackGuard guard(L_);
  const std::optional<Meaning> meaning = resolve_chain(tokens, begin, end);
  if (!meaning) return;
  // xrun.ops has its two namespaces, which are not methods.
  if (meaning->type == "xrun.ops") {
    for (const char* home : {"aten", "xrun"}) {
      if (!methods && std::string_view(home).starts_with(word)) add(home, "operators");
    }
  } else if (meaning->type.starts_with("xrun.ops.") && !methods) {
    const std::string home = meaning->type.substr(9);
    add_operators(home == "aten" ? public_op_names() : op_names(home), home, word, false);
  } else if (meaning->type == "xrun") {
    if (!methods) add_module(word);
  } else if (meaning->value != 0 && lua_istable(L_, meaning->value)) {
    // A plain table is read; the members of an object come from the doc strings.
    add_fields(meaning->value, methods, word);
  } else if (meaning->type == "Tensor") {
    add_class("Tensor", methods, word);
    // Operators are listed from the first letter on, since there are a thousand.
    if (methods && !word.empty()) add_operators(public_op_names(), "aten", word, true);
  } else if (!meaning->type.empty()) {
    add_class(meaning->type, methods, word);
  }
}

// tokens[end - 1] is the name of the call; its owner precedes it.
void Candidates::keywords(const std::vector<LuaToken>& tokens, size_t begin, size_t end,
                          std::string_view word) {
  if (begin == end) return;  // a bracket that no name precedes, as in `({`
  const StackGuard guard(L_);
  const std::string& name = tokens[end - 1].text;
  if (end - begin >= 3) {
    const std::optional<Meaning> owner = resolve_chain(tokens, begin, end - 2);
    const bool of_tensor = owner && owner->type == "Tensor";
    const bool of_module = owner && (owner->type == "xrun" || owner->type.starts_with("xrun.ops"));
    // The name that the doc strings use: "xrun.load" for functions, "Policy:logprob" for methods.
    const std::string entry = of_module ? "xrun." + name : owner ? owner->type + ":" + name : "";
    if (const DocEntry* documented = find_doc(entry)) return add_options(*documented, word);
    const std::string home =
        of_module && owner->type.starts_with("xrun.ops.") ? owner->type.substr(9) : "aten";
    if (of_tensor || of_module) add_arguments(find_op(home, name), word);
  } else if (const DocEntry* documented = find_doc("repl." + name)) {  // a verb of the prompt
    add_options(*documented, word);
  }
}

void Candidates::files(std::string_view path) {
  const size_t slash = path.rfind('/');
  const std::string folder(slash == path.npos ? "" : path.substr(0, slash + 1));
  const std::string_view word = path.substr(slash == path.npos ? 0 : slash + 1);
  std::error_code failed;
  size_t seen = 0;
  for (fs::directory_iterator at(folder.empty() ? "." : folder, failed), end;
       !failed && at != end && seen < kMostFiles; at.increment(failed), ++seen) {
    std::string name = at->path().filename().string();
    // Hidden files are offered once a dot is typed, as in shells.
    const bool hidden = name.starts_with('.') && !word.starts_with('.');
    // A name that a terminal cannot show verbatim cannot be typed.
    if (!name.starts_with(word) || hidden || shown_text(name) != name) continue;
    std::error_code unknown;
    if (at->is_directory(unknown)) name += '/';
    add(folder + name, "");
  }
}

void Candidates::add(std::string text, std::string hint) {
  // A name that two sources give keeps the first one's hint.
  if (seen_.insert(text).second) found_.push_back({std::move(text), std::move(hint)});
}

std::vector<Completion> Candidates::take() {
  std::sort(found_.begin(), found_.end(),
            [](const Completion& a, const Completion& b) { return a.text < b.text; });
  return std::move(found_);
}

std::string Candidates::kind_of_top() {
  if (const at::Tensor* tensor = tensor_if(L_, -1)) return describe_tensor(*tensor);
  return type_name(L_, -1);
}

// Walks name (.name | :name | (...) | [...])* from left to right.
std::optional<Candidates::Meaning> Candidates::resolve_chain(const std::vector<LuaToken>& tokens,
                                                             size_t begin, size_t end) {
  if (begin >= end || tokens[begin].kind != LuaTokenKind::kName) return std::nullopt;
  Meaning meaning;
  if (!push_input_name(L_, input_names_, tokens[begin].text)) return std::nullopt;
  classify_top(meaning);
  for (size_t t = begin + 1; t < end;) {
    if ((is_sign(tokens[t], ".") || is_sign(tokens[t], ":")) && t + 1 < end &&
        tokens[t + 1].kind == LuaTokenKind::kName) {
      const bool called = t + 2 < end && (is_sign(tokens[t + 2], "(") ||
                                          tokens[t + 2].kind == LuaTokenKind::kString ||
                                          is_sign(tokens[t + 2], "{"));
      if (!step(meaning, tokens[t + 1].text, called)) return std::nullopt;
      // A string argument is one token; a bracket is skipped with all that it holds.
      t += called ? 3 : 2;
      if (called && tokens[t - 1].kind == LuaTokenKind::kSign)
        t = after_bracket(tokens, t - 1, end);
    } else {
      return std::nullopt;  // calls of values and indices have no known type
    }
  }
  return meaning;
}

// Sets the meaning from the value on top of the stack.
void Candidates::classify_top(Meaning& meaning) {
  meaning.value = lua_gettop(L_);
  meaning.type = class_of(L_, -1) != nullptr ? type_name(L_, -1) : "";
  // The module is a plain table without a class, so it is known by its identity.
  LuaState::of(L_).push_module(L_);
  if (lua_rawequal(L_, -1, meaning.value) != 0) meaning.type = "xrun";
  lua_pop(L_, 1);
}

bool Candidates::step(Meaning& meaning, const std::string& name, bool called) {
  // The name is one of the namespaces.
  if (meaning.type == "xrun.ops" && !called) {
    meaning.type += "." + name;
    return true;
  }
  // Operators are found by name; their table holds only those used before.
  if (meaning.type == "xrun" && name == "ops") {
    meaning = {0, "xrun.ops"};
    return true;
  }
  // Read raw, since a metamethod of the recipe would run its code.
  if (!called && meaning.value != 0 && lua_istable(L_, meaning.value)) {
    push(L_, name);
    lua_rawget(L_, meaning.value);
    classify_top(meaning);
    return !lua_isnil(L_, -1);
  }
  const bool module = meaning.type == "xrun" || meaning.type.starts_with("xrun.ops.");
  // A property, or a call's first result; the doc strings know its type.
  const DocEntry* entry = find_doc(meaning.type + (module || !called ? "." : ":") + name);
  if (entry != nullptr) {
    meaning = {0, result_type(*entry)};
    return !meaning.type.empty();
  }
  // An operator of a tensor or of the module nearly always gives a tensor.
  if (called && (module || meaning.type == "Tensor")) {
    meaning = {0, "Tensor"};
    return true;
  }
  return false;
}

void Candidates::add_fields(int table, bool methods, std::string_view word) {
  lua_pushnil(L_);
  while (lua_next(L_, table) != 0) {
    const bool fits = !methods || lua_isfunction(L_, -1);
    const std::string hint = fits ? kind_of_top() : "";
    lua_pop(L_, 1);
    // lua_tostring would turn a number into a string in place, which breaks lua_next.
    if (!fits || lua_type(L_, -1) != LUA_TSTRING) continue;
    const std::string name = lua_tostring(L_, -1);
    if (is_lua_name(name) && name.starts_with(word)) add(name, hint);
  }
}

void Candidates::add_class(const std::string& type, bool methods, std::string_view word) {
  const std::string head = type + (methods ? ":" : ".");
  for (const DocEntry& entry : doc_entries()) {
    if (entry.kind == DocKind::kMetamethod || !entry.name.starts_with(head)) continue;
    const std::string name = entry.name.substr(head.size());
    if (name.starts_with(word)) add(name, signature_text(entry));
  }
}

void Candidates::add_module(std::string_view word) {
  for (const DocEntry& entry : doc_entries()) {
    if (!entry.name.starts_with("xrun.") || entry.kind == DocKind::kMetamethod) continue;
    const std::string name = entry.name.substr(5);
    const bool own = name.find_first_of(".:") == std::string::npos;
    if (own && name.starts_with(word)) add(name, signature_text(entry));
  }
  // A thousand operators would hide the functions, so they are listed from the first letter on.
  if (!word.empty()) add_operators(public_op_names(), "aten", word, false);
}

void Candidates::add_operators(const std::vector<std::string>& names, const std::string& home,
                               std::string_view word, bool as_method) {
  for (const std::string& name : names) {
    if (!name.starts_with(word)) continue;
    // Reading a schema is slow, so it is done only once a word of two letters leaves few
    // candidates.
    const OpPacket* packet = word.size() > 1 ? find_op(home, name) : nullptr;
    // An operator without `self` is not a method.
    if (packet != nullptr && as_method && packet->overloads.front().self < 0) continue;
    add(name, packet == nullptr ? "" : overload_text(packet->overloads.front()));
  }
}

void Candidates::add_arguments(const OpPacket* packet, std::string_view word) {
  if (packet == nullptr) return;
  for (const OpOverload& overload : packet->overloads) {
    for (size_t i = 0; i < overload.arguments.size(); ++i) {
      const OpArgument& argument = overload.arguments[i];
      // `self` stands before the colon.
      if (argument.name == "self" || argument.kind == ArgumentKind::kUnsupported) continue;
      if (argument.name.starts_with(word)) {
        add(argument.name + " = ", overload.schema().arguments()[i].real_type()->str());
      }
    }
  }
}

// Adds the keys of the table of options.
void Candidates::add_options(const DocEntry& entry, std::string_view word) {
  for (const LuaParameter& parameter : entry.parameters) {
    for (const std::string& key : option_keys(parameter)) {
      if (key.starts_with(word)) add(key + " = ", "");
    }
  }
}

}  // namespace xrun
