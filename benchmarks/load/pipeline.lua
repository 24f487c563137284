-- 16 GETs at once on each connection; wrk waits for all of their responses.
local requests

function init(args)
  requests = string.rep(wrk.format(), 16)
end

function request()
  return requests
end
