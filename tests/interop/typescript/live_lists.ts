// A page with live lists; a line under `@ts-expect-error` is a mistake that the compiler finds.
import { createCollection } from '@tanstack/db'
import { feathers } from '@feathersjs/feathers'
import socketio from '@feathersjs/socketio-client'
import { io } from 'socket.io-client'
import { alulaCollection } from 'alula-tanstack-db'
import { live, type LiveList } from 'alula-live'

interface Todo {
  id: number
  text: string
}

const client = feathers().configure(socketio(io('http://localhost:3030')))

export const todos: LiveList<Todo> = live<Todo>(client, 'todos', { done: false })
export const streamed = live<Todo>('', 'todos', {}, { headers: async () => ({ Authorization: 'x' }) })
const stop: () => void = todos.subscribe((rows, changes) => {
  const texts: string[] = rows.map(({ text }) => text)
  for (const change of changes) {
    if (change.kind === 'entered') texts.splice(change.at, 0, change.data.text)
    // @ts-expect-error only some changes have a place
    void change.at
  }
  // @ts-expect-error rows are never changed in place
  rows.push({ id: 1, text: '' })
})
stop()
// @ts-expect-error there is no such status
export const isOpen = todos.status === 'open'
export const code: number | undefined = todos.error?.code

export const collection = createCollection(
  alulaCollection<Todo, number>({ client, path: 'todos', query: { done: false }, gcTime: 1000 })
)
export const text: string | undefined = collection.get(7)?.text
// @ts-expect-error the key is a number
collection.get('7')
// @ts-expect-error a path is needed
alulaCollection<Todo>({ client })
