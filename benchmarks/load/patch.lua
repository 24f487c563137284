-- PATCH of one field of a record at a random id.
local path
local headers = { ["Content-Type"] = "application/json" }

function init(args)
  math.randomseed(os.time())
  path = wrk.path .. "/64b0000000000000%08x"
end

function request()
  local body = string.format('{"text":"message %d"}', math.random(0, 1000000))
  return wrk.format("PATCH", string.format(path, math.random(0, 999)), headers, body)
end
