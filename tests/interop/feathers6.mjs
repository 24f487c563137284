// Drives the client of FeathersJS 6 against Alula.
//
//   node feathers6.mjs NODE_MODULES BASE
//
// One line of JSON goes out for each check: {"name": "...", "error": null}, or what went wrong.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import path from 'node:path'

const [folder, base] = process.argv.slice(2)
const require = createRequire(path.join(path.resolve(folder), 'from-here.js'))
const { feathers } = require('feathers')
const { fetchClient } = require('feathers/client')

const newClient = (options) => feathers().configure(fetchClient(fetch, { baseUrl: base, ...options }))
const next = (service, event) => new Promise((resolve) => service.once(event, resolve))

async function connected(options) {
  const client = newClient({ sse: options })
  const opened = next(client.service('sse'), 'connected')
  await client.setup()
  return { client, leave: await opened }
}

const checks = {
  'all methods of a service': async () => {
    const todos = newClient().service('todos')
    const [first] = await todos.create([{ text: 'a' }, { text: 'b' }])
    assert.deepEqual(await todos.get(first.id), first)
    assert.deepEqual((await todos.patch(first.id, { done: true })).done, true)
    assert.deepEqual(await todos.update(first.id, { text: 'c' }), { text: 'c', id: first.id })
    assert.deepEqual((await todos.find({ query: { text: { $in: ['c'] } } })).length, 1)
    assert.deepEqual((await todos.remove(null)).length, 2)
  },

  'a custom method, and placeholders in a path': async () => {
    const echo = newClient().service('echo')
    const answer = await echo.shout({ text: 'a' }, { query: { a: 1 } })
    assert.deepEqual([answer.method, answer.data, answer.query], ['shout', { text: 'a' }, { a: '1' }])
    const notes = newClient().service('users/:userId/notes')
    assert.deepEqual((await notes.find({ route: { userId: '7' } })).route, { userId: '7' })
  },

  'errors have their class and their data': async () => {
    const failing = newClient().service('failing')
    await assert.rejects(failing.get('data'), { name: 'BadRequest', code: 400, data: { field: 'email' } })
    await assert.rejects(failing.get('Conflict'), { name: 'Conflict', code: 409 })
    await assert.rejects(failing.get('plain'), { name: 'GeneralError', code: 500 })
  },

  'events of all services': async () => {
    const { client, leave } = await connected('sse')
    const todos = client.service('todos')
    const created = next(todos, 'created')
    const todo = await todos.create({ text: 'a', secret: 1 })
    assert.deepEqual(await created, { text: 'a', id: todo.id })
    const patched = next(todos, 'patched')
    await todos.patch(todo.id, { text: 'b' })
    assert.equal((await patched).text, 'b')
    const removed = next(todos, 'removed')
    await todos.remove(todo.id)
    assert.equal((await removed).id, todo.id)
    leave.abort()
  },

  'a room of the query': async () => {
    const { client, leave } = await connected({ path: 'sse', params: { query: { room: 'a' } } })
    const todos = client.service('todos')
    const seen = []
    todos.on('created', (todo) => seen.push(todo.text))
    const last = new Promise((resolve) => todos.on('removed', resolve))
    await todos.create({ text: 'other', room: 'b' })
    const mine = await todos.create({ text: 'mine', room: 'a' })
    await todos.remove(mine.id)
    await last
    assert.deepEqual(seen, ['mine'])
    leave.abort()
  },

  'methods that stream': async () => {
    const tokens = newClient().service('tokens')
    const found = []
    for await (const { token } of await tokens.find({ query: { words: 'a,b' } })) found.push(token)
    for await (const { token } of await tokens.ask({ q: 'c' })) found.push(token)
    assert.deepEqual(found, ['a', 'b', 'a', 'b', 'c'])
    for await (const { n } of await tokens.endless({})) if (n === 3) break
    await assert.rejects(tokens.refused({}), { name: 'Forbidden' })
  },

  'a server that ends the stream': async () => {
    const { client, leave } = await connected('sse')
    const disconnected = next(client.service('sse'), 'disconnected')
    const again = next(client.service('sse'), 'connected')
    await fetch(`${base}/__reset`, { method: 'POST' })
    await disconnected
    leave.abort()
    const leaveAgain = await again
    const created = next(client.service('todos'), 'created')
    await client.service('todos').create({ text: 'again' })
    assert.equal((await created).text, 'again')
    leaveAgain.abort()
  },

  'a page that leaves and comes back': async () => {
    const { leave } = await connected('sse')
    leave.abort()
    const { client, leave: leaveAgain } = await connected('sse')
    const created = next(client.service('todos'), 'created')
    await client.service('todos').create({ text: 'again' })
    assert.equal((await created).text, 'again')
    leaveAgain.abort()
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
