// {"type": "ByteLevel", "add_prefix_space": false, ...}; every member is written, since
// other readers' defaults differ from the tokenizers library's.

#include "core/base/tokenizer_json_entries.h"

namespace xrun {

Json byte_level_json(bool use_regex) {
  return Json(Json::Object{{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", use_regex}});
}

Json added_token_json(int64_t id, const std::string& content, bool special) {
  return Json(Json::Object{{"id", id},
                           {"content", content},
                           {"single_word", false},
                           {"lstrip", false},
                           {"rstrip", false},
                           {"normalized", false},
                           {"special", special}});
}

}  // namespace xrun
