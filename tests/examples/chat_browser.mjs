// Drives the page of the example chat in Chromium, as its users would.
//
//   node chat_browser.mjs NODE_MODULES CHROMIUM FOLDER PYTHON DATA
//
// Starts the chat itself, to stop it and start it again; screenshots go into FOLDER, what the chat
// keeps into DATA. The checks build on each other. One line of JSON goes out for each:
// {"name": "...", "error": null}, or what went wrong.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const [modules, executablePath, folder, python, data] = process.argv.slice(2)
const require = createRequire(path.join(path.resolve(modules), 'from-here.js'))
const { chromium } = require('playwright-core')

const SECONDS_TO_HAPPEN = 60
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const PHONE = { width: 390, height: 844 }
const DESKTOP = { width: 1280, height: 800 }

const NAME = '<b>Zoë</b> & 山田'
const SCRIPT = '<script>window.hacked = 1</script><img src=x onerror="window.hacked = 1">'
const PASSWORD = 'correct horse'
const LONG_WORD = 'Donaudampfschifffahrtsgesellschaft'.repeat(6)

// What the browser itself logs for requests that are to fail; the check is named in front.
const EXPECTED = [
  /^an edit that is refused is told: Failed to load resource: .*status of 400/,
  /^a name that is taken is told: Failed to load resource: .*status of 409/,
  /^a wrong password is told: Failed to load resource: .*status of 401/,
  /^a server that came back may have.*: Failed to load resource: .*status of 401/,
  /^a server that (goes away is told|came back may have).*: WebSocket connection to .* failed/,
  /^a server that (goes away is told|came back may have).*: Failed to load resource: net::ERR_/
]

let running
async function startChat(port, ...kept) {
  running = spawn(python, ['-m', 'examples.chat', '--port', port, ...kept], {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'ignore']
  })
  for await (const line of createInterface({ input: running.stdout })) {
    const found = line.match(/The chat is at +(\S+)/)
    if (found) return new URL(found[1])
  }
  throw new Error('the chat did not start')
}

async function stopChat() {
  const ended = once(running, 'exit')
  running.kill('SIGTERM')
  assert.deepEqual(await ended, [0, null])
}

// Waits until a condition holds that is checked again and again; `assertion` throws until then.
async function eventually(assertion) {
  const until = Date.now() + SECONDS_TO_HAPPEN * 1000
  for (;;) {
    try {
      return await assertion()
    } catch (error) {
      if (Date.now() > until) throw error
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
}

const logged = []
let current = 'start'
function watch(page) {
  page.setDefaultTimeout(SECONDS_TO_HAPPEN * 1000)
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) logged.push(`${current}: ${message.text()}`)
  })
  page.on('pageerror', (error) => logged.push(`${current}: ${error}`))
  return page
}

const url = await startChat('0', '--data', data)
const browser = await chromium.launch({ executablePath })
// Two contexts are two people; what one keeps in the browser the other does not see.
const zoe = watch(await (await browser.newContext({ viewport: DESKTOP })).newPage())
const ben = watch(await (await browser.newContext({ viewport: PHONE })).newPage())

const articles = (page) => page.locator('article')
const withText = (page, text) => articles(page).filter({ has: page.getByText(text, { exact: true }) })
const status = (page) => page.getByRole('status').textContent()
const problem = (page) => page.getByRole('alert').textContent()

async function enter(page, button, name, password = PASSWORD) {
  await page.getByLabel('Your name').fill(name)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: button }).click()
}

async function register(page, name) {
  await fits(page)
  await enter(page, 'Register', name)
  await page.getByLabel('Message', { exact: true }).waitFor()
}

async function say(page, text) {
  await page.getByLabel('Message', { exact: true }).fill(text)
  await page.getByRole('button', { name: 'Send' }).click()
}

// Presses a button that asks by prompt(), and answers; null gives up.
async function answer(page, button, text) {
  page.once('dialog', (dialog) => (text === null ? dialog.dismiss() : dialog.accept(text)))
  await button.click()
}

// Nothing is wider than the window, and every button can be hit with a finger.
async function fits(page) {
  const { width, height } = page.viewportSize()
  const size = await page.evaluate(() => {
    const { scrollWidth, scrollHeight } = document.documentElement
    return { scrollWidth, scrollHeight, list: document.querySelector('main').scrollWidth }
  })
  assert.ok(size.scrollWidth <= width && size.list <= width, JSON.stringify(size))
  assert.ok(size.scrollHeight <= height, JSON.stringify(size))
  for (const button of await page.locator('button:visible').all()) {
    const box = await button.boundingBox()
    assert.ok(box.height >= 24 && box.width >= 24, `${await button.textContent()} is too small`)
  }
}

async function shoot(page, name) {
  await page.screenshot({ path: path.join(folder, `${name}.png`) })
}

const checks = {
  'a newcomer is welcome': async () => {
    await zoe.goto(url.href)
    await eventually(async () => assert.equal(await status(zoe), '1 message'))
    assert.match(await articles(zoe).textContent(), /Alula.*Welcome!/s)
    assert.equal(await zoe.title(), 'Alula chat')
    assert.ok(await zoe.getByLabel('Your name').evaluate((input) => input === document.activeElement))
    await shoot(zoe, 'desktop-new')
  },

  'somebody registers': async () => {
    await register(zoe, NAME)
    assert.ok(await zoe.getByLabel('Your name').isHidden())
    assert.equal(await zoe.locator('#password').inputValue(), '')
    const text = zoe.getByLabel('Message', { exact: true })
    assert.ok(await text.evaluate((input) => input === document.activeElement))
  },

  'a message is shown once it is sent': async () => {
    await say(zoe, 'Hello')
    await withText(zoe, 'Hello').waitFor()
    // The list may have it before the request is answered.
    const text = zoe.getByLabel('Message', { exact: true })
    await eventually(async () => assert.equal(await text.inputValue(), ''))
    assert.equal(await status(zoe), '2 messages')
    assert.ok(await withText(zoe, 'Hello').evaluate((article) => article.matches('.own')))
  },

  'markup is shown as text, and does not run': async () => {
    await say(zoe, SCRIPT)
    await withText(zoe, SCRIPT).waitFor()
    const last = articles(zoe).last()
    assert.equal(await last.locator('.name').textContent(), NAME)
    assert.equal(await last.locator('.name *, .text *').count(), 0)
    assert.equal(await zoe.evaluate(() => window.hacked), undefined)
    assert.equal(await zoe.locator('main script, main img').count(), 0)
  },

  'a reaction is counted': async () => {
    const button = withText(zoe, 'Hello').getByTitle('React with 🎉')
    assert.equal(await button.textContent(), '🎉')
    for (const count of [1, 2]) {
      await button.click()
      await eventually(async () => assert.equal(await button.textContent(), `🎉 ${count}`))
    }
  },

  'an edit is shown': async () => {
    await answer(zoe, withText(zoe, 'Hello').getByRole('button', { name: 'edit' }), 'Hello again')
    await withText(zoe, 'Hello again').waitFor()
    assert.match(await withText(zoe, 'Hello again').locator('time').textContent(), /\(edited\)$/)
    assert.equal(await withText(zoe, 'Hello').count(), 0)
  },

  'an edit that is refused is told': async () => {
    const edit = withText(zoe, 'Hello again').getByRole('button', { name: 'edit' })
    await answer(zoe, edit, '   ')
    await eventually(async () =>
      assert.equal(await problem(zoe), 'text must be a text of 1 to 500 characters'))
    await zoe.waitForTimeout(500) // it stays
    assert.notEqual(await problem(zoe), '')
    await shoot(zoe, 'desktop-problem')
  },

  'an edit that is given up changes nothing': async () => {
    await answer(zoe, withText(zoe, 'Hello again').getByRole('button', { name: 'edit' }), null)
    await eventually(async () => assert.equal(await problem(zoe), ''))
    assert.equal(await withText(zoe, 'Hello again').count(), 1)
  },

  'another sees it all': async () => {
    await ben.goto(url.href)
    await register(ben, 'Ben')
    await withText(ben, 'Hello again').waitFor()
    assert.equal(await articles(ben).count(), 3)
    assert.ok(await withText(ben, SCRIPT).isVisible())
    assert.equal(await ben.evaluate(() => window.hacked), undefined)
    assert.match(await withText(ben, 'Hello again').textContent(), /🎉 2/)
  },

  'only the own messages can be changed': async () => {
    assert.equal(await ben.getByRole('button', { name: 'edit' }).count(), 0)
    assert.equal(await ben.getByRole('button', { name: 'remove' }).count(), 0)
    assert.equal(await zoe.getByRole('button', { name: 'remove' }).count(), 2)
  },

  'somebody signs out, and in again': async () => {
    await ben.getByRole('button', { name: 'Sign out' }).click()
    await ben.getByLabel('Your name').waitFor()
    assert.ok(await ben.getByLabel('Message', { exact: true }).isHidden())
    assert.ok(await ben.getByRole('button', { name: 'Sign out' }).isHidden())
    assert.equal(await ben.evaluate(() => sessionStorage.length), 0)
    assert.ok(await withText(ben, 'Hello again').isVisible())
    await shoot(ben, 'phone-new')
    await enter(ben, 'Sign in', 'Ben')
    await ben.getByLabel('Message', { exact: true }).waitFor()
    await ben.getByRole('button', { name: 'Sign out' }).click()
  },

  'a name that is taken is told': async () => {
    await enter(ben, 'Register', NAME)
    await eventually(async () =>
      assert.equal(await problem(ben), 'This name is taken'))
  },

  'a wrong password is told': async () => {
    await enter(ben, 'Sign in', 'Ben', 'a wrong password')
    await eventually(async () => assert.equal(await problem(ben), 'Invalid login'))
    await enter(ben, 'Sign in', 'Ben')
    await ben.getByLabel('Message', { exact: true }).waitFor()
    await eventually(async () => assert.equal(await problem(ben), ''))
  },

  'what another does comes by itself': async () => {
    await say(ben, LONG_WORD)
    await withText(zoe, LONG_WORD).waitFor()
    assert.ok(await withText(zoe, LONG_WORD).evaluate((article) => !article.matches('.own')))
    await withText(ben, 'Hello again').getByTitle('React with 👍').click()
    const button = withText(zoe, 'Hello again').getByTitle('React with 👍')
    await eventually(async () => assert.equal(await button.textContent(), '👍 1'))
  },

  'it says how many are here': async () => {
    for (const page of [zoe, ben]) {
      await eventually(async () => assert.equal(await page.locator('#people').textContent(), '2 here'))
    }
    const guest = watch(await (await browser.newContext()).newPage())
    await guest.goto(url.href)
    await eventually(async () => assert.equal(await zoe.locator('#people').textContent(), '3 here'))
    await guest.close()
    await eventually(async () => assert.equal(await zoe.locator('#people').textContent(), '2 here'))
  },

  'it says who is typing, to the others': async () => {
    await ben.getByLabel('Message', { exact: true }).pressSequentially('Hm')
    const typing = zoe.locator('#typing')
    await eventually(async () => assert.equal(await typing.textContent(), 'Ben is typing…'))
    assert.equal(await ben.locator('#typing').textContent(), '')
    await shoot(zoe, 'desktop-typing')
    await ben.getByLabel('Message', { exact: true }).press('Enter')
    await zoe.getByText('Hm', { exact: true }).waitFor()
    assert.equal(await typing.textContent(), '') // at once, with the message
    await withText(ben, 'Hm').getByRole('button', { name: 'remove' }).click()
    await eventually(async () => assert.equal(await withText(zoe, 'Hm').count(), 0))
    await ben.getByLabel('Message', { exact: true }).pressSequentially('Or')
    await eventually(async () => assert.equal(await typing.textContent(), 'Ben is typing…'))
    await ben.getByLabel('Message', { exact: true }).fill('')
    await eventually(async () => assert.equal(await typing.textContent(), '')) // after a while
  },

  'a removed message goes everywhere': async () => {
    await withText(zoe, SCRIPT).getByRole('button', { name: 'remove' }).click()
    for (const page of [zoe, ben]) {
      await eventually(async () => assert.equal(await withText(page, SCRIPT).count(), 0))
      await eventually(async () => assert.equal(await status(page), '3 messages'))
    }
  },

  'a reload keeps who one is': async () => {
    await zoe.reload()
    await withText(zoe, 'Hello again').waitFor()
    // The list may be there before the connection is signed in.
    await zoe.getByLabel('Your name').waitFor({ state: 'hidden' })
    await eventually(async () =>
      assert.equal(await zoe.getByRole('button', { name: 'edit' }).count(), 1))
    await say(zoe, 'Still me')
    await withText(zoe, 'Still me').waitFor()
  },

  'the newest message is in sight': async () => {
    const token = await zoe.evaluate(() => sessionStorage.getItem('token'))
    const headers = { Authorization: `Bearer ${token}` }
    for (let number = 1; number <= 30; number++) {
      const data = { text: `Number ${number}` }
      await zoe.request.post(new URL('/messages', url).href, { data, headers })
    }
    for (const page of [zoe, ben]) {
      await withText(page, 'Number 30').waitFor()
      await eventually(async () => {
        const box = await withText(page, 'Number 30').boundingBox()
        assert.ok(box.y + box.height < page.viewportSize().height, JSON.stringify(box))
      })
      assert.ok(await page.getByRole('button', { name: 'Send' }).isVisible())
      assert.ok(await page.getByRole('status').isVisible())
    }
  },

  'who reads old messages is left alone': async () => {
    const log = zoe.getByRole('log', { name: 'Messages' })
    await log.evaluate((list) => { list.scrollTop = 0 })
    await say(ben, 'Unseen')
    await withText(zoe, 'Unseen').waitFor({ state: 'attached' })
    assert.equal(await log.evaluate((list) => list.scrollTop), 0)
    await say(zoe, 'Mine')
    await eventually(async () => {
      const { y } = await withText(zoe, 'Mine').boundingBox()
      assert.ok(y < DESKTOP.height, `${y}`)
    })
  },

  'it fits on a phone and on a desk': async () => {
    for (const [page, name] of [[ben, 'phone'], [zoe, 'desktop']]) {
      await fits(page)
      await shoot(page, name)
      await page.getByRole('log').evaluate((list) => { list.scrollTop = 0 })
      await shoot(page, `${name}-first`)
    }
  },

  'it is used without a mouse': async () => {
    const text = ben.getByLabel('Message', { exact: true })
    await text.focus()
    await ben.keyboard.type('By keys')
    await ben.keyboard.press('Enter')
    const remove = withText(ben, 'By keys').getByRole('button', { name: 'remove' })
    await remove.waitFor()
    await ben.keyboard.press('Shift+Tab')
    assert.ok(await remove.evaluate((button) => button === document.activeElement))
    await ben.keyboard.press('Enter')
    await eventually(async () => assert.equal(await withText(ben, 'By keys').count(), 0))
  },

  'a server that goes away is told, and comes back': async () => {
    const before = await status(ben)
    await eventually(async () => assert.equal(await status(zoe), before))
    await stopChat()
    await eventually(async () => assert.match(await status(zoe), /does not answer/))
    await say(zoe, 'Are you there?')
    await shoot(zoe, 'desktop-away')
    await zoe.waitForTimeout(500)
    assert.equal(await zoe.getByLabel('Message', { exact: true }).inputValue(), 'Are you there?')
    await startChat(url.port, '--data', data)
    await eventually(async () => assert.equal(await status(zoe), before))
    assert.equal(await problem(zoe), '')
    assert.ok(await zoe.getByRole('status').evaluate((line) => !line.matches('.bad')))
  },

  'a server that came back still knows everybody': async () => {
    await zoe.getByRole('button', { name: 'Send' }).click()
    await withText(zoe, 'Are you there?').waitFor()
    assert.equal(await zoe.getByRole('button', { name: 'remove' }).count(), 34)
    const users = await zoe.request.get(new URL('/users?$limit=0', url).href)
    assert.equal((await users.json()).total, 3)
  },

  'a server that came back may have forgotten everybody': async () => {
    await stopChat()
    await eventually(async () => assert.match(await status(zoe), /does not answer/))
    await startChat(url.port, '--memory')
    for (const [page, name] of [[zoe, NAME], [ben, 'Ben']]) {
      await eventually(async () => assert.match(await status(page), /^[12] messages?$/))
      await page.getByLabel('Your name').waitFor()
      await register(page, name)
      await say(page, `${name} again`)
      await withText(page, `${name} again`).waitFor()
    }
    await withText(zoe, 'Ben again').waitFor()
  },

  'nothing went wrong in the console': async () => {
    assert.deepEqual(logged.filter((line) => !EXPECTED.some((known) => known.test(line))), [])
  }
}

for (const [name, check] of Object.entries(checks)) {
  let error = null
  current = name
  try {
    await check()
  } catch (thrown) {
    error = thrown.stack ?? String(thrown)
  }
  process.stdout.write(JSON.stringify({ name, error }) + '\n')
}
await browser.close()
running.kill('SIGKILL')
