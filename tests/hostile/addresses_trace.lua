-- expect: harmless
assert(not debug.traceback():find("0x"))
