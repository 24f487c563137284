// The whole REST API of the chat, spoken with nothing but fetch.
const EMOJI = ['👍', '❤️', '😂', '🎉']
const $ = (selector, parent = document) => parent.querySelector(selector)
const shown = new Map() // id -> { element, text as JSON }
let me = null

async function call (method, path, data, headers = {}) {
  const response = await fetch(path, {
    method,
    headers: { Accept: 'application/json', 'Content-Type': 'application/json', ...headers },
    body: data === undefined ? undefined : JSON.stringify(data)
  })
  const result = response.status === 204 ? null : await response.json()
  if (!response.ok) throw new Error(result.message)
  return result
}

function report (text, bad = false) {
  $('#status').textContent = text
  $('#status').classList.toggle('bad', bad)
}

const tried = (work) => async (event) => {
  event?.preventDefault()
  try { await work(event) } catch (error) { report(error.message, true) }
}

function build (message) {
  const element = $('#message').content.firstElementChild.cloneNode(true)
  element.dataset.id = message.id
  for (const emoji of EMOJI) {
    const button = document.createElement('button')
    button.type = 'button'
    button.dataset.emoji = emoji
    button.title = `React with ${emoji}`
    button.onclick = tried(async () => {
      // A custom method: POST with the header X-Service-Method.
      await call('POST', 'messages', { id: message.id, emoji }, { 'X-Service-Method': 'react' })
      await refresh()
    })
    $('.reactions', element).append(button)
  }
  $('.edit', element).onclick = tried(async () => {
    const text = prompt('New text', $('.text', element).textContent)
    if (text !== null) await call('PATCH', `messages/${message.id}`, { text })
    await refresh()
  })
  $('.remove', element).onclick = tried(async () => {
    await call('DELETE', `messages/${message.id}`)
    await refresh()
  })
  return element
}

function fill (element, message) {
  element.classList.toggle('own', me !== null && message.userId === me.id)
  $('.name', element).textContent = message.user.name
  const time = new Date(message.createdAt)
  $('time', element).dateTime = time.toISOString()
  $('time', element).textContent = time.toLocaleTimeString() + (message.editedAt ? ' (edited)' : '')
  $('.text', element).textContent = message.text
  for (const button of element.querySelectorAll('[data-emoji]')) {
    const count = message.reactions[button.dataset.emoji]
    button.textContent = button.dataset.emoji + (count ? ` ${count}` : '')
  }
}

async function refresh () {
  const page = await call('GET', 'messages?$limit=100&$sort[createdAt]=-1')
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
  report(`${page.total} message${page.total === 1 ? '' : 's'}`)
}

function join (user) {
  me = user
  $('#join').hidden = true
  $('#say').hidden = false
  $('#text').focus()
}

$('#join').onsubmit = tried(async () => {
  join(await call('POST', 'users', { name: $('#name').value }))
  sessionStorage.setItem('user', me.id)
  await refresh()
})

$('#say').onsubmit = tried(async () => {
  await call('POST', 'messages', { text: $('#text').value, userId: me.id })
  $('#text').value = ''
  await refresh()
  $('#messages').scrollTop = $('#messages').scrollHeight
})

async function begin () {
  const known = sessionStorage.getItem('user')
  if (known) {
    try { join(await call('GET', `users/${known}`)) } catch { sessionStorage.removeItem('user') }
  }
  await refresh()
  // The demo asks again and again; a real-time transport is not part of it.
  setInterval(tried(refresh), 1500)
}

tried(begin)()
