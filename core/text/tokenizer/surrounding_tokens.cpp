#include "core/text/tokenizer/surrounding_tokens.h"

namespace xrun {

namespace {

int32_t read_pair(const ComponentSpec& spec, const std::string& key) {
  const Json& pair = spec.member(key).json();
  const bool good = pair.is_array() && pair.size() == 2 && pair.as_array()[0].is_string() &&
                    pair.as_array()[1].is_int();
  XRUN_CHECK(good, "{}.{}: wanted [\"name\", id]", spec.where(), key);
  const int64_t id = pair.as_array()[1].as_int();
  XRUN_CHECK(id >= 0 && id <= INT32_MAX, "{}.{}: got the id {}", spec.where(), key, id);
  return int32_t(id);
}

}  // namespace

void SurroundingTokens::add_to(Encoding& encoding) const {
  const ByteRange nothing{0, 0};
  encoding.ids.insert(encoding.ids.begin(), before.begin(), before.end());
  encoding.offsets.insert(encoding.offsets.begin(), before.size(), nothing);
  encoding.ids.insert(encoding.ids.end(), after.begin(), after.end());
  encoding.offsets.insert(encoding.offsets.end(), after.size(), nothing);
}

void SurroundingTokens::each_id(const std::function<void(int64_t id)>& check) const {
  for (const int32_t id : before) check(id);
  for (const int32_t id : after) check(id);
}

SurroundingTokens read_cls_and_sep(const ComponentSpec& spec) {
  return {{read_pair(spec, "cls")}, {read_pair(spec, "sep")}};
}

}  // namespace xrun
