-- Evaluates an arithmetic expression: + - * / % ^ and parentheses over decimal numbers, with the
-- usual precedence; ^ is right-associative and binds tighter than a sign before it. A model writes
-- the text, so nothing in it runs as code, and its length and nesting are bounded.
local kLongest, kDeepest = 1000, 50

local function fail(message) error({ message = message }, 0) end

local sum                                    -- (text, position, depth) -> value, position after it

local function blanks(s, i) return s:find("%S", i) or #s + 1 end

local function atom(s, i, depth)
  if depth > kDeepest then fail("nested too deep") end
  if s:sub(i, i) == "(" then
    local value, after = sum(s, i + 1, depth + 1)
    if s:sub(after, after) ~= ")" then fail("a parenthesis is not closed") end
    return value, blanks(s, after + 1)
  end
  local digits = s:match("^%d+%.?%d*", i) or s:match("^%.%d+", i)
  if not digits then
    if i > #s then fail("it ends where a number is wanted") end
    fail(("no number at %q"):format(s:sub(i, i + 9)))
  end
  return tonumber(digits), blanks(s, i + #digits)
end

local function signed(s, i, depth)
  if depth > kDeepest then fail("nested too deep") end
  i = blanks(s, i)
  local sign = s:sub(i, i)
  if sign == "-" or sign == "+" then
    local value, after = signed(s, i + 1, depth + 1)
    return sign == "-" and -value or value, after
  end
  local value, after = atom(s, i, depth)
  if s:sub(after, after) ~= "^" then return value, after end
  local power, last = signed(s, after + 1, depth + 1)
  return value ^ power, last
end

local apply = {
  ["+"] = function(a, b) return a + b end,
  ["-"] = function(a, b) return a - b end,
  ["*"] = function(a, b) return a * b end,
  ["/"] = function(a, b) return a / b end,
  ["%"] = function(a, b) return a % b end,
}

-- Returns a parser of operators of one precedence, which it applies from left to right.
local function chain(operators, operand)
  return function(s, i, depth)
    local value, at = operand(s, i, depth)
    while true do
      local operator = s:sub(at, at)
      if operator == "" or not operators:find(operator, 1, true) then return value, at end
      local right
      right, at = operand(s, at + 1, depth)
      if (operator == "/" or operator == "%") and right == 0 then fail("division by zero") end
      value = apply[operator](value, right)
    end
  end
end

sum = chain("+-", chain("*/%", signed))

-- Returns the value, or nil and the reason.
return function(text)
  if type(text) ~= "string" then return nil, "the expression is not a string" end
  if #text > kLongest then return nil, ("longer than %d characters"):format(kLongest) end
  local ok, value, after = pcall(sum, text, 1, 0)
  if not ok then
    if type(value) == "table" and value.message then return nil, value.message end
    error(value, 0)
  end
  if after <= #text then return nil, ("no operator at %q"):format(text:sub(after, after + 9)) end
  if value ~= value or value == math.huge or value == -math.huge then return nil, "not finite" end
  return value
end
