// Takes docs/images/demo.png, the picture of the README: two windows and a terminal, live.
//
//   PATH=.venv/bin:$PATH node scripts/demo_picture.mjs tests/interop/node_modules /usr/bin/chromium
//
// It starts the example chat in memory. Ann and Ben sign in, each in a window of their own, and Cleo
// sends a message by curl. Both windows show it without a reload. The picture has the two windows,
// the command and what it printed; only the port is the usual one of the chat, not a random one.
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const [modules, executablePath] = process.argv.slice(2)
const require = createRequire(path.join(path.resolve(modules), 'from-here.js'))
const { chromium } = require('playwright-core')

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const WINDOW = { width: 430, height: 400 }
const PASSWORD = 'correct horse'
const SAID = 'Hello from a terminal'

async function startChat() {
  const chat = spawn('python', ['-m', 'examples.chat', '--memory', '--port', '0'], {
    cwd: ROOT, stdio: ['ignore', 'pipe', 'ignore']
  })
  for await (const line of createInterface({ input: chat.stdout })) {
    const found = line.match(/The chat is at +(\S+)/)
    if (found) return [chat, found[1]]
  }
  throw new Error('the chat did not start')
}

async function send(address, data) {
  const headers = { 'Content-Type': 'application/json' }
  const response = await fetch(address, { method: 'POST', headers, body: JSON.stringify(data) })
  assert.equal(response.status, 201)
  return response.json()
}

async function join(browser, url, name) {
  const page = await (await browser.newContext({ viewport: WINDOW, bypassCSP: true })).newPage()
  await page.goto(url)
  // Not every machine has a font with the emoji of these buttons.
  await page.addStyleTag({ content: 'article footer { display: none }' })
  await page.getByLabel('Your name').fill(name)
  await page.getByLabel('Password').fill(PASSWORD)
  await page.getByRole('button', { name: 'Register' }).click()
  await page.getByLabel('Message', { exact: true }).waitFor()
  return page
}

async function say(page, text) {
  await page.getByLabel('Message', { exact: true }).fill(text)
  await page.getByRole('button', { name: 'Send' }).click()
}

async function together(browser, pages, answer) {
  const shots = await Promise.all(pages.map((page) => page.screenshot()))
  const windows = shots.map((shot, number) => `<div class="window"><p>${['Ann', 'Ben'][number]}</p>
    <img src="data:image/png;base64,${shot.toString('base64')}"></div>`)
  const shown = answer.replaceAll('<', '&lt;')
  const page = await browser.newPage({ viewport: { width: 920, height: 620 } })
  await page.setContent(`<style>
    body { margin: 0; padding: 15px; background: #dfe8ee; font: 14px system-ui, sans-serif; }
    .windows { display: flex; gap: 20px; }
    .window, pre { flex: 1; border-radius: 6px; overflow: hidden; box-shadow: 0 2px 8px #0004; }
    .window p { margin: 0; padding: 6px 12px; background: #1f5f8b; color: #fff; font-weight: 600; }
    .window img { display: block; width: 100%; }
    pre { margin: 18px 0 0; padding: 14px; background: #17202a; color: #d7e3ec; font: 14px/1.5 monospace;
      white-space: pre-wrap; }
    b { color: #8fd3a8; font-weight: 400; }
  </style><div class="windows">${windows.join('')}</div>
  <pre><b>$</b> curl localhost:3030/messages -H "Authorization: Bearer $TOKEN" \\
    -H 'Content-Type: application/json' -d '{"text": "${SAID}"}'
${shown}</pre>`)
  const height = await page.evaluate(() => Math.ceil(document.querySelector('pre').getBoundingClientRect().bottom) + 15)
  await page.setViewportSize({ width: 920, height })
  await page.screenshot({ path: path.join(ROOT, 'docs/images/demo.png') })
}

const [chat, url] = await startChat()
const browser = await chromium.launch({ executablePath })
try {
  const ann = await join(browser, url, 'Ann')
  const ben = await join(browser, url, 'Ben')
  await say(ann, 'Who is here?')
  await say(ben, 'I am, in another window')
  await ann.getByText('I am, in another window', { exact: true }).waitFor()
  const account = { name: 'Cleo', password: PASSWORD }
  await send(`${url}/users`, account)
  const { accessToken } = await send(`${url}/authentication`, { strategy: 'local', ...account })
  const printed = execFileSync('curl', [
    '-sS', `${url}/messages`, '-H', `Authorization: Bearer ${accessToken}`,
    '-H', 'Content-Type: application/json', '-d', JSON.stringify({ text: SAID })
  ], { encoding: 'utf8' })
  for (const page of [ann, ben]) await page.getByText(SAID, { exact: true }).waitFor()
  await together(browser, [ann, ben], printed)
} finally {
  await browser.close()
  const ended = once(chat, 'exit')
  chat.kill('SIGTERM')
  await ended
}
