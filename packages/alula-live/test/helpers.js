// What the tests of both packages share. ALULA_URL is a server of tests/interop/live_application.py.
export const url = process.env.ALULA_URL

export async function call(method, path, data) {
  const response = await fetch(`${url}/${path}`, {
    method,
    headers: { 'Content-Type': 'application/json' },
    body: data === undefined ? undefined : JSON.stringify(data)
  })
  return response.json()
}

/** Waits until a condition holds. */
export async function until(condition, told = condition) {
  const end = Date.now() + 20_000
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`never: ${told}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

export const texts = (rows) => rows.map((row) => row.text).join(' ')
