-- expect: harmless
-- linked_model is a link to a folder outside: what is in it cannot be told from the messages.
local xrun = require "xrun"
local function said(name)
  local ok, problem = pcall(xrun.tokenizer, name)
  assert(not ok)
  return (problem.message:gsub(name, "NAME", 1))
end
assert(said("linked_model/tokenizer.json") == said("linked_model/absent"))
assert(said("linked_model") == said("dangling.jsonl"))
