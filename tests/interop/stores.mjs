// Drives the stores that front ends of FeathersJS use, unmodified, as two pages of two users would:
// feathers-pinia (Vue) and feathers-reactive (RxJS).
//
//   node stores.mjs NODE_MODULES BASE
//
// One line of JSON goes out for each check: {"name": "...", "error": null}, or what went wrong. The
// checks of a store build on each other.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import path from 'node:path'

const [folder, base] = process.argv.slice(2)
const require = createRequire(path.join(path.resolve(folder), 'from-here.js'))
const { feathers } = require('@feathersjs/feathers')
const socketio = require('@feathersjs/socketio-client')
const authentication = require('@feathersjs/authentication-client')
const { io } = require('socket.io-client')
const { createPinia } = require('pinia')
const { createPiniaClient } = require('feathers-pinia')
const { rx } = require('feathers-reactive')

const SECONDS_TO_HAPPEN = 60
const ALL = { query: { $sort: { createdAt: 1 }, $limit: 50 } }

function connect() {
  const socket = io(base, { forceNew: true, reconnectionDelay: 50, reconnectionDelayMax: 100 })
  const client = feathers()
    .configure(socketio(socket))
    .configure(authentication({ storage: new authentication.MemoryStorage() }))
  return { socket, client }
}

// A page: how it signs in and writes, and the texts that it shows.
const pages = {
  'feathers-pinia'() {
    const { socket, client } = connect()
    const api = createPiniaClient(client, {
      pinia: createPinia(),
      idField: 'id',
      paramsForServer: [],
      whitelist: []
    })
    const messages = api.service('messages')
    const found = messages.findInStore(ALL)
    return {
      socket,
      client: api,
      load: () => messages.find(ALL),
      texts: () => found.data.map(({ text }) => text),
      create: (text) => messages.new({ text }).save(),
      patch: (id, text) => messages.getFromStore(id).value.patch({ data: { text } }),
      remove: (id) => messages.getFromStore(id).value.remove()
    }
  },
  'feathers-reactive'() {
    const { socket, client } = connect()
    client.configure(rx({ idField: 'id' }))
    const messages = client.service('messages')
    let shown = []
    let watching
    return {
      socket,
      client,
      load() {
        watching?.unsubscribe()
        return new Promise((resolve) => {
          const pages = messages.watch({ listStrategy: 'smart' }).find(ALL)
          watching = pages.subscribe((page) => resolve((shown = page.data)))
        })
      },
      texts: () => shown.map(({ text }) => text),
      create: (text) => messages.create({ text }),
      patch: (id, text) => messages.patch(id, { text }),
      remove: (id) => messages.remove(id)
    }
  }
}

async function eventually(assertion) {
  const end = Date.now() + SECONDS_TO_HAPPEN * 1000
  for (;;) {
    try {
      return await assertion()
    } catch (error) {
      if (Date.now() > end) throw error
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }
}

async function check(name, run) {
  let error = null
  try {
    await run()
  } catch (thrown) {
    error = String(thrown?.stack ?? thrown)
  }
  console.log(JSON.stringify({ name, error }))
}

const signIn = (page, name) =>
  page.client.authenticate({ strategy: 'local', email: `${name}@example.com`, password: 'right' })

for (const [store, open] of Object.entries(pages)) {
  const [ada, bob] = [open(), open()]
  const bothShow = (...texts) =>
    eventually(() => {
      assert.deepEqual(ada.texts(), texts)
      assert.deepEqual(bob.texts(), texts)
    })
  let first, second

  await check(`${store}: what one creates, both show`, async () => {
    await signIn(ada, 'ada')
    await signIn(bob, 'bob')
    await Promise.all([ada.load(), bob.load()])
    first = await ada.create('one')
    second = await bob.create('two')
    await bothShow('one', 'two')
  })

  await check(`${store}: what one changes or removes, both show`, async () => {
    await ada.patch(first.id, 'ONE')
    await bothShow('ONE', 'two')
    await bob.remove(second.id)
    await bothShow('ONE')
  })

  await check(`${store}: nothing comes after sign-out`, async () => {
    const events = []
    bob.socket.onAny((name) => events.push(name))
    await bob.client.logout()
    const sent = await ada.create('private')
    await eventually(() => assert.deepEqual(ada.texts(), ['ONE', 'private']))
    await assert.rejects(bob.client.service('messages').get(sent.id), { code: 401 })
    assert.deepEqual(events, [])
  })

  await check(`${store}: a network that fails signs in again`, async () => {
    await signIn(bob, 'bob')
    await bob.load()
    await bothShow('ONE', 'private')
    const back = new Promise((resolve) => bob.socket.once('connect', resolve))
    bob.socket.io.engine.close()
    await back
    await bob.client.service('messages').find() // waits until it has signed in
    const { id } = await ada.create('after')
    await bothShow('ONE', 'private', 'after')
    for (const one of [id, first.id]) await ada.remove(one)
    await bothShow('private')
  })

  await ada.client.service('messages').remove(null)
  for (const { socket } of [ada, bob]) socket.disconnect()
}
process.exit() // timers of the clients are left
