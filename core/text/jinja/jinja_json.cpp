// Dicts keep the order of the JSON; frequent keys share one text.

#include "core/text/jinja/jinja_json.h"

#include <algorithm>
#include <utility>

namespace xrun::jinja {

namespace {

constexpr Mark kData{Origin::kMessage, 0};
// Names of a message's reasoning, in order of preference. Some templates read `thinking` (gpt-oss),
// others `reasoning_content` (Qwen3), so a message gets both.
constexpr std::string_view kReasoning[] = {"reasoning_content", "thinking", "reasoning"};
// Further keys of a row are not shared.
constexpr size_t kMaxKeys = 32;

std::shared_ptr<Dict> make_dict(size_t members) {
  auto dict = std::make_shared<Dict>();
  dict->origin = Origin::kMessage;
  dict->members.reserve(members);
  return dict;
}

void add(Dict& dict, Value key, Value value) {
  // Kept up to date, so that no later check has to walk the tree.
  dict.depth = std::max(dict.depth, depth_of(value) + 1);
  dict.members.emplace_back(std::move(key), std::move(value));
}

// Returns the reasoning of a message under the first of its names, or null.
const Json* find_reasoning(const Json& message) {
  for (std::string_view name : kReasoning) {
    const Json* value = message.find(name);
    if (value != nullptr && !value->is_null()) return value;
  }
  return nullptr;
}

}  // namespace

Value RowValues::key(std::string_view name) {
  for (const Value& known : keys_) {
    if (known.bytes() == name) return known;
  }
  const Value made = Value::text(name, kData);
  // The few names of messages come first; a row with thousands of keys must not make this list
  // long.
  if (keys_.size() < kMaxKeys) keys_.push_back(made);
  return made;
}

Value RowValues::value(const Json& json, int depth) {
  // Before the recursion, which it bounds.
  require_depth(depth);
  switch (json.kind()) {
    case Json::Kind::kNull: return Value::none();
    case Json::Kind::kBool: return Value::boolean(json.as_bool());
    case Json::Kind::kInt: return Value::integer(json.as_int());
    case Json::Kind::kDouble: return Value::number(json.as_double());
    case Json::Kind::kBigInt: return Value::big_integer(json.digits());
    case Json::Kind::kString: return Value::text(json.as_string(), kData);
    case Json::Kind::kArray: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json.as_array()) items.push_back(value(item, depth + 1));
      return Value::list(std::move(items), ListStyle::kList, Origin::kMessage);
    }
    case Json::Kind::kObject: break;
  }
  auto dict = make_dict(json.size());
  // Keys of a Json object are already unique.
  for (const auto& [name, member] : json.as_object()) {
    add(*dict, key(name), value(member, depth + 1));
  }
  require_depth(dict->depth);
  return Value::dict(std::move(dict));
}

Value RowValues::message(const Json& json) {
  const Json* reasoning = find_reasoning(json);
  auto dict = make_dict(json.size() + 2);
  // transformers puts `thinking` first even if the message has it elsewhere.
  if (reasoning != nullptr) {
    const Json* thinking = json.find("thinking");
    const bool own = thinking != nullptr && !thinking->is_null();
    add(*dict, key("thinking"), value(own ? *thinking : *reasoning, 1));
  }
  bool named = reasoning == nullptr;
  for (const auto& [name, member] : json.as_object()) {
    // transformers drops null members, so that `message.tool_calls is defined` is false.
    if (member.is_null() || (reasoning != nullptr && name == "thinking")) continue;
    named = named || name == "reasoning_content";
    add(*dict, key(name), value(member, 1));
  }
  // Last, since the message did not have it.
  if (!named) add(*dict, key("reasoning_content"), value(*reasoning));
  require_depth(dict->depth);
  return Value::dict(std::move(dict));
}

Value RowValues::messages(const Json& json) {
  XRUN_CHECK(json.is_array(), "messages has type {}, wanted an array", json.kind_name());
  XRUN_CHECK(json.size() > 0, "the conversation is empty; wanted at least one message");
  std::vector<Value> items;
  items.reserve(json.size());
  for (const Json& element : json.as_array()) {
    XRUN_CHECK(element.is_object(), "message {} is {}, wanted an object", items.size() + 1,
               kind_text(element));
    items.push_back(message(element));
  }
  return Value::list(std::move(items), ListStyle::kList, Origin::kMessage);
}

}  // namespace xrun::jinja
