// A Kubernetes cluster for tests, with a clock that the test moves: a process of the program `flyball`, driven by lines of JSON.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

const TICK = 50
const ENDS_WITHIN = 30_000

export class ClusterError extends Error {}

/** Starts a cluster; its nodes are ready when this resolves. */
export async function start(options = {}) {
  const binary = options.binary ?? (process.env.FLYBALL_BIN || 'flyball')
  const flags = ['up', '--control', 'stdio', '--nodes', String(options.nodes ?? 3)]
  if (options.controllers) flags.push(`--controllers=${options.controllers.join(',')}`)
  if (options.startingAt) flags.push('--starting-at', options.startingAt)
  if (options.managerFlags?.length) flags.push('--', ...options.managerFlags)
  const child = spawn(binary, flags, { stdio: ['pipe', 'pipe', 'inherit'] })
  const line = new Lines(child, binary)
  const { ready } = await line.next()
  const config = JSON.parse(await readFile(ready.kubeconfig, 'utf8'))
  return new Cluster(child, line, ready, config)
}

class Cluster {
  #child
  #lines
  #asked = 0

  constructor(child, lines, ready, config) {
    this.#child = child
    this.#lines = lines
    this.server = ready.server
    this.kubeconfig = ready.kubeconfig
    this.config = config
    const pem = (text) => Buffer.from(text, 'base64')
    const { user } = config.users[0]
    this.tls = {
      ca: pem(config.clusters[0].cluster['certificate-authority-data']),
      cert: pem(user['client-certificate-data']),
      key: pem(user['client-key-data']),
    }
  }

  async now() {
    return new Date((await this.#ask({ do: 'now' })).now)
  }

  async advance({ days = 0, hours = 0, minutes = 0, seconds = 0 }) {
    const all = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return new Date((await this.#ask({ do: 'advance', seconds: all })).now)
  }

  async settled() {
    return new Date((await this.#ask({ do: 'settled' })).now)
  }

  apply(manifests) {
    return this.#ask({ do: 'apply', manifests })
  }

  get(kind, name) {
    return this.#ask({ do: 'get', kind, name })
  }

  delete(kind, name) {
    return this.#ask({ do: 'delete', kind, name })
  }

  why(kind, name) {
    return this.#ask({ do: 'why', kind, name })
  }

  async until(kind, name, holds, { patience = 10_000 } = {}) {
    const deadline = performance.now() + patience
    let found
    for (;;) {
      await this.settled()
      found = await this.get(kind, name)
      if (holds(found)) return found
      if (performance.now() >= deadline) break
      await sleep(TICK)
    }
    const why = await this.why(kind, name).catch((error) => error.message)
    throw new ClusterError(
      `${kind} ${name} is not as the test expects\n\n${why}\n${JSON.stringify(found, null, 2)}`,
    )
  }

  /** Ends the cluster. A second call does nothing. */
  async stop() {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const exit = once(this.#child, 'exit')
    this.#child.stdin.end()
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), ENDS_WITHIN)
    await exit
    clearTimeout(timer)
  }

  // Answers come in the order of the requests.
  async #ask(request) {
    if (this.#child.stdin.writableEnded) throw new ClusterError('the cluster has stopped')
    const id = ++this.#asked
    const answered = this.#lines.next()
    this.#child.stdin.write(`${JSON.stringify({ id, ...request })}\n`)
    const answer = await answered
    if ('error' in answer) throw new ClusterError(answer.error)
    return answer.ok
  }
}

// The lines that a process prints, each for the next who waits for one.
class Lines {
  #waiting = []
  #early = []
  #ended = null

  constructor(child, binary) {
    const end = (why) => {
      this.#ended ??= new ClusterError(why)
      for (const { reject } of this.#waiting.splice(0)) reject(this.#ended)
    }
    child.on('error', (error) => end(`cannot run ${binary}: ${error.message}; set FLYBALL_BIN to the program`))
    child.on('close', (code, signal) => end(`flyball ended with ${signal ?? `code ${code}`}; its stderr says why`))
    child.stdin.on('error', () => {}) // It has ended, and `close` says so.
    createInterface({ input: child.stdout }).on('line', (line) => {
      const waiter = this.#waiting.shift()
      if (waiter) waiter.resolve(JSON.parse(line))
      else this.#early.push(JSON.parse(line))
    })
  }

  next() {
    if (this.#early.length) return Promise.resolve(this.#early.shift())
    if (this.#ended) return Promise.reject(this.#ended)
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }))
  }
}
