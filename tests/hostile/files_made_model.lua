-- expect: alone harmless
-- A model that the recipe describes is made in the cache of recipes that are not trusted.
local xrun = require "xrun"
local cfg = xrun.config { model = { layers = 1, hidden = 32, heads = 2, tokenizer = "bytes" } }
assert(xrun.policy(cfg.model):digest() ~= "")
