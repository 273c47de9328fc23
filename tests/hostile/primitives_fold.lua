-- expect: error (completions[1]): got -5
require("xrun").fold_shared_prefix { prompt_ids = { 1 }, completions = { -5, "x" }, ignore_idx = -100 }
