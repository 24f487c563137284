// FeathersJS 5 with its MongoDB adapter on Express or on Koa, as its generator sets them up.
import { createRequire } from 'node:module'
const require = createRequire(import.meta.url)
const { feathers } = require('@feathersjs/feathers')
const { MongoDBService } = require('@feathersjs/mongodb')
const { MongoClient } = require('mongodb')

const [transport, port] = [process.argv[2], Number(process.argv[3])]

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

// What the schema of a generated application does: strings of the query become numbers.
const numbers = async (context) => {
  const { $sort, $limit, $skip, ...query } = context.params.query
  context.params.query = {
    ...query,
    $limit: Number($limit),
    $skip: Number($skip),
    $sort: { createdAt: Number($sort.createdAt) }
  }
}

const client = await MongoClient.connect(process.env.BENCH_MONGODB)
const [app, finish] = transport === 'koa' ? onKoa() : onExpress()
app.use('records', new MongoDBService({
  Model: client.db('bench').collection('records'),
  paginate: { default: 10, max: 50 }
}))
app.service('records').hooks({ before: { find: [numbers] } })
finish()
await app.listen(port, '127.0.0.1')
console.log('ready')
