// Reads streams of a running server by the typed client, and prints the outcome of each check as JSON.
import assert from 'node:assert/strict'
import { connect } from './endpoints'

const words = connect(process.argv[3]!).service('words')

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
  }
}

async function run(): Promise<void> {
  for (const [name, check] of Object.entries(checks)) {
    const error = await check().then(() => null, String)
    console.log(JSON.stringify({ name, error }))
  }
}

void run()
