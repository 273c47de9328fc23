-- expect: error there is no module `ffi`
local ffi = require "ffi"
ffi.cdef "int system(const char*);"
ffi.C.system("touch @OUTSIDE@/new")
