// Official JavaScript clients under remote control: socket.io-client, @feathersjs/socketio-client, ws.
//
//   node official_clients.mjs NODE_MODULES MAIN SECOND
//
// MAIN and SECOND are the addresses of the two servers. Each line of the input is an order,
// {"do": NAME, ...}; the answer to it is one line, {"value": ...} or {"failed": "..."}. Values that
// JSON lacks have a form of their own there: {"$base64": "..."} for bytes, {"$undefined": true} ...
import { createHash } from 'node:crypto'
import { createRequire } from 'node:module'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

// FeathersJS' client signs in again by itself after a reconnection, and lets nobody catch its failure.
process.on('unhandledRejection', () => {})

const MS_FOR_AN_ANSWER = 30000
const LONG_TEXT = 1000

const [folder, ...addresses] = process.argv.slice(2)
const require = createRequire(path.join(path.resolve(folder), 'from-here.js'))
const { io } = require('socket.io-client')
const WebSocket = require('ws')

// ---- values ------------------------------------------------------------------------------------

const special = {
  $base64: (text) => Buffer.from(text, 'base64'),
  $date: (text) => new Date(text),
  $undefined: () => undefined,
  $repeat: ([text, count]) => text.repeat(count),
  $deep: (levels) => Array.from({ length: levels }).reduce((inner) => [inner], 1),
  $concat: (parts) => parts.map(decoded).join('')
}

const isObject = (value) => value !== null && typeof value === 'object'

// Returns what is to be sent, from the JSON of an order.
function decoded(value) {
  if (Array.isArray(value)) return value.map(decoded)
  if (!isObject(value)) return value
  const [name, ...others] = Object.keys(value)
  if (others.length === 0 && Object.hasOwn(special, name)) return special[name](value[name])
  // fromEntries keeps members such as __proto__, which an assignment would not.
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, decoded(part)]))
}

// Returns what came, as JSON.
function encoded(value) {
  if (value === undefined) return { $undefined: true }
  if (typeof value === 'string' && value.length > LONG_TEXT) {
    return { $long: value.length, sha1: createHash('sha1').update(value).digest('hex').slice(0, 12) }
  }
  if (!isObject(value)) return value
  if (value instanceof ArrayBuffer || ArrayBuffer.isView(value)) {
    return { $base64: Buffer.from(value).toString('base64') }
  }
  if (Array.isArray(value)) return value.map(encoded)
  const members = Object.entries(value).filter(([, part]) => part !== undefined)
  return Object.fromEntries(members.map(([name, part]) => [name, encoded(part)]))
}

// Returns a frame as its head and its JSON, `42["created",{}]` as ["42", ["created", {}]].
function framed(frame) {
  if (typeof frame !== 'string') return encoded(frame)
  const start = frame.search(/[[{"]/)
  try {
    if (start >= 0) return [frame.slice(0, start), encoded(JSON.parse(frame.slice(start)))]
  } catch {
    // What holds no JSON stays as it is.
  }
  return encoded(frame)
}

function encodedError(error) {
  const { hook, ...members } = error.toJSON ? error.toJSON() : { name: error.name, message: error.message, code: error.code, data: error.data }
  return encoded(members)
}

// Returns what a promise settles with, or `late` where that takes longer.
async function within(ms, promise, late) {
  const timer = new AbortController()
  const limit = sleep(ms, late, { signal: timer.signal }).catch(() => {})
  try {
    return await Promise.race([promise, limit])
  } finally {
    timer.abort()
  }
}

const LATE = Symbol('late')

async function must(what, promise, ms = MS_FOR_AN_ANSWER) {
  const value = await within(ms, promise, LATE)
  if (value === LATE) throw new Error(`${what}: nothing came within ${ms} ms`)
  return value
}

// ---- clients -----------------------------------------------------------------------------------

const clients = new Map()

// Keeps what a client receives, and wakes whoever waits for it.
class Inbox {
  events = []
  closed = null
  #waiting = new Set()

  add(event) {
    this.events.push(event)
    this.#wake()
  }

  close(how) {
    this.closed = how
    this.#wake()
  }

  #wake() {
    for (const check of this.#waiting) check()
  }

  // Resolves once `isReached` holds, or after some time.
  async until(isReached, ms) {
    let check
    const reached = new Promise((resolve) => {
      check = () => isReached() && resolve()
      check()
    })
    this.#waiting.add(check)
    await within(ms, reached)
    this.#waiting.delete(check)
  }
}

class OfficialClient extends Inbox {
  constructor({ address, path, namespace = '', transports = ['websocket'], query, headers, auth, options = {} }) {
    super()
    this.transports = options.transports ?? transports
    this.socket = io(address + namespace, {
      forceNew: true,
      reconnection: false,
      autoConnect: false,
      transports,
      ...(path && { path }),
      ...(query && { query }),
      ...(headers && { extraHeaders: headers }),
      ...(auth !== undefined && { auth: decoded(auth) }),
      ...options
    })
    this.socket.onAny((...values) => this.add(encoded(values)))
    this.socket.on('disconnect', (reason) => this.close({ reason }))
  }

  addFramework(methods = {}) {
    const { feathers } = require('@feathersjs/feathers')
    const connection = require('@feathersjs/socketio-client').default(this.socket)
    const authentication = require('@feathersjs/authentication-client')
    const storage = new authentication.MemoryStorage()
    this.app = feathers().configure(connection).configure(authentication.default({ storage }))
    for (const [path, names] of Object.entries(methods)) {
      this.app.use(path, connection.service(path), { methods: names })
    }
  }

  async open({ upgrade = false }) {
    this.closed = null
    const outcome = new Promise((resolve) => {
      this.socket.once('connect', () => resolve({ connected: true }))
      this.socket.once('connect_error', ({ message, data }) => resolve({ error: encoded({ message, data }) }))
    })
    this.socket.connect()
    const told = await must('connect', outcome)
    if (told.error) return told
    const { engine } = this.socket.io
    if (upgrade && engine.transport.name !== 'websocket') {
      await must('upgrade', new Promise((resolve) => engine.once('upgrade', resolve)))
    }
    // While an upgrade is under way it may be either.
    if (upgrade || this.transports.length === 1) told.transport = engine.transport.name
    if (this.socket.recovered) told.recovered = true
    return told
  }

  call(args) {
    return new Promise((resolve) => this.socket.emit(...args, (...values) => resolve(encoded(values))))
  }

  // Resolves when all has arrived that the server sent before it answers this call.
  async catchUp() {
    if (this.socket.connected) await within(MS_FOR_AN_ANSWER, this.call(['find', 'log', {}]))
  }

  end() {
    this.socket.removeAllListeners()
    this.socket.offAny()
    this.socket.disconnect()
  }
}

class RawSocket extends Inbox {
  constructor({ address, path, headers = {}, pong = false }) {
    super()
    this.socket = new WebSocket(address.replace(/^http/, 'ws') + path, { headers, perMessageDeflate: false })
    this.socket.on('message', (data, isBinary) => {
      const frame = isBinary ? data : data.toString()
      if (pong && frame === '2') this.socket.send('3')
      else if (frame !== '6') this.add(framed(frame)) // 6 says nothing
    })
    this.socket.on('close', () => this.close({ closed: true }))
  }

  open() {
    const outcome = new Promise((resolve) => {
      this.socket.on('open', () => resolve({ open: true }))
      this.socket.on('error', () => resolve({ refused: true }))
      this.socket.on('unexpected-response', (_, response) => {
        response.resume().on('end', () => resolve({ refused: true }))
      })
    })
    return must('websocket', outcome)
  }

  async catchUp() {}

  end() {
    this.socket.terminate()
  }
}

function the(name) {
  if (!clients.has(name)) throw new Error(`there is no client ${name}`)
  return clients.get(name)
}

// ---- orders ------------------------------------------------------------------------------------

const orders = {
  connect({ client: name, app, feathers, methods, ...given }) {
    const where = app === 2 ? { address: addresses[1], path: '/ws/' } : { address: addresses[0] }
    const client = new OfficialClient({ ...given, ...where })
    clients.set(name, client)
    if (feathers) client.addFramework(methods)
    return client.open(given)
  },

  reconnect({ client, ...given }) {
    return the(client).open(given)
  },

  async call({ client, args, ack = true, within: ms }) {
    if (!ack) {
      the(client).socket.emit(...decoded(args))
      return {}
    }
    const values = await within(ms ?? MS_FOR_AN_ANSWER, the(client).call(decoded(args)), LATE)
    return values === LATE ? { noAck: true } : { ack: values }
  },

  async burst({ calls, order }) {
    const ended = []
    const answers = calls.map(({ client, args }, index) =>
      the(client).call(decoded(args)).finally(() => ended.push(index))
    )
    const acks = await must('burst', Promise.all(answers))
    return order ? { acks, order: ended } : { acks }
  },

  async feathers({ client, service, method, args = [], within: ms }) {
    const { app } = the(client)
    const target = service === undefined ? app : app.service(service)
    try {
      return { result: encoded(await must(method, Promise.resolve(target[method](...decoded(args))), ms)) }
    } catch (error) {
      return { error: encodedError(error) }
    }
  },

  listen({ client: name, service, event }) {
    const client = the(name)
    client.app.service(service).on(event, (...values) => client.add(['heard', service, event, ...values.map(encoded)]))
    return {}
  },

  // Takes what has come: waits for as many events as are expected, then for some silence.
  async take({ counts, within: ms, quiet }) {
    const taken = Object.entries(counts).map(([name, count]) => [name, the(name), count])
    await Promise.all(taken.map(([, client, count]) => client.until(() => client.events.length >= count, ms)))
    await Promise.all(taken.map(([, client]) => client.catchUp()))
    await sleep(quiet)
    return Object.fromEntries(taken.map(([name, client]) => [name, client.events.splice(0)]))
  },

  disconnect({ client, how }) {
    const { socket } = the(client)
    if (how === 'engine') socket.io.engine.close()
    else if (how === 'terminate') socket.io.engine.transport.ws.terminate()
    else socket.disconnect()
    return {}
  },

  async closed({ client: name, within: ms }) {
    const client = the(name)
    await client.until(() => client.closed, ms ?? MS_FOR_AN_ANSWER)
    return client.closed ?? {}
  },

  ws({ client: name, app, ...given }) {
    const client = new RawSocket({ ...given, address: addresses[app === 2 ? 1 : 0] })
    clients.set(name, client)
    return client.open()
  },

  send({ client, packets }) {
    for (const packet of packets) the(client).socket.send(decoded(packet))
    return {}
  },

  close({ client }) {
    the(client).socket.close()
    return {}
  },

  terminate({ client }) {
    the(client).socket.terminate()
    return {}
  },

  // Closes all clients, and tells of events that nobody has taken from the official ones.
  end() {
    const left = []
    for (const [name, client] of clients) {
      if (client instanceof OfficialClient && client.events.length) left.push([name, client.events])
      client.end()
    }
    clients.clear()
    return Object.fromEntries(left)
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const { do: name, ...order } = JSON.parse(line)
  let answer
  try {
    answer = { value: await orders[name](order) }
  } catch (error) {
    answer = { failed: error.message }
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`)
}
process.exit()
