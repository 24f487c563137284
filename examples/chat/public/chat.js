// Writes with the REST API of the chat, and reads live lists: messages, and who is here.
import { live } from './alula-live/index.js'
import { connect } from './socket.js'

const EMOJI = ['👍', '❤️', '😂', '🎉']
const TYPING = 2000 // milliseconds that a user counts as typing
const $ = (selector, parent = document) => parent.querySelector(selector)
const shown = new Map() // id -> { element, state: what it shows, as JSON }
let me = null // the signed-in user
let token = sessionStorage.getItem('token') // survives a reload, not the tab
let typist = null // who typed last
let typingEnds // the timer that removes this
let toldTyping = 0 // when the server last heard that this user types

const socket = connect()
const messages = live(socket, 'messages', { $limit: 100, $sort: { createdAt: -1, _id: -1 } })
const people = live(socket, 'presence')

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

// Runs an action of the user; ends when the list has it, or shows the error.
const action = (work) => async (event) => {
  event.preventDefault()
  try {
    await work(event)
    show('#problem', '')
    if (messages.status === 'live') await messages.settled()
    showMessages(messages.rows)
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

function showMessages (rows) {
  const list = $('#messages')
  const atEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 40
  const present = new Set()
  rows.toReversed().forEach((message, index) => {
    present.add(message._id)
    const state = JSON.stringify([message, me?._id])
    const entry = shown.get(message._id) ?? { element: build(message) }
    shown.set(message._id, entry)
    if (entry.state !== state) fill(entry.element, message)
    entry.state = state
    if (list.children[index] !== entry.element) list.insertBefore(entry.element, list.children[index])
  })
  for (const [id, { element }] of shown) {
    if (!present.has(id)) { element.remove(); shown.delete(id) }
  }
  if (atEnd) list.scrollTop = list.scrollHeight
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

// Signs the connection in or out, so that the others see who is here.
const ask = (...packet) => new Promise((resolve, reject) => {
  if (!socket.connected) throw new Unreachable('The server does not answer. Trying again…')
  socket.emit(...packet, {}, (error, result) =>
    error ? reject(new Error(error.message)) : resolve(result))
})

// A token from before a reload or a server restart may still be valid.
async function enterAgain () {
  try {
    enter(await ask('create', 'authentication', { strategy: 'jwt', accessToken: token }))
  } catch (error) {
    if (!(error instanceof Unreachable)) leave()
  }
  showMessages(messages.rows)
}

$('#join').onsubmit = action(async (event) => {
  const account = { name: $('#name').value, password: $('#password').value }
  if (event.submitter?.id === 'register') await call('POST', 'users', account)
  // The server has trimmed a new name.
  account.name = account.name.trim()
  enter(await ask('create', 'authentication', { strategy: 'local', ...account }))
  $('#password').value = ''
  $('#text').focus()
})

$('#leave').onclick = action(async () => {
  await ask('remove', 'authentication', null)
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

messages.subscribe((rows, changes) => {
  showMessages(rows)
  if (changes.some(({ kind, data }) => kind === 'entered' && data.user.name === typist)) {
    show('#typing', '')
  }
  if (messages.status === 'away') report(new Unreachable('The server does not answer. Trying again…'))
  if (messages.status !== 'live') return
  show('#status', `${rows.length} message${rows.length === 1 ? '' : 's'}`)
  $('#status').classList.remove('bad')
})

people.subscribe((rows) => {
  show('#people', rows.length === 1 ? 'only you' : `${rows.length} here`)
  $('#people').title = rows.map(({ name }) => name ?? 'a guest').join(', ')
})

socket.on('messages typing', ({ name }) => {
  if (name === me?.name) return
  typist = name
  show('#typing', `${name} is typing…`)
  clearTimeout(typingEnds)
  typingEnds = setTimeout(() => show('#typing', ''), TYPING + 1000)
})

socket.on('connect', () => { if (token) enterAgain() })
