-- expect: harmless
local f, message = loadstring("\27LJ\2\0\0")
assert(f == nil and message)
