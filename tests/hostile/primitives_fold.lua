-- expect: error 
require("xrun").fold_shared_prefix { prompt_ids = { 1 }, completions = { -5, "x" }, ignore_idx = -100 }
