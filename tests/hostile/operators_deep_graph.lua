-- expect: alone harmless
-- A graph of 100,000 nodes is freed without recursion.
local xrun = require "xrun"
local a = xrun.ones({ 1 }, { requires_grad = true })
local b = a
for _ = 1, 1e5 do b = b + 1 end
b = nil
