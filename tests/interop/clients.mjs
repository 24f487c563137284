// Drives the official client, unmodified, against a running reference app.
//
//   node clients.mjs NODE_MODULES BASE LIBRARY
//
// LIBRARY is fetch, axios or superagent. Each check gets the app with its seed data. One line of JSON
// goes out for each: {"name": "...", "error": null}, or what went wrong.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import path from 'node:path'

import errorChecks from './checks/errors.mjs'
import methodChecks from './checks/methods.mjs'
import queryChecks from './checks/queries.mjs'
import transportChecks, { withSignal } from './checks/transport.mjs'

const SECONDS_FOR_A_CHECK = 60

const [folder, base, library] = process.argv.slice(2)
const require = createRequire(path.join(path.resolve(folder), 'from-here.js'))
const { feathers } = require('@feathersjs/feathers')
const { errors } = require('@feathersjs/errors')
const rest = require('@feathersjs/rest-client')

const transports = {
  fetch: (connection, options) => connection.fetch(globalThis.fetch, options),
  axios: (connection, options) => connection.axios(require('axios'), options),
  superagent: (connection, options) => connection.superagent(require('superagent'), options)
}

const newClient = (options, address = base) =>
  feathers().configure(transports[library](rest(address), options))

async function reset() {
  const { status } = await fetch(`${base}/__reset`, { method: 'POST' })
  assert.equal(status, 204)
}

// Runs a call that is to fail, and returns its error.
async function failure(call) {
  try {
    await call
  } catch (error) {
    return error
  }
  throw new assert.AssertionError({ message: 'the call succeeded; an error was expected' })
}

// Asserts that a call fails with an error of the class named, as the client hands it out.
async function fails(call, name, message) {
  const error = await failure(call)
  assert.ok(error instanceof errors[name], `${error} is no ${name}`)
  if (message) assert.match(error.message, message)
  return error
}

function limited(work) {
  let timer
  const late = new Promise((_, reject) => {
    const tell = () => reject(new Error(`no end after ${SECONDS_FOR_A_CHECK} s`))
    timer = setTimeout(tell, SECONDS_FOR_A_CHECK * 1000)
  })
  return Promise.race([work, late]).finally(() => clearTimeout(timer))
}

const checks = {
  ...methodChecks,
  ...queryChecks,
  ...errorChecks(errors),
  ...transportChecks,
  ...(library === 'superagent' ? {} : withSignal)
}

for (const [name, check] of Object.entries(checks)) {
  let error = null
  try {
    await reset()
    const client = newClient()
    const service = (path, options) =>
      options ? client.use(path, client.defaultService(path), options).service(path) : client.service(path)
    await limited(check({ assert, library, errors, service, newClient, failure, fails }))
  } catch (thrown) {
    error = thrown.stack ?? String(thrown)
  }
  process.stdout.write(JSON.stringify({ name, error }) + '\n')
}
