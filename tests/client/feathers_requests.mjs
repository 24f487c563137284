// Prints what the official client would send for a list of calls, as JSON.
//
//   node feathers_requests.mjs NODE_MODULES < CALLS
//
// A call is {"path", "method", "arguments", "methods", "options"}; of each request goes out
// {"method", "url", "headers", "body"}, names of headers in lower case.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'

const [folder] = process.argv.slice(2)
const require = createRequire(path.join(path.resolve(folder), 'from-here.js'))
const { feathers } = require('@feathersjs/feathers')
const rest = require('@feathersjs/rest-client')

const sent = []
const note = async (url, { method, headers, body }) => {
  const names = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])
  sent.push({ method, url, headers: Object.fromEntries(names), body: body ?? null })
  return { ok: true, status: 204 }
}

for (const call of JSON.parse(readFileSync(0, 'utf8'))) {
  const client = feathers()
  const connection = rest('http://here/api').fetch(note, { headers: call.options })
  client.configure(connection)
  client.use(call.path, connection.service(call.path), { methods: ['find', 'get', 'create', 'update', 'patch', 'remove', ...call.methods] })
  await client.service(call.path)[call.method](...call.arguments)
}
console.log(JSON.stringify(sent))
