#pragma once
// Dry runs of recipes, which read no weights, as `xrun check` makes them.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/file.h"
#include "lua/prompt/preview.h"

namespace xrun {

// Returns the error of a dry run of this text as ./test.lua; "" if it would train.
inline std::string dry_error(const std::string& text, const std::vector<std::string>& sets = {}) {
  write_file_atomic("test.lua", text);
  RecipeOptions options;
  options.recipe = "test.lua";
  options.sets = sets;
  options.threads = 1;
  const auto preview = open_preview(
      std::move(options), std::make_shared<Console>([](std::string_view) {}, ConsoleTraits{}));
  if (preview->error() != nullptr) return preview->error()->text();
  if (preview->pause() == nullptr) return preview->no_loop_text();
  preview->session().models.stand_in(std::make_shared<LogprobStandIn>(LogprobStandIn::seeded(7)));
  preview->hooks().plan.bodies = 1;
  return preview->resume() ? "" : preview->error()->text();
}

}  // namespace xrun
