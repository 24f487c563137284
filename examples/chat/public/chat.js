// Uses the whole REST API of the chat with plain fetch, and its events with a plain EventSource.
const EMOJI = ['👍', '❤️', '😂', '🎉']
const SERVICES = { messages: ['created', 'patched', 'removed', 'typing'], presence: ['changed'] }
const TYPING = 2000 // milliseconds that a user counts as typing
const $ = (selector, parent = document) => parent.querySelector(selector)
const shown = new Map() // id -> { element, state: what it shows, as JSON }
let me = null // the signed-in user
let token = sessionStorage.getItem('token') // survives a reload, not the tab
let asked = 0
let soon = null // the timer of a refresh
let toldTyping = 0 // when the server last heard that this user types

class Unreachable extends Error {}
class SignedOut extends Error {}

async function call (method, path, data, more = {}) {
  let response, result
  const headers = { Accept: 'application/json', 'Content-Type': 'application/json', ...more }
  if (token) headers.Authorization = `Bearer ${token}`
  try {
    response = await fetch(path, {
      method,
      headers,
      body: data === undefined ? undefined : JSON.stringify(data)
    })
    result = response.status === 204 ? null : await response.json()
  } catch { throw new Unreachable('The server does not answer. Trying again…') }
  if (response.status === 401 && me) throw new SignedOut('You are signed out. Please sign in again.')
  if (!response.ok) throw new Error(result.message)
  return result
}

// Screen readers repeat a text only if it changes.
function show (selector, text) {
  if ($(selector).textContent !== text) $(selector).textContent = text
}

function report (error) {
  if (error instanceof SignedOut) leave()
  if (!(error instanceof Unreachable)) return show('#problem', error.message)
  show('#status', error.message)
  $('#status').classList.add('bad')
}

// Runs an action of the user; then updates the list, or shows the error.
const action = (work) => async (event) => {
  event.preventDefault()
  try {
    await work(event)
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
      call('POST', 'messages', { id: message._id, emoji }, { 'X-Service-Method': 'react' }))
    $('.reactions', element).append(button)
  }
  $('.edit', element).onclick = action(async () => {
    const text = prompt('New text', $('.text', element).textContent)
    if (text !== null) await call('PATCH', `messages/${message._id}`, { text })
  })
  $('.remove', element).onclick = action(() => call('DELETE', `messages/${message._id}`))
  return element
}

// Sets everything as text, so that no message becomes HTML of the page.
function fill (element, message) {
  const time = new Date(message.createdAt)
  element.classList.toggle('own', message.userId === me?._id)
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
  const page = await call('GET', 'messages?$limit=100&$sort[createdAt]=-1&$sort[_id]=-1')
  if (turn !== asked) return // a newer response will follow
  const list = $('#messages')
  const atEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 40
  const present = new Set()
  for (const message of page.data.reverse()) {
    present.add(message._id)
    const state = JSON.stringify([message, me?._id])
    let entry = shown.get(message._id)
    if (!entry) {
      entry = { element: build(message) }
      shown.set(message._id, entry)
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

function enter (answer) {
  me = answer.user
  token = answer.accessToken
  sessionStorage.setItem('token', token)
  $('#join').hidden = true
  $('#say').hidden = $('#leave').hidden = false
}

function leave () {
  me = token = null
  sessionStorage.removeItem('token')
  $('#join').hidden = false
  $('#say').hidden = $('#leave').hidden = true
}

// A token from before a reload or a server restart may still be valid.
async function enterAgain () {
  try {
    enter(await call('POST', 'authentication', { strategy: 'jwt', accessToken: token }))
  } catch (error) {
    if (error instanceof Unreachable) throw error
    leave()
  }
}

$('#join').onsubmit = action(async (event) => {
  const account = { name: $('#name').value, password: $('#password').value }
  if (event.submitter?.id === 'register') await call('POST', 'users', account)
  // The server has trimmed a new name.
  account.name = account.name.trim()
  enter(await call('POST', 'authentication', { strategy: 'local', ...account }))
  $('#password').value = ''
  $('#text').focus()
})

$('#leave').onclick = action(async () => {
  await call('DELETE', 'authentication')
  leave()
  $('#name').focus()
})

$('#text').oninput = () => {
  if (!$('#text').value || Date.now() - toldTyping < TYPING) return
  toldTyping = Date.now()
  call('POST', 'messages', {}, { 'X-Service-Method': 'typing' }).catch(() => {})
}

$('#say').onsubmit = action(async () => {
  await call('POST', 'messages', { text: $('#text').value })
  $('#text').value = ''
  toldTyping = 0
  $('#messages').scrollTop = $('#messages').scrollHeight
})

// Several events at once lead to one request.
function refreshSoon () {
  soon ??= setTimeout(() => { soon = null; refresh().catch(report) }, 30)
}

const heard = {
  'messages typing': ({ name }) => {
    if (name === me?.name) return
    heard.typist = name
    show('#typing', `${name} is typing…`)
    clearTimeout(heard.timer)
    heard.timer = setTimeout(() => show('#typing', ''), TYPING + 1000)
  },
  'messages created': ({ user }) => {
    if (user.name === heard.typist) show('#typing', '')
    refreshSoon()
  },
  'presence changed': ({ people }) => show('#people', people === 1 ? 'only you' : `${people} here`)
}

// The server sends an event for each change, and the page then fetches the messages.
function listen () {
  const events = new EventSource(`events?services=${Object.keys(SERVICES)}`)
  events.onopen = async () => {
    try {
      if (token) await enterAgain()
      await refresh()
    } catch (error) { report(error) }
  }
  events.onerror = () => {
    report(new Unreachable('The server does not answer. Trying again…'))
    if (events.readyState === EventSource.CLOSED) setTimeout(listen, 1500) // else it tries itself
  }
  events.addEventListener('reset', refreshSoon) // events were lost
  for (const [service, names] of Object.entries(SERVICES)) {
    for (const name of names) {
      const act = heard[`${service} ${name}`] ?? refreshSoon
      events.addEventListener(`${service} ${name}`, (event) => act(JSON.parse(event.data)))
    }
  }
}

listen()
