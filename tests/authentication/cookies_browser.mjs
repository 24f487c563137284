// Signs in by cookies in Chromium, and attacks that from a page of another origin.
//
//   node cookies_browser.mjs NODE_MODULES CHROMIUM PYTHON
//
// Both are on this machine without encryption, and of one site, as browsers see it: SameSite alone
// keeps nothing away. CORS lets the other page read. Starts the servers itself. The checks build on
// each other; one line of JSON goes out for each: {"name": "...", "error": null}, or what went
// wrong.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const [modules, executablePath, python] = process.argv.slice(2)
const require = createRequire(path.join(path.resolve(modules), 'from-here.js'))
const { chromium } = require('playwright-core')

const running = spawn(python, ['-m', 'tests.authentication.cookie_pages'], {
  cwd: fileURLToPath(new URL('../..', import.meta.url)),
  stdio: ['ignore', 'pipe', 'inherit']
})
const lines = createInterface({ input: running.stdout })[Symbol.asyncIterator]()
const { own, other } = JSON.parse((await lines.next()).value)

const browser = await chromium.launch({ executablePath })
const context = await browser.newContext()
const page = await context.newPage()
const evil = await context.newPage()
await page.goto(own)
await evil.goto(other)

// Sends a request from a page, with its cookies; returns the status and the body.
const send = (from, method, url, body, headers = {}, mode = 'cors') =>
  from.evaluate(async ([method, url, body, headers, mode]) => {
    if (body !== undefined && mode === 'cors') headers['Content-Type'] = 'application/json'
    const text = body === undefined ? undefined : JSON.stringify(body)
    const response = await fetch(url, { method, headers, body: text, mode, credentials: 'include' })
    return { status: response.status, body: await response.json().catch(() => null) }
  }, [method, own + url, body, headers, mode])

const csrfOf = (from) => from.evaluate(() => document.cookie.match(/__Host-csrf=([^;]+)/)[1])
const cookieNames = async () => (await context.cookies(own)).map(({ name }) => name).sort()
const texts = async () => (await send(page, 'GET', '/notes')).body.map(({ text }) => text)

// Opens a websocket from a page, calls `find` of the notes over it, and returns the answer.
const callOverSocket = (from) => from.evaluate((url) => new Promise((resolve) => {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/socket.io/?EIO=4&transport=websocket`)
  socket.onclose = () => resolve('closed')
  socket.onmessage = ({ data }) => {
    if (data.startsWith('0')) socket.send('40')
    if (data.startsWith('40')) socket.send('420["find","notes",{}]')
    if (data.startsWith('430')) resolve(JSON.parse(data.slice(3)))
  }
}), own)

const openStream = (from) => from.evaluate((url) => new Promise((resolve) => {
  const stream = new EventSource(`${url}/notes`, { withCredentials: true })
  stream.onopen = () => { stream.close(); resolve('open') }
  stream.onerror = () => { stream.close(); resolve('refused') }
}), own)

const login = { strategy: 'local', email: 'ada@example.com', password: 'right' }

const checks = {
  'a sign-in sets cookies, also without encryption on this machine': async () => {
    const { status, body } = await send(page, 'POST', '/authentication', login)
    assert.equal(status, 201)
    assert.equal(body.accessToken, undefined)
    assert.deepEqual((await context.cookies()).map(({ name }) => name).sort(),
      ['__Host-csrf', '__Host-token', '__Secure-refresh'])
    assert.deepEqual(await cookieNames(), ['__Host-csrf', '__Host-token'])
  },
  'scripts read the CSRF token alone': async () => {
    assert.equal(await page.evaluate(() => document.cookie), `__Host-csrf=${await csrfOf(page)}`)
  },
  'a page of ours reads and writes': async () => {
    assert.deepEqual(await texts(), [])
    const headers = { 'X-CSRF-Token': await csrfOf(page) }
    assert.equal((await send(page, 'POST', '/notes', { text: 'ours' }, headers)).status, 201)
    assert.deepEqual(await texts(), ['ours'])
  },
  'a page of ours without the CSRF token is refused': async () => {
    assert.equal((await send(page, 'POST', '/notes', { text: 'lacks it' })).status, 403)
  },
  'a form of another origin is refused': async () => {
    const [response] = await Promise.all([
      evil.waitForResponse((response) => response.request().method() === 'POST'),
      evil.evaluate((url) => {
        document.body.innerHTML = `<form method="post" action="${url}/notes"><input name="text" value="form"></form>`
        document.forms[0].submit()
      }, own)
    ])
    assert.match((await response.request().allHeaders()).cookie, /__Host-token=/)
    assert.equal(response.status(), 403)
    await evil.waitForURL(`${own}/notes`)
    await evil.goto(other)
  },
  'a fetch of another origin is refused': async () => {
    assert.equal((await send(evil, 'POST', '/notes', { text: 'fetch' })).status, 403)
    // A cookie has no port, so this page of the same machine reads it; one of another host cannot.
    const headers = { 'X-CSRF-Token': await csrfOf(evil) }
    assert.equal((await send(evil, 'POST', '/notes', { text: 'both' }, headers)).status, 403)
    await send(evil, 'POST', '/notes', { text: 'opaque' }, {}, 'no-cors')
    assert.equal((await send(evil, 'DELETE', '/notes')).status, 403)
  },
  'a script of another origin reads nothing': async () => {
    assert.equal((await send(evil, 'GET', '/notes')).status, 401)
  },
  'another origin neither renews nor signs in nor signs out': async () => {
    const before = await context.cookies()
    const headers = { 'X-CSRF-Token': await csrfOf(evil) }
    const renew = { strategy: 'refresh' }
    assert.equal((await send(evil, 'POST', '/authentication', renew, headers)).status, 403)
    assert.equal((await send(evil, 'POST', '/authentication', login)).status, 201)
    assert.equal((await send(evil, 'DELETE', '/authentication', undefined, headers)).status, 403)
    assert.deepEqual(await context.cookies(), before)
  },
  'nothing that was refused has happened': async () => {
    assert.deepEqual(await texts(), ['ours'])
  },
  'a websocket of ours is signed in, one of another origin is not': async () => {
    assert.equal((await callOverSocket(page))[1][0].text, 'ours')
    assert.equal((await callOverSocket(evil))[0].code, 401)
  },
  'a stream of ours is signed in, one of another origin is not': async () => {
    assert.equal(await openStream(page), 'open')
    assert.equal(await openStream(evil), 'refused')
  },
  'the refresh token renews': async () => {
    await context.clearCookies({ name: '__Host-token' })
    assert.equal((await send(page, 'GET', '/notes')).status, 401)
    const headers = { 'X-CSRF-Token': await csrfOf(page) }
    const renewed = await send(page, 'POST', '/authentication', { strategy: 'refresh' }, headers)
    assert.equal(renewed.status, 201)
    assert.deepEqual(await texts(), ['ours'])
  },
  'a sign-out removes the cookies': async () => {
    const headers = { 'X-CSRF-Token': await csrfOf(page) }
    assert.equal((await send(page, 'DELETE', '/authentication', undefined, headers)).status, 200)
    assert.deepEqual(await context.cookies(), [])
    assert.equal((await send(page, 'GET', '/notes')).status, 401)
  }
}

for (const [name, check] of Object.entries(checks)) {
  let error = null
  try {
    await check()
  } catch (thrown) {
    error = thrown.stack ?? String(thrown)
  }
  process.stdout.write(JSON.stringify({ name, error }) + '\n')
}
await browser.close()
running.kill('SIGKILL')
