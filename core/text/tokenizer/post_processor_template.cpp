// TemplateProcessing: fixed tokens before and after the text, from the template "single".

#include "core/text/tokenizer/surrounding_tokens.h"

namespace xrun {

namespace {

// Appends the ids that "special_tokens" gives for a piece of the template.
void add_special(const ComponentSpec& spec, const ComponentSpec& piece, std::vector<int32_t>& out) {
  const std::string& name = piece.member("SpecialToken").text("id");
  const ComponentSpec ids = spec.member("special_tokens").member(name);
  XRUN_CHECK(ids.member("ids").json().is_array(), "{}.ids: wanted an array", ids.where());
  for (const Json& id : ids.member("ids").json().as_array()) {
    XRUN_CHECK(id.is_int() && id.as_int() >= 0 && id.as_int() <= INT32_MAX, "{}.ids: wanted ids",
               ids.where());
    out.push_back(int32_t(id.as_int()));
  }
}

std::unique_ptr<const PostProcessor> make(const ComponentSpec& spec) {
  SurroundingTokens tokens;
  size_t texts = 0;
  for (const ComponentSpec& piece : spec.list("single")) {
    if (piece.has("Sequence")) {
      const std::string& id = piece.member("Sequence").text("id");
      XRUN_CHECK(id == "A", "{}.Sequence.id: got \"{}\", wanted \"A\" in \"single\"", piece.where(),
                 id);
      ++texts;
      continue;
    }
    add_special(spec, piece, texts > 0 ? tokens.after : tokens.before);
  }
  XRUN_CHECK(texts == 1, "{}.single: the text appears {} times, wanted once", spec.where(), texts);
  return std::make_unique<SurroundingProcessor>(std::move(tokens));
}

const bool kAdded = ComponentTable<PostProcessor>::add("TemplateProcessing", make);

}  // namespace

}  // namespace xrun
