// Errors arrive as what the client makes of the answer: one check for each of its classes, and more.
import { createServer } from 'node:net'

const BY_STATUS = /^\d+$/

// The client has no classes for these; their names and codes arrive all the same.
const WITHOUT_CLASS = {
  Gone: [410, 'gone'],
  PayloadTooLarge: [413, 'payload-too-large'],
  UnsupportedMediaType: [415, 'unsupported-media-type']
}

// Asserts what the answer itself says, whatever class the client takes.
function assertForced(assert, error, name, code, className) {
  assert.equal(error.name, name)
  assert.equal(error.code, code)
  assert.equal(error.className, className)
  assert.equal(error.message, 'Förced ☃')
  assert.deepEqual(error.data, { reason: 'because' })
  assert.deepEqual(error.errors, { field: 'is bad' })
}

const forced = (name, service) =>
  service('calc').find({ query: { error: name, message: 'Förced ☃', data: true } })

const byClass = (name) => async ({ assert, service, errors, fails }) => {
  const model = new errors[name]('')
  const error = await fails(forced(name, service), name)
  assertForced(assert, error, name, model.code, model.className)
}

const byName = (name) => async ({ assert, service, failure }) => {
  const error = await failure(forced(name, service))
  assertForced(assert, error, name, ...WITHOUT_CLASS[name])
}

// A port on which nobody listens.
const deafPort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })

const others = {
  'an error without data': async ({ assert, service, fails }) => {
    const error = await fails(service('calc').find({ query: { error: 'Conflict' } }), 'Conflict')
    assert.equal(error.message, 'Forced error')
    assert.equal(error.errors, undefined)
  },

  'an error with a list as its data': async ({ assert, service, fails }) => {
    const error = await fails(service('calc').find({ query: { error: 'array' } }), 'BadRequest')
    assert.deepEqual(error.data, [{ a: 1 }, { b: 2 }])
  },

  'an error of an own class': async ({ assert, service, failure }) => {
    const error = await failure(service('calc').find({ query: { error: 'teapot' } }))
    assert.deepEqual([error.name, error.code, error.message], ['Teapot', 418, 'Short and stout'])
    assert.deepEqual(error.data, { handle: 'here' })
  },

  'an unexpected exception': async ({ service, fails }) => {
    await fails(service('calc').find({ query: { error: 'plain' } }), 'GeneralError', /Plain failure/)
  },

  'an error of a hook': async ({ assert, service, fails }) => {
    await fails(service('hooked').get('deny'), 'NotAuthenticated', /denied in before hook/)
    const error = await fails(service('hooked').get('boom'), 'Conflict', /converted/)
    assert.deepEqual(error.data, { from: 'service failed' })
    assert.deepEqual(await service('hooked').get('recover'), { recovered: 'service failed' })
  },

  'an error of middleware': async ({ assert, service, fails }) => {
    const error = await fails(service('mw').get('forbidden'), 'Forbidden', /no entry/)
    assert.deepEqual(error.data, { why: 'because' })
  },

  'a record that is not there': async ({ service, fails }) => {
    const people = service('people')
    await fails(people.get(99), 'NotFound', /99/)
    await fails(people.update(99, {}), 'NotFound')
    await fails(people.patch(99, {}), 'NotFound')
    await fails(people.remove('no such id'), 'NotFound')
  },

  'a service that is not there': async ({ service, fails }) => {
    await fails(service('no/such/service').find(), 'NotFound')
    await fails(service('internal').find(), 'MethodNotAllowed')
  },

  'a method that is not there': async ({ service, fails }) => {
    await fails(service('readonly').create({}), 'MethodNotAllowed')
    await fails(service('readonly').remove(null), 'MethodNotAllowed')
  },

  'an id that is taken': async ({ assert, service, fails }) => {
    await fails(service('keyed').create({ key: 'apple' }), 'Conflict')
    assert.equal((await service('keyed').get('apple')).colour, 'red')
  },

  'a body that is too large': async ({ assert, service, failure }) => {
    const error = await failure(service('people').create({ text: 'x'.repeat(200_000) }))
    assert.deepEqual([error.name, error.code], ['PayloadTooLarge', 413])
  },

  'a server that is not there': async ({ assert, library, newClient, errors, failure }) => {
    const client = newClient({}, `http://127.0.0.1:${await deafPort()}`)
    const error = await failure(client.service('people').find())
    // fetch hides the reason, so the client can not tell.
    if (library === 'fetch') assert.match(error.message, /fetch failed/)
    else assert.ok(error instanceof errors.Unavailable, error)
  }
}

export default (errors) => {
  const classes = Object.keys(errors).filter((name) => name !== 'FeathersError' && !BY_STATUS.test(name))
  return Object.fromEntries([
    ...classes.map((name) => [`error ${name}`, byClass(name)]),
    ...Object.keys(WITHOUT_CLASS).map((name) => [`error ${name}`, byName(name)]),
    ...Object.entries(others)
  ])
}
