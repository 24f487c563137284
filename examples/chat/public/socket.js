// A small client of socket.io: calls, events, and a connection that comes back. An application of
// your own takes the package socket.io-client.
export function connect () {
  const url = new URL('/socket.io/?EIO=4&transport=websocket', location.href)
  url.protocol = url.protocol.replace('http', 'ws')
  const listeners = new Map() // name -> functions
  const calls = new Map() // number -> the function that gets the answer
  let web
  let number = 0

  const fire = (name, ...given) => [...listeners.get(name) ?? []].forEach((listener) => listener(...given))

  function open () {
    web = new WebSocket(url)
    web.onmessage = ({ data }) => {
      if (data === '2') return web.send('3') // the server asks for a sign of life
      const [, kind, call, body] = data.match(/^(0|4\d)(\d*)(.*)$/s)
      if (kind === '0') web.send('40') // the session is there: join it
      if (kind === '40') { socket.connected = true; fire('connect') }
      if (kind === '42') fire(...JSON.parse(body))
      if (kind === '43') {
        calls.get(call)?.(...JSON.parse(body))
        calls.delete(call)
      }
    }
    web.onclose = () => {
      socket.connected = false
      calls.clear()
      fire('disconnect')
      setTimeout(open, 500 + Math.random() * 1000)
    }
  }

  const socket = {
    connected: false,
    on (name, listener) {
      listeners.set(name, [...listeners.get(name) ?? [], listener])
    },
    off (name, listener) {
      listeners.set(name, listeners.get(name).filter((each) => each !== listener))
    },
    emit (...packet) {
      const answer = packet.pop()
      calls.set(String(++number), answer)
      web.send(`42${number}${JSON.stringify(packet)}`)
    }
  }
  open()
  return socket
}
