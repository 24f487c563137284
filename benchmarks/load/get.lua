-- GET of one record at a random id.
local path

function init(args)
  math.randomseed(os.time())
  path = wrk.path .. "/64b0000000000000%08x"
end

function request()
  return wrk.format("GET", string.format(path, math.random(0, 999)))
end
