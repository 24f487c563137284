// A program that calls the application through the functions of @hey-api/openapi-ts.
import assert from 'node:assert'
import { client } from './hey/client.gen'
import * as api from './hey/sdk.gen'

client.setConfig({ baseUrl: process.argv[2] })
const user = { email: 'bob@example.com', password: 'correct horse' }
assert.equal((await api.usersCreate({ body: user })).response?.status, 201)
const signedIn = await api.authenticationCreate({ body: { strategy: 'local', ...user } })
client.setConfig({ auth: signedIn.data?.accessToken })

const created = await api.messagesCreate({ body: { text: 'one' } })
assert.ok(created.data && 'text' in created.data)
const path = { id: String(created.data.id) }
const patched = await api.messagesPatch({ path, body: { text: 'two' } })
assert.equal(patched.data?.text, 'two')
const found = await api.messagesFind({ query: { $limit: 1 } })
assert.equal(found.data?.data[0]?.text, 'two')
const file = new File(['Hello'], 'a.txt', { type: 'text/plain' })
const upload = await api.uploadsCreate({ body: { file: [file] } })
assert.equal(upload.response?.status, 201)
