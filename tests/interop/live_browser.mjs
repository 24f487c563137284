// Opens two windows of each page of `live_pages` in Chromium, and looks at rows that move.
//
//   node live_browser.mjs NODE_MODULES CHROMIUM URL FOLDER PAGES LIVE
//
// The server at URL serves what is in FOLDER. One line of JSON goes out for each check:
// {"name": "...", "error": null}, or what went wrong. Screenshots go into FOLDER.
import assert from 'node:assert/strict'
import { copyFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'

const [modules, executablePath, url, folder, pages, alulaLive] = process.argv.slice(2)
const require = createRequire(path.join(path.resolve(modules), 'from-here.js'))
const { chromium } = require('playwright-core')

await copyFile(alulaLive, path.join(folder, 'alula-live.js'))
for (const name of ['plain.html', 'react.html']) {
  await copyFile(path.join(pages, name), path.join(folder, name))
}
await require('esbuild').build({
  entryPoints: [path.join(pages, 'react.jsx')],
  outfile: path.join(folder, 'react.js'),
  bundle: true,
  format: 'esm',
  jsx: 'automatic',
  nodePaths: [path.resolve(modules)],
  alias: { 'alula-live': alulaLive },
  define: { 'process.env.NODE_ENV': '"development"' },
  logLevel: 'error'
})

const browser = await chromium.launch({ executablePath })
const logged = []

async function windowOf(name) {
  const page = await (await browser.newContext({ viewport: { width: 480, height: 360 } })).newPage()
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) logged.push(`${name}: ${message.text()}`)
  })
  page.on('pageerror', (error) => logged.push(`${name}: ${error}`))
  await page.goto(`${url}/${name}`)
  await page.getByRole('status').filter({ hasText: 'live' }).waitFor()
  return page
}

async function shows(page, texts) {
  const wanted = texts.split(' ').map((text) => `${text} Done`).join('|')
  await page.waitForFunction((wanted) =>
    [...document.querySelectorAll('#open li')].map((line) => line.innerText).join('|') === wanted, wanted)
}

const send = (method, to, data) =>
  fetch(`${url}/${to}`, { method, headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(data) })

async function add(page, text) {
  await page.getByLabel('Text').fill(text)
  await page.getByRole('button', { name: 'Add' }).click()
}

const done = (page, text) =>
  page.getByRole('listitem').filter({ hasText: text }).getByRole('button', { name: 'Done' }).click()

async function moves(name) {
  await send('DELETE', 'todos')
  const [one, other] = [await windowOf(`${name}.html`), await windowOf(`${name}.html`)]
  for (const text of ['c', 'd', 'b']) await add(one, text)
  for (const page of [one, other]) await shows(page, 'b c d')
  await add(other, 'a')
  for (const page of [one, other]) await shows(page, 'a b c')
  await done(one, 'b')
  for (const page of [one, other]) await shows(page, 'a c d')
  await other.screenshot({ path: path.join(folder, `${name}.png`) })
  await send('POST', 'connections', {})
  await done(one, 'a')
  for (const page of [one, other]) {
    await shows(page, 'c d')
    await page.getByRole('status').filter({ hasText: 'live' }).waitFor()
  }
  return other
}

const checks = {
  'a row moves in a page without a framework': () => moves('plain'),
  'a row moves in a page with React': async () => {
    const page = await moves('react')
    const renders = Number(await page.locator('#renders').textContent())
    assert.ok(renders < 12, `${renders} renders: rows must stay the same array without a change`)
  },
  'a row moves in the page of debug mode': async () => {
    const page = await windowOf('?live=todos')
    const cells = (texts) => page.waitForFunction((texts) =>
      [...document.querySelectorAll('td:first-child')].map((cell) => cell.innerText).join(' ') === texts, texts)
    await cells('c d b a')
    await send('POST', 'todos', { text: 'e', state: 'open' })
    await cells('c d b a e')
    await page.getByLabel('/todos?').fill('text[$ne]=d&$sort[text]=-1')
    await cells('e c b a')
    await page.screenshot({ path: path.join(folder, 'debug.png') })
    await page.getByLabel('/todos?').fill('text[$what]=d')
    await page.getByRole('status').filter({ hasText: '$what' }).waitFor()
    logged.splice(0) // the browser tells that it was refused
  },
  'nothing went wrong in the console': () => assert.deepEqual(logged, [])
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
