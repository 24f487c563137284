// FeathersJS 5 on Express or on Koa, with the middleware that its generator sets up.
import { createRequire } from 'node:module'
const require = createRequire(import.meta.url)
const { feathers } = require('@feathersjs/feathers')
const { MemoryService } = require('@feathersjs/memory')

const [transport, port] = [process.argv[2], Number(process.argv[3])]
const COUNT = 1000
const records = Array.from({ length: COUNT }, (_, n) => ({
  text: `message ${n}`,
  room: `room ${n % 7}`,
  read: n % 2 === 0,
  createdAt: 1700000000000 + (n * 7919) % COUNT
}))

function onExpress () {
  const { default: express, json, urlencoded, rest, notFound, errorHandler } = require('@feathersjs/express')
  const app = express(feathers())
  app.use(json())
  app.use(urlencoded({ extended: true }))
  app.configure(rest())
  return [app, () => { app.use(notFound()); app.use(errorHandler({ logger: false })) }]
}

function onKoa () {
  const { koa, rest, bodyParser, errorHandler } = require('@feathersjs/koa')
  const app = koa(feathers())
  app.use(errorHandler())
  app.use(bodyParser())
  app.configure(rest())
  return [app, () => {}]
}

const [app, finish] = transport === 'koa' ? onKoa() : onExpress()
app.use('memory', new MemoryService({ startId: 0, multi: true, paginate: { default: 10, max: 50 } }))
finish()
await app.service('memory').create(records)
await app.listen(port, '127.0.0.1')
console.log('ready')
