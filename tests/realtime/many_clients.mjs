// Connects many official clients, and tells of each step in a line of JSON.
// Arguments: the folder of the JavaScript packages, how many clients, and the addresses of the
// servers, which the clients share. Lines on the standard input are commands: "create" has each
// client create a record and wait until every client has got all events, "cut" cuts the connections,
// "connect" waits until all clients are connected and get responses, "end" ends.
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import { join } from 'node:path'

const [, , folder, count, ...urls] = process.argv
const require = createRequire(join(folder, 'index.js'))
const { io } = require('socket.io-client')

const tell = (line) => console.log(JSON.stringify(line))
const soon = (what, ms = 30000) =>
  Promise.race([what, new Promise((_, reject) => setTimeout(() => reject(new Error('late')), ms))])
const until = async (condition, ms = 30000) => {
  const end = Date.now() + ms
  while (!condition()) {
    if (Date.now() > end) return false
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  return true
}

const reasons = []
const clients = Array.from({ length: Number(count) }, (_, number) => {
  const socket = io(urls[number % urls.length], {
    forceNew: true,
    reconnectionDelay: 20,
    reconnectionDelayMax: 50,
    randomizationFactor: 0
  })
  const client = { socket, number, events: [], upgraded: 0, disconnects: 0 }
  socket.on('messages created', (message) => client.events.push(message.text))
  socket.on('disconnect', (reason, details) => {
    client.disconnects++
    reasons.push(`${reason} ${details?.message ?? ''} ${details?.context?.responseText ?? ''}`.trim())
  })
  socket.io.on('open', () => socket.io.engine.once('upgrade', () => client.upgraded++))
  return client
})

// Ends once a server responds. A call over a connection whose end the client has not noticed is
// lost, so it is made again over the next connection.
const responds = (socket) =>
  new Promise((resolve) => {
    const ask = () =>
      socket.emit('find', 'messages', {}, () => {
        socket.off('connect', ask)
        resolve()
      })
    socket.on('connect', ask)
    ask()
  })

const connect = async () => {
  await Promise.all(clients.map(({ socket }) => soon(responds(socket)).catch(() => {})))
  const connected = await until(() => clients.every(({ socket }) => socket.connected))
  const upgraded = await until(() =>
    clients.every(({ socket }) => socket.io.engine?.transport?.name === 'websocket')
  )
  tell({
    step: 'connect',
    connected: clients.filter(({ socket }) => socket.connected).length,
    upgraded: clients.filter(({ socket }) => socket.io.engine?.transport?.name === 'websocket')
      .length,
    workers: [...new Set(clients.map(({ socket }) => String(socket.io.engine?.id).split('.')[0]))]
      .sort(),
    ok: connected && upgraded
  })
}

let round = 0
const create = async () => {
  round += 1
  for (const client of clients) client.events.length = 0
  const texts = clients.map(({ number }) => `${round}: ${number}`)
  const answered = await Promise.allSettled(
    clients.map(({ socket, number }) =>
      soon(
        new Promise((resolve, reject) =>
          socket.emit('create', 'messages', { text: texts[number] }, {}, (error, result) =>
            error ? reject(error) : resolve(result)
          )
        )
      )
    )
  )
  await until(() => clients.every(({ events }) => events.length >= texts.length))
  const wanted = [...texts].sort().join()
  tell({
    step: 'create',
    answered: answered.filter(({ status }) => status === 'fulfilled').length,
    complete: clients.filter(({ events }) => [...events].sort().join() === wanted).length,
    disconnects: clients.reduce((sum, { disconnects }) => sum + disconnects, 0),
    reasons
  })
}

// Cuts all connections, and counts the clients that get the connection back that they had.
const cut = async () => {
  const before = clients.map(({ socket }) => socket.id)
  const back = clients.map(({ socket }) => new Promise((resolve) => socket.once('connect', resolve)))
  for (const { socket } of clients) socket.io.engine.transport.ws.terminate()
  await Promise.all(back.map((one) => soon(one).catch(() => {})))
  tell({
    step: 'cut',
    recovered: clients.filter(({ socket }, at) => socket.recovered && socket.id === before[at])
      .length
  })
}

await connect()
for await (const command of createInterface({ input: process.stdin })) {
  if (command === 'create') await create()
  else if (command === 'connect') await connect()
  else if (command === 'cut') await cut()
  else break
}
for (const { socket } of clients) socket.disconnect()
process.exit() // timers are left
