-- POST of a new message of 1,000 bytes, all of its fields given.
local headers = { ["Content-Type"] = "application/json" }
local body = '{"text":"message %06d %s","room":"room %d","read":false}'
local rest = string.rep("x", 1000 - #string.format(body, 0, "", 0))

function init(args)
  math.randomseed(os.time())
end

function request()
  local n = math.random(0, 999999)
  return wrk.format("POST", wrk.path, headers, string.format(body, n, rest, n % 7))
end
