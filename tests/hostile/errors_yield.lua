-- expect: alone error 
coroutine.yield(1)
