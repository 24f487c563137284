// Runs the checks of pyodide_checks.py in Chromium, on a page that Alula serves.
//
//   node pyodide_browser.mjs NODE_MODULES CHECKS PAGE STALLING CHROMIUM
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'

const [modules, checks, url, stalling, executablePath] = process.argv.slice(2)
const require = createRequire(path.join(path.resolve(modules), 'from-here.js'))
const { chromium } = require('playwright-core')

const browser = await chromium.launch({ executablePath })
const page = await browser.newPage()
await page.goto(`${url}/page`)
await page.addScriptTag({ url: '/pyodide/pyodide.js' })
const told = await page.evaluate(
  async ([code, stalling]) => {
    const pyodide = await globalThis.loadPyodide({ indexURL: '/pyodide/' })
    const source = await (await fetch('/alula.zip')).arrayBuffer()
    pyodide.unpackArchive(source, 'zip', { extractDir: '/alula' })
    pyodide.runPython("import sys; sys.path.insert(0, '/alula')")
    pyodide.runPython(code)
    return await pyodide.globals.get('run')('/api', stalling)
  },
  [readFileSync(checks, 'utf8'), stalling]
)
console.log(told)
await browser.close()
