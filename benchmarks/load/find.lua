-- A random page of 10 of a random room, sorted, with the total.
local path, first, step

local common = "?room=room%%20%d&$sort[createdAt]=-1&$limit=10&$skip=%d"
local eve = '?where={"room":"room%%20%d"}&sort=-createdAt&max_results=10&page=%d'

function init(args)
  math.randomseed(os.time())
  path = wrk.path .. (args[1] == "eve" and eve:gsub('["{}]', function (c)
    return string.format("%%%%%02X", c:byte())
  end) or common)
  first, step = 0, 10
  if args[1] == "eve" then first, step = 1, 1 end
end

function request()
  return wrk.format("GET", string.format(path, math.random(0, 6), first + step * math.random(0, 13)))
end
