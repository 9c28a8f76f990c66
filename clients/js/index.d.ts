/** Options of a cluster. */
export interface Options {
  /** The number of simulated nodes; 3 by default. */
  nodes?: number
  /** As `--controllers` of kube-controller-manager; all by default. */
  controllers?: string[]
  /** What the clock shows first, such as `2026-03-01T12:00:00Z`; the last full hour by default. */
  startingAt?: string
  /** Further flags of kube-controller-manager. */
  managerFlags?: string[]
  /** The program; `$FLYBALL_BIN`, or `flyball` of `PATH`, by default. */
  binary?: string
}

export interface Duration {
  days?: number
  hours?: number
  minutes?: number
  seconds?: number
}

export class ClusterError extends Error {}

export interface Cluster {
  readonly server: string
  /** The path of a kubeconfig. */
  readonly kubeconfig: string
  /** The kubeconfig as an object. */
  readonly config: any
  /** Options of `https.request` and `https.Agent` for the cluster's administrator. */
  readonly tls: { ca: Buffer; cert: Buffer; key: Buffer }
  now(): Promise<Date>
  /** Moves the clock; what becomes due happens, in order. */
  advance(by: Duration): Promise<Date>
  /** Waits until the cluster has no work. */
  settled(): Promise<Date>
  /** Applies YAML, JSON or an object; what the server made of each object. */
  apply(manifests: string | object): Promise<any[]>
  /** An object, or null. The name is `name`, in the namespace `default`, or `namespace/name`. */
  get(kind: string, name: string): Promise<any | null>
  /** Deletes an object and what it owns; whether it existed. */
  delete(kind: string, name: string): Promise<boolean>
  /** Why an object is as it is. */
  why(kind: string, name: string): Promise<string>
  /** Waits until an object is as `holds` says; `patience` is in real milliseconds. */
  until(kind: string, name: string, holds: (object: any) => unknown, options?: { patience?: number }): Promise<any>
  stop(): Promise<void>
}

export function start(options?: Options): Promise<Cluster>
