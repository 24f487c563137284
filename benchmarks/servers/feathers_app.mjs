// An application of FeathersJS 5 on Express or on Koa, with the middleware that its generator sets up.
import { createRequire } from 'node:module'
export const require = createRequire(import.meta.url)
const { feathers } = require('@feathersjs/feathers')

// Returns an application, and what is to be called once it has its services.
export function application (transport) {
  return transport === 'koa' ? onKoa() : onExpress()
}

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
async function numbers (context) {
  const { $sort, $limit, $skip, ...query } = context.params.query
  context.params.query = {
    ...query,
    $limit: Number($limit),
    $skip: Number($skip),
    $sort: { createdAt: Number($sort.createdAt) }
  }
}

// Serves the records of a database as the arguments of the program say: on Express or Koa, at a port.
export async function serveRecords (service) {
  const [transport, port] = [process.argv[2], Number(process.argv[3])]
  const [app, finish] = application(transport)
  app.use('records', service)
  app.service('records').hooks({ before: { find: [numbers] } })
  finish()
  await app.listen(port, '127.0.0.1')
  console.log('ready')
}
