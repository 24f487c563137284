import assert from 'node:assert/strict'
import test from 'node:test'
import { createCollection, createLiveQueryCollection, eq } from '@tanstack/db'
import feathers from '@feathersjs/feathers'
import rest from '@feathersjs/rest-client'
import { alulaCollection } from 'alula-tanstack-db'
import { call, texts, until, url } from '../../alula-live/test/helpers.js'

const client = feathers().configure(rest(url).fetch(fetch))

function open(t, options) {
  const collection = createCollection(alulaCollection({ client, source: url, path: 'todos', ...options }))
  t.after(() => collection.cleanup())
  return collection
}

const textsOf = (collection) => texts(collection.toArray.toSorted((a, b) => a.text < b.text ? -1 : 1))

test('a collection follows the list', async (t) => {
  const group = 'collection follows'
  const [a] = await call('POST', 'todos', [{ text: 'a', group }, { text: 'b', group }])
  const todos = open(t, { query: { group } })
  await todos.preload()
  assert.equal(textsOf(todos), 'a b')
  await call('POST', 'todos', { text: 'c', group })
  await until(() => textsOf(todos) === 'a b c')
  await call('PATCH', `todos/${a.id}`, { text: 'd' })
  await until(() => textsOf(todos) === 'b c d')
  await call('PATCH', `todos/${a.id}`, { group: 'another one' })
  await until(() => textsOf(todos) === 'b c')
})

test('a batch is one change', async (t) => {
  const group = 'collection batch'
  const todos = open(t, { query: { group } })
  await todos.preload()
  const batches = []
  todos.subscribeChanges((changes) => batches.push(changes.map(({ type }) => type).join(' ')))
  await call('POST', 'todos', [{ text: 'a', group }, { text: 'b', group }])
  await until(() => todos.size === 2)
  assert.deepEqual(batches.filter(Boolean), ['insert insert'])
})

test('what is written shows at once, and stays', async (t) => {
  const group = 'collection writes'
  const todos = open(t, { path: 'notes', query: { group } })
  await todos.preload()
  const sizes = []
  todos.subscribeChanges(() => sizes.push(todos.size))
  const inserted = todos.insert({ _id: 900, text: 'a', group })
  assert.equal(textsOf(todos), 'a')
  await inserted.isPersisted.promise
  assert.equal(textsOf(todos), 'a')
  const updated = todos.update(900, (draft) => { draft.text = 'b' })
  assert.equal(textsOf(todos), 'b')
  await updated.isPersisted.promise
  assert.equal(textsOf(todos), 'b')
  assert.equal((await call('GET', 'notes/900')).text, 'b')
  await todos.delete(900).isPersisted.promise
  assert.equal(todos.size, 0)
  assert.ok(!sizes.slice(0, -1).includes(0), `the row never flickered: ${sizes}`)
})

test('what is refused is taken back', async (t) => {
  const group = 'collection refused'
  const todos = open(t, { query: { group } })
  await todos.preload()
  const inserted = todos.insert({ id: -1, text: 'refused', group })
  assert.equal(todos.size, 1)
  await assert.rejects(inserted.isPersisted.promise, /this text is refused/)
  assert.equal(todos.size, 0)
})

test('the server may make the ids', async (t) => {
  const group = 'collection ids'
  const todos = open(t, { query: { group }, serverIds: true })
  await todos.preload()
  await todos.insert({ id: -7, text: 'a', group }).isPersisted.promise
  assert.equal(textsOf(todos), 'a')
  assert.ok(todos.toArray[0].id > 0)
})

test('a row that leaves the query by a write goes', async (t) => {
  const group = 'collection leaves'
  const { id } = await call('POST', 'todos', { text: 'a', group })
  const todos = open(t, { query: { group } })
  await todos.preload()
  await todos.update(id, (draft) => { draft.group = 'another one' }).isPersisted.promise
  assert.equal(todos.size, 0)
})

test('after a break it has all', async (t) => {
  const group = 'collection break'
  const todos = open(t, { query: { group } })
  await todos.preload()
  await call('POST', 'connections', {})
  await call('POST', 'todos', { text: 'a', group })
  await until(() => textsOf(todos) === 'a')
  assert.equal(todos.status, 'ready')
})

test('rows are parsed, and what is sent is serialized', async (t) => {
  const group = 'collection dates'
  const todos = open(t, {
    query: { group },
    parse: (row) => ({ ...row, at: new Date(row.at) }),
    serialize: (data) => ({ ...data, sent: 'yes' })
  })
  await todos.preload()
  const at = new Date('2026-05-01T00:00:00.000Z')
  await todos.insert({ id: 901, text: 'a', group, at }).isPersisted.promise
  const row = todos.get(901)
  assert.deepEqual([row.at, row.sent], [at, 'yes'])
})

test('a live query of the page sorts and filters it', async (t) => {
  const group = 'collection query'
  const todos = open(t, { query: { group } })
  const done = createLiveQueryCollection((q) => q
    .from({ todo: todos })
    .where(({ todo }) => eq(todo.done, true))
    .orderBy(({ todo }) => todo.text, 'desc'))
  t.after(() => done.cleanup())
  await done.preload()
  await call('POST', 'todos', [
    { text: 'a', group, done: true }, { text: 'b', group, done: true }, { text: 'c', group, done: false }
  ])
  await until(() => texts(done.toArray) === 'b a')
})

test('a list that is refused fails', async (t) => {
  const secrets = open(t, { path: 'secrets' })
  await assert.rejects(secrets.preload(), { code: 401 })
  assert.equal(secrets.status, 'error')
})

test('a list whose right has ended is empty', async (t) => {
  const secrets = open(t, { path: 'secrets', headers: { Authorization: 'a key' } })
  await secrets.preload()
  await call('POST', 'secrets', { text: 'a' })
  await until(() => secrets.size === 1)
  await call('POST', 'secrets', { text: 'lock' })
  await until(() => secrets.status === 'error')
  assert.equal(secrets.size, 0)
})
