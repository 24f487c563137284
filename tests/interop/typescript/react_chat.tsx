// A React front end for the application of FeathersJS' own generator: it takes its typed client,
// in which an id is a text or an object.
import rest from '@feathersjs/rest-client'
import socketio from '@feathersjs/socketio-client'
import { useEffect, useState } from 'react'
import type { FormEvent, ReactElement } from 'react'
import { io } from 'socket.io-client'
import { createClient } from './client'
import type { ClientApplication, Message, MessageData, MessagePatch, MessageQuery } from './client'
import type { ServiceTypes, User, UserData, UserPatch, UserQuery } from './client'

export const overSocket = (url: string): ClientApplication => createClient(socketio(io(url)))

export const overRest = (url: string): ClientApplication =>
  createClient(rest(url).fetch(fetch), { storageKey: 'chat' })

type Path = keyof ServiceTypes

export const paths: Path[] = ['users', 'messages']

export function useMessages(client: ClientApplication, query: MessageQuery): Message[] {
  const [messages, setMessages] = useState<Message[]>([])
  useEffect(() => {
    const service = client.service('messages')
    const add = (message: Message): void => setMessages((known) => [...known, message])
    const drop = ({ _id }: Message): void =>
      setMessages((known) => known.filter((message) => message._id !== _id))
    void service.find({ query }).then((page) => setMessages(page.data))
    service.on('created', add)
    service.on('removed', drop)
    return () => {
      service.removeListener('created', add)
      service.removeListener('removed', drop)
    }
  }, [client, query])
  return messages
}

export async function join(client: ClientApplication, account: UserData): Promise<User> {
  await client.service('users').create(account)
  const { user, accessToken } = await client.authenticate({ strategy: 'local', ...account })
  const mine: UserQuery = { email: user.email }
  const page = await client.service('users').find({ query: { ...mine, $limit: 1 } })
  return accessToken ? page.data[0]! : user
}

export async function rename(client: ClientApplication, user: User): Promise<User> {
  const change: UserPatch = { email: `new-${user.email}` }
  return await client.service('users').patch(user._id as string, change)
}

interface LineProps {
  message: Message
  onChange: (message: Message, change: MessagePatch) => void
  onRemove: (message: Message) => void
}

function Line({ message, onChange, onRemove }: LineProps): ReactElement {
  return (
    <li>
      <input value={message.text} onChange={(event) => onChange(message, { text: event.target.value })} />
      <button onClick={() => onRemove(message)}>Remove</button>
    </li>
  )
}

const QUERY: MessageQuery = { $sort: { text: 1 }, $limit: 25, text: { $ne: '' } }

export function Chat({ client }: { client: ClientApplication }): ReactElement {
  const messages = useMessages(client, QUERY)
  const [text, setText] = useState('')
  const service = client.service('messages')
  const send = async (event: FormEvent): Promise<void> => {
    event.preventDefault()
    const data: MessageData = { text }
    const sent: Message = await service.create(data)
    setText(sent.text.slice(0, 0))
  }
  return (
    <form onSubmit={(event) => void send(event)}>
      <ul>
        {messages.map((message) => (
          <Line
            key={String(message._id)}
            message={message}
            onChange={({ _id }, change) => void service.patch(_id as string, change)}
            onRemove={({ _id }) => void service.remove(_id as string)}
          />
        ))}
      </ul>
      <input value={text} onChange={(event) => setText(event.target.value)} />
    </form>
  )
}

export async function mistakes(client: ClientApplication, sent: Message): Promise<void> {
  // @ts-expect-error what a message does not have
  sent.txt
  // @ts-expect-error a misspelt service
  client.service('mesages')
  // @ts-expect-error a text is a string
  await client.service('messages').create({ text: 5 })
  // @ts-expect-error a misspelt property of the query
  await client.service('messages').find({ query: { txt: 'Hello' } })
}
