// Tries the arguments of an overload one by one. Explanations are made only for the overloads of an
// error: the usual call does not pay for them.

#include "lua/tensor/op_match.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/strings.h"

namespace xrun {
namespace {

constexpr int kIntsCost = 3;  // x:view(2, 3): after every form that takes the ints one by one
constexpr size_t kShownOverloads = 3;  // in an error: some operators have a dozen

struct Matcher {
  const OpPacket& packet;
  const OpOverload& overload;
  const OpValues& values;
  lua_State* explain;
  OpMatch match;

  bool fail(auto&& text) {
    match.cost = -1;
    if (explain != nullptr) match.failure = text();
    return false;
  }

  bool bind(int at, const OpValue& value) {
    const OpArgument& argument = overload.arguments[at];
    int cost = 0;
    // nil takes the default, if there is one.
    if (value.kind == ValueKind::kNil) {
      cost = argument.optional || argument.has_default ? 0 : -1;
    } else {
      // The sum of costs ranks the overloads that fit.
      cost = conversion_cost(argument.kind, value.kind, argument.optional, argument.count > 0,
                             packet.number_as_tensor);
    }
    if (cost < 0) {
      return fail([&] {
        return fmt::format("argument `{}` got {}, wanted {}", argument.name,
                           describe_value(explain, value.index),
                           overload.schema().arguments()[at].real_type()->str());
      });
    }
    match.cost += cost;
    match.fitted += 1;
    match.value[at] = &value;
    return true;
  }

  // The argument that positional value k goes to.
  int target(size_t k, bool as_method) const {
    const int at = static_cast<int>(k);
    // self is almost always first; otherwise the object is taken out of the order.
    if (!as_method || overload.self <= 0) return at;
    if (at == 0) return overload.self;
    return at <= overload.self ? at - 1 : at;
  }

  bool all_ints(size_t from) const {
    if (overload.ints_from < 0 || from >= values.positional.size()) return false;
    return std::all_of(values.positional.begin() + static_cast<ptrdiff_t>(from),
                       values.positional.end(), [](const OpValue& value) {
                         return value.kind == ValueKind::kInt || value.kind == ValueKind::kInt64;
                       });
  }

  bool bind_positional(bool as_method) {
    const size_t ints = static_cast<size_t>(std::max(overload.ints_from, 0));
    // Several ints are one list. One int is a list only for int[] (x:view(6)); int[N] takes it as a
    // scalar.
    const bool list = all_ints(ints) &&
                      (values.positional.size() > ints + 1 || overload.arguments[ints].count == 0);
    for (size_t k = 0; k < values.positional.size(); ++k) {
      if (list && k == ints) {
        match.ints_from = static_cast<int>(ints);
        match.cost += kIntsCost;
        return true;
      }
      if (static_cast<int>(k) >= overload.positional) {
        return fail([&] {
          return fmt::format("takes at most {} arguments in order, got {}", overload.positional,
                             values.positional.size());
        });
      }
      if (!bind(target(k, as_method), values.positional[k])) return false;
    }
    return true;
  }

  bool bind_named() {
    for (const OpValue& value : values.named) {
      const auto found =
          std::find_if(overload.arguments.begin(), overload.arguments.end(),
                       [&](const OpArgument& argument) { return argument.name == value.name; });
      const int at = static_cast<int>(found - overload.arguments.begin());
      // A list of ints has taken the argument already.
      const bool list = match.ints_from >= 0 && at == overload.ints_from;
      if (found == overload.arguments.end()) {
        return fail([&] { return fmt::format("has no argument `{}`", value.name); });
      }
      if (match.value[at] != nullptr || list) {
        return fail([&] { return fmt::format("argument `{}` is given twice", value.name); });
      }
      if (!bind(at, value)) return false;
    }
    return true;
  }

  bool check_required() {
    for (size_t i = 0; i < overload.arguments.size(); ++i) {
      const OpArgument& argument = overload.arguments[i];
      const bool list = match.ints_from >= 0 && static_cast<int>(i) == overload.ints_from;
      // An optional argument without a default must be given, as in PyTorch.
      if (match.value[i] != nullptr || list || argument.has_default) continue;
      return fail([&] { return fmt::format("argument `{}` is missing", argument.name); });
    }
    return true;
  }
};

std::string first_overloads(const OpPacket& packet) {
  std::string forms;
  for (size_t i = 0; i < packet.overloads.size() && i < kShownOverloads; ++i) {
    forms += (i > 0 ? "\n  " : "  ") + overload_text(packet.overloads[i]);
  }
  return forms;
}

}  // namespace

OpMatch match_overload(const OpPacket& packet, const OpOverload& overload, const OpValues& values,
                       bool as_method, lua_State* explain) {
  Matcher matcher{packet, overload, values, explain, {}};
  matcher.match.cost = 0;
  matcher.match.value.resize(overload.arguments.size(), nullptr);
  const bool callable = !as_method || overload.self >= 0 ||
                        matcher.fail([] { return std::string("is not a method"); });
  if (callable && matcher.bind_positional(as_method) && matcher.bind_named()) {
    matcher.check_required();
  }
  return std::move(matcher.match);
}

void throw_no_overload(lua_State* L, const OpPacket& packet, const OpValues& values,
                       bool as_method) {
  std::vector<std::string> keywords;
  for (const OpOverload& overload : packet.overloads) {
    for (const OpArgument& argument : overload.arguments) keywords.push_back(argument.name);
  }
  for (const OpValue& value : values.named) {
    if (std::find(keywords.begin(), keywords.end(), value.name) != keywords.end()) continue;
    const std::string near = nearest_name(value.name, keywords);
    throw Error(fmt::format("there is no keyword argument `{}`; the overloads are\n{}{}",
                            value.name, first_overloads(packet),
                            near.empty() ? "" : "\nhint: did you mean `" + near + "`?"));
  }
  std::vector<std::pair<OpMatch, const OpOverload*>> tried;
  for (const OpOverload& overload : packet.overloads) {
    tried.emplace_back(match_overload(packet, overload, values, as_method, L), &overload);
  }
  // The overload that took most values is most likely the one that was meant.
  std::stable_sort(tried.begin(), tried.end(),
                   [](const auto& a, const auto& b) { return a.first.fitted > b.first.fitted; });
  std::string got;
  for (const OpValue& value : values.positional) {
    add_item(got, describe_value(L, value.index));
  }
  for (const OpValue& value : values.named) {
    add_item(got, fmt::format("{} = {}", value.name, describe_value(L, value.index)));
  }
  std::string text = fmt::format("no overload takes ({})", got);
  for (size_t i = 0; i < tried.size() && i < kShownOverloads; ++i) {
    text += fmt::format("\n  {}: {}", overload_text(*tried[i].second), tried[i].first.failure);
  }
  throw Error(text);
}

}  // namespace xrun
