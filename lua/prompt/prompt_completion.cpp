// The text before the cursor is read backwards as a word and the chain of fields, methods and calls
// before it. The type of the chain is found without running anything (candidates.h).

#include <algorithm>
#include <optional>

#include "core/config/config_field.h"
#include "core/config/lua_source.h"
#include "lua/prompt/candidates.h"
#include "lua/prompt/prompt.h"
#include "lua/tensor/op_table.h"

namespace xrun {
namespace {

// Returns the first token of the chain that ends before tokens[end].
size_t chain_begin(const std::vector<LuaToken>& tokens, size_t end) {
  size_t at = end;
  while (at > 0) {
    size_t piece = at - 1;
    // Goes back over the arguments of calls: strings, and brackets with their contents.
    while (piece > 0 && (is_sign(tokens[piece], ")") || is_sign(tokens[piece], "}") ||
                         tokens[piece].kind == LuaTokenKind::kString)) {
      if (tokens[piece].kind == LuaTokenKind::kString) {
        --piece;
        continue;
      }
      int depth = 0;
      while (piece > 0) {
        const std::string& sign = tokens[piece].text;
        if (tokens[piece].kind == LuaTokenKind::kSign && (sign == ")" || sign == "}")) ++depth;
        if (tokens[piece].kind == LuaTokenKind::kSign && (sign == "(" || sign == "{") &&
            --depth == 0)
          break;
        --piece;
      }
      if (piece > 0) --piece;
    }
    if (tokens[piece].kind != LuaTokenKind::kName) return at;
    at = piece;
    if (at == 0 || !(is_sign(tokens[at - 1], ".") || is_sign(tokens[at - 1], ":"))) return at;
    --at;
  }
  return at;
}

// Returns the index of the bracket of the call whose last table is open at the end.
std::optional<size_t> open_call(const std::vector<LuaToken>& tokens, size_t end) {
  int depth = 0;
  bool in_table = false;
  // Read backwards, a bracket that makes the depth negative is open at the end.
  for (size_t t = end; t-- > 0;) {
    const std::string& sign = tokens[t].text;
    if (tokens[t].kind != LuaTokenKind::kSign) continue;
    if (sign == ")" || sign == "}" || sign == "]") ++depth;
    if (sign == "(" || sign == "{" || sign == "[") {
      if (--depth >= 0) continue;
      // Options are the last argument: f{...} or f(x, {...}).
      if (sign == "{" && !in_table) {
        in_table = true;
        depth = 0;
        if (t > 0 && tokens[t - 1].kind == LuaTokenKind::kName) return t;  // f{...}
        continue;
      }
      return sign == "(" && in_table ? std::optional(t) : std::nullopt;
    }
  }
  return std::nullopt;
}

// Returns the first byte inside the quoted string that is open at the end of the text, if there is
// one.
std::optional<size_t> open_string(std::string_view text, const std::vector<LuaToken>& tokens) {
  if (tokens.size() < 2) return std::nullopt;
  // The last token is kEnd. A long string ([[...]]) names no file.
  const LuaToken& last = tokens[tokens.size() - 2];
  const bool open = last.unfinished && last.end == text.size() && text[last.begin] != '[';
  return open ? std::optional(last.begin + 1) : std::nullopt;
}

Completions complete_command(const std::vector<PromptCommand>& commands, std::string_view text) {
  Completions found{.begin = 0, .candidates = {}};
  for (const PromptCommand& command : commands) {
    const std::string name = ":" + command.name;
    if (name.starts_with(text)) {
      found.candidates.push_back({name + (command.arguments.empty() ? "" : " "), command.doc});
    }
  }
  std::sort(found.candidates.begin(), found.candidates.end(),
            [](const Completion& a, const Completion& b) { return a.text < b.text; });
  return found;
}

// Adds the names that ":doc" and ":set" take besides Lua names.
void add_words(Candidates& completer, std::string_view command, std::string_view word) {
  if (command == ":doc" || command == ":help" || command == ":set") {
    for (const ConfigField& field : config_fields()) {
      if (field.path.starts_with(word)) completer.add(field.path, "config key");
    }
  }
  if (command == ":doc" || command == ":help" || command == ":ops") {
    for (const std::string& name : public_op_names()) {
      if (!word.empty() && name.starts_with(word)) completer.add(name, "operator");
    }
  }
}

// Returns the candidates for `word`, which begins at `begin` of the input, after the chunk.
Completions complete_word(Candidates& completer, std::string_view chunk, std::string_view word,
                          size_t begin) {
  const std::vector<LuaToken> tokens = lex_lua(chunk);
  const size_t end = tokens.size() - 1;  // without kEnd
  const bool member = end > 0 && (is_sign(tokens[end - 1], ".") || is_sign(tokens[end - 1], ":"));
  if (member) {
    completer.members(tokens, chain_begin(tokens, end - 1), end - 1, is_sign(tokens[end - 1], ":"),
                      word);
    return {begin, completer.take()};
  }
  // "{" and "," are followed by an option of the call, if it has options; else by any name.
  const bool expects_key =
      end > 0 && (is_sign(tokens[end - 1], "{") || is_sign(tokens[end - 1], ","));
  const std::optional<size_t> call = expects_key ? open_call(tokens, end) : std::nullopt;
  if (call) completer.keywords(tokens, chain_begin(tokens, *call), *call, word);
  Completions found{begin, completer.take()};
  if (!found.candidates.empty()) return found;
  completer.names(word);
  found.candidates = completer.take();
  return found;
}

}  // namespace

Completions Prompt::complete(std::string_view text, size_t cursor) {
  const std::string_view before = text.substr(0, cursor);
  const StackGuard guard(state_);
  const size_t blank = before.find(' ');
  if (before.starts_with(':') && blank == before.npos) return complete_command(commands_, before);
  Candidates completer(state_, input_names_);
  const std::vector<LuaToken> tokens = lex_lua(before);
  if (const auto string = open_string(before, tokens)) {
    completer.files(before.substr(*string));
    return {*string, completer.take()};
  }
  // The word to complete is the last token if the cursor touches it.
  const LuaToken* last = tokens.size() > 1 ? &tokens[tokens.size() - 2] : nullptr;
  const bool in_word =
      last != nullptr && last->kind == LuaTokenKind::kName && last->end == before.size();
  const size_t begin = in_word ? last->begin : before.size();
  std::string_view chunk = before.substr(0, begin);
  const std::string_view word = before.substr(begin);
  if (before.starts_with(':')) {
    const std::string_view command = before.substr(0, blank);
    if (command == ":save") {
      completer.files(before.substr(blank + 1));
      return {blank + 1, completer.take()};
    }
    // The path of a config key is one word here, with its dots.
    const size_t path = before.rfind(' ') + 1;
    add_words(completer, command, before.substr(path));
    if (Completions found{path, completer.take()}; !found.candidates.empty() && path != begin)
      return found;
    add_words(completer, command, word);
    chunk.remove_prefix(blank);
  }
  return complete_word(completer, chunk, word, begin);
}

}  // namespace xrun
