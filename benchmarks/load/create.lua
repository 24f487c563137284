-- POST of a new record.
local headers = { ["Content-Type"] = "application/json" }
local body = '{"text":"message %d","room":"room %d","read":false,"createdAt":%d}'

function init(args)
  math.randomseed(os.time())
end

function request()
  local n = math.random(0, 1000000)
  return wrk.format("POST", wrk.path, headers, string.format(body, n, n % 7, 1700000000000 + n))
end
