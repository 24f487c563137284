-- A message with a method: wrk ... URL -- METHOD TEXT
function init(args)
  wrk.method = args[1]
  wrk.headers["Content-Type"] = "application/json"
  wrk.body = string.format('{"text":"%s"}', args[2])
end
