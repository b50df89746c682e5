// The scenario of tests/clients (see its __init__.py) over a library of Node.js.
//
// A library is an object with an async method for each command. Entries are [id, field, value],
// with the value as a Buffer.
"use strict";

const { createHash } = require("node:crypto");
const { setTimeout: sleep } = require("node:timers/promises");

const RAW = Buffer.from([255, 254, 0, 195, 40, 13, 10]);
const BIG = Buffer.from("0123456789".repeat(10000));
const GROUP = "workers";

function shown([, field, value]) {
  const hashed = () => createHash("sha256").update(value).digest("hex");
  return `${field} ${value.length > 100 ? hashed() : value.toString("hex")}`;
}

async function kindOfError(promise) {
  try {
    await promise;
  } catch (error) {
    return error.message.split(" ")[0];
  }
  return "no error";
}

async function begin({ writer, reader, key, peers, seen }) {
  seen["created"] = await writer.createGroup(key, GROUP);
  seen["created again"] = await kindOfError(writer.createGroup(key, GROUP));
  seen["no group"] = await kindOfError(writer.readGroup(key, "nobody", "ann", {}));
  const first = await writer.add(key, "big", BIG);
  seen["waited"] = await writer.wait(peers, 10000);
  seen["first"] = (await reader.readGroup(key, GROUP, "ann", { count: 1 })).map(shown);

  const waiting = reader.readGroup(key, GROUP, "ann", { block: 20000, count: 1 });
  await sleep(300);
  const id = await writer.add(key, "raw", RAW);
  const got = await waiting;
  seen["woken"] = got.map(shown);
  seen["woken by"] = got[0][0] === id ? "what was added" : got[0][0];
  return [first, id];
}

async function addAndRead({ writer, reader, key, peers, added, seen }) {
  added.push(...(await writer.pipeline(key, ["0", "1", "2", "3"])));
  const [id, length] = await writer.transaction(key, "4");
  added.push(id);
  seen["length in transaction"] = length;
  added.push(await writer.add(key, "n", "5"));
  await writer.wait(peers, 10000);

  const got = await reader.readGroup(key, GROUP, "ann", { count: 100 });
  seen["read"] = got.map(shown);
  seen["read in order"] = got.map((entry) => entry[0]).join() === added.slice(2).join();
  seen["acknowledged"] = await reader.acknowledge(key, GROUP, added.slice(0, 3));
}

async function claim({ reader, key, added, seen }) {
  const summary = await reader.pending(key, GROUP);
  seen["pending"] = summary.count;
  seen["consumers"] = summary.consumers;
  seen["delivered"] = await reader.deliveries(key, GROUP);
  let cursor = "0-0";
  seen["claimed"] = [];
  for (let call = 0; call < 2; call++) {
    const reply = await reader.autoClaim(key, GROUP, "bob", cursor, 3);
    cursor = reply.cursor;
    seen["claimed"].push(reply.entries.map(shown));
  }
  seen["last cursor"] = cursor;
  seen["delivered again"] = await reader.deliveries(key, GROUP);
  await reader.acknowledge(key, GROUP, added.slice(3));
  seen["left"] = (await reader.pending(key, GROUP)).count;
}

async function look({ reader, key, seen }) {
  seen["range"] = (await reader.range(key)).map(shown);
  seen["newest"] = (await reader.newest(key)).map(shown);
  seen["length"] = await reader.length(key);

  const begun = performance.now();
  const ofGroup = await reader.readGroup(key, GROUP, "ann", { block: 200 });
  const ofStream = await reader.readNew(key, 200);
  const waited = performance.now() - begun > 380;
  seen["timed out"] = waited && ofGroup.length === 0 && ofStream.length === 0;

  const keys = [];
  for await (const found of reader.scan("scanned:*", 10)) {
    keys.push(found);
    if (keys.length > 10000) throw new Error("the scan does not end");
  }
  seen["scanned"] = keys.length;
  seen["distinct"] = new Set(keys).size;
}

async function reconnect({ reader, other, key, seen }) {
  seen["killed"] = await other.kill(await reader.clientId());
  for (let attempt = 0; attempt < 50; attempt++) {
    try {
      seen["length after the kill"] = await reader.length(key);
      return;
    } catch {
      await sleep(100);
    }
  }
}

// Runs the scenario with the ports of the command line; `connect` makes a client of a port.
async function main(library, version, connect) {
  const [writerPort, readerPort] = process.argv.slice(-2).map(Number);
  const run = {
    writer: await connect(writerPort),
    reader: await connect(readerPort),
    other: await connect(readerPort),
    key: Buffer.concat([Buffer.from(`clients:${library}:${process.argv[2]}:`), RAW]),
    peers: writerPort === readerPort ? 0 : 1,
    seen: {},
  };
  run.added = await begin(run);
  await addAndRead(run);
  await claim(run);
  await look(run);
  await reconnect(run);
  console.log(JSON.stringify({ library: `${library} ${version}`, ...run.seen }));
  process.exit(0);
}

module.exports = { main };
