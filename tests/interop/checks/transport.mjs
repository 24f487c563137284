// Custom methods, placeholders in paths, headers, events, and calls that are given up.

const CALC = { methods: ['find', 'create', 'sum', 'noop', 'fail', 'hidden'] }

export default {
  'a custom method': async ({ assert, service }) => {
    const calc = service('calc', CALC)
    assert.deepEqual(await calc.sum({ values: [1, 2, 3.5] }), { sum: 6.5, query: {}, provider: 'rest' })
    const { query } = await calc.sum({ values: [] }, { query: { a: { b: 'ü' } } })
    assert.deepEqual(query, { a: { b: 'ü' } })
  },

  'a custom method beside the standard ones': async ({ assert, service }) => {
    const calc = service('calc', CALC)
    assert.deepEqual(await calc.create({ a: 1, b: 2 }), { total: 3 })
    assert.deepEqual(await calc.find(), { ok: true })
  },

  'a custom method that answers nothing': async ({ assert, library, service }) => {
    const expected = { fetch: null, axios: '', superagent: {} }[library]
    assert.deepEqual(await service('calc', CALC).noop({}), expected)
  },

  'a custom method that fails': async ({ assert, service, fails }) => {
    const error = await fails(service('calc', CALC).fail({ why: 'ß' }), 'Unprocessable', /Can not process/)
    assert.deepEqual(error.data, { given: { why: 'ß' } })
  },

  'a custom method that is closed': async ({ service, fails }) => {
    await fails(service('calc', CALC).hidden({}), 'MethodNotAllowed', /hidden/)
  },

  'a placeholder in the path': async ({ assert, service }) => {
    const messages = service('users/:userId/messages')
    const found = await messages.find({ route: { userId: '42' }, query: { a: '1' } })
    assert.deepEqual([found.route, found.query], [{ userId: '42' }, { a: '1' }])
    const { id, route } = await messages.get('x/y', { route: { userId: 'me' } })
    assert.deepEqual([id, route], ['x/y', { userId: 'me' }])
    const created = await messages.create({ text: 'hi' }, { route: { userId: '7' } })
    assert.deepEqual([created.method, created.route, created.data], ['create', { userId: '7' }, { text: 'hi' }])
  },

  'several placeholders, percent-encoded': async ({ assert, service }) => {
    const route = { org: encodeURIComponent('a/ü 😀'), repo: encodeURIComponent('100%') }
    const found = await service('orgs/:org/repos/:repo/issues').patch(1, {}, { route })
    assert.deepEqual(found.route, { org: 'a/ü 😀', repo: '100%' })
    assert.equal(found.id, '1')
  },

  'paths of several parts': async ({ assert, service }) => {
    assert.equal((await service('/deep/path/echo/').get(1)).id, '1')
    assert.equal((await service('Mixed/Case').remove(null)).id, null)
  },

  'headers of a call': async ({ assert, service }) => {
    const params = { route: { userId: '1' }, headers: { 'X-Request-Id': 'r-1' } }
    const messages = service('users/:userId/messages')
    for (const found of [
      await messages.find(params),
      await messages.get(1, params),
      await messages.create({}, params),
      await messages.update(1, {}, params),
      await messages.patch(null, {}, params),
      await messages.remove(null, params)
    ]) {
      assert.deepEqual([found.method, found.headers['x-request-id']], [found.method, 'r-1'])
      assert.match(found.headers.accept, /application\/json/)
    }
  },

  'headers of all calls': async ({ assert, newClient }) => {
    const messages = newClient({ headers: { 'X-Request-Id': 'all' } }).service('users/:userId/messages')
    const { headers } = await messages.find({ route: { userId: '1' } })
    assert.equal(headers['x-request-id'], 'all')
  },

  'only the query travels': async ({ assert, service }) => {
    const found = await service('echo').find({ query: { a: '1' }, user: { id: 1 }, provider: 'me' })
    assert.deepEqual(found, { method: 'find', query: { a: '1' }, provider: 'rest', route: {} })
  },

  'status and headers by the service': async ({ assert, service }) => {
    const custom = service('custom-http', { methods: ['find', 'get', 'create', 'remove', 'poke'] })
    assert.deepEqual(await custom.get(1, { query: { mode: 'status' } }), { id: '1' })
    assert.deepEqual(await custom.create({ a: 1 }, { query: { mode: 'headers' } }), { created: { a: 1 } })
    assert.deepEqual(await custom.poke({ a: 1 }), { poked: { a: 1 } })
  },

  'events go to the instance that called': async ({ assert, service, newClient }) => {
    const messages = service('messages')
    const elsewhere = newClient().service('messages')
    const seen = []
    for (const event of ['created', 'updated', 'patched', 'removed']) {
      messages.on(event, (record) => seen.push([event, record.id]))
      elsewhere.on(event, () => seen.push('elsewhere'))
    }
    await messages.create([{ text: 'x' }, { text: 'y' }])
    await messages.update(56, { text: 'z' })
    await messages.patch(null, { room: 'q' }, { query: { text: { $in: ['y', 'z'] } } })
    await messages.remove(57)
    assert.deepEqual(seen, [
      ['created', 56],
      ['created', 57],
      ['updated', 56],
      ['patched', 56],
      ['patched', 57],
      ['removed', 57]
    ])
  },

  'no event where a call fails': async ({ assert, service, fails }) => {
    const people = service('people')
    people.on('removed', () => assert.fail('an event'))
    await fails(people.remove(99), 'NotFound')
  },

  'hooks of the client': async ({ assert, service }) => {
    const people = service('people')
    people.hooks({
      before: { find: [(context) => { context.params.query = { name: 'Bob' } }] },
      after: { find: [(context) => { context.result = context.result[0] }] }
    })
    assert.equal((await people.find()).id, 1)
  },

  'many calls at a time': async ({ assert, service }) => {
    const ids = Array.from({ length: 100 }, (_, index) => (index % 55) + 1)
    const found = await Promise.all(ids.map((id) => service('messages').get(id)))
    assert.deepEqual(found.map((each) => each.id), ids)
  }
}

// For libraries that take a signal as `params.connection.signal`.
export const withSignal = {
  'a call that is given up': async ({ assert, service, failure }) => {
    const abort = new AbortController()
    const call = service('people').find({ connection: { signal: abort.signal } })
    abort.abort()
    assert.match((await failure(call)).message, /abort|cancel/i)
    assert.equal((await service('people').find()).length, 6)
  },

  'calls that are given up at any moment': async ({ assert, service }) => {
    const text = 'x'.repeat(90_000)
    const calls = Array.from({ length: 40 }, (_, index) => {
      const abort = new AbortController()
      setTimeout(() => abort.abort(), index / 2)
      return service('messages').create({ text }, { connection: { signal: abort.signal } })
    })
    for (const { status, reason } of await Promise.allSettled(calls)) {
      if (status === 'rejected') assert.match(reason.message, /abort|cancel/i)
    }
    assert.equal((await service('people').find()).length, 6)
  }
}
