// A front end of feathers-chat, in front of the server that was moved: docs/from-feathersjs.md.
import rest from '@feathersjs/rest-client'
import socketio from '@feathersjs/socketio-client'
import { io } from 'socket.io-client'
import { createClient } from './client'
import type { ClientApplication, Message, MessageData, User, UserData } from './client'

export const overRest = (url: string): ClientApplication => createClient(rest(url).fetch(fetch))

export const overSocket = (url: string): ClientApplication => createClient(socketio(io(url)))

export function follow(client: ClientApplication, setUser: (user: User | null) => void): void {
  client.on('login', ({ user }: { user: User }) => setUser(user))
  client.on('logout', () => setUser(null))
}

export async function join(client: ClientApplication, user: UserData): Promise<User> {
  await client.service('users').create(user)
  const login = await client.authenticate({ strategy: 'local', ...user })
  return login.user
}

export async function show(client: ClientApplication, user: User): Promise<string[]> {
  const messages = await client.service('messages').find({
    query: { $sort: { createdAt: -1 }, $limit: 25 }
  })
  return messages.data.reverse().map((message) => line(message, user))
}

// Returns a function that ends it, as an effect of React does.
export function listen(
  client: ClientApplication,
  onMessage: (message: Message) => void,
  onUser: (user: User) => void
): () => void {
  client.service('messages').on('created', onMessage)
  client.service('users').on('created', onUser)
  return () => {
    client.service('messages').removeListener('created', onMessage)
    client.service('users').removeListener('created', onUser)
  }
}

export function line(message: Message, user: User): string {
  const own = message.user.id === user.id
  return `${own ? 'me' : message.user.email}: ${message.text}`
}

export const author = (message: Message): User => message.user

// What an attribute `src` of React takes.
export const picture = (message: Message): string | undefined => message.user?.avatar

export async function send(client: ClientApplication, text: string): Promise<Message> {
  const data: MessageData = { text }
  return await client.service('messages').create(data)
}

export async function mistakes(client: ClientApplication, sent: Message): Promise<void> {
  // @ts-expect-error a password is never sent
  sent.user.password
  // @ts-expect-error what a message does not have
  sent.txt
  // @ts-expect-error what a message does not have
  await client.service('messages').create({ txt: sent.text })
  // @ts-expect-error a method that is closed to clients
  await client.service('messages').update(sent.id, { text: sent.text })
}
