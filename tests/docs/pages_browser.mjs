// Looks at every page of the documentation in Chromium, as on a phone and as on a desk.
//
//   node pages_browser.mjs NODE_MODULES CHROMIUM URL FOLDER PAGE...
//
// URL serves the built pages; screenshots of some go into FOLDER. One line of JSON goes out for each
// check: {"name": "...", "error": null}, or what went wrong.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import path from 'node:path'

const [modules, executablePath, url, folder, ...pages] = process.argv.slice(2)
const require = createRequire(path.join(path.resolve(modules), 'from-here.js'))
const { chromium } = require('playwright-core')

const SECONDS_TO_HAPPEN = 60
const SCREENS = { phone: { width: 390, height: 844 }, desktop: { width: 1280, height: 900 } }
const SHOWN = ['index.html', 'tutorial.html', 'from-feathersjs.html', 'architecture.html', 'reference-web.html']

const browser = await chromium.launch({ executablePath })
const logged = []
const origins = new Set()
async function newPage(viewport) {
  const page = await browser.newPage({ viewport })
  page.setDefaultTimeout(SECONDS_TO_HAPPEN * 1000)
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) logged.push(`${page.url()}: ${message.text()}`)
  })
  page.on('pageerror', (error) => logged.push(`${page.url()}: ${error}`))
  page.on('request', (request) => origins.add(new URL(request.url()).origin))
  return page
}

// Runs in the page. Returns what is wider than the screen, missing pictures, and code that cannot be
// scrolled to its end.
function problemsOf() {
  const wide = document.documentElement.clientWidth
  const problems = []
  if (document.documentElement.scrollWidth > wide) {
    const wideElement = [...document.querySelectorAll('body *')].find(
      (element) => element.getBoundingClientRect().right > wide + 1 && !element.closest('pre, table'))
    problems.push(`is ${document.documentElement.scrollWidth} wide: ${wideElement?.outerHTML.slice(0, 120)}`)
  }
  for (const image of document.images) {
    if (!image.complete || !image.naturalWidth) problems.push(`lacks ${image.src}`)
    if (!image.alt) problems.push(`has a picture without words: ${image.src}`)
  }
  if (document.querySelectorAll('h1').length !== 1) problems.push('has not one title')
  if (!document.querySelector('.md-nav__link--active, .md-tabs__item--active')) problems.push('is not in the menu')
  return problems
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

// Loads each page once, and looks at it on every screen.
async function lookAtAll() {
  const page = await newPage(SCREENS.phone)
  // Every page would read the index of the search anew; a check of its own looks at that.
  await page.addInitScript(() => { window.Worker = class { postMessage () {} } })
  const complaints = Object.fromEntries(Object.keys(SCREENS).map((screen) => [screen, []]))
  for (const name of pages) {
    await page.goto(`${url}/${name}`, { waitUntil: 'load' })
    for (const [screen, size] of Object.entries(SCREENS)) {
      await page.setViewportSize(size)
      complaints[screen].push(...(await page.evaluate(problemsOf)).map((text) => `${name} ${text}`))
      if (SHOWN.includes(name)) {
        await page.screenshot({ path: path.join(folder, `${screen}-${path.parse(name).name}.png`) })
      }
    }
  }
  await page.close()
  return complaints
}

let looked
const checks = {
  'all pages fit on a phone': async () => {
    looked = await lookAtAll()
    assert.deepEqual(looked.phone, [])
  },
  'all pages fit on a desk': async () => {
    assert.deepEqual(looked.desktop, [])
  },
  'the menu leads from page to page on a phone': async () => {
    const page = await newPage(SCREENS.phone)
    await page.goto(`${url}/index.html`)
    await page.locator('.md-header label[for=__drawer]').click()
    await page.locator('.md-nav--primary label').filter({ hasText: /^\s*Web\s*$/ }).first().click()
    await page.locator('.md-nav--primary').getByRole('link', { name: 'Middleware', exact: true }).click()
    await page.getByRole('heading', { level: 1, name: 'Middleware' }).waitFor()
    await page.close()
  },
  'the menu leads from page to page on a desk': async () => {
    const page = await newPage(SCREENS.desktop)
    await page.goto(`${url}/index.html`)
    await page.locator('.md-tabs').getByRole('link', { name: 'Services', exact: true }).click()
    await page.locator('.md-sidebar--primary').getByRole('link', { name: 'Hooks', exact: true }).click()
    await page.getByRole('heading', { level: 1, name: 'Hooks' }).waitFor()
    await page.close()
  },
  'a link to a name leads to it': async () => {
    const page = await newPage(SCREENS.phone)
    await page.goto(`${url}/reference-core.html#alula.App.use`)
    await eventually(async () => {
      const top = await page.locator('[id="alula.App.use"]').evaluate((element) => element.getBoundingClientRect().top)
      assert.ok(top >= 0 && top < 300, `it is at ${top}`)
    })
    await page.close()
  },
  'the search finds a name': async () => {
    const page = await newPage(SCREENS.desktop)
    await page.goto(`${url}/index.html`)
    await page.getByRole('button', { name: /Search/ }).first().click()
    await page.getByRole('combobox', { name: 'Search' }).fill('LocalServer')
    await page.getByRole('option').filter({ hasText: 'alula.local_mongodb.LocalServer' }).first().waitFor()
    await page.close()
  },
  'code has colours': async () => {
    const page = await newPage(SCREENS.desktop)
    await page.goto(`${url}/hooks.html`)
    const colours = await page.evaluate(() => new Set(
      [...document.querySelectorAll('.highlight span')].map((element) => getComputedStyle(element).color)).size)
    assert.ok(colours >= 4, `${colours} colours`)
    await page.close()
  },
  'code can be copied, commands without their prompts': async () => {
    const page = await newPage(SCREENS.desktop)
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    for (const [name, expected] of Object.entries({
      'hooks.html': /^import asyncio\n[^]*asyncio\.run\(main\(\)\)$/,
      'sql.html': /^pip install 'alula\[sql\]' /
    })) {
      await page.goto(`${url}/${name}`)
      await page.locator('.highlight').first().hover()
      await page.locator('.highlight button').first().click()
      await eventually(async () => assert.match(await page.evaluate(() => navigator.clipboard.readText()), expected))
    }
    await page.close()
  },
  'nothing came from elsewhere': async () => {
    assert.deepEqual([...origins], [new URL(url).origin])
  },
  'nothing went wrong in the console': async () => {
    assert.deepEqual(logged, [])
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
