-- expect: alone ended --limit-seconds
while true do coroutine.wrap(function() while true do coroutine.yield() end end)() end
