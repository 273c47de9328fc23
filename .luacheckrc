-- Recipes and modules: LuaJIT's names, and no globals of their own.
std = "luajit"
max_line_length = 100
