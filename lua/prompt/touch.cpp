// One pass over the tokens: each `=` outside of a table constructor is an assignment to what stands
// before it, each bracket, text or table behind a name or a closing bracket is a call.

#include "lua/prompt/touch.h"

#include <ATen/core/enum_tag.h>

#include <algorithm>

#include "core/config/lua_lexer.h"
#include "core/base/trimmed.h"
#include "lua/state/class.h"
#include "lua/tensor/op_table.h"
#include "lua/tensor/tensor.h"

namespace xrun {

namespace {

using Kind = LuaToken::Kind;

// Beside verbs, which note what they change themselves.
constexpr std::string_view kFunctions[] = {"assert",   "error",    "ipairs", "next",   "pairs",
                                           "print",    "rawequal", "rawget", "rawlen", "select",
                                           "tonumber", "tostring", "type",   "unpack"};
constexpr std::string_view kOfModules[] = {"io.write",       "os.clock",          "os.date",
                                           "os.difftime",    "os.getenv",         "os.time",
                                           "table.concat",   "table.maxn",        "xrun.f",
                                           "xrun.keep",      "xrun.pack",         "xrun.pack_cost",
                                           "xrun.share_out", "xrun.sorted_pairs", "xrun.tensor"};
constexpr std::string_view kMethods[] = {
    "bfloat16", "bool",         "chunk_sum", "cpu",           "decode", "digest",        "dim",
    "double",   "element_size", "encode",    "evaluate",      "float",  "group_sum",     "half",
    "head",     "id_of",        "int",       "is_contiguous", "item",   "logits",        "logprob",
    "long",     "mean",         "numel",     "piece",         "place",  "render",        "row",
    "score",    "size",         "spread",    "stride",        "sum",    "token_logprob", "tolist"};
// Before a bracket they begin no call.
constexpr std::string_view kWords[] = {"and",  "do",    "else",  "elseif", "function", "if",
                                       "in",   "local", "not",   "or",     "repeat",   "return",
                                       "then", "until", "while", "end"};

template <size_t N>
bool is_one_of(std::string_view text, const std::string_view (&all)[N]) {
  return std::find(std::begin(all), std::end(all), text) != std::end(all);
}

// An operator that writes into no argument and draws no random number.
bool looks(const OpPacket* packet) {
  return packet != nullptr &&
         std::none_of(packet->overloads.begin(), packet->overloads.end(), [](const auto& overload) {
           return overload.schema().is_mutable() ||
                  overload.handle.hasTag(at::Tag::nondeterministic_seeded);
         });
}

class TouchReader {
 public:
  TouchReader(Prompt& prompt, std::string_view chunk)
      : prompt_(prompt), L_(prompt.lua()), tokens_(lex_lua(chunk)) {}

  ChunkTouch read() {
    for (size_t i = 0; i + 1 < tokens_.size(); ++i) {
      if (sign(i, "{") || sign(i, "(") || sign(i, "[")) open_.push_back(tokens_[i].text[0]);
      if ((sign(i, "}") || sign(i, ")") || sign(i, "]")) && !open_.empty()) open_.pop_back();
      if (word(i, "function")) enter_function(i);
      if (word(i, "end") && !blocks_.empty()) leave_block();
      if (word(i, "if") || word(i, "do")) blocks_.push_back(kNoFunction);
      const bool in_table = !open_.empty() && open_.back() == '{';
      if (sign(i, "=") && !in_table && i > 0) assign(i - 1);
      if (is_call(i)) call(i - 1);
      // A for over what is no call of pairs calls it unseen.
      if (word(i, "in") && !sign(i + 2, "(") && !sign(i + 2, ".") && !sign(i + 2, ":")) {
        touch_.touches = true;
      }
    }
    return std::move(touch_);
  }

 private:
  static constexpr size_t kNoFunction = static_cast<size_t>(-1);

  bool sign(size_t i, std::string_view text) const {
    return i < tokens_.size() && tokens_[i].kind == Kind::kSign && tokens_[i].text == text;
  }
  bool name(size_t i) const {
    return i < tokens_.size() && tokens_[i].kind == Kind::kName &&
           !is_one_of(tokens_[i].text, kWords);
  }
  bool word(size_t i, std::string_view text) const {
    return i < tokens_.size() && tokens_[i].kind == Kind::kName && tokens_[i].text == text;
  }

  // The brackets of a function's body are its own, also where it stands in a table.
  void enter_function(size_t i) {
    blocks_.push_back(open_.size());
    open_.push_back('f');
    if (!name(i + 1)) return;
    if (sign(i + 2, ".") || sign(i + 2, ":")) {
      touch_.touches = true;
    } else {
      touch_.names.push_back(tokens_[i + 1].text);
    }
  }
  void leave_block() {
    if (blocks_.back() != kNoFunction && blocks_.back() < open_.size())
      open_.resize(blocks_.back());
    blocks_.pop_back();
  }

  // To the list of places whose last token is at i.
  void assign(size_t i) {
    while (name(i)) {
      if (i > 0 && sign(i - 1, ".")) return assign_field(i);
      touch_.names.push_back(tokens_[i].text);
      if (i < 2 || !sign(i - 1, ",")) return;
      i -= 2;
    }
    touch_.touches = true;  // an element
  }
  void assign_field(size_t last) {
    touch_.touches = true;
    size_t first = last;
    while (first >= 2 && sign(first - 1, ".") && name(first - 2)) first -= 2;
    if (first > 0 && (sign(first - 1, ".") || sign(first - 1, ":"))) return;
    std::string place = tokens_[first].text;
    for (size_t i = first + 2; i <= last; i += 2) place += "." + tokens_[i].text;
    touch_.places.push_back(std::move(place));
  }

  bool is_call(size_t i) const {
    if (i == 0) return false;
    const bool arguments = sign(i, "(") || sign(i, "{") || tokens_[i].kind == Kind::kString;
    if (!arguments) return false;
    if (!name(i - 1)) return sign(i - 1, ")") || sign(i - 1, "]");
    // The parameters of `function f(`.
    size_t first = i - 1;
    while (first >= 2 && (sign(first - 1, ".") || sign(first - 1, ":"))) first -= 2;
    return first == 0 || !word(first - 1, "function");
  }

  // Of what ends with the token at i.
  void call(size_t i) {
    if (!name(i)) {
      touch_.touches = true;
    } else if (i > 0 && sign(i - 1, ":")) {
      touch_.touches = touch_.touches || !method_looks(i);
    } else if (i > 1 && sign(i - 1, ".")) {
      const bool plain = name(i - 2) && (i < 3 || (!sign(i - 3, ".") && !sign(i - 3, ":")));
      touch_.touches =
          touch_.touches || !plain || !member_looks(tokens_[i - 2].text, tokens_[i].text);
    } else {
      touch_.touches = touch_.touches || !function_looks(tokens_[i].text);
    }
  }

  bool function_looks(const std::string& name) {
    const auto& verbs = prompt_.verbs();
    if (!is_one_of(name, kFunctions) &&
        std::find(verbs.begin(), verbs.end(), name) == verbs.end()) {
      return false;
    }
    const StackGuard guard(L_);
    return prompt_.push_name(name) && lua_iscfunction(L_, -1) != 0;  // not one of the recipe's
  }

  bool member_looks(const std::string& module, const std::string& member) {
    const std::string whole = module + "." + member;
    if (module == "math") return member != "random" && member != "randomseed";
    if (module == "string" || module == "bit" || is_one_of(whole, kOfModules)) return true;
    if (module != "xrun") return false;
    return looks(find_public_op(member)) || looks(find_op("xrun", member));
  }

  bool method_looks(size_t i) {
    const std::string& method = tokens_[i].text;
    const bool known = is_one_of(method, kMethods);
    const size_t object = i - 2;
    if (i < 2 || !name(object) || (i > 2 && (sign(i - 3, ".") || sign(i - 3, ":")))) {
      // What a call gave, say. A run's is the one that an operator shares its name with.
      const bool run = method == "log" && i >= 2 && !sign(object, ")");
      return known || is_string_method(method) || (!run && looks(find_public_op(method)));
    }
    const StackGuard guard(L_);
    if (!prompt_.push_name(tokens_[object].text) || lua_isnil(L_, -1)) {
      return known || is_string_method(method) || looks(find_public_op(method));
    }
    if (lua_type(L_, -1) == LUA_TSTRING) return is_string_method(method);
    const ClassInfo* of = class_of(L_, lua_gettop(L_));
    if (of == &class_info<at::Tensor>) return known || looks(find_public_op(method));
    return of != nullptr && known;
  }

  bool is_string_method(const std::string& method) {
    const StackGuard guard(L_);
    lua_getglobal(L_, "string");
    if (!lua_istable(L_, -1)) return false;
    lua_pushlstring(L_, method.data(), method.size());
    lua_rawget(L_, -2);
    return lua_iscfunction(L_, -1) != 0;
  }

  Prompt& prompt_;
  lua_State* L_;
  std::vector<LuaToken> tokens_;
  std::vector<char> open_;      // brackets that are open; 'f' a function's body
  std::vector<size_t> blocks_;  // those that `end` closes: the brackets open before a function's
  ChunkTouch touch_;
};

}  // namespace

ChunkTouch chunk_touch(Prompt& prompt, std::string_view input) {
  std::string_view chunk = trimmed(input);
  if (chunk.starts_with(':')) {
    chunk.remove_prefix(std::min(chunk.find_first_of(kBlanks), chunk.size()));
  }
  return TouchReader(prompt, chunk).read();
}

}  // namespace xrun
