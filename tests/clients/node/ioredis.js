// ioredis: `node ioredis.js plain|autopipelining WRITER-PORT READER-PORT` prints JSON.
"use strict";

const { Redis } = require("ioredis");
const { version } = require("ioredis/package.json");
const { main } = require("./scenario");

const enableAutoPipelining = process.argv[2] === "autopipelining";

const entries = (list) =>
  (list ?? []).map(([id, [field, value]]) => [id.toString(), field.toString(), value]);
const ofOneStream = (reply) => entries(reply?.[0][1]);

// Replies of a pipeline or transaction are pairs of error and result.
const results = (replies) =>
  replies.map(([error, result]) => {
    if (error) throw error;
    return result;
  });

class Library {
  constructor(client) {
    this.client = client;
  }

  createGroup = (key, group) => this.client.xgroup("CREATE", key, group, "0", "MKSTREAM");
  wait = (peers, timeout) => this.client.wait(peers, timeout);
  add = (key, field, value) => this.client.xadd(key, "*", field, value);
  acknowledge = (key, group, ids) => this.client.xack(key, group, ...ids);
  length = (key) => this.client.xlen(key);
  range = async (key) => entries(await this.client.xrangeBuffer(key, "-", "+"));
  newest = async (key) =>
    entries(await this.client.xrevrangeBuffer(key, "+", "-", "COUNT", 1));
  clientId = () => this.client.client("ID");
  kill = (id) => this.client.client("KILL", "ID", id);

  async readGroup(key, group, consumer, { block, count }) {
    const options = [];
    if (count !== undefined) options.push("COUNT", count);
    if (block !== undefined) options.push("BLOCK", block);
    const words = ["GROUP", group, consumer, ...options, "STREAMS", key, ">"];
    return ofOneStream(await this.client.xreadgroupBuffer(...words));
  }

  async readNew(key, block) {
    return ofOneStream(await this.client.xreadBuffer("BLOCK", block, "STREAMS", key, "$"));
  }

  async pipeline(key, values) {
    if (enableAutoPipelining) {
      return Promise.all(values.map((value) => this.add(key, "n", value)));
    }
    const pipeline = this.client.pipeline();
    values.forEach((value) => pipeline.xadd(key, "*", "n", value));
    return results(await pipeline.exec());
  }

  async transaction(key, value) {
    return results(await this.client.multi().xadd(key, "*", "n", value).xlen(key).exec());
  }

  async pending(key, group) {
    const [count, , , consumers] = await this.client.xpending(key, group);
    const counts = (consumers ?? []).map(([name, number]) => [name, Number(number)]);
    return { count, consumers: Object.fromEntries(counts) };
  }

  async deliveries(key, group) {
    const all = await this.client.xpending(key, group, "-", "+", 10);
    return all.map(([, consumer, , times]) => `${consumer} ${times}`);
  }

  async autoClaim(key, group, consumer, start, count) {
    const words = [key, group, consumer, 0, start, "COUNT", count];
    const [cursor, claimed] = await this.client.xautoclaimBuffer(...words);
    return { cursor: cursor.toString(), entries: entries(claimed) };
  }

  async *scan(match, count) {
    for await (const keys of this.client.scanStream({ match, count })) yield* keys;
  }
}

async function connect(port) {
  return new Library(new Redis({ port, enableAutoPipelining }));
}

main("ioredis", version, connect);
