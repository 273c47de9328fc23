// Parses JSON: an Error, or a value that is the same after it was written and read again.

#include "core/base/json.h"

#include "core/base/error.h"
#include "tools/fuzz/fuzz_target.h"

namespace xrun {

void fuzz_json(std::string_view input) {
  try {
    const std::string once = dump_json(parse_json(input, "fuzzed"));
    fuzz_check(dump_json(parse_json(once, "again")) == once,
               "a value changes when it is written and read again");
  } catch (const Error&) {
  }
}

}  // namespace xrun
