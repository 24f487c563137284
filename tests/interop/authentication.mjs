// Drives the official authentication client, unmodified, against a running reference app.
//
//   node authentication.mjs NODE_MODULES BASE LIBRARY SEED
//
// LIBRARY is fetch, axios or superagent; SEED the file with the secret and tokens. Each check gets the
// app with its seed data. One line of JSON goes out for each: {"name": "...", "error": null}, or what
// went wrong.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'

const SECONDS_FOR_A_CHECK = 60

const [folder, base, library, seedFile] = process.argv.slice(2)
const seed = JSON.parse(readFileSync(seedFile, 'utf8'))
const require = createRequire(path.join(path.resolve(folder), 'from-here.js'))
const { feathers } = require('@feathersjs/feathers')
const { errors } = require('@feathersjs/errors')
const rest = require('@feathersjs/rest-client')
const authentication = require('@feathersjs/authentication-client')
const { AuthenticationBase } = require('@feathersjs/authentication')

const transports = {
  fetch: (connection) => connection.fetch(globalThis.fetch),
  axios: (connection) => connection.axios(require('axios')),
  superagent: (connection) => connection.superagent(require('superagent'))
}

const newStorage = () => new authentication.MemoryStorage()

// Returns a client with a storage of its own, as a browser has one for each origin.
const newClient = (options = {}) =>
  feathers()
    .configure(transports[library](rest(base)))
    .configure(authentication({ storage: newStorage(), ...options }))

// What FeathersJS itself makes tokens with and checks them by.
const feathersServer = () =>
  new AuthenticationBase(feathers(), 'authentication', {
    secret: seed.secret,
    entity: 'user',
    service: 'users',
    authStrategies: ['jwt'],
    jwtOptions: {
      header: { typ: 'access' },
      audience: 'https://yourdomain.com',
      algorithm: 'HS256',
      expiresIn: '1d'
    }
  })

const ADA = { strategy: 'local', email: 'ada@example.com', password: 'secret-ada' }
const ADA_SHOWN = { id: 1, email: 'ada@example.com', role: 'admin' }

async function fails(call, name, message) {
  try {
    await call
  } catch (error) {
    assert.ok(error instanceof errors[name], `${error} is no ${name}`)
    if (message) assert.match(error.message, message)
    return error
  }
  throw new assert.AssertionError({ message: 'the call succeeded; an error was expected' })
}

const checks = {
  login: async () => {
    const client = newClient()
    const result = await client.authenticate(ADA)
    assert.deepEqual(result.user, ADA_SHOWN)
    assert.equal(result.authentication.strategy, 'local')
    assert.equal(result.authentication.payload.sub, '1')
    assert.equal(client.authentication.authenticated, true)
  },

  'login with unicode': async () => {
    const result = await newClient().authenticate({
      strategy: 'local',
      email: 'bob@example.com',
      password: 'pässwörd'
    })
    assert.equal(result.user.id, 2)
  },

  'the token is stored and sent along': async () => {
    const client = newClient()
    await fails(client.service('secrets').find(), 'NotAuthenticated', /Not authenticated/)
    const { accessToken } = await client.authenticate(ADA)
    assert.equal(await client.authentication.getAccessToken(), accessToken)
    assert.equal((await client.service('secrets').find()).length, 2)
    const made = await client.service('secrets').create({ text: 'mine' })
    assert.equal(made.userId, 1)
  },

  'a wrong password': async () => {
    const client = newClient()
    const wrong = await fails(
      client.authenticate({ ...ADA, password: 'wrong' }),
      'NotAuthenticated',
      /^Invalid login$/
    )
    const unknown = await fails(
      client.authenticate({ ...ADA, email: 'nobody@example.com' }),
      'NotAuthenticated',
      /^Invalid login$/
    )
    assert.deepEqual(unknown.toJSON(), wrong.toJSON())
    assert.equal(await client.authentication.getAccessToken(), null)
    assert.equal(client.authentication.authenticated, false)
  },

  'a strategy that is not there': async () => {
    await fails(newClient().authenticate({ strategy: 'github' }), 'NotAuthenticated', /not allowed/)
  },

  'reAuthenticate with what is stored': async () => {
    const storage = newStorage()
    const { accessToken } = await newClient({ storage }).authenticate(ADA)
    const later = newClient({ storage })
    const result = await later.reAuthenticate()
    assert.equal(result.accessToken, accessToken)
    assert.equal(result.authentication.strategy, 'jwt')
    assert.deepEqual(result.user, ADA_SHOWN)
    assert.equal((await later.service('secrets').find()).length, 2)
  },

  'reAuthenticate asks once': async () => {
    const storage = newStorage()
    await newClient({ storage }).authenticate(ADA)
    const later = newClient({ storage })
    const [first, second] = await Promise.all([later.reAuthenticate(), later.reAuthenticate()])
    assert.equal(first, second)
    assert.notEqual(await later.reAuthenticate(true), first)
  },

  'reAuthenticate with nothing stored': async () => {
    await fails(newClient().reAuthenticate(), 'NotAuthenticated', /No accessToken found/)
  },

  'reAuthenticate with a token that has expired': async () => {
    const client = newClient()
    await client.authentication.setAccessToken(seed.tokens.expired)
    const error = await fails(client.reAuthenticate(), 'NotAuthenticated', /^jwt expired$/)
    assert.equal(error.data.name, 'TokenExpiredError')
    assert.equal(error.data.expiredAt, '2024-01-01T00:01:00.000Z')
    assert.equal(await client.authentication.getAccessToken(), null)
  },

  'a token that expires between two calls': async () => {
    const client = newClient()
    const accessToken = await feathersServer().createAccessToken({}, { subject: '1', expiresIn: 5 })
    const { authentication } = await client.authenticate({ strategy: 'jwt', accessToken })
    assert.equal((await client.service('secrets').find()).length, 2)
    const left = authentication.payload.exp * 1000 - Date.now()
    await new Promise((resolve) => setTimeout(resolve, left + 100))
    await fails(client.service('secrets').find(), 'NotAuthenticated', /^jwt expired$/)
  },

  'a user who was removed': async () => {
    const bob = newClient()
    await bob.authenticate({ strategy: 'local', email: 'bob@example.com', password: 'pässwörd' })
    const ada = newClient()
    await ada.authenticate(ADA)
    await ada.service('users').remove(2)
    await fails(bob.service('secrets').find(), 'NotAuthenticated')
    await fails(bob.reAuthenticate(true), 'NotAuthenticated')
    assert.equal(await bob.authentication.getAccessToken(), null)
  },

  logout: async () => {
    const client = newClient()
    const { accessToken } = await client.authenticate(ADA)
    const result = await client.logout()
    assert.equal(result.accessToken, accessToken)
    assert.deepEqual(result.user, ADA_SHOWN)
    assert.equal(await client.authentication.getAccessToken(), null)
    assert.equal(client.authentication.authenticated, false)
    await fails(client.service('secrets').find(), 'NotAuthenticated')
  },

  'logout with a token that has expired': async () => {
    const client = newClient()
    await client.authentication.setAccessToken(seed.tokens.expired)
    await fails(client.reAuthenticate(), 'NotAuthenticated')
    assert.equal(await client.logout(), null)
  },

  'events of the client': async () => {
    const client = newClient()
    const told = []
    for (const name of ['login', 'authenticated', 'logout']) {
      client.on(name, (result) => told.push([name, result.user.id]))
    }
    await client.authenticate(ADA)
    await client.logout()
    assert.deepEqual(told, [
      ['login', 1],
      ['authenticated', 1],
      ['logout', 1]
    ])
  },

  'another storage key, header and scheme': async () => {
    const storage = newStorage()
    const client = newClient({ storage, storageKey: 'mine', header: 'authorization', scheme: 'JWT' })
    const { accessToken } = await client.authenticate(ADA)
    assert.equal(await storage.getItem('mine'), accessToken)
    assert.equal((await client.service('secrets').find()).length, 2)
  },

  'registration, then login': async () => {
    const client = newClient()
    const data = { email: 'new@example.com', password: 'a new password' }
    const user = await client.service('users').create(data)
    assert.deepEqual(user, { id: 3, email: 'new@example.com' })
    const result = await client.authenticate({ strategy: 'local', ...data })
    assert.deepEqual(result.user, user)
    assert.deepEqual(await client.service('users').get(3), user)
  },

  'a token of FeathersJS is good here': async () => {
    const accessToken = await feathersServer().createAccessToken({ role: 'x' }, { subject: '1' })
    const result = await newClient().authenticate({ strategy: 'jwt', accessToken })
    assert.deepEqual(result.user, ADA_SHOWN)
    assert.equal(result.authentication.payload.role, 'x')
  },

  'a token from here is good for FeathersJS': async () => {
    const { accessToken, authentication } = await newClient().authenticate(ADA)
    const payload = await feathersServer().verifyAccessToken(accessToken)
    assert.deepEqual(payload, authentication.payload)
  }
}

function limited(work) {
  let timer
  const late = new Promise((_, reject) => {
    const tell = () => reject(new Error(`no end after ${SECONDS_FOR_A_CHECK} s`))
    timer = setTimeout(tell, SECONDS_FOR_A_CHECK * 1000)
  })
  return Promise.race([work, late]).finally(() => clearTimeout(timer))
}

for (const [name, check] of Object.entries(checks)) {
  let error = null
  try {
    const { status } = await fetch(`${base}/__reset`, { method: 'POST' })
    assert.equal(status, 204)
    await limited(check())
  } catch (thrown) {
    error = thrown.stack ?? String(thrown)
  }
  process.stdout.write(JSON.stringify({ name, error }) + '\n')
}
