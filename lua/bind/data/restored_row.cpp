// Lua has only doubles, no order of keys, no null members and one kind of empty table. Two values
// are the same here if Lua cannot tell them apart.

#include <algorithm>
#include <bit>
#include <map>
#include <span>

#include "core/base/hash.h"
#include "lua/bind/data/data_functions.h"

namespace xrun {

namespace {

bool is_table(const Json& value) { return value.is_array() || value.is_object(); }

int64_t count_members(const Json& object) {
  return std::count_if(object.as_object().begin(), object.as_object().end(),
                       [](const Json::Member& member) { return !member.second.is_null(); });
}

bool is_empty(const Json& table) {
  return table.is_array() ? table.size() == 0 : count_members(table) == 0;
}

bool is_same(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return a.as_double() == b.as_double();
  if (!is_table(a) || !is_table(b)) return a == b;
  if (is_empty(a) || is_empty(b)) return is_empty(a) && is_empty(b);
  if (a.is_array() != b.is_array()) return false;
  if (a.is_array()) {
    return std::equal(a.as_array().begin(), a.as_array().end(), b.as_array().begin(),
                      b.as_array().end(), is_same);
  }
  if (count_members(a) != count_members(b)) return false;
  return std::all_of(a.as_object().begin(), a.as_object().end(), [&](const Json::Member& member) {
    const Json* other = b.find(member.first);
    return member.second.is_null() || (other != nullptr && is_same(member.second, *other));
  });
}

uint64_t mix(uint64_t a, uint64_t b) { return (std::rotl(a, 23) ^ b) * 0x9e3779b97f4a7c15u; }

// Returns equal hashes for values that is_same accepts.
uint64_t hash_of(const Json& value) {
  if (value.is_string()) return hash_u64(value.as_string());
  // + 0.0 makes 0.0 of -0.0, which equals it.
  if (value.is_number()) return mix(1, std::bit_cast<uint64_t>(value.as_double() + 0.0));
  if (value.is_bool()) return value.as_bool() ? 2 : 3;
  if (value.is_null() || is_empty(value)) return value.is_null() ? 4 : 5;
  uint64_t hash = value.is_array() ? 6 : 7;
  if (value.is_array()) {
    for (const Json& element : value.as_array()) hash = mix(hash, hash_of(element));
    return hash;
  }
  // A sum, because Lua keeps no order of members.
  for (const Json::Member& member : value.as_object()) {
    if (!member.second.is_null()) hash += mix(hash_u64(member.first), hash_of(member.second));
  }
  return hash;
}

class Restorer {
 public:
  explicit Restorer(const Json& original) : original_(original) {}

  // near: the original that `value` probably came from; may be null.
  Json restore(Json value, const Json* near) {
    if (near != nullptr && is_same(value, *near)) return *near;
    if (!is_table(value)) return value;
    if (const Json* same = find(value)) return *same;
    if (value.is_object()) return object(std::move(value), near);
    return list(std::move(value), near);
  }

 private:
  // A table inside the row that is the same as this one, or null.
  const Json* find(const Json& table) {
    if (is_empty(table)) return nullptr;
    if (!indexed_) index(original_);
    indexed_ = true;
    const auto [first, last] = tables_.equal_range(hash_of(table));
    for (auto one = first; one != last; ++one) {
      if (is_same(table, *one->second)) return one->second;
    }
    return nullptr;
  }

  void index(const Json& value) {
    if (!is_table(value) || is_empty(value)) return;
    tables_.emplace(hash_of(value), &value);
    if (value.is_array()) {
      for (const Json& element : value.as_array()) index(element);
    } else {
      for (const Json::Member& member : value.as_object()) index(member.second);
    }
  }

  Json object(Json value, const Json* near) {
    Json result = Json::object();
    if (near != nullptr && near->is_object()) {
      for (const Json::Member& member : near->as_object()) {
        Json* now = value.find(member.first);
        if (now != nullptr) {
          result.set(member.first, restore(std::move(*now), &member.second));
        } else if (member.second.is_null()) {
          result.set(member.first, nullptr);
        }
      }
    }
    for (Json::Member& member : value.as_object()) {
      if (result.find(member.first) != nullptr) continue;
      result.set(member.first, restore(std::move(member.second), nullptr));
    }
    return result;
  }

  // Equal elements are paired from both ends, those in between by the number of equal members.
  Json list(Json value, const Json* near) {
    Json::Array& now = value.as_array();
    static const Json::Array kNone;
    const Json::Array& was = near != nullptr && near->is_array() ? near->as_array() : kNone;
    const size_t both = std::min(now.size(), was.size());
    size_t head = 0, tail = 0;
    while (head < both && is_same(now[head], was[head])) ++head;
    while (tail < both - head && is_same(now[now.size() - 1 - tail], was[was.size() - 1 - tail])) {
      ++tail;
    }
    const std::span<const Json> between(was.data() + head, was.size() - head - tail);
    for (size_t i = 0; i < now.size(); ++i) {
      const bool in_tail = i >= now.size() - tail;
      const Json* one = i < head  ? &was[i]
                        : in_tail ? &was[was.size() - (now.size() - i)]
                                  : most_alike(now[i], between, i - head);
      now[i] = restore(std::move(now[i]), one);
    }
    return value;
  }

  // Returns the element near position `at` that has the most equal members, the first of several;
  // if none has any, the one at that position.
  static const Json* most_alike(const Json& value, std::span<const Json> elements, size_t at) {
    constexpr size_t kFar = 32;
    const Json* best = at < elements.size() ? &elements[at] : nullptr;
    int64_t most = best == nullptr ? 0 : likeness(value, *best);
    const size_t end = std::min(elements.size(), at + kFar);
    for (size_t i = at > kFar ? at - kFar : 0; i < end; ++i) {
      const int64_t alike = likeness(value, elements[i]);
      if (alike <= most) continue;
      most = alike;
      best = &elements[i];
    }
    return best;
  }

  static int64_t likeness(const Json& a, const Json& b) {
    if (!a.is_object() || !b.is_object()) return 0;
    return std::count_if(a.as_object().begin(), a.as_object().end(),
                         [&](const Json::Member& member) {
                           const Json* other = b.find(member.first);
                           return other != nullptr && is_same(member.second, *other);
                         });
  }

  const Json& original_;
  std::multimap<uint64_t, const Json*> tables_;
  bool indexed_ = false;
};

}  // namespace

Json restored_row(Json value, const Json& original) {
  return Restorer(original).restore(std::move(value), &original);
}

}  // namespace xrun
