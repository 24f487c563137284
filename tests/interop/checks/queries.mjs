// The query syntax, as the client writes it into the URL.

const names = async ({ service }, query) =>
  (await service('people').find({ query })).map((each) => each.name)

// A check that the query finds these people.
const finds = (query, expected) => async (kit) => kit.assert.deepEqual(await names(kit, query), expected)

// A check that a service gets the query just as it stands here.
const arrives = (query, expected) => async ({ assert, service }) =>
  assert.deepEqual((await service('echo').find({ query })).query, expected)

export default {
  equality: finds({ city: 'Paris' }, ['Bob', 'Eve']),
  'several fields': finds({ city: 'Paris', dept: 'ops' }, ['Bob']),
  $ne: finds({ dept: { $ne: 'eng' } }, ['Bob', 'Dan', 'Zoë']),
  $in: finds({ name: { $in: ['Ada', 'Zoë', 'Nobody'] } }, ['Ada', 'Zoë']),
  $nin: finds({ city: { $nin: ['Paris', 'London'] } }, ['Cleo', 'Zoë']),
  $lt: finds({ zip: { $lt: '103' } }, ['Ada', 'Bob']),
  $lte: finds({ zip: { $lte: '103' } }, ['Ada', 'Bob', 'Cleo']),
  $gt: finds({ zip: { $gt: '104' } }, ['Eve', 'Zoë']),
  $gte: finds({ zip: { $gte: '104' } }, ['Dan', 'Eve', 'Zoë']),
  'several operators on a field': finds({ zip: { $gt: '101', $lte: '104', $ne: '103' } }, ['Bob', 'Dan']),
  $or: finds({ $or: [{ city: 'Berlin' }, { zip: { $gt: '105' } }] }, ['Cleo', 'Zoë']),
  $and: finds({ $and: [{ dept: 'eng' }, { city: { $ne: 'Paris' } }] }, ['Ada', 'Cleo']),
  '$or within $and': finds(
    { $and: [{ dept: 'eng' }, { $or: [{ city: 'Paris' }, { zip: '101' }] }] },
    ['Ada', 'Eve']
  ),
  '$and within $or': finds(
    { $or: [{ name: 'Dan' }, { $and: [{ dept: 'eng' }, { city: 'Paris' }] }] },
    ['Dan', 'Eve']
  ),
  '$sort up': finds({ $sort: { city: 1, name: -1 } }, ['Cleo', 'Dan', 'Ada', 'Eve', 'Bob', 'Zoë']),
  '$sort down': finds({ $sort: { zip: -1 }, $limit: 2 }, ['Zoë', 'Eve']),
  $skip: finds({ $skip: 4 }, ['Eve', 'Zoë']),
  'values with unicode': finds({ city: 'Zürich' }, ['Zoë']),

  $select: async ({ assert, service }) => {
    const found = await service('people').find({ query: { $select: ['name', 'zip'], $limit: 1 } })
    assert.deepEqual(found, [{ name: 'Ada', zip: '101', id: 0 }])
  },

  'numbers and booleans where a schema is': async ({ assert, service }) => {
    const people = service('at-memory')
    for (const [name, age, created] of [['Ann', 9, true], ['Ben', 30, false], ['Cem', 100, true]]) {
      await people.create({ name, age, created })
    }
    const found = async (query) => (await people.find({ query })).map((each) => each.name)
    assert.deepEqual(await found({ age: { $gt: 9 } }), ['Ben', 'Cem'])
    assert.deepEqual(await found({ age: { $in: [9, 100] }, $sort: { age: -1 } }), ['Cem', 'Ann'])
    assert.deepEqual(await found({ created: false }), ['Ben'])
  },

  '21 ids in $in': async ({ assert, service }) => {
    const keyed = service('keyed')
    const keys = Array.from({ length: 30 }, (_, index) => `key ${index}`)
    await keyed.create(keys.map((key) => ({ key })))
    const wanted = keys.slice(0, 21)
    const found = await keyed.find({ query: { key: { $in: wanted } } })
    assert.deepEqual(found.map((each) => each.key), wanted)
    const others = await keyed.find({ query: { key: { $nin: wanted } } })
    assert.equal(others.length, 3 + 9)
  },

  '200 ids in $in': async ({ assert, service }) => {
    const texts = Array.from({ length: 200 }, (_, index) => `message ${index}`)
    const page = await service('messages').find({ query: { text: { $in: texts }, $limit: 0 } })
    assert.equal(page.total, 46)
  },

  '21 alternatives in $or': async ({ assert, service }) => {
    const $or = Array.from({ length: 21 }, (_, index) => ({ text: `message ${index + 30}` }))
    assert.equal((await service('messages').find({ query: { $or, $limit: 0 } })).total, 21)
  },

  '21 fields in $select': async ({ assert, service }) => {
    const $select = [...Array.from({ length: 20 }, (_, index) => `field${index}`), 'name']
    assert.deepEqual(await service('people').get(0, { query: { $select } }), { name: 'Ada', id: 0 })
  },

  'lists and objects arrive nested': arrives(
    { a: { b: { c: 'd' } }, list: ['x', 'y'], rows: [{ n: '1' }, { n: '2', more: ['z'] }] },
    { a: { b: { c: 'd' } }, list: ['x', 'y'], rows: [{ n: '1' }, { n: '2', more: ['z'] }] }
  ),

  'every value arrives as a string': arrives(
    { n: 1.5, yes: true, none: null, empty: '', left: undefined, when: new Date(0), list: [] },
    { n: '1.5', yes: 'true', none: '', empty: '', when: '1970-01-01T00:00:00.000Z' }
  ),

  'names and values with special characters arrive': arrives(
    { 'ä ö': 'a&b=c', 'x.y': '+ %20#?', ключ: '😀', "it's": '"[]"', 'a b': { 'c&d': ['e=f'] } },
    { 'ä ö': 'a&b=c', 'x.y': '+ %20#?', ключ: '😀', "it's": '"[]"', 'a b': { 'c&d': ['e=f'] } }
  ),

  'an operator that is not allowed is named': async ({ service, fails }) => {
    await fails(service('people').find({ query: { name: { $regex: '.*' } } }), 'BadRequest', /\$regex/)
    await fails(service('people').find({ query: { $where: '1' } }), 'BadRequest', /\$where/)
    await fails(service('people').remove(0, { query: { $or: [{ a: { $expr: '1' } }] } }), 'BadRequest', /\$expr/)
  },

  'more levels than are read are refused': async ({ service, fails }) => {
    const query = { a: { b: { c: { d: { e: { f: { g: 1 } } } } } } }
    await fails(service('echo').find({ query }), 'BadRequest', /5/)
  },

  'a limit that is no number is refused': async ({ service, fails }) => {
    await fails(service('people').find({ query: { $limit: 'many' } }), 'BadRequest', /\$limit/)
    await fails(service('people').find({ query: { $skip: -1 } }), 'BadRequest', /\$skip/)
  }
}
