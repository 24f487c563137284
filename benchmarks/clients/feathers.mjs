// FeathersJS's own client with Node's fetch: node clients/feathers.mjs URL PATH
import { createInterface } from 'node:readline'
import { createRequire } from 'node:module'
const require = createRequire(import.meta.url)
const { feathers } = require('@feathersjs/feathers')
const rest = require('@feathersjs/rest-client')

const [url, path] = process.argv.slice(2)
const [, name, id] = /^\/(.*)\/([^/]*)$/.exec(path)
const client = feathers().configure(rest(url).fetch(fetch))
const service = client.service(name)

async function measure (atOnce, seconds) {
  const times = []
  const began = performance.now()
  const until = began + seconds * 1000
  async function again () {
    let now = performance.now()
    while (now < until) {
      await service.get(id)
      const before = now
      now = performance.now()
      times.push(now - before)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, again))
  const rate = times.length / (performance.now() - began) * 1000
  return [rate, times.sort((a, b) => a - b)[Math.floor(times.length * 0.99)]]
}

for await (const line of createInterface({ input: process.stdin })) {
  const [atOnce, seconds] = line.split(' ').map(Number)
  console.log((await measure(atOnce, seconds)).join(' '))
}
process.exit()
