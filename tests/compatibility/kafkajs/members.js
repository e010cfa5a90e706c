// Members of groups and transactional producers of kafkajs behind lines of JSON; see ../members.py.

const readline = require('readline')
const { Kafka, PartitionAssigners, logLevel } = require('kafkajs')

const kafka = new Kafka({
  clientId: 'kafkajs',
  brokers: process.argv[2].split(','),
  logLevel: logLevel.NOTHING,
  retry: { retries: 5, initialRetryTime: 100 },
})
const admin = kafka.admin()
const members = []
const producers = []
const UNKNOWN = -1

// Its own assigner under the name the others' goes by, so that they can share a group.
const range = context => ({ ...PartitionAssigners.roundRobin(context), name: 'range' })

const byTopic = (rows, each) => {
  const topics = new Map()
  for (const [topic, ...rest] of rows) topics.set(topic, [...(topics.get(topic) || []), each(...rest)])
  return [...topics]
}

const calls = {
  async join({ group, topics, pattern, isolation, auto_commit: autoCommit, session_ms: sessionTimeout }) {
    const consumer = kafka.consumer({
      groupId: group,
      partitionAssigners: [range],
      sessionTimeout,
      heartbeatInterval: 300,
      maxWaitTimeInMs: 100,
      metadataMaxAge: 1000,
      readUncommitted: isolation === 'read_uncommitted',
    })
    const member = { consumer, group, read: new Map(), assigned: [], records: [], events: [], error: null }
    const { GROUP_JOIN, REBALANCING, CRASH } = consumer.events
    consumer.on(GROUP_JOIN, ({ payload: { memberAssignment } }) => {
      member.assigned = Object.entries(memberAssignment).flatMap(([topic, each]) => each.map(index => [topic, index]))
      member.events.push(['assigned', member.assigned])
    })
    consumer.on(REBALANCING, () => member.events.push(['revoked', member.assigned]))
    consumer.on(CRASH, ({ payload: { error } }) => (member.error = codeOf(error)))
    await consumer.connect()
    await consumer.subscribe({ topics: topics || [new RegExp(pattern)], fromBeginning: true })
    await consumer.run({
      autoCommit,
      eachMessage: async ({ topic, partition, message: { offset, value } }) => {
        member.records.push([topic, partition, Number(offset), String(value)])
        member.read.set(`${topic} ${partition}`, [topic, partition, Number(offset) + 1])
      },
    })
    return members.push(member) - 1
  },

  async state({ member }) {
    const { assigned, events, error, records } = members[member]
    members[member].records = []
    return { assigned, events, error, records }
  },

  async commit({ member, offsets }) {
    const rows = offsets || [...members[member].read.values()]
    const wanted = rows.map(([topic, partition, offset, metadata]) => ({
      topic,
      partition,
      offset: String(offset),
      metadata: metadata || '',
    }))
    await members[member].consumer.commitOffsets(wanted)
    return null
  },

  async committed({ member, topic, partition }) {
    const [found] = await admin.fetchOffsets({ groupId: members[member].group, topics: [topic] })
    const row = found.partitions.find(each => each.partition === partition)
    return row.offset === '-1' ? null : [Number(row.offset), row.metadata || '']
  },

  async seek({ member, topic, partition, offset }) {
    members[member].consumer.seek({ topic, partition, offset: String(offset) })
    return null
  },

  async pause({ member, places }) {
    members[member].consumer.pause(byTopic(places, index => index).map(([topic, partitions]) => ({ topic, partitions })))
    return null
  },

  async resume({ member, places }) {
    members[member].consumer.resume(byTopic(places, index => index).map(([topic, partitions]) => ({ topic, partitions })))
    return null
  },

  async leave({ member }) {
    await members[member].consumer.disconnect()
    return null
  },

  async open_producer({ transactional_id: transactionalId, timeout_ms: transactionTimeout }) {
    const producer = kafka.producer({ transactionalId, transactionTimeout, maxInFlightRequests: 1, idempotent: true })
    await producer.connect()
    return producers.push({ producer }) - 1
  },

  async begin({ producer }) {
    producers[producer].transaction = await producers[producer].producer.transaction()
    return null
  },

  async send({ producer, topic, partition, values }) {
    const messages = values.map(value => ({ value, partition }))
    await producers[producer].transaction.send({ topic, messages })
    return null
  },

  async send_offsets({ producer, member, offsets }) {
    const topics = byTopic(offsets, (partition, offset) => ({ partition, offset: String(offset) }))
    await producers[producer].transaction.sendOffsets({
      consumerGroupId: members[member].group,
      topics: topics.map(([topic, partitions]) => ({ topic, partitions })),
    })
    return null
  },

  commit_transaction: async ({ producer }) => (await producers[producer].transaction.commit()) || null,

  abort_transaction: async ({ producer }) => (await producers[producer].transaction.abort()) || null,
}

const codeOf = error => {
  if (typeof error.code === 'number') return error.code
  const inner = error.cause || (error.errors && error.errors[0])
  return inner ? codeOf(inner) : UNKNOWN
}

const main = async () => {
  await admin.connect()
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
  process.exit(0)
}

main()
