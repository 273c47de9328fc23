-- expect: harmless
local function h() error("again") end
xpcall(error, h)
xpcall(function() local function f() return 1 + f() end f() end, h)
