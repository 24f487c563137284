// FeathersJS 5 over socket.io, as its generator sets it up: the services of alula_realtime.py.
import { application, require } from './feathers_app.mjs'
const socketio = require('@feathersjs/socketio')

const create = async data => ({ id: 1, ...data })
const [app] = application('koa')
app.configure(socketio())
app.use('items', { create })
app.use('feed', { create })
app.on('connection', connection => app.channel('everyone').join(connection))
app.service('feed').publish(() => app.channel('everyone'))
await app.listen(Number(process.argv[2]), '127.0.0.1')
