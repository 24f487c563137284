// A front end of an application that `alula new` has made, with users and messages.
import rest from '@feathersjs/rest-client'
import { createClient } from './client'
import type { Message, MessageData, User, UserData } from './client'

const client = createClient(rest('http://localhost:3030').fetch(fetch))

export async function send(user: UserData, data: MessageData): Promise<Message> {
  const created: User = await client.service('users').create(user)
  await client.authenticate({ strategy: 'local', ...user })
  const message = await client.service('messages').create(data)
  const own = message.userId === created.id
  const page = await client.service('messages').find({ query: { text: { $ne: message.text } } })
  // @ts-expect-error a password is never sent
  created.password
  // @ts-expect-error a text is needed
  await client.service('messages').create({})
  // @ts-expect-error a misspelt service
  client.service('mesages')
  return own ? message : page.data[0]!
}
