// A collection of TanStack DB that is a live list of an Alula server.

import { live } from 'alula-live'

const same = (value) => value

/**
 * Returns the options of a collection, for `createCollection`. All that is not of Alula is passed on
 * to TanStack DB; an own `onInsert`, `onUpdate` or `onDelete` replaces the one here.
 */
export function alulaCollection({
  client,
  source = client,
  path,
  query,
  id,
  serverIds = false,
  headers,
  credentials,
  parse = same,
  serialize = same,
  ...config
}) {
  let list
  const idOf = (row) => id ?? ('_id' in row ? '_id' : 'id')
  const getKey = (row) => row[idOf(row)]

  function sync({ begin, write, commit, truncate, markReady, markError }) {
    const opened = live(source, path, query, { id, headers, credentials })
    let isReady = false

    function replace(rows) {
      truncate()
      for (const row of rows) write({ type: 'insert', value: parse(row) })
    }
    function add({ kind, id: key, data, rows }) {
      if (kind === 'snapshot' || kind === 'reset') replace(rows)
      else if (kind === 'entered') write({ type: 'insert', value: parse(data) })
      else if (kind === 'changed') write({ type: 'update', value: parse(data) })
      else if (kind === 'left') write({ type: 'delete', key })
      else if (kind === 'closed') replace([])
    }
    list = opened
    opened.subscribe((_, changes) => {
      if (changes.length === 0) return
      const isClosed = opened.status === 'closed'
      if (isReady || !isClosed) {
        begin()
        changes.forEach(add)
        commit()
      }
      if (isClosed) return markError(opened.error)
      if (!isReady) markReady()
      isReady = true
    })
    return () => opened.close()
  }

  // The optimistic rows of a transaction go when its function ends. Then the true ones are here.
  const writing = (one) => async ({ transaction }) => {
    const service = client.service(path)
    for (const mutation of transaction.mutations) await one(service, mutation)
    await list?.settled()
  }

  return {
    onInsert: writing((service, { modified }) => {
      const { [idOf(modified)]: given, ...others } = modified
      return service.create(serialize(serverIds ? others : modified))
    }),
    onUpdate: writing((service, { key, changes }) => service.patch(key, serialize(changes))),
    onDelete: writing((service, { key }) => service.remove(key)),
    ...config,
    getKey,
    sync: { sync, rowUpdateMode: 'full' }
  }
}
