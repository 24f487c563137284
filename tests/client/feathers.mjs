// A FeathersJS application, unmodified packages, with the services that the client is tried on.
//
//   node feathers.mjs NODE_MODULES SEED
//
// It listens on a free port, prints its address, and ends when its standard input does.
import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import path from 'node:path'

const [folder, seedFile] = process.argv.slice(2)
const seed = JSON.parse(readFileSync(seedFile, 'utf8'))
const require = createRequire(path.join(path.resolve(folder), 'from-here.js'))
const { feathers } = require('@feathersjs/feathers')
const feathersExpress = require('@feathersjs/express')
const errors = require('@feathersjs/errors')
const { MemoryService } = require('@feathersjs/memory')
const { AuthenticationService, JWTStrategy, authenticate } = require('@feathersjs/authentication')
const { LocalStrategy } = require('@feathersjs/authentication-local')

const app = feathersExpress.default(feathers())
app.use(feathersExpress.json())
app.configure(feathersExpress.rest())
// Without the package, what needs real time is left out.
const hasRealTime = existsSync(path.join(folder, '@feathersjs/socketio'))
if (hasRealTime) {
  app.configure(require('@feathersjs/socketio')((io) => io.use((socket, next) => {
    const refused = socket.handshake.auth.refuse
    next(refused ? new errors.Forbidden('no entry', { why: refused }) : undefined)
  })))
  app.on('connection', (connection) => app.channel('everyone').join(connection))
  app.publish(() => app.channel('everyone'))
}

app.use('messages', new MemoryService({ startId: 1, multi: true, paginate: { default: 10, max: 50 } }))
app.use('keyed', new MemoryService({ id: 'key', multi: true }))

class Echo {
  reply(method, params, given = {}) {
    const { query, provider, route, headers } = params
    const shown = Object.fromEntries(
      ['x-request-id', 'accept', 'x-empty'].filter((name) => name in headers).map((name) => [name, headers[name]])
    )
    return { method, ...given, query, provider, route, headers: shown }
  }
  async find(params) { return this.reply('find', params) }
  async get(id, params) { return this.reply('get', params, { id }) }
  async create(data, params) { return this.reply('create', params, { data }) }
  async update(id, data, params) { return this.reply('update', params, { id, data }) }
  async patch(id, data, params) { return this.reply('patch', params, { id, data }) }
  async remove(id, params) { return this.reply('remove', params, { id }) }
}
app.use('echo', new Echo())
app.use('users/:userId/messages', new Echo())
app.use('orgs/:org/repos/:repo/issues', new Echo())

app.use('calc', {
  async find({ query }) {
    if (!query.error) return { ok: true }
    if (query.error === 'teapot') {
      throw new errors.FeathersError('Short and stout', 'Teapot', 418, 'teapot', { handle: 'here' })
    }
    throw new errors[query.error](
      query.message || 'Forced error',
      query.data ? { reason: 'because', errors: { field: 'is bad' } } : undefined
    )
  },
  async create(data) { return { total: data.a + data.b } },
  async sum(data, params) {
    return { sum: data.values.reduce((a, b) => a + b, 0), query: params.query, provider: params.provider }
  },
  async noop() { return null },
  async fail(data) { throw new errors.Unprocessable('Can not process', { given: data }) },
  async hidden() { return { hidden: true } }
}, { methods: ['find', 'create', 'sum', 'noop', 'fail'] })

class Feed extends MemoryService {
  async ping(data) { this.emit('pinged', data); return { pinged: data } }
}
app.use('feed', new Feed({ startId: 1, multi: true }), {
  events: ['pinged'],
  methods: ['find', 'get', 'create', 'update', 'patch', 'remove', 'ping']
})
// Ends every connection of real time, without a word.
app.use('cut', { async create() { for (const { conn } of app.io.sockets.sockets.values()) conn.close() } })
app.use('whoami', { async find({ user, provider }) { return { email: user?.email ?? null, provider } } })
app.use('bytes', { async create({ data }) { return { size: data.length, data } } })

app.set('authentication', {
  secret: seed.secret,
  entity: 'user',
  service: 'users',
  authStrategies: ['jwt', 'local'],
  jwtOptions: { header: { typ: 'access' }, audience: 'https://yourdomain.com', algorithm: 'HS256', expiresIn: '1d' },
  local: { usernameField: 'email', passwordField: 'password' }
})
const authentication = new AuthenticationService(app)
authentication.register('jwt', new JWTStrategy())
authentication.register('local', new LocalStrategy())
app.use('users', new MemoryService({ startId: 1 }))
app.use('authentication', authentication)
app.use('secrets', new MemoryService({ startId: 1, multi: true }))
app.service('secrets').hooks({ around: { all: [authenticate('jwt')] } })

app.get('/mw/plain', (_, res) => res.type('text/plain').send('hello'))
app.use(feathersExpress.notFound())
app.use(feathersExpress.errorHandler({ logger: false }))

const server = createServer(app)
await app.setup(server)
for (const user of seed.users) await app.service('users').create(user)
for (const secret of seed.secrets) await app.service('secrets').create(secret)
server.listen(0, '127.0.0.1', () => {
  console.log(`http://127.0.0.1:${server.address().port}`)
})
process.stdin.resume().on('end', () => process.exit(0))
