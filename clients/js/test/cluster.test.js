import assert from 'node:assert/strict'
import https from 'node:https'
import { test } from 'node:test'

import { start } from '../index.js'

const cronJob = {
  apiVersion: 'batch/v1',
  kind: 'CronJob',
  metadata: { name: 'report' },
  spec: {
    schedule: '0 * * * *',
    jobTemplate: {
      spec: { template: { spec: { restartPolicy: 'Never', containers: [{ name: 'c', image: 'report' }] } } },
    },
  },
}

async function withCluster(options, work) {
  const cluster = await start(options)
  try {
    await work(cluster)
  } finally {
    await cluster.stop()
  }
}

test('a CronJob fires when the clock is moved', () =>
  withCluster({ nodes: 1, startingAt: '2026-03-01T12:00:00Z' }, async (cluster) => {
    await cluster.apply(cronJob)
    assert.equal((await cluster.get('cronjob', 'report')).status?.lastScheduleTime, undefined)
    assert.equal((await cluster.advance({ hours: 1 })).getUTCHours(), 13)
    const job = await cluster.until('cronjob', 'report', (job) => job.status.lastSuccessfulTime)
    assert.equal(job.status.lastScheduleTime, '2026-03-01T13:00:00Z')
  }))

test('clients over HTTPS, and answers to concurrent requests', () =>
  withCluster({}, async (cluster) => {
    await cluster.apply('{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: v}}')
    const body = await new Promise((resolve, reject) => {
      const url = `${cluster.server}/api/v1/namespaces/default/configmaps/a`
      https
        .get(url, { ...cluster.tls, agent: false }, (response) => {
          response.setEncoding('utf8')
          let text = ''
          response.on('data', (part) => (text += part))
          response.on('end', () => resolve(JSON.parse(text)))
        })
        .on('error', reject)
    })
    assert.deepEqual(body.data, { k: 'v' })
    const [map, gone, node] = await Promise.all([
      cluster.get('cm', 'default/a'),
      cluster.get('cm', 'b'),
      cluster.get('node', 'node-1'),
    ])
    assert.deepEqual([map.metadata.name, gone, node.metadata.name], ['a', null, 'node-1'])
    await assert.rejects(cluster.get('widget', 'a'), /no kind "widget"/)
    assert.deepEqual([await cluster.delete('cm', 'a'), await cluster.delete('cm', 'a')], [true, false])
  }))

test('a failure says why', () =>
  withCluster({}, async (cluster) => {
    await cluster.apply(
      '{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {nodeSelector: {disk: fast}, containers: [{name: c, image: x}]}}',
    )
    const running = cluster.until('pod', 'a', (pod) => pod.status.phase === 'Running', { patience: 0 })
    await assert.rejects(running, /didn't match Pod's node affinity\/selector/)
  }))

test('a stopped cluster and a missing program', async () => {
  const cluster = await start({ nodes: 0 })
  await cluster.stop()
  await cluster.stop()
  await assert.rejects(cluster.now(), /has stopped/)
  await assert.rejects(start({ binary: '/no/such/program' }), /FLYBALL_BIN/)
  await assert.rejects(start({ controllers: ['no-such-controller'] }), /ended with code 1/)
})
