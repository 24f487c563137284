// Uses the moved feathers-chat as its front ends do, and prints the outcome of each check as JSON.
import assert from 'node:assert/strict'
import type { ClientApplication, Message, User } from './client'
import * as chat from './moved_chat'

const { author, follow, join, line, listen, overRest, overSocket, picture, send, show } = chat

const [url, transport] = process.argv.slice(3) as [string, string]
const connect = (): ClientApplication => (transport === 'rest' ? overRest(url) : overSocket(url))
const credentials = (name: string) => ({ email: `${name}@example.com`, password: 'a long one' })
const [ada, bob] = [connect(), connect()]
const users: User[] = []
const refused = (call: Promise<unknown>, name: string) => assert.rejects(call, { name })

// Resolves with the next message that a client hears of.
const heard = (client: ClientApplication): Promise<Message> =>
  new Promise((resolve) => client.service('messages').once('created', resolve))

const checks: Record<string, () => Promise<void>> = {
  'sign up': async () => {
    const user = await join(ada, credentials('Ada'))
    // MD5 of the address in lower case.
    const avatar = 'https://s.gravatar.com/avatar/3e3417d7ef77d5932a6734b916515ed5?s=60'
    assert.deepEqual(user, { id: 1, email: 'Ada@example.com', avatar })
    const other = await join(bob, { ...credentials('bob'), avatar: 'https://bob.example/me' })
    assert.equal(other.avatar, 'https://bob.example/me')
    users.push(user, other)
    await refused(bob.service('users').create(credentials('bob')), 'Conflict')
  },
  messages: async () => {
    const start = Date.now()
    const sent = await send(ada, 'Hello')
    assert.deepEqual(author(sent), users[0])
    assert.ok(sent.createdAt >= start && sent.createdAt <= Date.now())
    assert.equal(picture(sent), users[0]!.avatar)
    await send(bob, 'Hi')
    assert.deepEqual(await show(ada, users[0]!), ['me: Hello', 'bob@example.com: Hi'])
    const forged = { text: 'Hm', userId: 1, createdAt: 1 }
    const { id, userId, createdAt } = await bob.service('messages').create(forged)
    assert.equal(userId, 2)
    assert.ok(createdAt >= start)
    const patched = await bob.service('messages').patch(id, { text: 'Oh', userId: 1 })
    assert.deepEqual([patched.text, patched.userId, patched.createdAt], ['Oh', 2, createdAt])
    assert.equal((await bob.service('messages').remove(id)).id, id)
    const page = await ada.service('messages').find({ query: { $limit: 1000 } })
    assert.deepEqual([page.total, page.limit], [2, 50])
  },
  owners: async () => {
    await refused(bob.service('messages').get(1), 'NotFound')
    await refused(bob.service('messages').patch(1, { text: 'Bye' }), 'NotFound')
    await refused(bob.service('messages').remove(1), 'NotFound')
    await refused(bob.service('users').get(1), 'NotFound')
    await refused(bob.service('users').patch(1, { avatar: 'mine' }), 'NotFound')
    await refused(bob.service('users').remove(1), 'NotFound')
    const everyone = await bob.service('users').find()
    assert.deepEqual(everyone.data, users)
    const changed = await bob.service('users').patch(2, { password: 'another one' })
    assert.deepEqual(changed, users[1])
    await refused(connect().authenticate({ strategy: 'local', ...credentials('bob') }), 'NotAuthenticated')
  },
  events: async () => {
    // A client over REST emits the events of its own calls.
    const listener = transport === 'rest' ? ada : bob
    const lines: string[] = []
    const stop = listen(listener, (message) => lines.push(line(message, users[0]!)), () => {})
    const first = heard(listener)
    await send(ada, 'News')
    assert.deepEqual(author(await first), users[0])
    stop()
    const second = heard(listener)
    await send(ada, 'More')
    await second
    assert.deepEqual(lines, ['me: News'])
  },
  strangers: async () => {
    const stranger = connect()
    let told = 0
    stranger.service('messages').on('created', () => told++)
    await refused(stranger.service('messages').find(), 'NotAuthenticated')
    await refused(stranger.service('messages').create({ text: 'spam' }), 'NotAuthenticated')
    await refused(stranger.service('users').find(), 'NotAuthenticated')
    const signedIn: Array<User | null> = []
    follow(ada, (user) => signedIn.push(user))
    await send(ada, 'Private')
    await refused(stranger.service('messages').find(), 'NotAuthenticated')
    assert.equal(told, 0)
    await ada.logout()
    assert.deepEqual(signedIn, [null])
    await refused(ada.service('messages').find(), 'NotAuthenticated')
  }
}

async function run(): Promise<void> {
  for (const [name, check] of Object.entries(checks)) {
    const error = await check().then(() => null, String)
    console.log(JSON.stringify({ name, error }))
  }
  process.exit()
}

void run()
