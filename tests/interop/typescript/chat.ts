// A front end of the example chat, whose services have no schema.
import { createClient, type ClientApplication, type Messages, type MessagesData } from './client'
import rest from '@feathersjs/rest-client'

export const client: ClientApplication = createClient(rest('http://localhost:3030').fetch(fetch))

export async function talk(): Promise<Messages[]> {
  await client.authenticate({ strategy: 'local', name: 'Ada', password: 'correct horse' })
  const data: MessagesData = { text: 'Hello' }
  const message = await client.service('messages').create(data)
  await client.service('messages').react({ id: message._id, emoji: '🎉' })
  await client.service('messages').typing({})
  client.service('messages').on('typing', (who) => void (who as { name: string }).name)
  void (await client.service('presence').find())
  const { accessToken } = await client.service('authentication').create({
    strategy: 'local',
    name: 'Ada',
    password: 'correct horse'
  })
  void accessToken.length
  // @ts-expect-error the chat knows names, not addresses
  await client.service('authentication').create({ strategy: 'local', email: '', password: '' })
  // @ts-expect-error a method that is closed to clients
  await client.service('messages').update(message._id, data)
  // @ts-expect-error a misspelt method
  await client.service('messages').reakt({})
  // @ts-expect-error nothing is known of the text
  const text: string = message.text
  void text
  const page = await client.service('messages').find({ query: { $sort: { createdAt: -1 } } })
  return page.data
}
