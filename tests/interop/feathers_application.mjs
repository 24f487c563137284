// Writes the application that FeathersJS' own generator makes: users who sign in, and messages.
// The questions are answered here, and no package is installed.
import { getContext } from '@feathersjs/generators'
import { mkdirSync } from 'node:fs'

const folder = process.argv[2]
const generate = async (name, answers) => {
  const context = getContext(answers)
  context.pinion.exec = async () => 0
  context.pinion.force = true
  const generator = await import(`@feathersjs/generators/lib/${name}/index.js`)
  await generator.generate(context)
}
const service = { type: 'mongodb', schema: 'typebox' }
const user = { ...service, name: 'user', path: 'users', isEntityService: true }

mkdirSync(folder, { recursive: true })
process.chdir(folder) // the generators ask for files of the current folder
await generate('app', {
  name: 'chat',
  description: 'A chat',
  language: 'ts',
  framework: 'koa',
  transports: ['rest', 'websockets'],
  packager: 'npm',
  client: true,
  schema: 'typebox',
  database: 'mongodb',
  connectionString: 'mongodb://127.0.0.1:27017/chat'
})
await generate('authentication', { ...user, authStrategies: ['local'], service: 'user', entity: 'user' })
await generate('service', { ...service, name: 'message', path: 'messages', authentication: true })
