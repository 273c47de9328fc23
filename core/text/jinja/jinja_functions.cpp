// Template globals: dict, namespace, raise_exception, range, strftime_now.

#include "core/text/jinja/jinja_builtins.h"
#include "core/text/jinja/jinja_interpreter.h"
#include "core/text/jinja/jinja_operators.h"
#include "core/text/jinja/jinja_print.h"

namespace xrun::jinja {

namespace {

constexpr int64_t kMaxRange = 100'000;  // the limit of Jinja's sandbox

using Implementation = Value (*)(Interpreter&, Arguments&);

struct Builtin : Function {
  std::string_view name;
  Implementation implementation = nullptr;

  Value call(Interpreter& interpreter, Arguments& arguments) override {
    XRUN_JINJA_CHECK(implementation != nullptr,
                     "the function {}() is not supported in chat templates", name);
    return implementation(interpreter, arguments);
  }
  std::string repr() const override { return fmt::format("<function {}>", name); }
};

Value make_range(Interpreter& interpreter, Arguments& arguments) {
  ArgumentReader reader("range", arguments);
  const bool single = arguments.positional.size() == 1;
  // One argument is the stop.
  const int64_t first = single ? 0 : reader.integer("start", 0);
  const int64_t stop = reader.integer("stop", 0);
  const int64_t step = reader.integer("step", 1);
  reader.finish();
  XRUN_JINJA_CHECK(!arguments.positional.empty(), "range expected at least 1 argument, got 0");
  XRUN_JINJA_CHECK(step != 0, "range() arg 3 must not be zero");
  std::vector<Value> items;
  for (int64_t at = first; step > 0 ? at < stop : at > stop;) {
    XRUN_JINJA_CHECK(static_cast<int64_t>(items.size()) < kMaxRange,
                     "Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).",
                     kMaxRange);
    // Eager, unlike Python's range: at most kMaxRange items.
    items.push_back(Value::integer(at));
    // At the ends of int64 the next item does not exist.
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  interpreter.budget().charge(static_cast<int64_t>(items.size()));
  return Value::range(std::move(items), first, stop, step);
}

// Returns the members of dict(...) and namespace(...): a mapping or pairs, then keywords.
std::shared_ptr<Dict> make_members(Interpreter& interpreter, Arguments& arguments) {
  auto dict = std::make_shared<Dict>();
  Budget& budget = interpreter.budget();
  XRUN_JINJA_CHECK(arguments.positional.size() <= 1, "dict expected at most 1 argument, got {}",
                   arguments.positional.size());
  if (!arguments.positional.empty() && arguments.positional[0].is_dict()) {
    // A copy: changing the new dict must not change the old one.
    *dict = arguments.positional[0].dict();
  } else if (!arguments.positional.empty()) {
    for (const Value& pair : iterate(arguments.positional[0], budget)) {
      std::vector<Value> parts = iterate(pair, budget);
      XRUN_JINJA_CHECK(parts.size() == 2,
                       "dictionary update sequence element has length {}; 2 is required",
                       parts.size());
      dict->set(parts[0], parts[1], budget);
    }
  }
  for (const auto& [name, value] : arguments.named) dict->set(Value::text(name), value, budget);
  return dict;
}

Value make_dict(Interpreter& interpreter, Arguments& arguments) {
  return Value::dict(make_members(interpreter, arguments));
}

Value make_space(Interpreter& interpreter, Arguments& arguments) {
  interpreter.budget().charge(50);  // a namespace lives as long as the rendering
  std::shared_ptr<Namespace> space = interpreter.make_namespace();
  const std::shared_ptr<Dict> dict = make_members(interpreter, arguments);
  for (const DictItem& member : dict->members) {
    XRUN_JINJA_CHECK(member.first.is_text() && !member.first.bytes().starts_with('_'),
                     "a namespace's attributes must be names without a leading underscore");
    space->set(member.first.bytes(), member.second);
  }
  return Value::space(std::move(space));
}

Value raise_exception(Interpreter& interpreter, Arguments& arguments) {
  ArgumentReader reader("raise_exception", arguments);
  const Value message = reader.required("message");
  reader.finish();
  throw Fault(to_text(message, interpreter.budget())->bytes);
}

Value strftime_now(Interpreter& interpreter, Arguments& arguments) {
  ArgumentReader reader("strftime_now", arguments);
  const Value format = reader.required("format");
  reader.finish();
  XRUN_JINJA_CHECK(format.is_text(), "strftime() argument 1 must be str, not {}",
                   type_name(format));
  XRUN_JINJA_CHECK(format.bytes().size() <= 1000, "the format of strftime_now is too long");
  char buffer[16384];
  // Like Python's datetime.now() the clock has no time zone: %z and %Z print nothing.
  std::string plain;
  for (size_t i = 0; i < format.bytes().size(); ++i) {
    const std::string_view two = std::string_view(format.bytes()).substr(i, 2);
    if (two == "%z" || two == "%Z") {
      ++i;
    } else {
      plain += format.bytes()[i];
      // "%%z" is a percent sign and a z, so both signs are passed at once.
      if (two == "%%") plain += format.bytes()[++i];
    }
  }
  const size_t size = std::strftime(buffer, sizeof(buffer), plain.c_str(), &interpreter.clock());
  return Value::text(std::string_view(buffer, size));
}

}  // namespace

Value global_function(std::string_view name) {
  static constexpr std::pair<std::string_view, Implementation> kFunctions[] = {
      {"dict", make_dict},
      {"namespace", make_space},
      {"raise_exception", raise_exception},
      {"range", make_range},
      {"strftime_now", strftime_now},
      // functions of Jinja that are not supported:
      {"cycler", nullptr},
      {"joiner", nullptr},
      {"lipsum", nullptr},
  };
  for (const auto& [known, implementation] : kFunctions) {
    if (known != name) continue;
    auto builtin = std::make_shared<Builtin>();
    builtin->name = known;
    builtin->implementation = implementation;
    return Value::function(std::move(builtin));
  }
  return {};
}

}  // namespace xrun::jinja
