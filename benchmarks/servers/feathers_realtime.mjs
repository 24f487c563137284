// FeathersJS 5 over socket.io, as its generator sets it up: the services of alula_realtime.py.
import { createRequire } from 'node:module'
const require = createRequire(import.meta.url)
const { feathers } = require('@feathersjs/feathers')
const { koa, rest, bodyParser, errorHandler } = require('@feathersjs/koa')
const socketio = require('@feathersjs/socketio')

const create = async data => ({ id: 1, ...data })
const app = koa(feathers())
app.use(errorHandler())
app.use(bodyParser())
app.configure(rest())
app.configure(socketio())
app.use('items', { create })
app.use('feed', { create })
app.on('connection', connection => app.channel('everyone').join(connection))
app.service('feed').publish(() => app.channel('everyone'))
await app.listen(Number(process.argv[2]), '127.0.0.1')
