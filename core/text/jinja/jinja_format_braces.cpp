// str.format: the parts of the format keep their marks, and so do the arguments.

#include <algorithm>
#include <charconv>

#include "core/text/jinja/jinja_format_spec.h"
#include "core/text/jinja/jinja_interpreter.h"
#include "core/text/jinja/jinja_methods.h"
#include "core/text/jinja/jinja_print.h"

namespace xrun::jinja {

namespace {

bool is_index(std::string_view text) {
  return !text.empty() && text.size() < 10 &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

class Braces {
 public:
  Braces(Interpreter& interpreter, Arguments& arguments)
      : interpreter_(interpreter), arguments_(arguments) {}

  // Fields of a specification may not have fields in theirs.
  TextPtr run(const Text& format, int depth) {
    const std::string& bytes = format.bytes;
    TextBuilder out;
    for (size_t at = 0; at < bytes.size();) {
      const size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
      out.append(format, at, brace);
      at = brace + 1;
      if (brace == bytes.size()) break;
      if (at < bytes.size() && bytes[at] == bytes[brace]) {
        out.append(format, brace, at++);
        continue;
      }
      XRUN_JINJA_CHECK(bytes[brace] == '{', "Single '}}' encountered in format string");
      const size_t end = field_end(bytes, at);
      XRUN_JINJA_CHECK(depth < 2, "Max string recursion exceeded");
      field(out, std::string_view(bytes).substr(at, end - at), depth);
      at = end + 1;
    }
    return out.take();
  }

 private:
  // The brace that closes the field whose inside begins at `at`.
  static size_t field_end(const std::string& bytes, size_t at) {
    for (int open = 0; at < bytes.size(); ++at) {
      if (bytes[at] == '{') ++open;
      if (bytes[at] == '}' && open-- == 0) return at;
    }
    throw Fault("expected '}' before end of string");
  }

  // name[!conversion][:specification]
  void field(TextBuilder& out, std::string_view field, int depth) {
    const size_t name_end = std::min(field.find_first_of("!:"), field.size());
    Value value = named(field.substr(0, name_end));
    field.remove_prefix(name_end);
    Budget& budget = interpreter_.budget();
    if (field.starts_with('!')) {
      const bool whole = field.size() == 2 || (field.size() > 2 && field[2] == ':');
      XRUN_JINJA_CHECK(whole && (field[1] == 'r' || field[1] == 's'),
                       "a conversion is !r or !s in templates, not '{}'", field);
      value =
          Value::text(field[1] == 'r' ? make_text(repr(value, budget)) : to_text(value, budget));
      field.remove_prefix(2);
    }
    if (field.size() <= 1) return print(out, value, budget);
    const TextPtr specification = run(*make_text(field.substr(1)), depth + 1);
    if (specification->bytes.empty()) return print(out, value, budget);
    out.append(*format_value(value, specification->bytes, budget));
  }

  // What name.attribute[key] stands for.
  Value named(std::string_view name) {
    const size_t head = std::min(name.find_first_of(".["), name.size());
    // The formatter of Jinja's sandbox counts bare fields only.
    XRUN_JINJA_CHECK(head > 0 || name.empty(), "format() got no argument ''");
    Value value = argument(name.substr(0, head));
    for (name.remove_prefix(head); !name.empty();) {
      const bool key = name[0] == '[';
      const size_t end = key ? name.find(']') : std::min(name.find_first_of(".[", 1), name.size());
      XRUN_JINJA_CHECK(end != std::string_view::npos, "Missing ']' in format string");
      const std::string_view part = name.substr(1, end - 1);
      XRUN_JINJA_CHECK(!part.empty(), "Empty attribute in format string");
      name.remove_prefix(key ? end + 1 : end);
      XRUN_JINJA_CHECK(!key || name.empty() || name[0] == '.' || name[0] == '[',
                       "Only '.' or '[' may follow ']' in format field specifier");
      if (!key) {
        value = interpreter_.get_attribute(value, part);
      } else {
        value = interpreter_.get_item(value, is_index(part)
                                                 ? Value::integer(std::stoll(std::string(part)))
                                                 : Value::text(part));
      }
    }
    return value;
  }

  // A number, a keyword, or the next one in turn.
  const Value& argument(std::string_view name) {
    if (name.empty() || is_index(name)) {
      XRUN_JINJA_CHECK(name.empty() ? !numbered_ : next_ == 0,
                       "cannot switch between automatic and manual field numbering");
      size_t index = next_;
      if (name.empty()) {
        ++next_;
      } else {
        std::from_chars(name.data(), name.data() + name.size(), index);
        numbered_ = true;
      }
      XRUN_JINJA_CHECK(index < arguments_.positional.size(),
                       "Replacement index {} out of range for positional args tuple", index);
      return arguments_.positional[index];
    }
    const auto it = std::find_if(arguments_.named.begin(), arguments_.named.end(),
                                 [&](const auto& one) { return one.first == name; });
    XRUN_JINJA_CHECK(it != arguments_.named.end(), "format() got no argument '{}'", name);
    return it->second;
  }

  Interpreter& interpreter_;
  Arguments& arguments_;
  size_t next_ = 0;
  bool numbered_ = false;
};

}  // namespace

Value format_braces(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  return Value::text(Braces(interpreter, arguments).run(self.text(), 0));
}

}  // namespace xrun::jinja
