// Uses the admin site of docs/admin.md in Chromium: signs in, and creates, changes, finds and removes a book.
//
//   node admin_page.mjs NODE_MODULES CHROMIUM URL SCREENSHOT
//
// One line of JSON goes out: {"name": "...", "error": null}, or what went wrong.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import path from 'node:path'

const [modules, executablePath, url, screenshot] = process.argv.slice(2)
const require = createRequire(path.join(path.resolve(modules), 'from-here.js'))
const { chromium } = require('playwright-core')

async function useTheSite(page) {
  const press = (name) => page.getByRole('button', { name }).click()
  const year = page.locator('form.RaSimpleForm-form, .RaEdit-main, .RaCreate-main').locator('input[name=year]').first()
  const row = (text) => page.getByRole('row').filter({ hasText: text })

  await page.goto(`${url}/admin/`)
  await page.getByLabel('Username').fill('ada@example.com')
  await page.getByRole('textbox', { name: 'Password' }).fill('wrong')
  await press('Sign in')
  await page.getByText('Invalid login').waitFor()
  await page.getByRole('textbox', { name: 'Password' }).fill('correct horse')
  await press('Sign in')

  await page.getByRole('link', { name: 'Create' }).first().click()
  await page.getByLabel('Title').fill('Emma')
  await year.fill('1815')
  await press('Save')
  await row('Emma').filter({ hasText: '1815' }).click()

  await page.waitForURL(/books\/1/)
  await year.fill('1400')
  await press('Save')
  await page.getByText('must be >= 1450').waitFor()
  await page.screenshot({ path: screenshot })
  await year.fill('1816')
  await press('Save')
  await row('1816').waitFor()

  await page.locator('.RaList-main input[name=year]').fill('1999')
  await page.getByText('No Books found', { exact: false }).waitFor()
  await page.locator('.RaList-main input[name=year]').fill('1816')
  await row('Emma').getByRole('checkbox').check()
  const removed = page.waitForResponse((response) => response.request().method() === 'DELETE')
  await press('Delete')
  assert.equal((await removed).status(), 200)
}

const browser = await chromium.launch({ executablePath })
let error = null
try {
  await useTheSite(await browser.newPage({ viewport: { width: 1280, height: 800 } }))
} catch (thrown) {
  error = thrown.stack ?? String(thrown)
}
process.stdout.write(JSON.stringify({ name: 'a book lives in the admin site', error }) + '\n')
await browser.close()
