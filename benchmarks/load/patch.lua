-- PATCH of one field of a record at a random id.
local path, first
local headers = { ["Content-Type"] = "application/json" }

function init(args)
  math.randomseed(os.time())
  -- Ids of MongoDB, or numbers from 1 on, or from the second argument on.
  path, first = wrk.path .. "/64b0000000000000%08x", 0
  if args[1] == "numbers" then path, first = wrk.path .. "/%d", tonumber(args[2] or 1) end
end

function request()
  local body = string.format('{"text":"message %d"}', math.random(0, 1000000))
  return wrk.format("PATCH", string.format(path, first + math.random(0, 999)), headers, body)
end
