-- expect: harmless
local _, problem = pcall(require("xrun").ones, "x")
assert(problem.traceback:find("%[C%]") and not problem.traceback:find("0x"), problem.traceback)
