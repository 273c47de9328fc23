-- expect: harmless
-- The name of a chunk is no file: an error in it must not quote one.
local f = load("error('x')", "@@OUTSIDE@/secret.txt")
local ok, message = pcall(f)
assert(not tostring(message):find("CANARY"))
