-- expect: error 
coroutine.wrap(function() error({}) end)()
