// Shows the records of a service in a table, as a live list.
const form = document.querySelector('form')
const filter = document.querySelector('#filter')
let rows = [], list, timer

function open() {
  list?.close()
  const query = filter.value ? filter.value + '&' : ''
  const url = `${form.dataset.path}?${query}$live=true`
  list = new EventSource(url)
  const on = (kind, change) => list.addEventListener(kind, (event) => {
    const message = JSON.parse(event.data)
    change(message)
    if (!message?.more) show()
  })
  const idOf = (row) => '_id' in row ? row._id : row.id
  const remove = (id) => { rows = rows.filter((row) => idOf(row) !== id) }
  const add = ({ at, data }) => {
    remove(idOf(data))
    rows.splice(at, 0, { ...data, [isNew]: true })
  }
  on('snapshot', (page) => { rows = page.rows })
  on('reset', (page) => { rows = page.rows })
  on('unchanged', () => {})
  on('entered', add)
  on('changed', add)
  on('left', ({ id }) => remove(id))
  on('closed', ({ error }) => { rows = []; show(); say(error.message) })
  list.onerror = async ({ target }) => {
    const isOver = target.readyState === EventSource.CLOSED
    if (!isOver) return say('The server does not answer. Trying again…')
    const refused = await fetch(url, { headers: { Accept: 'text/event-stream' } })
    if (target === list && !refused.ok) say((await refused.json()).message)
  }
}

const isNew = Symbol('came with the last change')
const say = (text) => { document.querySelector('#status').textContent = text }
const cell = (tag, value) => Object.assign(document.createElement(tag), {
  textContent: typeof value === 'string' ? value : JSON.stringify(value)
})

function show() {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))]
  const line = (tag, values) => {
    const element = document.createElement('tr')
    element.append(...values.map((value) => cell(tag, value)))
    return element
  }
  document.querySelector('table').replaceChildren(line('th', names), ...rows.map((row) => {
    const element = line('td', names.map((name) => row[name] ?? ''))
    element.className = row[isNew] ? 'new' : ''
    delete row[isNew]
    return element
  }))
  say(`${rows.length} ${rows.length === 1 ? 'record' : 'records'}, live`)
}

filter.oninput = () => {
  clearTimeout(timer)
  timer = setTimeout(open, 300)
}
form.onsubmit = (event) => { event.preventDefault(); open() }
open()
