// Uses the page of accounts of a generated application in Chromium; the mails are in the log.
//
//   node account_page.mjs NODE_MODULES CHROMIUM URL LOG
//
// One line of JSON goes out for each check: {"name": "...", "error": null}, or what went wrong.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'

const [modules, executablePath, url, log] = process.argv.slice(2)
const require = createRequire(path.join(path.resolve(modules), 'from-here.js'))
const { chromium } = require('playwright-core')

const browser = await chromium.launch({ executablePath })
const page = await browser.newPage({ viewport: { width: 1280, height: 800 } })
const wrong = []
page.on('pageerror', (error) => wrong.push(String(error)))
const press = (name) => page.getByRole('button', { name }).click()
const says = (text) => page.locator('#message').getByText(text).waitFor()

async function fill(email, password) {
  await page.getByLabel('Email').fill(email)
  await page.getByLabel('Password', { exact: true }).fill(password)
}

// Opens the link of a mail, as a person does: in a page that was closed meanwhile.
async function openLink(kind) {
  const link = new RegExp(`http://\\S+/account#${kind}=(\\S+)`)
  let found
  while (!(found = readFileSync(log, 'utf8').match(link))) await wait(100)
  await page.goto('about:blank')
  await page.goto(`${url}/account#${kind}=${found[1]}`)
}

const checks = {
  'somebody signs up and confirms the address': async () => {
    await page.goto(`${url}/account`)
    await fill('Ada@example.com', 'correct horse')
    await press('Create an account')
    await says('We have sent you a mail. Its link confirms your address.')
    await page.getByText('You are signed in as ada@example.com.').waitFor()
    await openLink('verify')
    assert.equal(page.url(), `${url}/account`)
    await press('Confirm my address')
    await says('Thank you. Your address is confirmed.')
  },
  'a wrong password is refused': async () => {
    await fill('ada@example.com', 'wrong horse')
    await press('Sign in')
    await says('Invalid login')
  },
  'somebody has forgotten the password': async () => {
    await page.getByLabel('Email').fill('ada@example.com')
    await press('I have forgotten my password')
    await says('If there is such an account, a mail with a link is on its way.')
    await openLink('reset')
    await page.getByLabel('New password').fill('battery staple')
    await press('Set the password')
    await says('You can sign in with your new password now.')
    await fill('ADA@example.com', 'battery staple')
    await press('Sign in')
    await page.getByText('You are signed in as ada@example.com.').waitFor()
    assert.equal(await page.locator('#message').textContent(), '')
    await press('Sign out')
    await says('You are signed out.')
  },
  'a link works once': async () => {
    await openLink('reset')
    await page.getByLabel('New password').fill('one more horse')
    await press('Set the password')
    await says('not valid any more')
  },
  'it fits on a phone, and no other page shows it': async () => {
    await page.setViewportSize({ width: 390, height: 844 })
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 390))
    const { headers } = await fetch(`${url}/account`)
    assert.match(headers.get('Content-Security-Policy'), /frame-ancestors 'none'/)
    assert.deepEqual(wrong, [])
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
