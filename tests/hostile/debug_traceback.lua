-- expect: error debug.traceback is not for a recipe that is not trusted
assert(not debug.traceback(("x"):rep(1e6)):find("0x"))
