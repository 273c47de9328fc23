-- expect: harmless
assert(not load("goto nowhere"))
