// A front end of an application whose endpoints say by annotations what they take and return.
import rest from '@feathersjs/rest-client'
import socketio from '@feathersjs/socketio-client'
import { io } from 'socket.io-client'
import { createClient, withStreams } from './client'
import type { Article, Author } from './client'

export const connect = (url: string) => createClient(rest(url).fetch(withStreams(fetch)))
export const overSocket = (url: string) => {
  const socket = io(url, { transports: ['websocket'] })
  return { socket, client: createClient(socketio(socket)) }
}
const client = connect('http://localhost:3030')

export async function numbers(words: string[]): Promise<number> {
  let sum = 0
  for await (const line of await client.service('words').ask(words)) {
    sum += line.n
    // @ts-expect-error a line has no text
    line.text
  }
  // @ts-expect-error the stream is awaited
  for await (const line of client.service('words').ask(words)) sum += line.n
  return sum
}

export async function publish(title: string): Promise<string[]> {
  const articles = client.service('articles')
  const article: Article = await articles.create({ title })
  const author: Author = article.author
  const found = await articles.find({ query: { tag: 'news', limit: 5 } })
  const one = await articles.get(article.id, { query: { version: 2 } })
  const pong: 'pong' = await articles.ping(null)
  const lines = await client.service('years/:year/lines').find({ route: { year: 2026 } })
  const nothing: null = await client.service('years/:year/lines').remove(1, { route: { year: 1 } })
  // @ts-expect-error a title is needed
  await articles.create({})
  // @ts-expect-error the limit is a number
  await articles.find({ query: { limit: 'many' } })
  // @ts-expect-error no such parameter
  await articles.find({ query: { tga: 'news' } })
  // @ts-expect-error the id is a number
  await articles.get('1')
  // @ts-expect-error there may be none
  one.title
  return [author.name, pong, String(lines.data[0]?.n), String(nothing), ...found.map((each) => each.title)]
}
