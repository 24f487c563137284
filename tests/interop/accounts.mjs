// Calls the client of feathers-authentication-management, unmodified, as recorded with the original.
//
//   node accounts.mjs NODE_MODULES BASE RECORDED
//
// One line of JSON goes out for each case: {"name": "...", "error": null}, or how it differs.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'

const [folder, base, recorded] = process.argv.slice(2)
const require = createRequire(path.join(path.resolve(folder), 'from-here.js'))
const { feathers } = require('@feathersjs/feathers')
const rest = require('@feathersjs/rest-client')
const makeClient = require('feathers-authentication-management/dist/client')

const ADA = { email: 'ada@example.com', password: 'correct horse' }

const request = async (place, body) => {
  const init = body && {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body)
  }
  return (await fetch(base + place, init)).json()
}

const outcomeOf = async (calls) => {
  await request('/__reset', {})
  const app = feathers().configure(rest(base).fetch(fetch))
  const client = makeClient(app)
  const actions = {
    signUp: async () => (await app.service('users').create(ADA)) && 'a user',
    signIn: async (password) => {
      const credentials = { strategy: 'local', email: ADA.email, password }
      const result = await app.service('authentication').create(credentials)
      return result.accessToken ? 'signed in' : 'no'
    }
  }
  let outcome
  for (const [name, ...given] of calls) {
    const mail = (await request('/__notices')).at(-1) ?? {}
    const values = { '{long}': mail.token, '{short}': mail.shortToken }
    const args = given.map((value) => values[value] ?? value)
    try {
      outcome = { resolves: (await (actions[name] ?? client[name])(...args)) ?? null }
    } catch (error) {
      return { rejects: { name: error.name, code: error.code ?? null } }
    }
  }
  return outcome
}

for (const { name, quirk, calls, outcome } of JSON.parse(readFileSync(recorded)).cases) {
  if (quirk) continue // the original is unsafe there
  let error = null
  try {
    const expected = outcome.rejects && { name: outcome.rejects.name, code: outcome.rejects.code }
    assert.deepEqual(await outcomeOf(calls), expected ? { rejects: expected } : outcome)
  } catch (failure) {
    error = failure.message
  }
  console.log(JSON.stringify({ name, error }))
}
