// Runs the official tests of database adapters through the official client, so against a server.
//
//   node adapter_tests.mjs NODE_MODULES BASE SERVICE ID NAME...
//
// The tests named run, the others are skipped. One line of JSON goes out for each that ran or was
// skipped: {"name": "...", "error": null, "skipped": false}.
//
// The tests write into the options of their service and pass `paginate` and `adapter` in params. No
// client can do that over REST, so the server offers two openings: POST /__options changes options,
// and the header x-test-params becomes params.
import { createRequire } from 'node:module'
import path from 'node:path'

const [folder, base, servicePath, idName, ...names] = process.argv.slice(2)
const require = createRequire(path.join(path.resolve(folder), 'from-here.js'))
const adapterTests = require('@feathersjs/adapter-tests')
const { errors } = require('@feathersjs/errors')
const { feathers } = require('@feathersjs/feathers')
const { Mocha } = require('mocha')
const rest = require('@feathersjs/rest-client')

// It can not be skipped, and looks at nothing but the stand-in below.
const OF_THE_STAND_IN = '.id'

const remote = feathers().configure(rest(base).fetch(globalThis.fetch)).service(servicePath)

async function post(target, body) {
  const headers = { 'Content-Type': 'application/json' }
  const { status } = await fetch(base + target, { method: 'POST', headers, body: JSON.stringify(body) })
  if (status !== 204) throw new Error(`POST ${target} answered ${status}`)
}

// Options are written without waiting; the call that follows brings them to the server first.
let unsent = null
const options = new Proxy({ paginate: false, multi: false }, {
  set(target, name, value) {
    unsent = { ...unsent, [name]: value }
    return Reflect.set(target, name, value)
  }
})

async function sendOptions() {
  if (unsent === null) return
  const body = { path: servicePath, ...unsent }
  unsent = null
  await post('/__options', body)
}

function overTheWire({ query, paginate, adapter } = {}) {
  const told = JSON.stringify({ paginate, adapter })
  return { query, headers: told === '{}' ? {} : { 'x-test-params': told } }
}

// The stand-in: a service in the tests' process whose methods are calls to the server.
const service = { id: idName, options, events: ['testing'] }
for (const method of ['find', 'get', 'create', 'update', 'patch', 'remove']) {
  const argumentsBeforeParams = { find: 0, get: 1, create: 1, update: 2, patch: 2, remove: 1 }[method]
  service[method] = async (...given) => {
    await sendOptions()
    const params = overTheWire(given[argumentsBeforeParams])
    return remote[method](...given.slice(0, argumentsBeforeParams), params)
  }
}

class JsonLines {
  constructor(runner) {
    const tell = (skipped) => (test, error) => {
      if (test.title === OF_THE_STAND_IN && !error) return
      const name = test.type === 'hook' ? test.fullTitle() : test.title
      process.stdout.write(JSON.stringify({ name, error: error?.stack ?? null, skipped }) + '\n')
    }
    runner.on('pass', tell(false)).on('fail', tell(false)).on('pending', tell(true))
  }
}

const mocha = new Mocha({ reporter: JsonLines, timeout: 20_000 })
mocha.suite.emit('pre-require', globalThis, null, mocha)
console.log = console.error // the tests print which of them are skipped
await post('/__reset', {})
adapterTests(names)({ service: () => service }, errors, servicePath, idName)
mocha.run()
