-- expect: error table
coroutine.wrap(function() error({}) end)()
