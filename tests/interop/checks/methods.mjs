// The six methods, with one record and with several.

const ODD_IDS = ['ünï cøde 😀', 'a/b', 'a%2Fb', '100%', '?q=1&x#y', '...', ' ', '0', 'a+b', ':id', '$id']
const UNICODE = 'Zoë ☃ 😀 "quoted" \\ \u0000 \u2028 <b>'

export default {
  'find gives a list': async ({ assert, service }) => {
    const people = await service('people').find()
    assert.deepEqual(people.map((each) => each.id), [0, 1, 2, 3, 4, 5])
    assert.equal(people[5].name, 'Zoë')
  },

  'find gives a page': async ({ assert, service }) => {
    const page = await service('messages').find({ query: { room: 'b', $limit: 2, $skip: 1 } })
    assert.deepEqual({ ...page, data: page.data.map((each) => each.id) }, {
      total: 18,
      limit: 2,
      skip: 1,
      data: [5, 8]
    })
  },

  'find lowers a limit to the maximum': async ({ assert, service }) => {
    const page = await service('messages').find({ query: { $limit: 1000 } })
    assert.equal(page.limit, 50)
    assert.equal(page.data.length, 50)
  },

  'find with the limit 0 only counts': async ({ assert, service }) => {
    const page = await service('messages').find({ query: { $limit: 0 } })
    assert.deepEqual(page, { total: 55, limit: 0, skip: 0, data: [] })
  },

  get: async ({ assert, service }) => {
    const bob = await service('people').get(1)
    assert.equal(bob.name, 'Bob')
    assert.deepEqual(bob.address, { zip: '75', geo: { lat: 48 } })
  },

  'get takes a query': async ({ assert, service, fails }) => {
    const people = service('people')
    const found = await people.get(1, { query: { city: 'Paris', $select: ['name'] } })
    assert.deepEqual(found, { name: 'Bob', id: 1 })
    await fails(people.get(1, { query: { city: 'London' } }), 'NotFound')
  },

  'create one': async ({ assert, service }) => {
    const created = await service('people').create({ name: 'Finn', tags: [], nested: { a: [1, null] } })
    assert.deepEqual(created, { name: 'Finn', tags: [], nested: { a: [1, null] }, id: 6 })
    assert.deepEqual(await service('people').get(6), created)
  },

  'create many': async ({ assert, service }) => {
    const created = await service('messages').create([{ text: 'x' }, { text: 'y' }])
    assert.deepEqual(created, [{ text: 'x', id: 56 }, { text: 'y', id: 57 }])
  },

  'create none': async ({ assert, service }) => {
    assert.deepEqual(await service('messages').create([]), [])
    assert.equal((await service('messages').find()).total, 55)
  },

  'create with $select': async ({ assert, service }) => {
    const created = await service('people').create({ name: 'Finn', city: 'Turku' }, { query: { $select: ['city'] } })
    assert.deepEqual(created, { city: 'Turku', id: 6 })
  },

  update: async ({ assert, service }) => {
    const updated = await service('people').update(1, { name: 'Bob II' })
    assert.deepEqual(updated, { name: 'Bob II', id: 1 })
    assert.deepEqual(await service('people').get(1), updated)
  },

  'update without an id is refused': async ({ service, fails }) => {
    await fails(service('people').update(null, { name: 'all' }), 'BadRequest')
  },

  'patch one': async ({ assert, service }) => {
    const patched = await service('people').patch(3, { note: 'new', city: null })
    assert.equal(patched.note, 'new')
    assert.equal(patched.city, null)
    assert.equal(patched.name, 'Dan')
    assert.deepEqual(await service('people').get(3), patched)
  },

  'patch many': async ({ assert, service }) => {
    const patched = await service('messages').patch(null, { room: 'z' }, { query: { text: { $lte: 'message 03' } } })
    assert.deepEqual(patched.map(({ id, room }) => [id, room]), [[1, 'z'], [2, 'z'], [3, 'z']])
    assert.equal((await service('messages').find({ query: { room: 'z' } })).total, 3)
  },

  'patch many that are none': async ({ assert, service }) => {
    assert.deepEqual(await service('messages').patch(null, { room: 'z' }, { query: { room: 'nowhere' } }), [])
  },

  'remove one': async ({ assert, service, fails }) => {
    assert.equal((await service('people').remove(2)).name, 'Cleo')
    await fails(service('people').get(2), 'NotFound')
  },

  'remove many': async ({ assert, service }) => {
    const removed = await service('messages').remove(null, { query: { room: 'a' } })
    assert.equal(removed.length, 19)
    assert.ok(removed.every((each) => each.room === 'a'))
    assert.equal((await service('messages').find()).total, 55 - 19)
  },

  'remove with $select': async ({ assert, service }) => {
    assert.deepEqual(await service('people').remove(0, { query: { $select: ['name'] } }), { name: 'Ada', id: 0 })
  },

  'many are refused where they are not allowed': async ({ assert, service, fails }) => {
    const people = service('people')
    await fails(people.create([{ name: 'x' }]), 'MethodNotAllowed')
    await fails(people.patch(null, { name: 'x' }), 'MethodNotAllowed')
    await fails(people.remove(null), 'MethodNotAllowed')
    assert.equal((await people.find()).length, 6)
  },

  'ids of every kind are found again': async ({ assert, service }) => {
    const keyed = service('keyed')
    for (const key of ODD_IDS) {
      await keyed.create({ key, colour: 'new' })
      assert.deepEqual(await keyed.get(key), { key, colour: 'new' })
      assert.deepEqual(await keyed.patch(key, { colour: 'mended' }), { key, colour: 'mended' })
      assert.deepEqual(await keyed.update(key, { x: 1 }), { x: 1, key })
      assert.deepEqual(await keyed.remove(key), { x: 1, key })
    }
  },

  'values keep every character': async ({ assert, service }) => {
    const { id } = await service('messages').create({ text: UNICODE, [UNICODE]: 1 })
    assert.deepEqual(await service('messages').get(id), { id, text: UNICODE, [UNICODE]: 1 })
    assert.equal((await service('messages').find({ query: { text: UNICODE } })).total, 1)
  },

  'numbers and booleans keep their types': async ({ assert, service }) => {
    const data = { n: 1.5, big: Number.MAX_SAFE_INTEGER, small: -0.1, yes: true, no: false, none: null }
    const { id } = await service('messages').create(data)
    assert.deepEqual(await service('messages').get(id), { id, ...data })
  },

  'a result of null': async ({ assert, library, service }) => {
    const nothing = service('nothing')
    // What each library makes of an answer without a body.
    const expected = { fetch: null, axios: '', superagent: {} }[library]
    assert.deepEqual(await nothing.find(), expected)
    assert.deepEqual(await nothing.get('null'), expected)
    assert.deepEqual(await nothing.remove(1), expected)
    assert.deepEqual(await nothing.get('array'), [])
    assert.deepEqual(await nothing.get('emptyobject'), {})
  }
}
