// The whole REST API of the chat, spoken with nothing but fetch.
const EMOJI = ['👍', '❤️', '😂', '🎉']
const $ = (selector, parent = document) => parent.querySelector(selector)
const shown = new Map() // id -> { element, state: what it shows, as JSON }
let me = JSON.parse(sessionStorage.getItem('user')) // survives a reload, not the tab
let away = true // until the server has answered
let asked = 0

class Unreachable extends Error {}

async function call (method, path, data, headers = {}) {
  let response, result
  try {
    response = await fetch(path, {
      method,
      headers: { Accept: 'application/json', 'Content-Type': 'application/json', ...headers },
      body: data === undefined ? undefined : JSON.stringify(data)
    })
    result = response.status === 204 ? null : await response.json()
  } catch { throw new Unreachable('The server does not answer. Trying again…') }
  if (!response.ok) throw new Error(result.message)
  return result
}

// Texts that stay the same are not read out again.
function show (selector, text) {
  if ($(selector).textContent !== text) $(selector).textContent = text
}

function report (error) {
  if (!(error instanceof Unreachable)) return show('#problem', error.message)
  away = true
  show('#status', error.message)
  $('#status').classList.add('bad')
}

// What somebody does: the list shows it at once, a refusal is told.
const action = (work) => async (event) => {
  event.preventDefault()
  try {
    await work()
    show('#problem', '')
    await refresh()
  } catch (error) { report(error) }
}

function build (message) {
  const element = $('#message').content.firstElementChild.cloneNode(true)
  for (const emoji of EMOJI) {
    const button = document.createElement('button')
    button.type = 'button'
    button.dataset.emoji = emoji
    // A custom method: POST with the header X-Service-Method.
    button.onclick = action(() =>
      call('POST', 'messages', { id: message.id, emoji }, { 'X-Service-Method': 'react' }))
    $('.reactions', element).append(button)
  }
  $('.edit', element).onclick = action(async () => {
    const text = prompt('New text', $('.text', element).textContent)
    if (text !== null) await call('PATCH', `messages/${message.id}`, { text })
  })
  $('.remove', element).onclick = action(() => call('DELETE', `messages/${message.id}`))
  return element
}

// Everything is set as text: what somebody wrote never becomes a part of the page.
function fill (element, message) {
  const time = new Date(message.createdAt)
  element.classList.toggle('own', message.userId === me?.id)
  $('.name', element).textContent = message.user.name
  $('time', element).dateTime = time.toISOString()
  $('time', element).textContent = time.toLocaleTimeString() + (message.editedAt ? ' (edited)' : '')
  $('.text', element).textContent = message.text
  for (const button of element.querySelectorAll('[data-emoji]')) {
    const count = message.reactions[button.dataset.emoji]
    button.textContent = button.dataset.emoji + (count ? ` ${count}` : '')
    button.title = `React with ${button.dataset.emoji}`
  }
}

async function refresh () {
  const turn = ++asked
  const page = await call('GET', 'messages?$limit=100&$sort[id]=-1')
  if (turn !== asked) return // a later answer is on its way
  const list = $('#messages')
  const atEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 40
  const present = new Set()
  for (const message of page.data.reverse()) {
    present.add(message.id)
    const state = JSON.stringify([message, me?.id])
    let entry = shown.get(message.id)
    if (!entry) {
      entry = { element: build(message) }
      shown.set(message.id, entry)
      list.append(entry.element)
    }
    if (entry.state !== state) fill(entry.element, message)
    entry.state = state
  }
  for (const [id, { element }] of shown) {
    if (!present.has(id)) { element.remove(); shown.delete(id) }
  }
  if (atEnd) list.scrollTop = list.scrollHeight
  show('#status', `${page.total} message${page.total === 1 ? '' : 's'}`)
  $('#status').classList.remove('bad')
}

function join (user) {
  me = user
  sessionStorage.setItem('user', JSON.stringify(user))
  $('#join').hidden = true
  $('#say').hidden = false
}

// A server that was away may have forgotten everybody: its memory ends with its process.
async function rejoin () {
  const { data } = await call('GET', `users?name=${encodeURIComponent(me.name)}`)
  const known = data.find((user) => user.id === me.id)
  join(known ?? await call('POST', 'users', { name: me.name }))
}

$('#join').onsubmit = action(async () => {
  join(await call('POST', 'users', { name: $('#name').value }))
  $('#text').focus()
})

$('#say').onsubmit = action(async () => {
  await call('POST', 'messages', { text: $('#text').value, userId: me.id })
  $('#text').value = ''
  $('#messages').scrollTop = $('#messages').scrollHeight
})

// The demo asks again and again; a real-time transport is not part of it.
async function poll () {
  try {
    if (away && me) await rejoin()
    away = false
    await refresh()
  } catch (error) { report(error) }
  setTimeout(poll, 1500)
}

poll()
