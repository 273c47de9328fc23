-- Rule rewards: plain functions of an answer's text or length. Each gives 0 or 1, `overlong` a
-- penalty between -1 and 0; a recipe's reward adds those it needs.
local rewards = {}

local function trimmed(text) return (tostring(text):gsub("^%s+", ""):gsub("%s+$", "")) end

-- A mistyped column would otherwise make every answer wrong.
local function check_wanted(wanted)
  if wanted ~= nil then return end
  error("the wanted answer is nil; a column is read as s.NAME, and is named in keep of data", 3)
end

-- Returns 1 if the answer is `wanted`, apart from blanks around both.
function rewards.exact(text, wanted)
  check_wanted(wanted)
  return trimmed(text) == trimmed(wanted) and 1 or 0
end

-- Returns the last number of a text, or nil. Commas before groups of three digits are ignored; a
-- minus after a letter, digit or closing bracket is an operator: 12-5 ends with 5.
function rewards.last_number(text)
  local plain, count = tostring(text), 1
  while count > 0 do plain, count = plain:gsub("(%d),(%d%d%d)%f[%D]", "%1%2") end
  local last
  for at, digits in plain:gmatch("()(%d+%.?%d*)") do
    local sign, before = plain:sub(at - 1, at - 1), plain:sub(at - 2, at - 2)
    last = tonumber(digits)
    if at > 1 and sign == "-" and not (at > 2 and before:match("[%w%)%]]")) then last = -last end
  end
  return last
end

-- Returns 1 if the last number of the answer is `wanted`, within a relative `tolerance` (1e-6).
function rewards.number(text, wanted, tolerance)
  check_wanted(wanted)
  local got, value = rewards.last_number(text), tonumber(wanted) or rewards.last_number(wanted)
  if not value then error(("the wanted answer %q has no number"):format(tostring(wanted)), 2) end
  if not got then return 0 end
  return math.abs(got - value) <= (tolerance or 1e-6) * math.max(1, math.abs(value)) and 1 or 0
end

-- Returns 1 if the whole answer matches a Lua pattern, apart from blanks around it.
function rewards.format(text, pattern)
  return trimmed(text):find("^" .. pattern .. "$") and 1 or 0
end

-- Returns DAPO's penalty for long answers (Yu et al. 2025, eq. 13): 0 up to limit - margin tokens,
-- then linearly down to -1 at the limit.
function rewards.overlong(length, limit, margin)
  if length <= limit - margin then return 0 end
  if length > limit then return -1 end
  return (limit - margin - length) / margin
end

-- Returns the position after the JSON value that begins at i, or nil (RFC 8259). `depth` bounds the
-- recursion, since an answer may consist of brackets only.
local value
local function blanks(s, i) return s:find("[^ \t\r\n]", i) or #s + 1 end

local function string_end(s, i)
  while true do
    i = s:find('["\\%c]', i)
    local c = i and s:sub(i, i)
    if c == '"' then return i + 1 end
    if c ~= "\\" then return nil end
    if s:find('^["\\/bfnrt]', i + 1) then i = i + 2
    elseif s:find("^u%x%x%x%x", i + 1) then i = i + 6
    else return nil end
  end
end

local function number_end(s, i)
  local _, last = s:find("^%-?[1-9]%d*", i)
  if not last then _, last = s:find("^%-?0", i) end
  if not last then return nil end
  local _, fraction = s:find("^%.%d+", last + 1)
  last = fraction or last
  local _, exponent = s:find("^[eE][+-]?%d+", last + 1)
  return (exponent or last) + 1
end

local function list_end(s, i, depth, close, member)
  i = blanks(s, i)
  if s:sub(i, i) == close then return i + 1 end
  while true do
    i = member(s, i, depth)
    if not i then return nil end
    i = blanks(s, i)
    local c = s:sub(i, i)
    if c == close then return i + 1 end
    if c ~= "," then return nil end
    i = blanks(s, i + 1)
  end
end

local function pair_end(s, i, depth)
  i = s:sub(i, i) == '"' and string_end(s, i + 1)
  i = i and blanks(s, i)
  return i and s:sub(i, i) == ":" and value(s, blanks(s, i + 1), depth) or nil
end

function value(s, i, depth)
  if depth > 100 then return nil end
  local c = s:sub(i, i)
  if c == '"' then return string_end(s, i + 1) end
  if c == "{" then return list_end(s, i + 1, depth + 1, "}", pair_end) end
  if c == "[" then return list_end(s, i + 1, depth + 1, "]", value) end
  for _, word in ipairs { "true", "false", "null" } do
    if s:sub(i, i + #word - 1) == word then return i + #word end
  end
  return number_end(s, i)
end

-- Returns 1 if the answer is one JSON value, at most 100 levels deep.
function rewards.json(text)
  local after = value(text, blanks(text, 1), 0)
  return after and blanks(text, after) > #text and 1 or 0
end

return rewards
