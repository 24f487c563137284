// A front end of feathers-chat, in front of the server that was moved: docs/from-feathersjs.md.
import rest from '@feathersjs/rest-client'
import { createClient } from './client'
import type { Message, MessageData, User, UserData } from './client'

const client = createClient(rest('http://localhost:3030').fetch(fetch))

export async function join(user: UserData): Promise<User> {
  await client.service('users').create(user)
  const login = await client.authenticate({ strategy: 'local', ...user })
  return login.user
}

export async function show(user: User): Promise<string[]> {
  const messages = await client.service('messages').find({
    query: { $sort: { createdAt: -1 }, $limit: 25 }
  })
  const users = await client.service('users').find({ query: { $sort: { email: 1 } } })
  client.service('messages').on('created', (message: Message) => void line(message, user))
  client.service('users').on('created', (created) => users.data.push(created))
  return messages.data.reverse().map((message) => line(message, user))
}

export function line(message: Message, user: User): string {
  const own = message.userId === user.id
  const time = new Date(message.createdAt).toLocaleTimeString()
  return `${own ? 'me' : message.user.email} ${message.user.avatar ?? ''} ${time}: ${message.text}`
}

export async function send(text: string): Promise<void> {
  const data: MessageData = { text }
  const sent = await client.service('messages').create(data)
  // @ts-expect-error a password is never sent
  sent.user.password
  // @ts-expect-error what a message does not have
  sent.txt
  // @ts-expect-error what a message does not have
  await client.service('messages').create({ txt: text })
  // @ts-expect-error a method that is closed to clients
  await client.service('messages').update(sent.id, data)
  await client.logout()
}
