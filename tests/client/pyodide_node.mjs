// Runs the checks of pyodide_checks.py in Pyodide under Node.
//
//   node pyodide_node.mjs NODE_MODULES SOURCE CHECKS BASE STALLING
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'

const [modules, source, checks, base, stalling] = process.argv.slice(2)
const require = createRequire(path.join(path.resolve(modules), 'from-here.js'))
const { loadPyodide } = require('pyodide')

const pyodide = await loadPyodide()
pyodide.mountNodeFS('/alula', source)
pyodide.runPython("import sys; sys.path.insert(0, '/alula')")
pyodide.runPython(readFileSync(checks, 'utf8'))
console.log(await pyodide.globals.get('run')(base, stalling))
process.exit(0)
