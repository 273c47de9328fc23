#pragma once
// Values of the template engine: the subset of Python's that chat templates use.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/jinja/jinja_text.h"

namespace xrun::jinja {

class Interpreter;

enum class ValueType : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kBigInt,  // an integer of a row beyond int64: it prints and compares only
  kText,
  kList,
  kDict,
  kNamespace,
  kLoop,
  kFunction
};

// The Python type of a list; it determines printing, indexing and truth.
enum class ListStyle : uint8_t { kList, kTuple, kRange, kGenerator, kKeys, kValues, kItems };

struct List;
struct Dict;
struct Namespace;
struct Loop;
struct Function;

// A scalar, or a pointer that copies share. Only namespaces, generators and loops are mutable.
class Value {
 public:
  Value() = default;  // undefined
  static Value undefined(std::string message);
  // "'None' has no attribute 'x'", formatted only on demand. `owner` must be a string constant.
  static Value no_attribute(std::string_view owner, std::string_view name);
  static Value no_name(std::string_view name);  // "'x' is undefined"
  static Value none() { return Value(ValueType::kNone); }
  static Value boolean(bool value);
  static Value integer(int64_t value);
  static Value number(double value);
  static Value big_integer(std::string_view digits);  // beyond int64
  static Value text(TextPtr text, bool markup = false);
  static Value text(std::string_view bytes, Mark mark = {}) { return text(make_text(bytes, mark)); }
  static Value list(std::shared_ptr<List> list);
  static Value list(std::vector<Value> items, ListStyle style = ListStyle::kList,
                    Origin origin = Origin::kTemplate);
  static Value range(std::vector<Value> items, __int128 start, __int128 stop, __int128 step);
  static Value generator(std::vector<Value> items) {
    return list(std::move(items), ListStyle::kGenerator);
  }
  static Value dict(std::shared_ptr<Dict> dict);
  static Value space(std::shared_ptr<Namespace> space);
  static Value loop(std::shared_ptr<Loop> loop);
  static Value function(std::shared_ptr<Function> function);

  ValueType kind() const { return kind_; }
  bool is(ValueType kind) const { return kind_ == kind; }
  bool is_undefined() const { return kind_ == ValueType::kUndefined; }
  bool is_none() const { return kind_ == ValueType::kNone; }
  bool is_text() const { return kind_ == ValueType::kText; }
  bool is_list() const { return kind_ == ValueType::kList; }
  bool is_dict() const { return kind_ == ValueType::kDict; }
  bool is_integral() const { return kind_ == ValueType::kInt || kind_ == ValueType::kBool; }
  bool is_number() const { return is_integral() || kind_ == ValueType::kFloat; }
  bool is_numeric() const { return is_number() || kind_ == ValueType::kBigInt; }
  bool is_nan() const { return kind_ == ValueType::kFloat && number_ != number_; }
  bool markup() const { return markup_; }  // result of `safe`: `+` escapes the other operand

  // Unchecked: the caller has tested kind().
  int64_t as_int() const { return integer_; }  // bools too
  double as_double() const {
    return is(ValueType::kFloat) ? number_ : static_cast<double>(integer_);
  }
  TextPtr as_text() const { return std::static_pointer_cast<const Text>(object_); }
  const Text& text() const { return static_cast<const Text&>(*object_); }
  const std::string& bytes() const { return text().bytes; }  // the digits of a kBigInt
  List& list() const;
  Dict& dict() const;
  Namespace& space() const;
  Loop& loop() const;
  Function& function() const;
  const void* identity() const { return object_.get(); }
  // Returns the value without shared ownership; its object must outlive the result.
  Value borrowed() const {
    Value out(kind_, std::shared_ptr<const SharedValue>(std::shared_ptr<const SharedValue>(),
                                                        object_.get()));
    out.markup_ = markup_;
    out.integer_ = integer_;
    return out;
  }
  std::string undefined_message() const;

 private:
  explicit Value(ValueType kind) : kind_(kind) {}
  Value(ValueType kind, std::shared_ptr<const SharedValue> object)
      : kind_(kind), object_(std::move(object)) {}

  ValueType kind_ = ValueType::kUndefined;
  bool markup_ = false;
  union {
    int64_t integer_ = 0;
    double number_;
  };
  std::shared_ptr<const SharedValue> object_;
};

// Containers record their nesting depth, so that recursion over them cannot exhaust the stack.
inline constexpr int kMaxValueDepth = 600;
inline constexpr size_t kMaxListItems = 1'000'000;

struct List : SharedValue {
  std::vector<Value> items;
  ListStyle style = ListStyle::kList;
  Origin origin = Origin::kTemplate;  // of the brackets when it is printed
  int depth = 1;
  size_t taken = 0;  // items that a generator has already yielded
};

// A list of style kRange, with the arguments that it prints. 128 bits: those of a slice may lie
// beyond int64.
struct RangeList : List {
  __int128 start = 0, stop = 0, step = 1;
};

using DictItem = std::pair<Value, Value>;

struct Dict : SharedValue {
  std::vector<DictItem> members;  // in insertion order
  Origin origin = Origin::kTemplate;
  int depth = 1;

  const Value* find(const Value& key, Budget& budget) const;
  const Value* find(std::string_view key) const;
  // Throws Fault if the key is not hashable or the dict would nest too deeply.
  void set(Value key, Value value, Budget& budget);
};

struct Namespace : SharedValue {
  std::vector<std::pair<std::string, Value>> attributes;
  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
};

// The `loop` variable.
struct Loop : SharedValue {
  std::vector<Value> items;
  size_t index = 0;
  int depth = 1;
  Value body;       // of a recursive loop: calls the loop again
  Value last_seen;  // the last arguments of loop.changed()
  int nesting = 1;  // as List::depth
  bool has_seen = false;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct Function : SharedValue {
  int depth = 1;  // as List::depth; a bound method holds its object
  virtual Value call(Interpreter& interpreter, Arguments& arguments) = 0;
  virtual std::string repr() const = 0;
  // Gets object.name; false if there is no such attribute.
  virtual bool attribute(std::string_view, Value&) const { return false; }
};

// Returns true if Python could use the value as a key: not a list, a dict, or a tuple that holds
// one.
bool is_hashable(const Value& value);
// Returns the nesting depth of a value, 0 for scalars; require_depth throws Fault beyond
// kMaxValueDepth.
int depth_of(const Value& value);
void require_depth(int depth);

// Python's type name: "str", "NoneType", "dict".
std::string_view type_name(const Value& value);
bool is_truthy(const Value& value);
// Returns len(). Throws Fault if the value has none.
int64_t length_of(const Value& value);

}  // namespace xrun::jinja
