// Who may do what for every order in which an application can register `authenticate` and the
// schema's hooks. Prints one line of JSON for each order: {"order": {...}, "answers": {...}}.
import { createRequire } from 'node:module'

const require = createRequire(`${process.argv[2]}/`)
const { feathers } = require('@feathersjs/feathers')
const express = require('@feathersjs/express')
const { memory } = require('@feathersjs/memory')
const { AuthenticationService, JWTStrategy, authenticate } = require('@feathersjs/authentication')
const schema = require('@feathersjs/schema')

const METHODS = ['find', 'get', 'patch', 'update', 'remove']
const properties = {
  id: { type: 'integer' },
  text: { type: 'string' },
  userId: { type: 'integer' }
}
const validator = schema.getValidator(
  {
    $id: 'TaskQuery',
    type: 'object',
    additionalProperties: false,
    properties: schema.querySyntax(properties)
  },
  schema.createAjv ? schema.createAjv() : new schema.Ajv({ coerceTypes: true })
)
const own = schema.resolve({
  userId: async (value, _query, context) => (context.params.user ? context.params.user.id : value)
})

function makeApp(order) {
  const app = express.default(feathers())
  app.use(express.json())
  app.configure(express.rest())
  app.set('authentication', {
    secret: 'a secret of this test, 32 bytes long',
    entity: 'user',
    service: 'users',
    authStrategies: ['jwt']
  })
  const authentication = new AuthenticationService(app)
  authentication.register('jwt', new JWTStrategy())
  app.use('authentication', authentication)
  app.use('users', memory({ startId: 1, store: { 1: { id: 1 }, 2: { id: 2 } } }))
  app.use('tasks', memory({ startId: 1, store: { 1: { id: 1, text: 'first', userId: 1 } } }))
  const tasks = app.service('tasks')
  const guard = () => {
    const hooks = [authenticate('jwt')]
    const by = order.for === 'all' ? { all: hooks } : Object.fromEntries(METHODS.map((name) => [name, hooks]))
    ;(order.on === 'app' ? app : tasks).hooks({ [order.kind]: by })
  }
  const check = () =>
    tasks.hooks({ [order.schema]: { all: [schema.validateQuery(validator), schema.resolveQuery(own)] } })
  for (const register of order.when === 'first' ? [guard, check] : [check, guard]) register()
  app.use(express.errorHandler({ logger: false }))
  return app
}

async function answersOf(order) {
  const app = makeApp(order)
  const server = await app.listen(0)
  const url = `http://127.0.0.1:${server.address().port}/tasks`
  const answers = {}
  for (const caller of ['2', '', '1']) {
    const headers = { 'Content-Type': 'application/json' }
    if (caller) {
      const token = await app.service('authentication').createAccessToken({}, { subject: caller })
      headers.Authorization = `Bearer ${token}`
    }
    const ask = async (name, path, method, body) => {
      const response = await fetch(url + path, { method, headers, body: body && JSON.stringify(body) })
      const value = await response.json()
      answers[`${caller || 'nobody'} ${name}`] =
        name.startsWith('find') && response.status === 200 ? `200 ${value.length}` : `${response.status}`
    }
    await ask('find', '', 'GET')
    await ask('find all', '?userId=1', 'GET')
    await ask('get', '/1', 'GET')
    await ask('patch', '/1', 'PATCH', { text: `by ${caller}` })
    await ask('patch with a query', '/1?userId=1', 'PATCH', { text: `by ${caller}` })
    await ask('update', '/1', 'PUT', { text: `by ${caller}`, userId: 1 })
    if (caller !== '1') await ask('remove', '/1?userId=1', 'DELETE')
  }
  await new Promise((resolve) => server.close(resolve))
  return answers
}

for (const schemaKind of ['before', 'around']) {
  for (const kind of ['around', 'before']) {
    for (const forWhich of ['all', 'method']) {
      for (const on of ['app', 'service']) {
        for (const when of ['first', 'later']) {
          const order = { schema: schemaKind, kind, for: forWhich, on, when }
          console.log(JSON.stringify({ order, answers: await answersOf(order) }))
        }
      }
    }
  }
}
process.exit(0)
