// Reads streams of a running server by the typed client, and prints the outcome of each check as JSON.
import assert from 'node:assert/strict'
import { feathers } from '@feathersjs/feathers'
import socketio from '@feathersjs/socketio-client'
import { io } from 'socket.io-client'
import { connect, overSocket } from './endpoints'

const [url, transport] = process.argv.slice(3) as [string, string]
const overIt = overSocket(url)
const words = (transport === 'rest' ? connect(url) : overIt.client).service('words')

// Waits until no method runs whose stream was left.
async function allClosed(): Promise<void> {
  while (await words.opened(null)) await new Promise((resolve) => setTimeout(resolve, 10))
}

async function read(...given: string[]): Promise<number[]> {
  const found: number[] = []
  for await (const line of await words.ask(given)) found.push(line.n)
  return found
}

const checks: Record<string, () => Promise<void>> = {
  items: async () => assert.deepEqual(await read('a', 'wait', 'b'), [0, 1, 2]),
  'an early error': async () => {
    await assert.rejects(read('taken'), { name: 'Conflict', code: 409, data: { n: 0 } })
  },
  'a late error': async () => {
    await assert.rejects(read('a', 'taken'), { name: 'Conflict', code: 409, data: { n: 1 } })
  },
  leaving: async () => {
    for await (const line of await words.ask(['a', 'wait', 'b'])) {
      assert.equal(line.n, 0)
      break
    }
  },
  'many items, and leaving them': async () => {
    let expected = 0
    for await (const line of await words.count([200])) assert.equal(line.n, expected++)
    assert.equal(expected, 200)
    for await (const line of await words.count([1_000_000])) if (line.n === 100) break
    await allClosed()
  },
  'two at once': async () => {
    const [one, other] = await Promise.all([read('a', 'wait', 'b'), read('a', 'b', 'wait', 'c')])
    assert.deepEqual([one, other], [[0, 1, 2], [0, 1, 2, 3]])
  },
  'a lost connection': async () => {
    if (transport === 'rest') return
    const reading = (async () => {
      for await (const _ of await words.ask(['a', 'wait', 'wait', 'wait'])) overIt.socket.io.engine.close()
    })()
    await assert.rejects(reading, { name: 'Unavailable', code: 503 })
    assert.deepEqual(await read('a'), [0])
  },
  'the client of FeathersJS alone': async () => {
    const socket = io(url, { transports: ['websocket'] })
    const connection = socketio(socket)
    const client = feathers().configure(connection)
    client.use('words', connection.service('words'), { methods: ['ask'] })
    const told: unknown[] = []
    const ended = new Promise<void>((resolve) => {
      socket.on('stream', (...values: unknown[]) => {
        told.push(values)
        if (values[1] === null) resolve()
      })
    })
    try {
      const result = await (client.service('words') as any).ask(['a', 'b', 'taken'])
      assert.deepEqual(Object.keys(result), ['$stream'])
      await ended
      const name = result.$stream
      const error = { name: 'Conflict', message: 'taken', code: 409, className: 'conflict', data: { n: 2 } }
      assert.deepEqual(told, [[name, [{ n: 0 }]], [name, [{ n: 1 }]], [name, null, error]])
    } finally {
      socket.close()
    }
  }
}

async function run(): Promise<void> {
  for (const [name, check] of Object.entries(checks)) {
    const error = await check().then(() => null, String)
    console.log(JSON.stringify({ name, error }))
  }
  overIt.socket.close()
}

void run()
