// Live lists of an Alula server: what `find` answers now, and every change of it.

const LONGEST_PAUSE = 30_000 // milliseconds between two attempts to reach the server
const LONGEST_SILENCE = 60_000 // the server sends a sign of life every 15 seconds
const TRY_AGAIN = [408, 425, 429] // refusals that may not last

/**
 * Opens a list. `source` is a FeathersJS client with sockets, or the URL of the server, for a stream
 * of server-sent events.
 */
export function live(source, path, query = {}, options = {}) {
  const subscribers = new Set()
  const waiting = new Set() // of `settled`
  let rows = []
  let status = 'loading'
  let error = null
  let have // names the rows for the server, so that it need not send them again
  let batch = []
  let openings = 0
  let isAnswered = false
  let attempts = 0
  let timer

  const isUrl = typeof source === 'string' || source instanceof URL
  const transport = (isUrl ? overStream : overSocket)(source, path, query, options, { open, receive, lose })
  open()

  function open() {
    clearTimeout(timer)
    if (status === 'closed') return
    openings += 1
    isAnswered = false
    batch = []
    transport.open(have)
  }

  /** Takes one message; shows its batch when it is whole. */
  function receive(message, id) {
    batch.push(message)
    if (message.more) return
    const changes = batch
    batch = []
    if (message.kind === 'closed') return end(asError(message.error), changes)
    rows = changes.reduce(apply, rows)
    have = id ?? have
    status = 'live'
    error = null
    attempts = 0
    isAnswered = true
    publish(changes)
    for (const call of [...waiting]) call.after < openings ? call.resolve() : settle(call)
  }

  function apply(before, { kind, rows: page, at, data, id }) {
    if (kind === 'snapshot' || kind === 'reset') return page
    const gone = kind === 'left' ? id : kind === 'changed' ? idOf(data) : undefined
    const after = gone === undefined ? [...before] : before.filter((row) => idOf(row) !== gone)
    if (kind === 'entered' || kind === 'changed') after.splice(at, 0, data)
    return after
  }

  function idOf(row) {
    return row[options.id ?? ('_id' in row ? '_id' : 'id')]
  }

  /** The server is away. `isOver` is false where the transport itself opens the list again. */
  function lose(reason, isOver = true) {
    if (status === 'closed') return
    const { code } = reason ?? {}
    if (code >= 400 && code < 500 && !TRY_AGAIN.includes(code)) return end(asError(reason))
    isAnswered = false
    status = 'away'
    error = reason ? asError(reason) : null
    if (isOver) timer = setTimeout(open, Math.random() * Math.min(LONGEST_PAUSE, 500 * 2 ** attempts++))
    publish([])
  }

  /** The server has ended the list: its caller may not find it any more. */
  function end(reason, changes = [{ kind: 'closed', error: reason }]) {
    rows = []
    error = reason
    close(changes)
  }

  function close(changes = []) {
    if (status === 'closed') return
    status = 'closed'
    clearTimeout(timer)
    transport.close()
    publish(changes)
    subscribers.clear()
    for (const call of waiting) call.reject(closedError())
  }

  function publish(changes) {
    for (const subscriber of [...subscribers]) {
      try {
        subscriber.call(undefined, rows, changes)
      } catch (thrown) {
        setTimeout(() => { throw thrown }) // told as any error of a page; others hear the batch, too
      }
    }
  }

  function subscribe(subscriber) {
    const own = (...heard) => subscriber(...heard) // the same function may subscribe twice
    if (status !== 'closed') subscribers.add(own)
    own(rows, have === undefined ? [] : [{ kind: 'snapshot', rows }])
    return () => { subscribers.delete(own) }
  }

  function closedError() {
    return error ?? new Error(`the live list of '${path}' is closed`)
  }

  /** Ends when the list has all that was written before this call. */
  function settled() {
    if (status === 'closed') return Promise.reject(closedError())
    return new Promise((resolve, reject) => {
      const call = { after: openings, resolve: done(resolve), reject: done(reject) }
      function done(answer) {
        return (value) => { waiting.delete(call); answer(value) }
      }
      waiting.add(call)
      settle(call)
    })
  }

  function settle(call) {
    if (!isAnswered) return // the answer calls it again
    if (transport.settle) transport.settle(call)
    else open() // a page that was read later has it all
  }

  return {
    get rows() { return rows },
    get status() { return status },
    get error() { return error },
    subscribe,
    settled,
    close: () => close()
  }
}

function overStream(base, path, query, options, { receive, lose }) {
  let current = new AbortController()

  async function open(have) {
    current.abort()
    const own = (current = new AbortController())
    const { signal } = own
    let silence
    const hear = () => {
      clearTimeout(silence)
      silence = setTimeout(() => own.abort(new Error('the server is silent')), LONGEST_SILENCE)
    }
    let reason
    try {
      const search = queryString({ ...query, $live: true, lastEventId: have })
      const url = `${String(base).replace(/\/+$/, '')}/${path}?${search}`
      const given = typeof options.headers === 'function' ? await options.headers() : options.headers
      const headers = { ...given, Accept: 'text/event-stream' }
      hear()
      const response = await fetch(url, { headers, signal, credentials: options.credentials, cache: 'no-store' })
      if (!response.ok) throw await refusal(response)
      if (!response.headers.get('content-type')?.startsWith('text/event-stream')) {
        throw new Error(`${url} is not an event stream`)
      }
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
      for (let text = ''; own === current;) {
        const { done, value } = await reader.read()
        if (done) break
        hear()
        const blocks = (text + value).split('\n\n')
        text = blocks.pop()
        for (const block of blocks) if (own === current) read(block)
      }
    } catch (thrown) {
      reason = thrown
    }
    clearTimeout(silence)
    if (own === current) lose(reason)
  }

  function read(block) {
    const fields = Object.fromEntries(block.split('\n').map((line) => line.split(/: ?(.*)/s)))
    if (fields.event && fields.event !== 'expired') {
      receive({ ...JSON.parse(fields.data), kind: fields.event }, fields.id)
    }
  }

  function close() {
    const ended = current
    current = undefined
    ended.abort()
  }

  return { open, close }
}

function overSocket(client, path, query, options, { open: openAgain, receive, lose }) {
  const socket = client.io ?? client
  if (typeof socket.emit !== 'function' || typeof socket.connected !== 'boolean') {
    throw new TypeError('live() needs a FeathersJS client with sockets, or the URL of the server')
  }
  const prefix = Math.random().toString(36).slice(2)
  let number = 0
  let name // of the list; each opening has its own
  let isOpen = false

  function hear(message) {
    if (message.list === name) receive(message, message.have)
  }
  function connected() {
    if (!(socket.recovered && isOpen)) openAgain()
    else socket.emit('live', path, { settled: true }, {}, () => receive({ kind: 'unchanged' }))
  }
  function disconnected() {
    lose(undefined, false)
  }
  socket.on(`${path} live`, hear)
  socket.on('connect', connected)
  socket.on('disconnect', disconnected)

  async function open(have) {
    isOpen = false
    const own = (name = `${prefix}-${++number}`)
    if (!socket.connected) return // `connected` follows
    if (client.io) await Promise.resolve(client.get?.('authentication')).catch(() => {}) // signs in again
    if (own !== name || !socket.connected) return
    socket.emit('live', path, have ? { list: own, have } : { list: own }, query, (refused, page) => {
      if (own !== name) return
      if (refused) return lose(refused)
      isOpen = true
      receive({ ...page, kind: page.rows ? 'snapshot' : 'unchanged' }, page.have)
    })
  }

  function settle({ resolve, reject }) {
    socket.emit('live', path, { settled: true }, {}, (refused) => refused ? reject(asError(refused)) : resolve())
  }

  function close() {
    socket.off(`${path} live`, hear)
    socket.off('connect', connected)
    socket.off('disconnect', disconnected)
    if (isOpen && socket.connected) socket.emit('unlive', path, { list: name }, {}, () => {})
    name = undefined
  }

  return { open, settle, close }
}

async function refusal(response) {
  const told = await response.json().catch(() => ({}))
  return { name: 'Error', message: response.statusText, ...told, code: response.status }
}

function asError(told) {
  return told instanceof Error ? told : Object.assign(new Error(told.message), told)
}

/** A query as FeathersJS sends it: `$sort[id]=-1`. */
function queryString(query) {
  const pairs = []
  function add(name, value) {
    if (value === undefined) return
    if (value !== null && typeof value === 'object' && !(value instanceof Date)) {
      for (const [key, inner] of Object.entries(value)) add(name ? `${name}[${key}]` : key, inner)
    } else {
      const text = value instanceof Date ? value.toISOString() : value ?? ''
      pairs.push(`${encodeURIComponent(name)}=${encodeURIComponent(text)}`)
    }
  }
  add('', query)
  return pairs.join('&')
}
