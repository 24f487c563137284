// Generated modules import one another without an extension, as bundlers allow it; Node does not.
import { register } from 'node:module'

const hook = `export async function resolve(specifier, context, next) {
  const endings = specifier.startsWith('.') ? ['', '.js', '/index.js'] : ['']
  for (const ending of endings.slice(0, -1)) {
    try { return await next(specifier + ending, context) } catch {}
  }
  return next(specifier + endings.at(-1), context)
}`
register(`data:text/javascript,${encodeURIComponent(hook)}`)
