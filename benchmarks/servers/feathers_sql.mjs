// FeathersJS 5 with its adapter for knex on Express or on Koa.
import { require, serveRecords } from './feathers_app.mjs'
const { KnexService } = require('@feathersjs/knex')
const knex = require('knex')

// What the driver answers for bigint is text.
require('pg').types.setTypeParser(20, Number)
const db = knex({ client: 'pg', connection: process.env.BENCH_SQL, pool: { min: 10, max: 10 } })
await serveRecords(new KnexService({ Model: db, name: 'records', paginate: { default: 10, max: 50 } }))
