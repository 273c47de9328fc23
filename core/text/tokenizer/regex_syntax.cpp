// One pass over the regex. `atom_` is the start, in the output, of the last item that a quantifier
// may follow, so that a group can be put around it.

#include "core/text/tokenizer/regex_syntax.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

constexpr std::string_view kHexDigits = "0-9A-Fa-f";
// \w in a class, and outside of one: there Oniguruma reads Latin-1 from another table.
constexpr std::string_view kWord = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
constexpr std::string_view kWordOutside =
    "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\xb2\\xb3\\xb9\\xbc-\\xbe";
constexpr std::string_view kNotWord =
    "\\p{C}\\p{Z}\\p{S}\\p{No}\\p{Pd}\\p{Ps}\\p{Pe}\\p{Pi}\\p{Pf}\\p{Po}";

// A set that PCRE2 does not know by this name, or knows differently, as PCRE2 spells it in a class.
struct NamedSet {
  std::string_view name;
  std::string_view bracket;   // [:name:]; "": both mean the same
  std::string_view property;  // \p{name}
};
constexpr NamedSet kSets[] = {
    {"alpha", "\\p{Alphabetic}", "\\p{Alphabetic}"},
    {"alnum", "\\p{Alphabetic}\\p{Nd}", "\\p{Alphabetic}\\p{Nd}"},
    {"lower", "\\p{Lowercase}", "\\p{Lowercase}"},
    {"upper", "\\p{Uppercase}", "\\p{Uppercase}"},
    {"punct", "\\p{P}\\p{S}", "\\p{P}"},
    {"word", kWord, kWordOutside},
    {"cntrl", "\\p{Cc}", "\\p{Cc}"},
    {"digit", "", "\\p{Nd}"},
    {"space", "", "\\s"},
    {"blank", "", "\\h"},
    {"xdigit", "", kHexDigits},
};

// Returns a set by its name; like Oniguruma, ignores case, spaces, - and _. Returns nullptr if
// PCRE2 reads the name like Oniguruma, or if neither knows it.
const NamedSet* find_named_set(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c != ' ' && c != '-' && c != '_') plain += c >= 'A' && c <= 'Z' ? char(c + 32) : c;
  }
  for (const NamedSet& set : kSets) {
    if (set.name == plain) return &set;
  }
  return nullptr;
}

constexpr int kMaxClassDepth = 20;

class RegexTranslation {
 public:
  RegexTranslation(std::string_view regex, const std::string& where) : in_(regex), where_(where) {}

  std::string run() {
    while (at_ < in_.size()) item();
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(const char* what) const {
    throw Error(fmt::format("{}: the regex {} has {}, which is not supported", where_,
                            regex_excerpt(in_, at_), what));
  }

  void item() {
    switch (in_[at_]) {
      case '\\': begin_atom(); return escape(false);
      case '[':
        begin_atom();
        out_ += character_class();
        return;
      case '(':
        begin_atom();
        groups_.push_back(atom_);
        out_ += in_[at_++];
        return;
      case ')':
        if (!groups_.empty()) {
          // A quantifier after it repeats the whole group.
          atom_ = groups_.back();
          groups_.pop_back();
        }
        out_ += in_[at_++];
        return;
      case '{': return interval();
      case '*':
      case '+':
      case '?': out_ += in_[at_++]; return;
      default:
        begin_atom();
        out_ += in_[at_++];
        while (at_ < in_.size() && is_continuation(in_[at_])) out_ += in_[at_++];
    }
  }

  void begin_atom() { atom_ = out_.size(); }

  // An escape with the braces of \p{..}, \x{..} and the like.
  void escape(bool in_class) {
    const char kind = at_ + 1 < in_.size() ? in_[at_ + 1] : '\0';
    if (std::string_view("hHwWbB").find(kind) != std::string_view::npos &&
        letter_escape(kind, in_class)) {
      at_ += 2;
      return;
    }
    // \uXXXX is \x{XXXX} in PCRE2.
    if (kind == 'u' && in_.find_first_not_of("0123456789abcdefABCDEF", at_ + 2) >= at_ + 6 &&
        at_ + 6 <= in_.size()) {
      out_ += fmt::format("\\x{{{}}}", in_.substr(at_ + 2, 4));
      at_ += 6;
      return;
    }
    if ((kind == 'p' || kind == 'P') && named_property(kind == 'P', in_class)) return;
    out_ += in_.substr(at_, 2);
    at_ = std::min(at_ + 2, in_.size());
    const bool braces = std::string_view("pPxoNgk").find(kind) != std::string_view::npos;
    if (!braces || at_ >= in_.size() || in_[at_] != '{') return;
    const size_t end = in_.find('}', at_);
    const size_t next = end == std::string_view::npos ? in_.size() : end + 1;
    out_ += in_.substr(at_, next - at_);
    at_ = next;
  }

  void put_set(std::string_view set, bool negated, bool in_class) {
    if (!in_class) {
      out_ += fmt::format("{}{}]", negated ? "[^" : "[", set);
    } else if (!negated) {
      out_ += set;
    } else if (set.starts_with("\\p{") && set.find('}') + 1 == set.size()) {
      // PCRE2 has no negated set inside a class, but \P of one property.
      out_ += "\\P" + std::string(set.substr(2));
    } else {
      // A class cannot negate several sets at once.
      refuse("a negated set in a class");
    }
  }

  // Returns false if the escape needs no translation.
  bool letter_escape(char kind, bool in_class) {
    const bool negated = kind == 'H' || kind == 'W';
    switch (kind) {
      case 'h':
      case 'H': put_set(kHexDigits, negated, in_class); return true;
      case 'w':
      case 'W':
        if (in_class) {
          out_ += negated ? kNotWord : kWord;
        } else {
          put_set(kWordOutside, negated, false);
        }
        return true;
      default: break;
    }
    if (in_class) return false;  // \b is a backspace there
    // PCRE2's own \b follows its \w, which is another set.
    const char* form = kind == 'b' ? "(?:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))"
                                   : "(?:(?<=[{0}])(?=[{0}])|(?<![{0}])(?![{0}]))";
    out_ += fmt::format(fmt::runtime(form), kWordOutside);
    return true;
  }

  // \p{name}, \p{^name}, \P{name}; returns false if PCRE2 reads the name like Oniguruma.
  bool named_property(bool negated, bool in_class) {
    const size_t end = in_.find('}', at_);
    if (in_.substr(at_ + 2, 1) != "{" || end == std::string_view::npos) return false;
    std::string_view name = in_.substr(at_ + 3, end - at_ - 3);
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    const NamedSet* set = find_named_set(name);
    if (set == nullptr) return false;
    put_set(set->property, negated, in_class);
    at_ = end + 1;
    return true;
  }

  // Returns true if an interval begins at at_; sets `end` to its brace. "{,n}" is one.
  bool find_interval(size_t& end) const {
    end = at_ + 1;
    size_t digits = 0;
    while (end < in_.size() && (in_[end] == ',' || (in_[end] >= '0' && in_[end] <= '9'))) {
      digits += in_[end++] != ',';
    }
    return digits > 0 && end < in_.size() && in_[end] == '}';
  }

  void interval() {
    size_t end = 0;
    // A brace without a count is a character, as in Oniguruma.
    if (!find_interval(end)) {
      begin_atom();
      out_ += in_[at_++];
      return;
    }
    std::string text(in_.substr(at_, end + 1 - at_));
    // {,n} is {0,n}; PCRE2 before 10.43 reads it as plain text.
    if (text[1] == ',') text.insert(1, "0");
    at_ = end + 1;
    out_ += text;
    // In Ruby's syntax x{1,3}+ repeats the interval, in PCRE2 it is possessive: a group makes it
    // repeat. So x{2}? makes the interval optional.
    const char next = at_ < in_.size() ? in_[at_] : '\0';
    if (next == '+' || (next == '?' && text.find(',') == std::string::npos)) {
      out_.insert(atom_, "(?:");
      out_ += ")";
    }
  }

  // An operand of &&, without the brackets of the class that it is in PCRE2.
  struct Operand {
    std::string text = {};
    bool negated = false;
  };

  // Reads the class at at_. Operands of && become lookaheads before the first one.
  std::string character_class() {
    std::vector<Operand> operands;
    const bool negated = class_operands(operands);
    if (operands.size() == 1) return whole({operands[0].text, negated != operands[0].negated});
    if (negated) refuse("a negated class with &&");
    std::string text = "(?:";
    // [a&&b] is (?:(?=[b])[a])
    for (size_t i = 1; i < operands.size(); ++i) text += "(?=" + whole(operands[i]) + ")";
    return text + whole(operands[0]) + ")";
  }

  static std::string whole(const Operand& operand) {
    return (operand.negated ? "[^" : "[") + operand.text + "]";
  }

  // Reads from [ to its ]; returns true if the class is negated.
  bool class_operands(std::vector<Operand>& operands) {
    if (++depth_ > kMaxClassDepth) refuse("classes nested too deep");
    ++at_;
    const bool negated = at_ < in_.size() && in_[at_] == '^';
    at_ += negated;
    operands.emplace_back();
    // A ] at the front is a character.
    for (bool first = true; at_ < in_.size() && (first || in_[at_] != ']'); first = false) {
      if (in_.substr(at_, 2) == "&&") {
        at_ += 2;
        operands.emplace_back();
      } else if (in_.substr(at_, 2) == "[:") {
        bracket(operands.back().text);
      } else if (in_[at_] == '[') {
        add_inner(operands.back());
      } else if (in_[at_] == '\\') {
        // escape() writes to out_, so the two are swapped meanwhile.
        std::swap(out_, operands.back().text);
        escape(true);
        std::swap(out_, operands.back().text);
      } else {
        operands.back().text += in_[at_++];
      }
    }
    if (at_ >= in_.size()) refuse("a class without its end");
    ++at_;
    --depth_;
    return negated;
  }

  // [:name:] or [:^name:]
  void bracket(std::string& operand) {
    const size_t found = in_.find(":]", at_ + 2);
    const size_t next = found == std::string_view::npos ? in_.size() : found + 2;
    std::string_view name = in_.substr(at_ + 2, std::min(found, in_.size()) - at_ - 2);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    const NamedSet* set = find_named_set(name);
    if (set == nullptr || set->bracket.empty()) {
      operand += in_.substr(at_, next - at_);
    } else {
      // put_set() writes to out_.
      std::swap(out_, operand);
      put_set(set->bracket, negated, true);
      std::swap(out_, operand);
    }
    at_ = next;
  }

  // A class in a class: alone it is the operand, otherwise it joins its neighbours.
  void add_inner(Operand& operand) {
    std::vector<Operand> inner;
    const bool outer_negated = class_operands(inner);
    if (inner.size() > 1) refuse("&& in a class inside another one");
    const bool negated = outer_negated != inner[0].negated;
    // A negated class is supported only as the whole operand.
    const bool alone =
        operand.text.empty() && (in_.substr(at_, 1) == "]" || in_.substr(at_, 2) == "&&");
    if (alone) {
      operand = {std::move(inner[0].text), negated};
    } else if (negated) {
      refuse("a negated class inside another one");
    } else {
      operand.text += inner[0].text;
    }
  }

  std::string_view in_;
  const std::string& where_;
  size_t at_ = 0;
  std::string out_;
  size_t atom_ = 0;
  int depth_ = 0;               // of nested classes
  std::vector<size_t> groups_;  // starts of the open groups in out_
};

}  // namespace

std::string pcre2_syntax(std::string_view regex, const std::string& where) {
  return RegexTranslation(regex, where).run();
}

std::string regex_excerpt(std::string_view regex, size_t at) {
  constexpr size_t kSize = 80;
  if (regex.size() <= kSize) return std::string(regex);
  size_t begin = std::min(at > kSize / 2 ? at - kSize / 2 : 0, regex.size() - kSize);
  size_t end = begin + kSize;
  // Not inside a character.
  while (begin < end && is_continuation(regex[begin])) ++begin;
  while (end < regex.size() && is_continuation(regex[end])) --end;
  return fmt::format("{}{}{}", begin > 0 ? "..." : "", regex.substr(begin, end - begin),
                     end < regex.size() ? "..." : "");
}

}  // namespace xrun
