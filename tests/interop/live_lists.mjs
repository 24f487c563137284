// Drives the official client over socket.io, unmodified: one that asks for live lists, and one that
// does not.
//
//   node live_lists.mjs NODE_MODULES BASE
//
// One line of JSON goes out for each check: {"name": "...", "error": null}, or what went wrong.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import path from 'node:path'

const [folder, base] = process.argv.slice(2)
const require = createRequire(path.join(path.resolve(folder), 'from-here.js'))
const { feathers } = require('@feathersjs/feathers')
const socketio = require('@feathersjs/socketio-client')
const { io } = require('socket.io-client')

const METHODS = ['find', 'create', 'patch', 'remove', 'live', 'unlive']

function connect() {
  const socket = io(base, { transports: ['websocket'] })
  const connection = socketio(socket)
  const client = feathers().configure(connection)
  client.use('todos', connection.service('todos'), { methods: METHODS })
  return { socket, todos: client.service('todos') }
}

// Returns a function that waits for the next event of a service.
function eventsOf(service, name) {
  const [waiting, arrived] = [[], []]
  service.on(name, (event) => (waiting.length ? waiting.shift()(event) : arrived.push(event)))
  const next = () =>
    arrived.length ? Promise.resolve(arrived.shift()) : new Promise((resolve) => waiting.push(resolve))
  return { next, arrived }
}

const checks = {
  'a client that asks has a list': async () => {
    const { socket, todos } = connect()
    const { next } = eventsOf(todos, 'live')
    const page = await todos.live({ list: 'a1' }, { query: { done: false, $limit: 2 } })
    assert.deepEqual(page.rows, [])
    const { id } = await todos.create({ text: 'tea', done: false })
    const { have, ...entered } = await next()
    assert.deepEqual(entered, {
      list: 'a1',
      kind: 'entered',
      at: 0,
      data: { text: 'tea', done: false, id }
    })
    await todos.patch(id, { done: true })
    assert.deepEqual((await next()).kind, 'left')
    assert.deepEqual(await todos.live({ settled: true }), {})
    const again = await todos.live({ list: 'a2', have }, { query: { done: false, $limit: 2 } })
    assert.deepEqual(again.rows, [])
    await assert.rejects(todos.live({ list: 'a1' }), { name: 'Conflict', code: 409 })
    assert.deepEqual(await todos.unlive({ list: 'a1' }), { list: 'a1' })
    socket.close()
  },

  'a client that does not ask sees nothing': async () => {
    const [quiet, asking] = [connect(), connect()]
    const packets = []
    quiet.socket.onAny((name) => packets.push(name))
    const { next } = eventsOf(asking.todos, 'live')
    const created = eventsOf(quiet.todos, 'created')
    await quiet.todos.find()
    await asking.todos.live({ list: 'a1' }, { query: { text: 'milk' } })
    await asking.todos.create({ text: 'milk' })
    await next()
    assert.equal((await created.next()).text, 'milk')
    await quiet.todos.find()
    assert.deepEqual(packets, ['todos created'])
    quiet.socket.close()
    asking.socket.close()
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
process.exit()
