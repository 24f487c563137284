// Writes the application that FeathersJS' own generator makes of these answers, and compiles it:
//   node servers/generated_feathers.mjs FOLDER POSTGRESQL-URL
// Koa, TypeScript, TypeBox, users with passwords, a service `messages`, tables in PostgreSQL. Its
// packages are those of benchmarks/package.json: what the generator would install is left out.
import { execFileSync } from 'node:child_process'
import { readFileSync, symlinkSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { getContext } from '@featherscloud/pinion'
const require = createRequire(import.meta.url)

const [folder, connectionString] = process.argv.slice(2)
const modules = join(import.meta.dirname, '..', 'node_modules')
const quiet = { log () {}, notice () {}, warn: console.error, error: console.error }
const context = answers => getContext({ cwd: folder, ...answers }, { exec: async () => 0, logger: quiet })

async function generate (name, answers) {
  await require(`@feathersjs/generators/lib/${name}/index.js`).generate(context(answers))
}

// What the generators read of an application that exists.
function existing () {
  const pkg = JSON.parse(readFileSync(join(folder, 'package.json')))
  return { lib: 'src', test: 'test', language: 'ts', pkg, feathers: pkg.feathers }
}

await generate('app', {
  name: 'shop',
  description: 'A shop',
  language: 'ts',
  framework: 'koa',
  packager: 'npm',
  transports: ['rest', 'websockets'],
  client: false,
  schema: 'typebox',
  database: 'postgresql',
  connectionString
})
await generate('authentication', {
  ...existing(),
  authStrategies: ['local'],
  service: 'user',
  path: 'users',
  entity: 'user',
  schema: 'typebox',
  type: 'knex'
})
await generate('service', {
  ...existing(),
  name: 'messages',
  path: 'messages',
  authentication: true,
  schema: 'typebox',
  type: 'knex'
})
symlinkSync(modules, join(folder, 'node_modules'))
for (const command of [['typescript/bin/tsc'], ['knex/bin/cli.js', 'migrate:latest']]) {
  const [script, ...rest] = command
  execFileSync(process.execPath, [join(modules, script), ...rest], { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] })
}
