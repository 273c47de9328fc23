#pragma once
// What the signature of a doc entry says: "(policy, name?, {lora?}) -> Tensor [n], number or nil".

#include <string>
#include <string_view>
#include <vector>

namespace xrun {

// A parameter or a result: its words as they stand in the signature.
struct SignaturePart {
  std::string text;       // "view|batch", "{lora?, recompute?}", "Tensor [n]", "..."
  bool optional = false;  // "name?", or a table whose names are all optional
};

struct Signature {
  std::vector<SignaturePart> parameters, results;
};

// Reads a signature. A table in place of the parameters ("{ key = value, ... } -> table") is one
// parameter; what cannot be read has neither.
Signature read_signature(std::string_view text);

}  // namespace xrun
