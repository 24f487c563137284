import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import test, { describe } from 'node:test'
import { io } from 'socket.io-client'
import feathers from '@feathersjs/feathers'
import socketio from '@feathersjs/socketio-client'
import { live } from 'alula-live'
import { call, texts, until, url } from './helpers.js'

/** A client of FeathersJS with a socket; ended with the test. */
function feathersClient(t) {
  const socket = io(url, { transports: ['websocket'], forceNew: true, reconnectionDelay: 10 })
  t.after(() => socket.close())
  return feathers().configure(socketio(socket))
}

const TRANSPORTS = { 'an event stream': () => url, 'a socket': feathersClient }

for (const [name, sourceFor] of Object.entries(TRANSPORTS)) {
  describe(`over ${name}`, () => {
    function open(t, path = 'todos', query = {}, options = {}) {
      const list = live(sourceFor(t), path, query, options)
      t.after(() => list.close())
      return list
    }

    test('a list follows its query', async (t) => {
      const group = `follows ${name}`
      const [a, b] = await call('POST', 'todos', [
        { text: 'a', group, n: 2 }, { text: 'b', group, n: 1 }
      ])
      const list = open(t, 'todos', { group, $sort: { n: 1 }, $limit: 2 })
      assert.equal(list.status, 'loading')
      assert.deepEqual(list.rows, [])
      await until(() => list.status === 'live')
      assert.equal(texts(list.rows), 'b a')
      const before = list.rows
      await call('POST', 'todos', { text: 'c', group, n: 0 })
      await until(() => texts(list.rows) === 'c b')
      assert.equal(texts(before), 'b a', 'an array is never changed in place')
      await call('PATCH', `todos/${b.id}`, { n: -1 })
      await until(() => texts(list.rows) === 'b c')
      await call('PATCH', `todos/${b.id}`, { group: 'another one' })
      await until(() => texts(list.rows) === 'c a')
      await call('DELETE', `todos/${a.id}`)
      await until(() => texts(list.rows) === 'c')
    })

    test('ids may be called _id', async (t) => {
      const list = open(t, 'notes', { by: name, $sort: { text: 1 } })
      const note = await call('POST', 'notes', { text: 'a', by: name })
      await call('POST', 'notes', { text: 'b', by: name })
      await until(() => texts(list.rows) === 'a b')
      await call('PATCH', `notes/${note._id}`, { text: 'c' })
      await until(() => texts(list.rows) === 'b c')
      await call('DELETE', `notes/${note._id}`)
      await until(() => texts(list.rows) === 'b')
    })

    test('a subscriber gets the rows at once and after each batch', async (t) => {
      const group = `subscriber ${name}`
      const list = open(t, 'todos', { group })
      const shown = []
      const kinds = []
      const stop = list.subscribe((rows, changes) => {
        shown.push(texts(rows))
        kinds.push(changes.map(({ kind }) => kind).join(' '))
      })
      assert.deepEqual(shown, [''])
      await until(() => list.status === 'live')
      await call('POST', 'todos', [{ text: 'a', group }, { text: 'b', group }])
      await until(() => list.rows.length === 2)
      assert.deepEqual(shown, ['', '', 'a b'], 'no half of a batch is shown')
      assert.deepEqual(kinds, ['', 'snapshot', 'entered entered'])
      stop()
      await call('POST', 'todos', { text: 'c', group })
      await until(() => list.rows.length === 3)
      assert.equal(shown.length, 3)
      let late
      list.subscribe((rows) => { late = texts(rows) })()
      assert.equal(late, 'a b c')
    })

    test('an error of a subscriber reaches the page, and no other subscriber', async (t) => {
      const list = open(t, 'todos', { group: 'errors' })
      const thrown = []
      const caught = (error) => thrown.push(error.message)
      process.setUncaughtExceptionCaptureCallback(caught)
      t.after(() => process.setUncaughtExceptionCaptureCallback(null))
      list.subscribe((_, changes) => { if (changes.length) throw new Error('of a subscriber') })
      let isTold = false
      list.subscribe((_, changes) => { isTold ||= changes.length > 0 })
      await until(() => isTold && thrown.length > 0)
      assert.equal(thrown[0], 'of a subscriber')
    })

    test('settled ends when the list has what was written', async (t) => {
      const group = `settled ${name}`
      const list = open(t, 'todos', { group })
      for (const text of ['a', 'b', 'c']) {
        await call('POST', 'todos', { text, group })
        await Promise.all([list.settled(), list.settled()])
        assert.equal(texts(list.rows).at(-1), text)
      }
      assert.equal(list.status, 'live')
    })

    test('a broken connection comes back, and has all', async (t) => {
      const group = `back ${name}`
      const list = open(t, 'todos', { group })
      await until(() => list.status === 'live')
      await call('POST', 'todos', { text: 'a', group })
      await until(() => list.rows.length === 1)
      const statuses = []
      const changes = []
      list.subscribe((_, heard) => {
        statuses.push(list.status)
        changes.push(...heard.map(({ kind }) => kind))
      })
      await call('POST', 'connections', {})
      await until(() => list.status === 'away')
      await until(() => list.status === 'live')
      assert.deepEqual(statuses, ['live', 'away', 'live'])
      assert.deepEqual(changes, ['snapshot', 'unchanged'], 'nothing is sent twice')
      await call('POST', 'connections', {})
      await until(() => list.status === 'away')
      await call('POST', 'todos', { text: 'b', group })
      await list.settled()
      assert.equal(texts(list.rows), 'a b')
    })

    test('a list that is refused is closed, with the error', async (t) => {
      const list = open(t, 'secrets')
      await assert.rejects(list.settled(), { name: 'NotAuthenticated', code: 401 })
      assert.equal(list.status, 'closed')
      assert.equal(list.error.message, 'no key')
      assert.ok(list.error instanceof Error)
      await assert.rejects(list.settled(), { code: 401 })
    })

    test('close ends the list', async (t) => {
      const group = `closed ${name}`
      const list = open(t, 'todos', { group })
      await until(() => list.status === 'live')
      let told = 0
      list.subscribe(() => { told += 1 })
      list.close()
      list.close()
      assert.equal(list.status, 'closed')
      assert.equal(list.error, null)
      await call('POST', 'todos', { text: 'a', group })
      await assert.rejects(list.settled(), /'todos' is closed/)
      assert.deepEqual([list.rows, told], [[], 2])
      list.subscribe(() => { told += 1 })
      assert.equal(told, 3, 'who comes late gets the last rows')
    })

    test('a list that is closed while it opens stays closed', async (t) => {
      const list = open(t, 'todos')
      const settled = list.settled()
      list.close()
      await assert.rejects(settled)
      await new Promise((resolve) => setTimeout(resolve, 100))
      assert.equal(list.status, 'closed')
    })
  })
}

describe('an event stream', () => {
  test('has headers, asked for anew at each attempt', async (t) => {
    let asked = 0
    const headers = async () => ({ Authorization: ++asked && 'a key' })
    const list = live(new URL(url), 'secrets', {}, { headers })
    t.after(() => list.close())
    await until(() => list.status === 'live')
    await list.settled()
    assert.equal(asked, 2)
  })

  test('values of a query arrive as they are', async (t) => {
    await call('POST', 'todos', [
      { text: 'ü &=', at: '2026-01-01T00:00:00.000Z' }, { text: 'x', at: null }
    ])
    const at = new Date('2026-01-01T00:00:00.000Z')
    for (const query of [{ text: 'ü &=', none: undefined }, { at }, { text: { $in: ['ü &='] } }]) {
      const list = live(`${url}/`, 'todos', query)
      t.after(() => list.close())
      await until(() => list.status === 'live')
      assert.equal(texts(list.rows), 'ü &=', JSON.stringify(query))
    }
  })

  /** A server of a few lines, for what a whole one does rarely. */
  async function fakeServer(t, answer) {
    const server = createServer(answer).listen(0, '127.0.0.1')
    t.after(() => { server.closeAllConnections(); server.close() })
    await new Promise((resolve) => server.once('listening', resolve))
    return `http://127.0.0.1:${server.address().port}`
  }

  test('a page of HTML is no list', async (t) => {
    const base = await fakeServer(t, (_, response) => response.end('<html></html>'))
    const list = live(base, 'todos')
    t.after(() => list.close())
    await until(() => list.status === 'away')
    assert.match(list.error.message, /is not an event stream/)
  })

  test('a server in trouble is asked again, with longer pauses', async (t) => {
    let asked = 0
    const base = await fakeServer(t, (_, response) => {
      asked += 1
      if (asked < 3) return response.writeHead(503).end()
      response.writeHead(200, { 'Content-Type': 'text/event-stream' })
      response.write('event: snapshot\ndata: {"rows":[{"id":1,"text":"a"}]}\nid: L.1\n\n')
    })
    const list = live(base, 'todos')
    t.after(() => list.close())
    await until(() => list.status === 'live')
    assert.deepEqual([asked, texts(list.rows), list.error], [3, 'a', null])
  })

  test('a batch that breaks off is not shown', async (t) => {
    const asked = []
    const base = await fakeServer(t, (request, response) => {
      asked.push(new URL(request.url, base).searchParams.get('lastEventId'))
      response.writeHead(200, { 'Content-Type': 'text/event-stream' })
      if (asked.length > 1) return response.write('event: unchanged\ndata: null\nid: L.1\n\n')
      response.write('event: snapshot\ndata: {"rows":[{"id":1,"text":"a"}]}\nid: L.1\n\n')
      response.end('event: left\ndata: {"id":1,"more":true}\n\n')
    })
    const list = live(base, 'todos')
    t.after(() => list.close())
    await until(() => asked.length === 2 && list.status === 'live')
    assert.deepEqual([asked, texts(list.rows)], [[null, 'L.1'], 'a'])
  })

  test('closed empties the list; reset replaces it', async (t) => {
    let end
    const base = await fakeServer(t, (_, response) => {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' })
      response.write('retry: 3000\n\n:\n\nevent: snapshot\ndata: {"rows":[{"id":1,"text":"a"}]}\n\n')
      response.write('event: reset\ndata: {"rows":[{"id":2,"text":"b"}],"why":"slow"}\n\n')
      end = () => response.end(
        'event: closed\ndata: {"error":{"name":"Forbidden","message":"no more","code":403}}\n\n')
    })
    const list = live(base, 'todos')
    let kinds
    list.subscribe((_, changes) => { kinds = changes.map(({ kind }) => kind) })
    await until(() => texts(list.rows) === 'b')
    end()
    await until(() => list.status === 'closed')
    assert.deepEqual([list.rows, list.error.code, kinds], [[], 403, ['closed']])
  })
})

test('a client without sockets is told what is needed', () => {
  assert.throws(() => live(feathers(), 'todos'), /client with sockets, or the URL/)
})
