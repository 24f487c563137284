// Drives the page of an API description in Chromium.
//
//   node docs_browser.mjs NODE_MODULES CHROMIUM PYTHON
//
// Starts the application itself. The checks build on each other; one line of JSON goes out for each:
// {"name": "...", "error": null}, or what went wrong.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const [modules, executablePath, python] = process.argv.slice(2)
const require = createRequire(path.join(path.resolve(modules), 'from-here.js'))
const { chromium } = require('playwright-core')

const run = promisify(execFile)
const running = spawn(python, ['-m', 'tests.openapi.described'], {
  cwd: fileURLToPath(new URL('../..', import.meta.url)),
  stdio: ['ignore', 'pipe', 'inherit']
})
const { value: url } = await createInterface({ input: running.stdout })[Symbol.asyncIterator]().next()

const browser = await chromium.launch({ executablePath })
const page = await browser.newPage({ viewport: { width: 1100, height: 900 } })
page.setDefaultTimeout(60_000)
const logged = []
const asked = new Set()
page.on('console', (message) => {
  if (['error', 'warning'].includes(message.type())) logged.push(message.text())
})
page.on('pageerror', (error) => logged.push(String(error)))
page.on('request', (request) => asked.add(new URL(request.url()).origin))

const operation = (name) => page.locator(`[id="${name}"]`)
async function send(name) {
  const answer = operation(name).locator('.answer')
  await operation(name).getByRole('button', { name: 'Send' }).click()
  await answer.locator('pre').waitFor()
  return answer.textContent()
}
async function open(name) {
  await operation(name).locator('summary').first().click()
}

const checks = {
  'it lists the services': async () => {
    await page.goto(`${url}/docs`)
    await page.getByRole('heading', { name: 'Everything 2.1' }).waitFor()
    const names = await page.getByRole('navigation').getByRole('link').allTextContents()
    assert.deepEqual(names, ['people', 'teams/:team/tasks', 'plain', 'calc', 'jobs', 'secret',
      'users', 'authentication', 'uploads', 'count', 'authentication/tickets'])
    assert.equal(await page.title(), 'Everything 2.1')
    assert.match(await page.locator('#about').textContent(), /All kinds/)
  },
  'it links to both descriptions': async () => {
    const links = page.locator('#descriptions').getByRole('link')
    assert.deepEqual(await links.allTextContents(), ['/openapi.json', 'asyncapi.json'])
    for (const link of await links.all()) {
      const answer = await fetch(new URL(await link.getAttribute('href'), page.url()))
      assert.equal((await answer.json()).info.title, 'Everything')
    }
  },
  'a record is created from the example': async () => {
    await open('people.create')
    assert.match(await send('people.create'), /^201 POST \/people.*"name": "Ada"/s)
  },
  'it is found by a query': async () => {
    await open('people.find')
    await operation('people.find').getByLabel('$limit', { exact: true }).fill('1')
    await operation('people.find').getByText('Operators').click()
    await operation('people.find').getByLabel('id[$in]').fill('1, 2')
    const answer = await send('people.find')
    assert.match(answer, /^200 GET .*"total": 1,\s+"limit": 1/s)
  },
  'a response is shown with an example': async () => {
    const found = operation('people.find').getByText('200 The result').locator('..')
    const shown = JSON.parse(await found.locator('pre').textContent())
    assert.deepEqual(Object.keys(shown), ['total', 'limit', 'skip', 'data'])
    assert.equal(shown.data[0].name, 'Ada')
  },
  'the same call is a command for a terminal': async () => {
    await operation('people.create').getByText('In a terminal').click()
    await operation('people.create').getByLabel('Body').fill('{"name": "D\'Arcy"}')
    const command = await operation('people.create').locator('.terminal pre').textContent()
    const { stdout } = await run('bash', ['-c', `${command} -sS`])
    assert.equal(JSON.parse(stdout).name, "D'Arcy")
    await open('secret.remove')
    await operation('secret.remove').getByText('In a terminal').click()
    const guarded = await operation('secret.remove').locator('.terminal pre').textContent()
    assert.match(guarded, /-H "Authorization: Bearer \$TOKEN"/)
    await open('secret.remove')
  },
  'a list is watched while it changes': async () => {
    await page.reload()
    await open('people.find')
    const answer = operation('people.find').locator('.answer')
    await operation('people.find').getByLabel('age', { exact: true }).fill('77')
    await operation('people.find').getByRole('button', { name: 'Watch' }).click()
    await answer.getByText('snapshot').waitFor()
    const headers = { 'Content-Type': 'application/json' }
    const body = JSON.stringify({ name: 'Grace', age: 77 })
    await fetch(`${url}/people`, { method: 'POST', headers, body })
    await answer.getByText('Grace').waitFor()
    await answer.getByRole('button', { name: 'Stop' }).click()
    await answer.getByText('Stopped.').waitFor()
  },
  'a method that streams shows its items': async () => {
    await open('count.up')
    await operation('count.up').getByRole('button', { name: 'Send' }).click()
    const answer = operation('count.up').locator('.answer')
    await answer.getByText('"number":3').waitFor()
    await answer.getByRole('button', { name: 'Stop' }).click()
    await answer.getByText('Stopped.').waitFor()
  },
  'a search leaves what it finds': async () => {
    await page.locator('h1').click()
    await page.keyboard.press('/')
    await page.keyboard.type('tasks/{id}')
    assert.deepEqual(await page.locator('section:visible h2').allTextContents(), ['teams/:team/tasks'])
    assert.ok(await operation('people.find').isHidden())
    await page.getByLabel('Search').fill('')
    assert.ok(await operation('people.find').isVisible())
  },
  'a form with a file is sent': async () => {
    await open('uploads.create')
    const form = operation('uploads.create')
    await form.getByLabel('file').setInputFiles({
      name: 'a.txt', mimeType: 'text/plain', buffer: Buffer.from('Hello')
    })
    await form.getByLabel('title').fill('Mine')
    const answer = await send('uploads.create')
    assert.match(answer, /201/)
    assert.match(answer, /"name": "a.txt"/)
    assert.match(answer, /"title": "Mine"/)
    await open('uploads.content')
    await operation('uploads.content').getByLabel('id (required)').fill('0')
    assert.match(await send('uploads.content'), /Hello/)
  },
  'an error is shown': async () => {
    await operation('people.find').getByLabel('age', { exact: true }).fill('many')
    assert.match(await send('people.find'), /^400 GET .*"instancePath": "\/age"/s)
  },
  'values in the path are encoded': async () => {
    await open('teams_team_tasks.get')
    await operation('teams_team_tasks.get').getByLabel('team').fill('a/b c')
    await operation('teams_team_tasks.get').getByLabel('id').fill('ü')
    assert.match(await send('teams_team_tasks.get'), /^404 GET \/teams\/a%2Fb%20c\/tasks\/%C3%BC/)
  },
  'a custom method is called': async () => {
    await open('calc.add')
    assert.match(await send('calc.add'), /^200 POST .*"sum": 0/s)
  },
  'a call has the token': async () => {
    await open('secret.remove')
    await operation('secret.remove').getByLabel('id').fill('1')
    assert.match(await send('secret.remove'), /^401 /)
    await page.getByLabel('Access token').fill('t0ken')
    assert.match(await send('secret.remove'), /^404 /)
    await page.reload()
    assert.equal(await page.getByLabel('Access token').inputValue(), 't0ken')
  },
  'signing in puts the token where it is needed': async () => {
    const ada = { email: 'ada@example.com', password: 'correct horse' }
    await open('users.create')
    await operation('users.create').getByLabel('Body').fill(JSON.stringify(ada))
    assert.match(await send('users.create'), /^201 /)
    await page.getByLabel('Access token').fill('')
    const signIn = operation('authentication.create')
    assert.match(await signIn.locator('summary').first().textContent(), /Sign in$/)
    await open('authentication.create')
    const body = JSON.parse(await signIn.getByLabel('Body').inputValue())
    assert.deepEqual(body, { strategy: 'local', email: 'ada@example.com', password: 'correct horse battery' })
    const button = signIn.getByRole('button', { name: 'Sign in' })
    await button.click()
    await signIn.locator('.answer .status-bad').waitFor()
    assert.equal(await page.getByLabel('Access token').inputValue(), '')
    await signIn.getByLabel('Body').fill(JSON.stringify({ strategy: 'local', ...ada }))
    await button.click()
    await signIn.getByText('Signed in. The token is in the field at the top.').waitFor()
    const token = await page.getByLabel('Access token').inputValue()
    assert.equal(token.split('.').length, 3)
    await page.reload()
    assert.equal(await page.getByLabel('Access token').inputValue(), token)
  },
  'signing out takes it away': async () => {
    const signOut = operation('authentication.remove')
    assert.match(await signOut.locator('summary').first().textContent(), /Sign out \(needs a token\)$/)
    await open('authentication.remove')
    await signOut.getByRole('button', { name: 'Sign out' }).click()
    await signOut.getByText('Signed out.', { exact: true }).waitFor()
    assert.equal(await page.getByLabel('Access token').inputValue(), '')
  },
  'it is used without a mouse': async () => {
    await page.goto(`${url}/docs`)
    await page.getByRole('heading', { name: 'people' }).waitFor()
    await page.keyboard.press('Tab')
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to the services')
    await page.keyboard.press('Enter')
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    assert.ok(await page.locator('details.operation').first().evaluate((each) => each.open))
  },
  'every field has a name': async () => {
    const unnamed = await page.evaluate(() =>
      [...document.querySelectorAll('input, textarea')].filter((each) => !each.labels.length).length)
    assert.equal(unnamed, 0)
  },
  'it fits on a phone': async () => {
    await page.setViewportSize({ width: 390, height: 844 })
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 390))
  },
  'nothing came from elsewhere': async () => {
    assert.deepEqual([...asked], [new URL(url).origin])
  },
  'nothing went wrong in the console': async () => {
    // The browser itself tells of each answer that is an error.
    assert.deepEqual(logged.filter((line) => !/status of 4\d\d/.test(line)), [])
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
