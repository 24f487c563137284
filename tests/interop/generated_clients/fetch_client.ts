// A program that calls the application through the types of openapi-typescript.
import assert from 'node:assert'
import createClient from 'openapi-fetch'
import type { paths } from './schema'

const base = process.argv[2]
const anonymous = createClient<paths>({ baseUrl: base })
const user = { email: 'ada@example.com', password: 'correct horse' }
const made = await anonymous.POST('/users', { body: user })
assert.equal(made.response.status, 201)
const signedIn = await anonymous.POST('/authentication', { body: { strategy: 'local', ...user } })
const token = signedIn.data?.accessToken
const client = createClient<paths>({ baseUrl: base, headers: { authorization: `Bearer ${token}` } })

const created = await client.POST('/messages', { body: { text: 'one' } })
assert.equal(created.data?.text, 'one')
const params = { path: { id: String(created.data?.id) } }
// No other property is required.
const patched = await client.PATCH('/messages/{id}', { params, body: { text: 'two' } })
assert.equal(patched.data?.text, 'two')
const query = { $limit: 1, 'text[$in][]': ['two'], '$sort[id]': -1 as const }
const found = await client.GET('/messages', { params: { query } })
assert.equal(found.data?.data[0]?.text, 'two')
const removed = await client.DELETE('/messages/{id}', { params })
assert.equal(removed.response.status, 200)
// @ts-expect-error: a text is required
await client.POST('/messages', { body: {} })
