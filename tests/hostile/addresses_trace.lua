-- expect: error debug.traceback is not for a recipe that is not trusted
assert(not debug.traceback():find("0x"))
