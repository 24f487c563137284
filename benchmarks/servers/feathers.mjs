// FeathersJS 5 on Express or on Koa, with its service in memory.
import { application, require } from './feathers_app.mjs'
const { MemoryService } = require('@feathersjs/memory')

const [transport, port, more] = [process.argv[2], Number(process.argv[3]), process.argv[4]]
const COUNT = 1000
const records = Array.from({ length: COUNT }, (_, n) => ({
  text: `message ${n}`,
  room: `room ${n % 7}`,
  read: n % 2 === 0,
  createdAt: 1700000000000 + (n * 7919) % COUNT
}))

// As alula_sign_in.py has it: who is signed in gets through, and is loaded for each request.
async function guard () {
  const { AuthenticationService, JWTStrategy, authenticate } = require('@feathersjs/authentication')
  app.set('authentication', {
    entity: 'user',
    service: 'users',
    secret: 'a secret of the benchmarks, good for nothing else',
    authStrategies: ['jwt'],
    jwtOptions: { audience: 'https://yourdomain.com', algorithm: 'HS256', expiresIn: '1d' }
  })
  const authentication = new AuthenticationService(app)
  authentication.register('jwt', new JWTStrategy())
  app.use('authentication', authentication)
  app.use('users', new MemoryService({ startId: 1 }))
  await app.service('users').create({ email: 'ada@example.com' })
  app.service('memory').hooks({ around: { all: [authenticate('jwt')] } })
}

// As alula_resolver.py has it: a property that is worked out for every record of an answer.
function addTitles () {
  const { resolve, resolveResult, virtual } = require('@feathersjs/schema')
  const title = virtual(async message => `${message.room}: ${message.text}`)
  app.service('memory').hooks({ around: { all: [resolveResult(resolve({ title }))] } })
}

const [app, finish] = application(transport)
app.use('memory', new MemoryService({ startId: 0, multi: true, paginate: { default: 10, max: 50 } }))
if (more === 'sign-in') await guard()
if (more === 'resolver') addTitles()
finish()
await app.service('memory').create(records)
await app.listen(port, '127.0.0.1')
console.log('ready')
