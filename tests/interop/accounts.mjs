// Calls the client of feathers-authentication-management, unmodified, as recorded with the original.
// Then it signs in with FeathersJS' authentication client and a second factor.
//
//   node accounts.mjs NODE_MODULES BASE RECORDED
//
// One line of JSON goes out for each case: {"name": "...", "error": null}, or how it differs.
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'

const [folder, base, recorded] = process.argv.slice(2)
const require = createRequire(path.join(path.resolve(folder), 'from-here.js'))
const { feathers } = require('@feathersjs/feathers')
const rest = require('@feathersjs/rest-client')
const authentication = require('@feathersjs/authentication-client')
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

// As an app on a phone does: of a step of 30 seconds, some steps from now.
const codeOf = (secret, steps) => {
  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
  const bits = [...secret].map((l) => letters.indexOf(l).toString(2).padStart(5, '0')).join('')
  const step = Buffer.alloc(8)
  step.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30000) + steps))
  const digest = createHmac('sha1', Buffer.from(bits.match(/.{8}/g).map((b) => parseInt(b, 2))))
    .update(step).digest()
  const number = digest.readUInt32BE(digest.at(-1) & 15) & 0x7fffffff
  return String(number % 1000000).padStart(6, '0')
}

const signInWithSecondFactor = async () => {
  await request('/__reset', {})
  const app = feathers().configure(rest(base).fetch(fetch)).configure(authentication())
  await app.service('users').create(ADA)
  const password = { strategy: 'local', ...ADA }
  await app.authenticate(password)
  const { secret } = await app.service('account/second-factor').create({})
  const code = codeOf(secret, 0)
  const { recoveryCodes } = await app.service('account/second-factor').patch(null, { code })
  const ticketOf = async () => {
    const error = await app.authenticate(password).catch((refusal) => refusal)
    assert.equal(error.data.code, 'second_factor')
    return error.data.ticket
  }
  const credentials = { strategy: 'totp', ticket: await ticketOf(), code: codeOf(secret, 1) }
  const byApp = await app.authenticate(credentials)
  assert.deepEqual(byApp.authentication.payload.amr, ['pwd', 'otp'])
  const recovery = { strategy: 'recovery', ticket: await ticketOf(), code: recoveryCodes[0] }
  await app.authenticate(recovery)
  const { recoveryCodesLeft } = await app.service('account/second-factor').find()
  assert.equal(recoveryCodesLeft, 9)
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

const failure = await signInWithSecondFactor().then(() => null, (error) => error.message)
console.log(JSON.stringify({ name: 'a sign-in with a second factor', error: failure }))
