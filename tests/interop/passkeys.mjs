// Adds a passkey in Chromium, whose virtual authenticator plays the phone, and signs in with it.
//
//   node passkeys.mjs NODE_MODULES CHROMIUM URL GUIDE
//
// GUIDE has the functions of the guide. The page is at http://app.localhost, since passkeys need
// a domain; its requests go to the server at URL. One line of JSON goes out for each check:
// {"name": "...", "error": null}, or what went wrong.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'

const [modules, executablePath, url, guide] = process.argv.slice(2)
const require = createRequire(path.join(path.resolve(modules), 'from-here.js'))
const { chromium } = require('playwright-core')

const bundled = await require('esbuild').build({
  stdin: {
    contents: `
      import { feathers } from '@feathersjs/feathers'
      import rest from '@feathersjs/rest-client'
      import authentication from '@feathersjs/authentication-client'
      const app = feathers()
      app.configure(rest('').fetch(window.fetch.bind(window)))
      app.configure(authentication())
      ${await readFile(guide, 'utf8')}
      Object.assign(window, { app, addPasskey, signInWithPasskey })`,
    resolveDir: path.resolve(modules)
  },
  bundle: true,
  format: 'iife',
  nodePaths: [path.resolve(modules)],
  write: false,
  logLevel: 'error'
})
const html = `<!doctype html><script>${bundled.outputFiles[0].text}</script>`

const browser = await chromium.launch({ executablePath })
const page = await browser.newPage()
await page.route(/^http:\/\/(other\.)?app\.localhost\//, async (route) => {
  const { pathname } = new URL(route.request().url())
  if (pathname === '/') return route.fulfill({ body: html, contentType: 'text/html' })
  return route.fulfill({ response: await route.fetch({ url: url + pathname }) })
})
const devtools = await page.context().newCDPSession(page)
await devtools.send('WebAuthn.enable')
const { authenticatorId } = await devtools.send('WebAuthn.addVirtualAuthenticator', {
  options: {
    protocol: 'ctap2',
    transport: 'internal',
    hasResidentKey: true,
    hasUserVerification: true,
    isUserVerified: true
  }
})

// What a promise of the page becomes, or the name of its error.
const inPage = (expression) => page.evaluate(`Promise.resolve(${expression}).catch((error) => error.name)`)

const signInByPassword = () =>
  inPage("app.authenticate({ strategy: 'local', email: 'ada@example.com', password: 'correct horse' })")

const checks = {
  'a passkey is added, and signs in': async () => {
    await page.goto('http://app.localhost/')
    await signInByPassword()
    assert.equal((await inPage("addPasskey('Phone')")).name, 'Phone')
    await inPage('app.logout()')
    for (let time = 0; time < 2; time++) {
      const { user, authentication } = await inPage('signInWithPasskey()')
      assert.equal(user.email, 'ada@example.com')
      assert.deepEqual(authentication.payload.amr, ['hwk', 'user'])
    }
    const { credentials } = await devtools.send('WebAuthn.getCredentials', { authenticatorId })
    assert.deepEqual((await inPage("app.service('account/passkeys').find()")).length, credentials.length)
  },
  'an authenticator has one passkey of a user': async () => {
    assert.equal(await inPage("addPasskey('Phone again')"), 'InvalidStateError')
  },
  'a page of another origin does not sign in': async () => {
    await page.goto('http://other.app.localhost/') // the browser allows it: it is below the domain
    assert.equal(await inPage('signInWithPasskey()'), 'NotAuthenticated')
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
