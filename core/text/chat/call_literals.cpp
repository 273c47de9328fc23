// call = name ( arguments ) | name { arguments }     arguments = [key = value {, key = value}]
// value = string | [ values ] | { key : value, ... } | bare word: a number, True, false, None, ...

#include "core/text/chat/call_literals.h"

#include <algorithm>

#include "core/base/error.h"

namespace xrun {

namespace {

constexpr int kMaxDepth = 64;  // of lists and tables
constexpr std::string_view kGemmaQuote = "<|\"|>";

// Reads calls from the front of a string.
class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : rest_(text) {}

  std::vector<LiteralCall> calls(size_t max_calls) {
    std::vector<LiteralCall> calls;
    // LFM2 puts its calls into a list, Gemma 4 writes them bare.
    const bool is_list = take("[");
    while (calls.size() < max_calls && !at_end() && !(is_list && take("]"))) {
      calls.push_back(call());
      // A missing comma is harmless: the next call starts with its own name.
      take(",");
    }
    return calls;
  }

 private:
  void skip_blanks() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size()));
  }
  bool at_end() {
    skip_blanks();
    return rest_.empty();
  }
  bool take(std::string_view mark) {
    skip_blanks();
    if (!rest_.starts_with(mark)) return false;
    rest_.remove_prefix(mark.size());
    return true;
  }
  void need(std::string_view mark, const char* where) {
    XRUN_CHECK(take(mark), "\"{}\" is missing {}", mark, where);
  }

  // Takes the text up to one of these characters, without the blanks around it.
  std::string word(std::string_view ends) {
    skip_blanks();
    const std::string_view all = rest_.substr(0, rest_.find_first_of(ends));
    rest_.remove_prefix(all.size());
    return std::string(all.substr(0, all.find_last_not_of(" \t\r\n") + 1));
  }

  LiteralCall call() {
    // Any delimiter ends the name; need() below reports a wrong one.
    LiteralCall made{.name = word("({[,)}]")};
    XRUN_CHECK(!made.name.empty(), "a call has no name");
    const bool braces = take("{");
    if (!braces) need("(", "after the name of a call");
    made.arguments = members(braces ? "}" : ")", braces ? ":" : "=", 0);
    return made;
  }

  Json members(std::string_view close, std::string_view separator, int depth) {
    Json all = Json::object();
    while (!take(close)) {
      skip_blanks();
      XRUN_CHECK(!rest_.empty(), "\"{}\" is missing at the end", close);
      std::string key = is_quoted() ? text() : word("=:,(){}[]");
      XRUN_CHECK(!key.empty(), "an argument has no name");
      need(separator, "after the name of an argument");
      all.set(key, value(depth + 1));
      // A trailing comma is allowed: the loop then finds the closing mark.
      if (!take(",")) {
        need(close, "after an argument");
        break;
      }
    }
    return all;
  }

  Json value(int depth) {
    XRUN_CHECK(depth <= kMaxDepth, "values are nested deeper than {}", kMaxDepth);
    skip_blanks();
    if (is_quoted()) return text();
    if (take("{")) return members("}", ":", depth);
    if (take("[")) {
      Json list = Json::array();
      while (!take("]")) {
        list.push_back(value(depth + 1));
        if (!take(",")) {
          need("]", "after a value");
          break;
        }
      }
      return list;
    }
    const std::string bare = word(",)]}");
    if (bare == "True") return true;
    if (bare == "False") return false;
    if (bare == "None") return {};
    // Numbers, true and false. Anything else is an error that quotes the value.
    return parse_json(bare, "value");
  }

  bool is_quoted() const {
    return rest_.starts_with('\'') || rest_.starts_with('"') || rest_.starts_with(kGemmaQuote);
  }

  std::string text() {
    if (take(kGemmaQuote)) {
      const size_t end = rest_.find(kGemmaQuote);
      XRUN_CHECK(end != std::string_view::npos, "a string has no closing {}", kGemmaQuote);
      const std::string whole(rest_.substr(0, end));
      rest_.remove_prefix(end + kGemmaQuote.size());
      return whole;
    }
    const char quote = rest_.front();
    size_t end = 1;
    // An escaped quote does not close the string. A last backslash takes `end` past the size.
    while (end < rest_.size() && rest_[end] != quote) end += rest_[end] == '\\' ? 2 : 1;
    XRUN_CHECK(end < rest_.size(), "a string has no closing {}", quote);
    const std::string_view quoted = rest_.substr(0, end + 1);
    rest_.remove_prefix(quoted.size());
    // Double quotes have JSON's escapes, single quotes Python's.
    if (quote == '"') return parse_json(quoted, "text").as_string();
    return unescaped(quoted.substr(1, quoted.size() - 2));
  }

  // The escapes that templates write in single quotes; others stay.
  static std::string unescaped(std::string_view text) {
    std::string out;
    for (size_t at = 0; at < text.size(); ++at) {
      const char next = at + 1 < text.size() ? text[at + 1] : '\0';
      const bool escapes = text[at] == '\\' && (next == '\\' || next == '\'' || next == '"' ||
                                                next == 'n' || next == 'r' || next == 't');
      if (!escapes) {
        out += text[at];
        continue;
      }
      out += next == 'n' ? '\n' : next == 'r' ? '\r' : next == 't' ? '\t' : next;
      ++at;
    }
    return out;
  }

  std::string_view rest_;
};

}  // namespace

std::vector<LiteralCall> parse_literal_calls(std::string_view text, size_t max_calls) {
  return LiteralReader(text).calls(max_calls);
}

}  // namespace xrun
