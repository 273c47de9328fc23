-- expect: harmless
local depth = 0
local function f()
  depth = depth + 1
  return depth == 100000 or coroutine.resume(coroutine.create(f))
end
f()
