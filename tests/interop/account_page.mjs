// Uses the page of accounts of a generated application in Chromium; the mails are in the log.
//
//   node account_page.mjs NODE_MODULES CHROMIUM URL LOG
//
// Grace signs in with the provider of the application. With PICTURES, a folder, screenshots go there.
// One line of JSON goes out for each check: {"name": "...", "error": null}, or what went wrong.
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
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
const press = (name) => page.getByRole('button', { name, exact: true }).click()
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

const devtools = await page.context().newCDPSession(page)
await devtools.send('WebAuthn.enable')
await devtools.send('WebAuthn.addVirtualAuthenticator', {
  options: {
    protocol: 'ctap2',
    transport: 'internal',
    hasResidentKey: true,
    hasUserVerification: true,
    isUserVerified: true
  }
})

// As an app on a phone does.
const codeOf = (key) => {
  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'
  const bits = [...key.replaceAll(' ', '')].map((l) => letters.indexOf(l).toString(2).padStart(5, '0')).join('')
  const step = Buffer.alloc(8)
  step.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30000)))
  const digest = createHmac('sha1', Buffer.from(bits.match(/.{8}/g).map((b) => parseInt(b, 2))))
    .update(step).digest()
  const number = digest.readUInt32BE(digest.at(-1) & 15) & 0x7fffffff
  return String(number % 1000000).padStart(6, '0')
}

async function picture(name) {
  if (!process.env.PICTURES) return
  for (const width of [390, 1280]) {
    await page.setViewportSize({ width, height: 844 })
    await page.screenshot({ path: path.join(process.env.PICTURES, `${name}-${width}.png`), fullPage: true })
  }
}

const isGrace = () => page.getByText('You are signed in as grace@example.com.').waitFor()
const signInWithProvider = () => page.getByRole('link', { name: 'Continue with your company' }).click()
async function signOut() {
  await press('Sign out')
  await says('You are signed out.')
}
async function agree() {
  await page.getByRole('dialog').getByRole('button', { name: 'Continue' }).click()
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
    await signOut()
  },
  'a link works once': async () => {
    await openLink('reset')
    await page.getByLabel('New password').fill('one more horse')
    await press('Set the password')
    await says('not valid any more')
  },
  'somebody signs in with a provider': async () => {
    await page.goto(`${url}/account`)
    assert.equal(await page.getByText('Continue with GitHub').isVisible(), false)
    await picture('sign-in')
    await signInWithProvider()
    await isGrace()
    assert.equal(page.url(), `${url}/account`)
    await page.reload() // cookies keep people signed in
    await isGrace()
  },
  'a sign-in that is too old or has ended': async () => {
    for (const [data, text] of [[{ code: 'not_recent' }, 'over five minutes ago'], [undefined, 'Please sign in again.']]) {
      const json = { name: 'NotAuthenticated', message: 'no', code: 401, data }
      await page.route('**/account/second-factor', (route) => route.fulfill({ status: 401, json }))
      await press('Set up an app')
      await says(text)
      await page.unroute('**/account/second-factor')
      await signInWithProvider()
      await isGrace()
    }
  },
  'a second factor': async () => {
    await press('Set up an app')
    await page.getByLabel('Code of the app').waitFor()
    const key = await page.locator('#factor-secret').textContent()
    assert.match(await page.locator('#factor-uri').getAttribute('href'), /^otpauth:/)
    await picture('factor')
    await page.getByLabel('Code of the app').fill('000000')
    await press('Turn on')
    await page.locator('#message:not(:empty)').waitFor()
    await page.getByLabel('Code of the app').fill(codeOf(key))
    await press('Turn on')
    await says('The second factor is on.')
    const [first, second] = await page.locator('#factor-codes code').allTextContents()
    await picture('codes')
    await signOut()
    await signInWithProvider()
    await page.getByLabel('Code of your app').fill(first)
    await press('Continue')
    await isGrace()
    assert.equal(await page.getByText(second).isVisible(), false)
    await page.getByText('You have 9 recovery codes.').waitFor()
    await press('New recovery codes')
    await agree()
    await page.getByText('You have 10 recovery codes.').waitFor()
    await press('Turn off')
    await agree()
    await says('The second factor is off.')
  },
  'a passkey': async () => {
    await press('Add a passkey')
    await says('The passkey is added.')
    await page.getByRole('button', { name: 'Rename' }).click()
    await page.getByRole('textbox', { name: 'New name' }).fill('My phone')
    await picture('dialog')
    await agree()
    await page.locator('#passkeys').getByText('My phone').waitFor()
    await signOut()
    await press('Sign in with a passkey')
    await isGrace()
  },
  'the provider is disconnected and connected again': async () => {
    const identities = page.locator('#identities')
    await press('Disconnect: your company')
    await agree()
    await says('Disconnected.')
    await press('Remove: My phone') // the last way in
    await agree()
    await says('This is your last way to sign in')
    await press('Connect your company')
    await identities.getByText('your company').waitFor()
    await press('Remove: My phone')
    await agree()
    await says('The passkey is removed.')
  },
  'an API key': async () => {
    await page.getByLabel('Name of the program').fill('Backup')
    await page.getByLabel('What it may do').fill('messages:read')
    await press('Create a key')
    await says('The key is created.')
    const key = await page.locator('#key-shown code').textContent()
    assert.match(key, /^alu_/)
    await page.locator('#keys').getByText('messages:read').waitFor()
    await picture('account')
    await press('Remove: Backup')
    await agree()
    await says('The key is removed.')
  },
  'signed in elsewhere': async () => {
    const other = await browser.newContext()
    const phone = await other.newPage()
    await phone.goto(`${url}/account`)
    await phone.getByRole('link', { name: 'Continue with your company' }).click()
    await phone.getByText('You are signed in as').waitFor()
    await page.reload()
    await isGrace()
    await press('Sign out everywhere else')
    await says('Signed out everywhere else.')
    await phone.getByRole('button', { name: 'Create a key' }).waitFor()
    await phone.reload()
    await phone.getByRole('button', { name: 'Sign in', exact: true }).waitFor()
    await other.close()
    await signOut()
  },
  'a mail connects an account that was there before': async () => {
    await signInWithProvider()
    await isGrace()
    const removed = await page.evaluate(async () => {
      const { data: [{ id }] } = await (await fetch('/users')).json()
      const headers = { 'X-CSRF-Token': document.cookie.match(/__Host-csrf=([^;]+)/)[1] }
      return (await fetch(`/users/${id}`, { method: 'DELETE', headers })).status
    })
    assert.equal(removed, 200)
    await page.reload()
    await fill('grace@example.com', 'correct horse')
    await press('Create an account')
    await isGrace()
    await signOut()
    await signInWithProvider()
    await says('Or follow the link in our mail')
    await openLink('link_identity')
    await press('Connect the account')
    await says('Connected.')
    await signInWithProvider()
    await isGrace()
    await signOut()
  },
  'a link of a stranger signs nobody in': async () => {
    const response = await fetch(`${url}/authentication`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ strategy: 'local', email: 'ada@example.com', password: 'battery staple' })
    })
    const { accessToken } = await response.json()
    await page.goto('about:blank')
    await page.goto(`${url}/account#access_token=${accessToken}`)
    await page.getByRole('button', { name: 'Sign in', exact: true }).waitFor()
    assert.equal(await page.getByText('You are signed in as').isVisible(), false)
  },
  'a link of a stranger puts no text into the page': async () => {
    const open = async (code) => {
      await page.goto('about:blank')
      await page.goto(`${url}/account#error=Call+Mallory&error_code=${code}`)
      await page.waitForLoadState('networkidle')
      assert.equal(await page.getByText('Mallory').isVisible(), false)
    }
    await open('expired')
    assert.equal(await page.locator('#message').textContent(), '')
    await signInWithProvider()
    await isGrace()
    await open('expired')
    await isGrace()
    assert.equal(await page.locator('#message').textContent(), '')
    const texts = { access_denied: 'The sign-in was cancelled.', constructor: 'You cannot sign in with this account.' }
    for (const [code, text] of Object.entries(texts)) {
      await page.evaluate(() => sessionStorage.setItem('asked', 'yes'))
      await open(code)
      await isGrace()
      await says(text)
    }
    await signOut()
  },
  'it fits on a phone, and no other page shows it': async () => {
    await page.setViewportSize({ width: 390, height: 844 })
    await signInWithProvider()
    await isGrace()
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
