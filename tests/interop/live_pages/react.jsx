import { StrictMode, useEffect, useState, useSyncExternalStore } from 'react'
import { createRoot } from 'react-dom/client'
import feathers from '@feathersjs/feathers'
import socketio from '@feathersjs/socketio-client'
import { io } from 'socket.io-client'
import { live } from 'alula-live'

const client = feathers().configure(socketio(io({ transports: ['websocket'], reconnectionDelay: 50 })))
const todos = live(client, 'todos', { state: 'open', $sort: { text: 1 }, $limit: 3 })

function Todos() {
  const rows = useSyncExternalStore(todos.subscribe, () => todos.rows)
  const status = useSyncExternalStore(todos.subscribe, () => todos.status)
  const [text, setText] = useState('')
  const [renders, setRenders] = useState(0)
  useEffect(() => setRenders((count) => count + 1), [rows])
  async function add(event) {
    event.preventDefault()
    setText('') // before the call: what is typed while it runs must stay
    await client.service('todos').create({ text, state: 'open' })
  }
  return (
    <>
      <h1>Open</h1>
      <form onSubmit={add}>
        <input aria-label="Text" value={text} onChange={(event) => setText(event.target.value)} />{' '}
        <button>Add</button>
      </form>
      <ul id="open">
        {rows.map((row) => (
          <li key={row.id}>
            {row.text} <button onClick={() => client.service('todos').patch(row.id, { state: 'done' })}>Done</button>
          </li>
        ))}
      </ul>
      <p role="status">{status}</p>
      <p id="renders">{renders}</p>
    </>
  )
}

createRoot(document.querySelector('#root')).render(<StrictMode><Todos /></StrictMode>)
