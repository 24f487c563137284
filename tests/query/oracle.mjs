// Answers what the npm package qs makes of its input: one JSON line in, one JSON line out.
//   {"parse": "a[b]=1", "options": {...}}  ->  {"value": {...}} or {"error": "..."}
//   {"stringify": {...}}                   ->  {"value": "..."}
// Dates are written as {"$date": milliseconds}, floats that JSON lacks as {"$number": "NaN"}.
// Where npm installed its packages: the first argument.
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import path from 'node:path'

const qs = createRequire(path.join(path.resolve(process.argv[2]), 'from-here.js'))('qs')

const revive = (_key, value) => {
  if (value && typeof value === 'object') {
    if ('$date' in value) return new Date(value.$date)
    if ('$number' in value) return Number(value.$number)
  }
  return value
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line, revive)
  let answer
  try {
    answer =
      'parse' in request
        ? { value: qs.parse(request.parse, request.options) }
        : { value: qs.stringify(request.stringify) }
  } catch (error) {
    answer = { error: error.message }
  }
  process.stdout.write(JSON.stringify(answer) + '\n')
}
