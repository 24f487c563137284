// FeathersJS 5 with its MongoDB adapter on Express or on Koa.
import { require, serveRecords } from './feathers_app.mjs'
const { MongoDBService } = require('@feathersjs/mongodb')
const { MongoClient } = require('mongodb')

const client = await MongoClient.connect(process.env.BENCH_MONGODB)
await serveRecords(new MongoDBService({
  Model: client.db('bench').collection('records'),
  paginate: { default: 10, max: 50 }
}))
