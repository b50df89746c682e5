// node-redis: `node node_redis.js 4|5 WRITER-PORT READER-PORT` prints JSON.
"use strict";

const { main } = require("./scenario");

const major = process.argv[2];
const redis = require(`node-redis-${major}`);
const { version } = require(`node-redis-${major}/package.json`);

const entries = (messages) =>
  (messages ?? []).map(({ id, message }) => {
    const [[field, value]] = Object.entries(message);
    return [id.toString(), field, value];
  });
// Reads return a list of streams with their messages.
const ofOneStream = (reply) => entries(reply?.[0].messages);

class Library {
  constructor(client) {
    this.client = client;
    if (major === "4") {
      // Version 4 takes an option with each command for replies that are Buffers.
      const buffers = redis.commandOptions({ returnBuffers: true });
      this.bytes = (name, ...words) => client[name](buffers, ...words);
    } else {
      const mapped = client.withTypeMapping({ [redis.RESP_TYPES.BLOB_STRING]: Buffer });
      this.bytes = (name, ...words) => mapped[name](...words);
    }
  }

  createGroup = (key, group) => this.client.xGroupCreate(key, group, "0", { MKSTREAM: true });
  wait = (peers, timeout) =>
    major === "4"
      ? this.client.sendCommand(["WAIT", `${peers}`, `${timeout}`])
      : this.client.wait(peers, timeout);
  add = (key, field, value) => this.client.xAdd(key, "*", { [field]: value });
  acknowledge = (key, group, ids) => this.client.xAck(key, group, ids);
  length = (key) => this.client.xLen(key);
  range = async (key) => entries(await this.bytes("xRange", key, "-", "+"));
  newest = async (key) => entries(await this.bytes("xRevRange", key, "+", "-", { COUNT: 1 }));
  clientId = () => this.client.clientId();
  kill = (id) => this.client.clientKill({ filter: "ID", id });

  async readGroup(key, group, consumer, { block, count }) {
    const stream = { key, id: ">" };
    const options = { BLOCK: block, COUNT: count };
    return ofOneStream(await this.bytes("xReadGroup", group, consumer, stream, options));
  }

  async readNew(key, block) {
    return ofOneStream(await this.bytes("xRead", { key, id: "$" }, { BLOCK: block }));
  }

  // Commands that are sent in one turn of the loop make one pipeline.
  pipeline(key, values) {
    return Promise.all(values.map((value) => this.add(key, "n", value)));
  }

  transaction(key, value) {
    return this.client.multi().xAdd(key, "*", { n: value }).xLen(key).exec();
  }

  async pending(key, group) {
    const { pending, consumers } = await this.client.xPending(key, group);
    const counts = (consumers ?? []).map((one) => [one.name, one.deliveriesCounter]);
    return { count: pending, consumers: Object.fromEntries(counts) };
  }

  async deliveries(key, group) {
    const all = await this.client.xPendingRange(key, group, "-", "+", 10);
    // Version 4 calls the consumer the owner.
    return all.map((one) => `${one.consumer ?? one.owner} ${one.deliveriesCounter}`);
  }

  async autoClaim(key, group, consumer, start, count) {
    const options = { COUNT: count };
    const reply = await this.bytes("xAutoClaim", key, group, consumer, 0, start, options);
    return { cursor: reply.nextId.toString(), entries: entries(reply.messages) };
  }

  // Version 4 yields keys, version 5 lists of keys.
  async *scan(match, count) {
    for await (const found of this.client.scanIterator({ MATCH: match, COUNT: count })) {
      yield* [found].flat();
    }
  }
}

async function connect(port) {
  const client = redis.createClient({ url: `redis://127.0.0.1:${port}` });
  // Without a listener, a lost connection would end the process.
  client.on("error", () => {});
  return new Library(await client.connect());
}

main("node-redis", version, connect);
