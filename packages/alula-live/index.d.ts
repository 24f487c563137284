/** What `find` answers now, and every change of it. A store as Svelte defines it. */
export interface LiveList<Row = any> {
  /** The rows in their order. A new array after each change; it is never changed in place. */
  readonly rows: readonly Row[]

  /**
   * `loading` until the first page is here, then `live`; `away` while the server is not reached; and
   * `closed` for good, by `close()` or because the server refuses the list.
   */
  readonly status: 'loading' | 'live' | 'away' | 'closed'

  /** Why the list is `away` or `closed`, null if there is no reason to tell. */
  readonly error: LiveError | null

  /**
   * Calls a function at once, after each batch of changes, and when `status` changes. `changes` has
   * the messages of the batch and is empty if only the status is new. Returns the way out.
   */
  subscribe(subscriber: (rows: readonly Row[], changes: Change<Row>[]) => void): () => void

  /** Ends when the list has all that was written before this call; fails if the list is closed. */
  settled(): Promise<void>

  /** Ends the list. Its rows stay. */
  close(): void
}

/** One message of the server. */
export type Change<Row = any> =
  | { kind: 'snapshot' | 'reset'; rows: Row[] }
  | { kind: 'entered' | 'changed'; at: number; data: Row }
  | { kind: 'left'; id: any }
  | { kind: 'unchanged' }
  | { kind: 'closed'; error: any }

/** An error of the server has its name, code and data. */
export interface LiveError extends Error {
  code?: number
  data?: any
}

export interface LiveOptions {
  /** The property with the id of a row: `_id` of rows that have it, otherwise `id`. */
  id?: string

  /** Headers of an event stream, such as `Authorization`; a function is called for each attempt. */
  headers?: Record<string, string> | (() => Record<string, string> | Promise<Record<string, string>>)

  /** Whether an event stream sends cookies to another origin, as in `fetch`. */
  credentials?: 'omit' | 'same-origin' | 'include'
}

/** A client of FeathersJS with sockets, or a socket of socket.io-client. */
export interface SocketClient {
  io?: any
  emit?: any
}

/**
 * Opens a live list.
 *
 * @param source A client of FeathersJS with sockets, a socket, or the URL of the server, for an event
 *   stream. An empty text is the origin of the page.
 * @param path The path of the service.
 * @param query As in `find`.
 */
export function live<Row = any>(
  source: string | URL | SocketClient,
  path: string,
  query?: Record<string, any>,
  options?: LiveOptions
): LiveList<Row>
