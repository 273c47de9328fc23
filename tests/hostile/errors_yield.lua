-- expect: error 
coroutine.yield(1)
