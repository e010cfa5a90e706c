// kafkajs behind lines of JSON on standard input and output; see ../drivers/lines.py.
//
// kafkajs reads only through a consumer group. Reading by assignment therefore goes through its own cluster and
// broker objects, the ones its group consumer calls: the same requests, decoders and decompression.

const readline = require('readline')
const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = require('kafkajs')
const Cluster = require('kafkajs/src/cluster')
const Batch = require('kafkajs/src/consumer/batch')
const socketFactory = require('kafkajs/src/network/socketFactory')
const snappy = require('kafkajs-snappy')
const lz4 = require('lz4-napi')
const { ZstdCodec } = require('zstd-codec')

const brokers = process.argv[2].split(',')
const LATEST = -1
const EARLIEST = -2
const UNKNOWN = -1

const kafka = new Kafka({ clientId: 'kafkajs', brokers, logLevel: logLevel.NOTHING, retry: { retries: 3 } })
const admin = kafka.admin()
const readers = new Map()
let cluster

const bytes = text => (text === null ? null : Buffer.from(text, 'base64'))
const text = raw => (raw === null || raw === undefined ? null : Buffer.from(raw).toString('base64'))

const leaderOf = async (topic, partition) => {
  await cluster.addTargetTopic(topic)
  await cluster.refreshMetadata()
  const found = cluster.findTopicPartitionMetadata(topic).find(row => row.partitionId === partition)
  return cluster.findBroker({ nodeId: String(found.leader) })
}

const listOffset = async (topic, partition, timestamp) => {
  const broker = await leaderOf(topic, partition)
  const { responses } = await broker.listOffsets({ topics: [{ topic, partitions: [{ partition, timestamp }] }] })
  return Number(responses[0].partitions[0].offset)
}

const headersOf = pairs => {
  const headers = {}
  for (const [name, value] of pairs) {
    headers[name] = name in headers ? [].concat(headers[name], bytes(value)) : bytes(value)
  }
  return headers
}

const calls = {
  async produce({ topic, partition, codec, acks, idempotent, records }) {
    const names = { none: 'None', gzip: 'GZIP', snappy: 'Snappy', lz4: 'LZ4', zstd: 'ZSTD' }
    const producer = kafka.producer({ idempotent, createPartitioner: () => () => partition })
    await producer.connect()
    try {
      const messages = records.map(({ key, value, headers, timestamp_ms: timestamp }) => ({
        key: bytes(key),
        value: bytes(value),
        partition,
        headers: headersOf(headers),
        ...(timestamp === null ? {} : { timestamp: String(timestamp) }),
      }))
      const [answer] = await producer.send({ topic, acks, compression: CompressionTypes[names[codec]], messages })
      return records.map((_, index) => (acks === 0 ? -1 : Number(answer.baseOffset) + index))
    } finally {
      await producer.disconnect()
    }
  },

  async open({ topic, partition, offset, at_ms: atMs }) {
    const logical = offset === LATEST || offset === EARLIEST
    const place = atMs !== undefined ? await listOffset(topic, partition, atMs) : offset
    const start = logical ? await listOffset(topic, partition, offset) : place
    readers.set(readers.size + 1, { topic, partition, offset: start, broker: await leaderOf(topic, partition) })
    return readers.size
  },

  async poll({ reader, timeout_ms: timeoutMs }) {
    const place = readers.get(reader)
    const { topic, partition, broker } = place
    for (const deadline = Date.now() + timeoutMs; Date.now() < deadline; ) {
      const fetchOffset = String(place.offset)
      const { responses } = await broker.fetch({
        maxWaitTime: Math.min(200, Math.max(1, deadline - Date.now())),
        minBytes: 1,
        maxBytes: 10485760,
        isolationLevel: 0,
        topics: [{ topic, partitions: [{ partition, fetchOffset, maxBytes: 1048576 }] }],
      })
      const data = responses.flatMap(row => row.partitions).find(row => row.partition === partition)
      const { messages } = new Batch(topic, fetchOffset, data)
      if (messages.length) {
        place.offset = Number(messages[messages.length - 1].offset) + 1
        return messages.map(({ offset, key, value, headers, timestamp }) => ({
          offset: Number(offset),
          key: text(key),
          value: text(value),
          headers: Object.entries(headers).flatMap(([name, value]) => [].concat(value).map(each => [name, text(each)])),
          timestamp_ms: Number(timestamp),
        }))
      }
    }
    return []
  },

  async close({ reader }) {
    readers.get(reader).closed = true
    return null
  },

  list_offset: ({ topic, partition, timestamp }) => listOffset(topic, partition, timestamp),

  async create_topic({ topic, partitions, replicas, configs }) {
    const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
    const wanted = { topic, numPartitions: partitions, replicationFactor: replicas, configEntries }
    const isCreated = await admin.createTopics({ topics: [wanted] })
    if (!isCreated) throw Object.assign(new Error('the topic exists'), { code: 36 }) // kafkajs makes it a false.
    return null
  },

  delete_topic: async ({ topic }) => (await admin.deleteTopics({ topics: [topic], timeout: 5000 })) || null,

  create_partitions: async ({ topic, total }) =>
    (await admin.createPartitions({ topicPartitions: [{ topic, count: total }] })) || null,

  async delete_records({ topic, partition, before_offset: offset }) {
    await admin.fetchTopicOffsets(topic) // or it says that the topic's metadata are not loaded
    await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(offset) }] })
    return null
  },

  list_topics: () => admin.listTopics(),

  async describe_topic({ topic }) {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    return topics[0].partitions
      .map(({ partitionId: index, leader, replicas, isr }) => ({ index, leader, replicas, in_sync: isr }))
      .sort((one, other) => one.index - other.index)
  },

  async describe_cluster() {
    const { brokers, controller, clusterId } = await admin.describeCluster()
    const named = Object.fromEntries(brokers.map(({ nodeId, host, port }) => [nodeId, `${host}:${port}`]))
    return { cluster_id: clusterId, controller, brokers: named }
  },

  async describe_configs({ topic, broker }) {
    const type = topic === undefined ? ConfigResourceTypes.BROKER : ConfigResourceTypes.TOPIC
    const name = topic === undefined ? String(broker) : topic
    const { resources } = await admin.describeConfigs({ includeSynonyms: false, resources: [{ type, name }] })
    return Object.fromEntries(resources[0].configEntries.map(({ configName, configValue }) => [configName, configValue]))
  },

  list_groups: async () => (await admin.listGroups()).groups.map(({ groupId }) => groupId),

  async describe_group({ group }) {
    const { groups } = await admin.describeGroups([group])
    return { state: groups[0].state, assignor: groups[0].protocol, members: groups[0].members.length }
  },

  async group_offsets({ group, topic }) {
    const [found] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
    const committed = found.partitions.filter(({ offset }) => offset !== '-1')
    return Object.fromEntries(committed.map(({ partition, offset }) => [partition, Number(offset)]))
  },

  async set_group_offsets({ group, topic, offsets }) {
    const partitions = Object.entries(offsets).map(([index, offset]) => ({ partition: Number(index), offset: String(offset) }))
    await admin.setOffsets({ groupId: group, topic, partitions })
    return null
  },

  delete_group: async ({ group }) => (await admin.deleteGroups([group])) && null,

  async replace_configs({ topic, configs }) {
    const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
    const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }]
    await admin.alterConfigs({ validateOnly: false, resources })
    return null
  },
}

const codeOf = error => {
  if (typeof error.code === 'number') return error.code
  const inner = error.cause || (error.errors && error.errors[0]) || (error.partitions && error.partitions[0].error) ||
    (error.groups && error.groups[0].error)
  return inner ? codeOf(inner) : UNKNOWN
}

const main = async () => {
  const zstd = await new Promise(resolve => ZstdCodec.run(resolve))
  const zstdStream = new zstd.Streaming()
  CompressionCodecs[CompressionTypes.Snappy] = snappy
  CompressionCodecs[CompressionTypes.LZ4] = () => ({
    compress: async encoder => lz4.compressFrame(encoder.buffer),
    decompress: async buffer => lz4.decompressFrame(buffer),
  })
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: async encoder => Buffer.from(zstdStream.compress(encoder.buffer)),
    decompress: async buffer => Buffer.from(zstdStream.decompress(buffer)),
  })
  cluster = new Cluster({
    logger: kafka.logger(),
    socketFactory: socketFactory(),
    brokers,
    clientId: 'kafkajs',
    connectionTimeout: 1000,
    requestTimeout: 30000,
    metadataMaxAge: 300000,
    allowAutoTopicCreation: false,
    maxInFlightRequests: null,
    isolationLevel: 0,
    retry: { retries: 3 },
    offsets: new Map(),
  })
  await Promise.all([admin.connect(), cluster.connect()])
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { id, call, ...given } = JSON.parse(line)
    let answer
    try {
      answer = { id, result: await calls[call](given) }
    } catch (error) {
      answer = { id, code: codeOf(error), message: String(error.stack) }
    }
    process.stdout.write(JSON.stringify(answer) + '\n')
  }
  await Promise.all([admin.disconnect(), cluster.disconnect()])
}

main()
