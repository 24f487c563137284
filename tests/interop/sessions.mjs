// Drives the official authentication client, which knows nothing of sessions, against a server that
// has them.
//
//   node sessions.mjs NODE_MODULES BASE
//
// One line of JSON goes out for each check: {"name": "...", "error": null}, or what went wrong.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import path from 'node:path'

const [folder, base] = process.argv.slice(2)
const require = createRequire(path.join(path.resolve(folder), 'from-here.js'))
const { feathers } = require('@feathersjs/feathers')
const rest = require('@feathersjs/rest-client')
const authentication = require('@feathersjs/authentication-client')

const ADA = { strategy: 'local', email: 'ada@example.com', password: 'right' }

const newClient = (storage = new authentication.MemoryStorage()) =>
  feathers()
    .configure(rest(base).fetch(globalThis.fetch))
    .configure(authentication({ storage }))

const isRefused = (call) => assert.rejects(call, { name: 'NotAuthenticated' })

const checks = {
  'login, use, logout': async () => {
    const client = newClient()
    const { user } = await client.authenticate(ADA)
    assert.equal((await client.service('secrets').find()).id, user.id)
    const token = await client.authentication.getAccessToken()
    await client.logout()
    const thief = newClient()
    await thief.authentication.setAccessToken(token)
    await isRefused(thief.reAuthenticate())
  },

  'a page that is loaded again': async () => {
    const storage = new authentication.MemoryStorage()
    await newClient(storage).authenticate(ADA)
    const again = newClient(storage)
    const { user } = await again.reAuthenticate()
    assert.equal(user.email, ADA.email)
    assert.equal((await again.service('secrets').find()).id, user.id)
  },

  'two places at a time': async () => {
    const [here, there] = [newClient(), newClient()]
    await here.authenticate(ADA)
    await there.authenticate(ADA)
    await here.logout()
    await there.service('secrets').find()
    await isRefused(here.service('secrets').find())
  },

  'logout everywhere': async () => {
    const [here, there] = [newClient(), newClient()]
    await here.authenticate(ADA)
    await there.authenticate(ADA)
    await here.service('authentication').remove(null, { query: { everywhere: true } })
    await isRefused(there.service('secrets').find())
    await isRefused(here.service('secrets').find())
  },

  'a refresh token, for a client that wants to use it': async () => {
    const client = newClient()
    const first = await client.authenticate(ADA)
    const second = await client.authenticate({
      strategy: 'refresh',
      refreshToken: first.refreshToken
    })
    assert.notEqual(second.accessToken, first.accessToken)
    assert.equal(await client.authentication.getAccessToken(), second.accessToken)
    await client.service('secrets').find()
  }
}

for (const [name, check] of Object.entries(checks)) {
  let error = null
  try {
    await check()
  } catch (thrown) {
    error = thrown.stack ?? String(thrown)
  }
  process.stdout.write(JSON.stringify({ name, error }) + '\n')
}
