// Reads pairs of schema and value from standard input, and prints what Ajv makes of each.
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'

const require = createRequire(`${process.argv[2]}/`)
const AjvCore = require('ajv/dist/core').default
const draft2020 = require('ajv/dist/vocabularies/draft2020').default
const addFormats = require('ajv-formats').default

// The keywords of draft 2020-12 with the options of Ajv itself: its own class for that draft tries
// every branch of an anyOf, also behind the one that the value has passed, and converts in each.
class Ajv extends AjvCore {
  _addVocabularies() {
    super._addVocabularies()
    draft2020.forEach((vocabulary) => this.addVocabulary(vocabulary))
  }
}

const ajv = {}
for (const coerceTypes of [true, false]) {
  ajv[coerceTypes] = addFormats(
    new Ajv({
      allErrors: true,
      coerceTypes,
      useDefaults: true,
      strict: false,
      logger: false,
      meta: false,
      validateSchema: false
    })
  )
}

const compiled = new Map()

function check(schema, coerce) {
  const key = JSON.stringify([coerce, schema])
  if (!compiled.has(key)) {
    compiled.set(key, ajv[coerce].compile(schema))
  }
  return compiled.get(key)
}

for await (const line of createInterface({ input: process.stdin })) {
  const { schema, value, coerce } = JSON.parse(line)
  const holder = { value }
  const validate = check(schema, coerce)
  const valid = validate(holder.value, {
    instancePath: '',
    parentData: holder,
    parentDataProperty: 'value'
  })
  console.log(JSON.stringify({ valid, value: holder.value, errors: validate.errors ?? [] }))
}
