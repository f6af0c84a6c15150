-- The load, the same for every HTTP server: requests that were prepared as they go over the wire, each thread at another
-- place among them. What came of it is the last line of the output.

local threads = 0

function setup(thread)
   thread:set("nth", threads)
   threads = threads + 1
end

local requests, at = {}, 0

function init(args)
   local file = assert(io.open(args[1], "rb"))
   while true do
      local length = file:read("*n", 1)
      if not length then break end
      requests[#requests + 1] = file:read(length)
   end
   file:close()
   at = nth * 4219
end

function request()
   at = at % #requests + 1
   return requests[at]
end

function done(summary, latency)
   local errors = summary.errors
   io.write(string.format(
      '\n{"requests":%d,"micros":%d,"bytes":%d,"p50":%d,"p99":%d,"statuses":%d,"broken":%d}\n',
      summary.requests, summary.duration, summary.bytes, latency:percentile(50), latency:percentile(99),
      errors.status, errors.connect + errors.read + errors.write + errors.timeout
   ))
end
