-- expect: error this is bytecode
-- bytecode.lua begins as compiled code does.
require "bytecode"
