import type { CollectionConfig } from '@tanstack/db'
import type { LiveOptions, SocketClient } from 'alula-live'

type Passed<Row extends object, Key extends string | number> = Partial<
  Omit<CollectionConfig<Row, Key>, 'getKey' | 'sync' | 'syncMode' | 'schema'>
>

export interface AlulaCollectionOptions<Row extends object, Key extends string | number = string | number>
  extends LiveOptions, Passed<Row, Key> {
  /** A client of FeathersJS. With sockets it also brings the list. */
  client: SocketClient & { service(path: any): any }

  /** Where the list comes from, if not from `client`: the URL of the server, for an event stream. */
  source?: string | URL | SocketClient

  /** The path of the service. */
  path: string

  /** As in `find`. The collection is a set: its order is that of the queries of the page. */
  query?: Record<string, any>

  /** Whether the server makes the ids. The id of an inserted row is then not sent. */
  serverIds?: boolean

  /** Makes a row of the collection from one of the server, such as dates from texts. */
  parse?: (row: any) => Row

  /** Makes what is sent from (a part of) a row. Dates become texts by themselves. */
  serialize?: (data: any) => any

  /** The property with the id of a row: `_id` of rows that have it, otherwise `id`. */
  id?: string & keyof Row
}

/** Options for `createCollection`, with which the collection is a live list. */
export function alulaCollection<Row extends object, Key extends string | number = string | number>(
  options: AlulaCollectionOptions<Row, Key>
): CollectionConfig<Row, Key> & { schema?: never }
