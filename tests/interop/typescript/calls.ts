// Calls a running server by the typed client, and prints the outcome of each check as JSON.
import assert from 'node:assert/strict'
import { connect, signIn } from './front_end'

const client = connect(process.argv[3]!)
const checks: Record<string, () => Promise<void>> = {
  'sign in': async () => {
    const user = await signIn(client, { email: 'ada@example.com', password: 'correct horse' })
    assert.deepEqual(user, { email: 'ada@example.com', avatar: null, id: 1 })
  },
  messages: async () => {
    const service = client.service('messages')
    const created = await service.create({ text: 'Hello' })
    assert.equal(created.user.email, 'ada@example.com')
    assert.deepEqual(created.tags, [])
    const page = await service.find({ query: { text: { $in: ['Hello'] }, $sort: { at: 1 } } })
    assert.equal(page.total, 1)
    const archived = await service.archive({ reason: 'spam' })
    assert.equal((archived as { archived: string }).archived, 'spam')
    assert.equal((await service.remove(created.id)).text, 'Hello')
  },
  notes: async () => {
    await client.service('notes').create({ text: 'zero' })
    const several = await client.service('notes').create([{ text: 'one', position: [1, 2] }])
    assert.equal(several[0]?.['content-type'], 'text/plain')
    assert.equal((await client.service('notes').remove(null)).length, 2)
  },
  'a route': async () => {
    const service = client.service('orgs/:org/notes')
    const params = { route: { org: 'alula' } }
    const created = await service.create({ text: 'there' }, params)
    assert.deepEqual(await service.find(params), [created])
  },
  'no schema': async () => {
    const created = await client.service('plain').create({ anything: 'goes' })
    assert.deepEqual(created, { anything: 'goes', id: 1 })
    assert.deepEqual(await client.service('stats').find(), { messages: 1 })
  }
}

async function run(): Promise<void> {
  for (const [name, check] of Object.entries(checks)) {
    const error = await check().then(() => null, String)
    console.log(JSON.stringify({ name, error }))
  }
}

void run()
