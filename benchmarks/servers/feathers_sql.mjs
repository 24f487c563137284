// FeathersJS 5 with its adapter for knex on Express or on Koa, as its generator sets them up.
import { createRequire } from 'node:module'
const require = createRequire(import.meta.url)
const { feathers } = require('@feathersjs/feathers')
const { KnexService } = require('@feathersjs/knex')
const knex = require('knex')

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

const db = knex({ client: 'pg', connection: process.env.BENCH_SQL, pool: { min: 10, max: 10 } })
// What the driver answers for bigint is text.
require('pg').types.setTypeParser(20, Number)
const [app, finish] = transport === 'koa' ? onKoa() : onExpress()
app.use('records', new KnexService({ Model: db, name: 'records', paginate: { default: 10, max: 50 } }))
app.service('records').hooks({ before: { find: [numbers] } })
finish()
await app.listen(port, '127.0.0.1')
console.log('ready')
