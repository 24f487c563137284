// A front end as the generator of FeathersJS 5 begins one. All lines below `@ts-expect-error` are
// mistakes: the compiler has to find each of them.
import rest from '@feathersjs/rest-client'
import type { HookContext, Id, Paginated } from '@feathersjs/feathers'
import { createClient } from './client'
import type {
  ClientApplication,
  Message,
  MessageClientService,
  MessageData,
  MessagePatch,
  MessageQuery,
  Note,
  NoteData,
  Plain,
  ServiceTypes,
  User,
  UserData,
  UserPatch,
  UserQuery
} from './client'

// as in the file `messages.shared.ts` of such an application
export const messagePath = 'messages'
export const messageMethods: Array<keyof MessageClientService> = ['find', 'get', 'create', 'patch', 'remove']
export type PickedService = Pick<MessageClientService, 'find' | 'get'>

export interface Draft {
  id: number
  body: string
}
export interface DraftClientService {
  get(id: Id): Promise<Draft>
}
declare module './client' {
  interface ServiceTypes {
    drafts: DraftClientService
  }
  interface Message {
    draft?: Draft
  }
}

export const connect = (url: string): ClientApplication => createClient(rest(url).fetch(fetch))

export const services: Array<keyof ServiceTypes> = ['messages', 'users', 'drafts', 'authentication']
// @ts-expect-error there is no such service
export const misspelt: keyof ServiceTypes = 'mesages'

const isSame = <Wanted>() => <Given extends Wanted>(_: Given & ([Wanted] extends [Given] ? unknown : never)) => {}

export async function signIn(client: ClientApplication, user: UserData): Promise<User> {
  const created = await client.service('users').create(user)
  const { accessToken, user: signedIn } = await client.service('authentication').create({
    strategy: 'local',
    email: user.email,
    password: user.password
  })
  const text: string = accessToken
  isSame<User>()(signedIn)
  await client.authenticate({ strategy: 'local', email: user.email, password: user.password })
  void text
  return created
}

export async function messages(client: ClientApplication): Promise<Message> {
  const service = client.service('messages')
  const query: MessageQuery = {
    text: { $ne: '', $in: ['a', 'b'] },
    kind: 'text',
    at: { $gt: '2026-01-31T00:00:00Z' },
    'place.city': 'Ravenna',
    $or: [{ userId: 1 }, { $and: [{ tags: 'new' }, { place: null }] }],
    $sort: { at: -1, 'place.city': 1 },
    $select: ['text', 'at'],
    $limit: 5,
    $skip: 0
  }
  const page = await service.find({ query })
  isSame<Paginated<Message>>()(page)
  const first = page.data[0] ?? (await service.get(1))
  const texts: string[] = [first.text, first.at, first.user.email, ...first.tags]
  const user: number = first.userId
  const avatar: string | null = first.user.avatar
  const kind: 'text' | 'image' = first.kind
  const zip: string | null | undefined = first.place?.zip
  const data: MessageData = { text: 'Hello', place: { city: 'Ravenna' } }
  const patch: MessagePatch = { kind: 'image' }
  const created = await service.create(data)
  isSame<Message>()(created)
  const result: unknown = await service.archive({ reason: 'old' })
  isSame<Message>()(await service.patch(created.id, patch))
  isSame<Message>()(await service.remove(created.id))
  service.on('created', (message) => isSame<Message>()(message))
  service.once('archived', (message) => isSame<unknown>()(message))
  service.hooks({ before: { create: [async (context: HookContext) => void context.data] } })
  service.on('created', (message) => {
    // @ts-expect-error what a message does not have
    message.txt
  })
  // @ts-expect-error a misspelt service
  client.service('mesages')
  // @ts-expect-error a misspelt method
  service.fnid({ query })
  // @ts-expect-error a method that is closed to clients
  service.update(1, data)
  // @ts-expect-error a page is not a list
  page.map((message) => message)
  // @ts-expect-error what a page does not have
  page.dta
  // @ts-expect-error what a message does not have
  first.txt
  // @ts-expect-error nor is a password of another record ever sent
  first.user.password
  // @ts-expect-error a property that is misspelt
  service.create({ txt: 'Hello' })
  // @ts-expect-error a property that is missing
  service.create({ kind: 'text' })
  // @ts-expect-error a value of another type
  service.create({ text: 5 })
  // @ts-expect-error a value that the model does not list
  service.create({ text: 'Hello', kind: 'video' })
  // @ts-expect-error a place needs a city
  service.create({ text: 'Hello', place: {} })
  // @ts-expect-error several at once are not allowed
  service.create([data])
  // @ts-expect-error nor are they in a patch
  service.patch(null, patch)
  // @ts-expect-error an id is not an object
  service.get({ id: 1 })
  // @ts-expect-error an id is missing
  service.get()
  // @ts-expect-error a property that is misspelt
  service.patch(1, { txt: 'Hello' })
  // @ts-expect-error a query for what a message does not have
  service.find({ query: { txt: 'Hello' } })
  // @ts-expect-error an operator that does not exist
  service.find({ query: { text: { $like: 'Hello' } } })
  // @ts-expect-error an operator with a value of another type
  service.find({ query: { text: { $in: 'Hello' } } })
  // @ts-expect-error a number is no text
  service.find({ query: { userId: 'one' } })
  // @ts-expect-error a direction that does not exist
  service.find({ query: { $sort: { at: 2 } } })
  // @ts-expect-error an order by what a message does not have
  service.find({ query: { $sort: { txt: 1 } } })
  // @ts-expect-error a selection of what a message does not have
  service.find({ query: { $select: ['txt'] } })
  // @ts-expect-error a branch with what a message does not have
  service.find({ query: { $or: [{ txt: 'Hello' }] } })
  // @ts-expect-error a limit is a number
  service.find({ query: { $limit: '5' } })
  // @ts-expect-error a reason that does not exist
  service.archive({ reason: 'bored' })
  // @ts-expect-error a text is not a number
  const wrong: number = created.text
  void [texts, user, avatar, kind, zip, result, wrong]
  return created
}

export async function users(client: ClientApplication): Promise<void> {
  const patch: UserPatch = { avatar: null, password: 'a new one' }
  const query: UserQuery = { email: 'ada@example.com' }
  const page = await client.service('users').find({ query })
  const user = await client.service('users').patch(page.data[0]!.id, patch)
  // @ts-expect-error a password is never sent
  user.password
  // @ts-expect-error what a user does not have
  user.mail
  // @ts-expect-error a token has no password
  await client.service('authentication').create({ strategy: 'jwt', password: 'secret' })
  // @ts-expect-error nobody may search for passwords
  await client.service('users').find({ query: { password: 'secret' } })
  // @ts-expect-error a password is needed
  await client.service('users').create({ email: 'ada@example.com' })
}

export async function notes(client: ClientApplication): Promise<Note[]> {
  const service = client.service('notes')
  const data: NoteData = { text: 'one', position: [1, 2], extra: { weight: 5 } }
  const several = await service.create([data, { text: 'two' }])
  isSame<Note[]>()(several)
  isSame<Note[]>()(await service.find())
  isSame<Note[]>()(await service.patch(null, { text: 'three' }, { query: { text: 'two' } }))
  isSame<Note>()(await service.remove(several[0]!.id))
  isSame<Note[]>()(await service.remove(null))
  const type: string = several[1]!['content-type']
  const position: [number, number] | undefined = several[0]!.position
  const weight: number | undefined = several[0]!.extra?.weight
  const route = { org: 'alula' }
  const there = await client.service('orgs/:org/notes').find({ route })
  // @ts-expect-error the organisation is missing
  await client.service('orgs/:org/notes').find()
  // @ts-expect-error three numbers are no position
  await service.create({ text: 'one', position: [1, 2, 3] })
  // @ts-expect-error a text is no weight
  await service.create({ text: 'one', extra: { weight: 'heavy' } })
  // @ts-expect-error a list is not one record
  several.text
  void [type, position, weight, there]
  return several
}

export async function open(client: ClientApplication): Promise<Plain> {
  const created = await client.service('plain').create({ anything: ['goes'] })
  const found = await client.service('plain').find({ query: { anything: 'goes', $limit: 1 } })
  const id: number | string = created.id
  const value: unknown = created.anything
  const stats: unknown = await client.service('stats').find()
  await client.service('stats').reset({})
  // @ts-expect-error nothing is known of it
  const text: string = created.anything
  // @ts-expect-error nothing is known of the result
  stats.messages
  // @ts-expect-error a limit is a number
  await client.service('plain').find({ query: { $limit: 'one' } })
  // @ts-expect-error there is no such method
  await client.service('stats').create({})
  void [found, id, value, text]
  return created
}
