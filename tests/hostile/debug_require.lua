-- expect: harmless
assert(require("debug") == debug and rawget(debug, "getinfo") == nil)
