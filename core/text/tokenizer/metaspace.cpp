#include "core/text/tokenizer/metaspace.h"

namespace xrun {

MetaspaceOptions read_metaspace(const ComponentSpec& spec) {
  MetaspaceOptions options;
  options.replacement = spec.character("replacement");
  if (spec.has("prepend_scheme")) {
    const std::string& scheme = spec.text("prepend_scheme");
    XRUN_CHECK(scheme == "first" || scheme == "never" || scheme == "always",
               "{}.prepend_scheme: got \"{}\", wanted first, never or always", spec.where(),
               scheme);
    options.scheme = scheme == "first"   ? PrependScheme::kFirst
                     : scheme == "never" ? PrependScheme::kNever
                                         : PrependScheme::kAlways;
  }
  // An older spelling of the scheme.
  if (!spec.boolean("add_prefix_space", true)) options.scheme = PrependScheme::kNever;
  options.split = spec.boolean("split", true);
  return options;
}

}  // namespace xrun
