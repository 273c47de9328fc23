-- expect: harmless
assert(not debug.traceback(("x"):rep(1e6)):find("0x"))
