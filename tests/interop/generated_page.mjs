// Opens the page of a generated application in two windows of Chromium, and writes in one of them.
//
//   node generated_page.mjs NODE_MODULES CHROMIUM URL SIGNS-IN
//
// One line of JSON goes out: {"name": "...", "error": null}, or what went wrong.
import { createRequire } from 'node:module'
import path from 'node:path'

const [modules, executablePath, url, signsIn] = process.argv.slice(2)
const require = createRequire(path.join(path.resolve(modules), 'from-here.js'))
const { chromium } = require('playwright-core')
const user = { email: 'ada@example.com', password: 'correct horse' }

async function windowOf(browser) {
  const page = await (await browser.newContext()).newPage()
  await page.goto(`${url}/live.html`)
  if (signsIn === 'yes') {
    await page.getByLabel('Email').fill(user.email)
    await page.getByLabel('Password').fill(user.password)
    const streams = page.waitForResponse((response) => response.url().includes('$live'))
    await page.getByRole('button', { name: 'Sign in' }).click()
    await streams
  }
  return page
}

async function write(page, text) {
  await page.getByLabel('Text').fill(text)
  await page.getByRole('button', { name: 'Send' }).click()
}

const shows = (page, texts) => page.waitForFunction((texts) =>
  [...document.querySelectorAll('li')].map((line) => line.innerText).join(' ') === texts, texts)

const browser = await chromium.launch({ executablePath })
let error = null
try {
  if (signsIn === 'yes') {
    const headers = { 'Content-Type': 'application/json' }
    await fetch(`${url}/users`, { method: 'POST', headers, body: JSON.stringify(user) })
  }
  const [one, other] = [await windowOf(browser), await windowOf(browser)]
  await write(one, 'tea')
  await shows(one, 'tea')
  await write(other, 'milk')
  for (const page of [one, other]) await shows(page, 'milk tea')
} catch (thrown) {
  error = thrown.stack ?? String(thrown)
}
process.stdout.write(JSON.stringify({ name: 'a row moves', error }) + '\n')
await browser.close()
