// The seven lessons. The page runs no command of a lesson: the reader does, and the page watches.
//
// A lesson has `steps`; each of them:
//
//   say    what to do, and why
//   do     commands ({region, line}), or links to cut or heal ({cut: [one, other]}); all may be
//          functions of `at`
//   until  whether it is done, from what the regions hold; may keep values in `at.noted`
//   told   what happened, once it is done
//   asks   commands that the page asks while it waits; their replies are in `at.answers`
//
// `at` is the place of the reader: see `At` in lessons.js. `at.a` and `at.b` are the first two
// regions, `at.c` the third.

const count = (names) => (names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names[0]);

// A step that cuts region a off from all others, and one that heals what is cut.
const cutOff = (why) => ({
  say: (at) => `Cut ${at.a} off from ${count(at.others)}. ${why}`,
  do: (at) => at.others.map((other) => ({ cut: [at.a, other] })),
  until: (at) => at.others.every((other) => at.isCut(at.a, other)),
  told: (at) => `${at.a} is on its own now. It goes on serving its clients, and so does every other region.`,
});
const heal = (say, until, told) => ({
  say,
  do: (at) => at.others.filter((other) => at.isCut(at.a, other)).map((other) => ({ heal: [at.a, other] })),
  until: (at) => at.others.every((other) => !at.isCut(at.a, other)) && until(at),
  told,
});
const add = (value) => (at) => `XADD ${at.key} * item ${value}`;

export const LESSONS = [
  {
    id: 1,
    title: "Two adds",
    aim: "Two regions write at the same time, and end with the same stream.",
    chapter: "03-region-logs",
    steps: [
      cutOff("Then the two cannot hear of each other's writes."),
      {
        say: (at) => `Add an entry in ${at.a}, and another one in ${at.b}.`,
        do: [{ region: "a", line: add("tea") }, { region: "b", line: add("milk") }],
        until: (at) => at.has("a", "tea") && at.has("b", "milk"),
        told: (at) => `${at.a} holds tea and lacks milk; ${at.b} holds milk and lacks tea. Both answered at once, because no region waits for another one.`,
      },
      heal(
        (at) => `Heal the links of ${at.a}.`,
        (at) => at.everywhere("tea") && at.everywhere("milk"),
        (at) => `Both regions hold both entries, in the order of their IDs: ${count(at.ids("tea", "milk"))}. No two regions ever generate the same ID, because the number after the dash tells the region: divided by 1000 it leaves ${at.number("a")} in ${at.a} and ${at.number("b")} in ${at.b}.`,
      ),
    ],
  },
  {
    id: 2,
    title: "Add meets delete",
    aim: "A delete removes what its region had seen, and nothing else: observed-remove.",
    chapter: "04-observed-remove",
    steps: [
      {
        say: "Add an entry. It travels to all regions.",
        do: [{ region: "a", line: add("old") }],
        until: (at) => at.everywhere("old"),
        told: (at) => `Every region holds it, as ${at.id("old")}.`,
      },
      cutOff("The delete and the add that follow are then concurrent: neither region knows of the other's."),
      {
        say: (at) => `Add an entry in ${at.b}, and delete the whole stream in ${at.a}.`,
        do: [{ region: "b", line: add("new") }, { region: "a", line: (at) => `DEL ${at.key}` }],
        until: (at) => at.has("b", "new") && !at.has("a", "old"),
        told: (at) => `In ${at.a} the stream is gone. In ${at.b} it holds old and new.`,
      },
      heal(
        (at) => `What shall become of new? Heal the links of ${at.a}, and see.`,
        (at) => at.everywhere("new") && at.names.every((name) => !at.has(name, "old")),
        (at) => `new stands in every region, and old in none. The delete carried the vector of ${at.a}, which says what ${at.a} had seen. It covers old. It does not cover new, so nobody's write was lost unseen.`,
      ),
    ],
    why: (at) => ({ region: at.a, id: at.id("new") }),
  },
  {
    id: 3,
    title: "Delete-wins groups",
    aim: "A consumer group that is destroyed in one region is destroyed in all.",
    chapter: "05-delete-wins",
    steps: [
      {
        say: "Make a group.",
        do: [{ region: "a", line: (at) => `XGROUP CREATE ${at.key} team 0 MKSTREAM` }],
        until: (at) => at.names.every((name) => at.group(name, "team")),
        told: "Groups travel, too: every region has it.",
      },
      cutOff("The group will be destroyed there, and used elsewhere."),
      {
        say: (at) => `Destroy the group in ${at.a}. In ${at.b}, add an entry and read it through the group.`,
        do: [
          { region: "a", line: (at) => `XGROUP DESTROY ${at.key} team` },
          { region: "b", line: add("job") },
          { region: "b", line: (at) => `XREADGROUP GROUP team ann STREAMS ${at.key} >` },
        ],
        until: (at) => !at.group(at.a, "team") && at.status("b", "job", "team") === "pending",
        told: (at) => `${at.b} does not know of the destroy, so it gave the entry to ann.`,
      },
      heal(
        (at) => `Heal the links of ${at.a}.`,
        (at) => at.names.every((name) => !at.group(name, "team")) && at.everywhere("job"),
        (at) => `The group is gone in ${at.b} as well, although it was in use there: a destroy wins against all use that it had not seen. The entry stays, because the destroy was of the group alone. Were it otherwise, a group could come back that an operator has removed.`,
      ),
      {
        say: (at) => `Make the group again, in ${at.b}.`,
        do: [{ region: "b", line: (at) => `XGROUP CREATE ${at.key} team 0` }],
        until: (at) => at.names.every((name) => at.group(name, "team")),
        told: (at) => `This create lives, because ${at.b} had seen the destroy before it.`,
      },
    ],
  },
  {
    id: 4,
    title: "Acknowledgements without a gap",
    aim: "Other regions hear of acknowledgements in runs that have no gap.",
    chapter: "07-acknowledgements",
    steps: [
      {
        say: "Make a group and three entries.",
        do: [
          { region: "a", line: (at) => `XGROUP CREATE ${at.key} team 0 MKSTREAM` },
          ...["one", "two", "three"].map((value) => ({ region: "a", line: add(value) })),
        ],
        until: (at) => at.names.every((name) => at.group(name, "team")) && ["one", "two", "three"].every(at.everywhere),
        told: "Every region has the group and the entries.",
      },
      {
        say: (at) => `Let ann read all three in ${at.a}.`,
        do: [{ region: "a", line: (at) => `XREADGROUP GROUP team ann STREAMS ${at.key} >` }],
        until: (at) => ["one", "two", "three"].every((value) => at.status("a", value, "team") === "pending"),
        told: (at) => `In ${at.a} they are pending for ann. ${at.b} hears nothing of that: who has what is kept by each region for itself.`,
      },
      {
        say: "Acknowledge the second and the third, but not the first.",
        do: [{ region: "a", line: (at) => `XACK ${at.key} team ${at.id("two")} ${at.id("three")}` }],
        until: (at) => ["two", "three"].every((value) => at.status("a", value, "team") === "done"),
        told: (at) => `The bars of two and three are hollow: acknowledged in ${at.a}, and not announced. one comes before them and is still pending, and only a run without a gap is announced. A reader in ${at.b} would get all three.`,
      },
      {
        say: "Acknowledge the first one.",
        do: [{ region: "a", line: (at) => `XACK ${at.key} team ${at.id("one")}` }],
        until: (at) => ["one", "two", "three"].every((value) => at.names.every((name) => at.status(name, value, "team") === "acked")),
        told: (at) => `The gap is closed. One announcement, two numbers long, told all regions of all three. ${at.b} will never deliver them to this group.`,
      },
    ],
  },
  {
    id: 5,
    title: "Retries that add once",
    aim: "A producer that repeats an add, even in another region, leaves one entry.",
    chapter: "08-retries",
    steps: [
      {
        say: "Add an entry with an idempotency pair: the producer is shop, and its request is order-1.",
        do: [{ region: "a", line: (at) => `XADD ${at.key} IDMP shop order-1 * item tea` }],
        until: (at) => at.everywhere("tea"),
        told: (at) => `The pair travels with the entry, so ${at.b} knows it, too.`,
      },
      {
        say: (at) => `Suppose that the answer was lost. The producer repeats its request, in ${at.b}.`,
        do: [{ region: "b", line: (at) => `XADD ${at.key} IDMP shop order-1 * item tea` }],
        until: (at) => at.ran?.region === at.b && at.ran.lines.join().includes(at.id("tea")) && /\bIDMP shop order-1\b/.test(at.ran.line),
        told: (at) => `${at.b} answered with the ID of the first entry, ${at.id("tea")}, and added nothing.`,
      },
      cutOff("Now the regions cannot tell each other of pairs."),
      {
        say: (at) => `Send one request to ${at.a} and to ${at.b}, as a producer does that fails over.`,
        do: ["a", "b"].map((region) => ({ region, line: (at) => `XADD ${at.key} IDMP shop order-2 * item jam` })),
        until: (at) => at.rows("jam").length === 2,
        told: (at) => `Each region added an entry, ${count(at.ids("jam"))}, because neither knew of the other.`,
      },
      heal(
        (at) => `Heal the links of ${at.a}.`,
        (at) => {
          const stays = (row, name) => row.in[name]?.state === "present";
          const left = at.rows("jam").filter((row) => at.names.some((name) => stays(row, name)));
          return left.length === 1 && at.names.every((name) => stays(left[0], name));
        },
        (at) => `All regions kept ${at.rows("jam").find((row) => row.in[at.a]?.state === "present").id}, the entry with the lower ID, and the region that had added the other one removed it. This is a rule and no vote, so every region comes to the same end by itself.`,
      ),
    ],
  },
  {
    id: 6,
    title: "Expiry",
    aim: "Of two deadlines that were set at the same time, the longer one wins.",
    chapter: "09-expiry",
    steps: [
      {
        say: "Add an entry.",
        do: [{ region: "a", line: add("tea") }],
        until: (at) => at.everywhere("tea"),
        told: "Every region holds it.",
      },
      cutOff("Two deadlines are set that do not know of each other."),
      {
        say: (at) => `Let the stream expire in ${at.a} after three seconds, and in ${at.b} after an hour.`,
        do: [
          { region: "b", line: (at) => `PEXPIRE ${at.key} 3600000` },
          { region: "a", line: (at) => `PEXPIRE ${at.key} 3000` },
        ],
        asks: (at) => [at.a, at.b].map((region) => ({ region, line: `PTTL ${at.key}` })),
        until: (at) => at.integer(0) === -2 && at.integer(1) > 60_000,
        told: (at) => `The three seconds are over. ${at.a} hides the stream, and ${at.b} shows it.`,
      },
      heal(
        (at) => `Heal the links of ${at.a}.`,
        (at) => at.has("a", "tea"),
        (at) => `The entry is back in ${at.a}. The longest deadline wins. ${at.a} had only hidden the stream: a region removes an expired stream when it knows that all others hold that deadline, and that their clocks have passed it.`,
      ),
      {
        say: (at) => `Set a shorter deadline now, in ${at.b}.`,
        do: [{ region: "b", line: (at) => `PEXPIRE ${at.key} 2000` }],
        asks: (at) => at.names.map((region) => ({ region, line: `PTTL ${at.key}` })),
        until: (at) => at.names.every((_, index) => at.integer(index) === -2),
        told: "This time the stream is gone everywhere: a new deadline replaces those that its region had seen.",
      },
    ],
  },
  {
    id: 7,
    title: "A partition of three",
    aim: "Effects take every way that is open, and a region that is cut off catches up.",
    chapter: "03-region-logs",
    regions: 3,
    steps: [
      {
        say: (at) => `Cut the link between ${at.a} and ${at.b}, and leave ${at.c} with both.`,
        do: [{ cut: ["a", "b"] }],
        until: (at) => at.isCut(at.a, at.b) && !at.isCut(at.a, at.c) && !at.isCut(at.b, at.c),
        told: (at) => `${at.a} and ${at.b} do not speak to each other. Both speak to ${at.c}.`,
      },
      {
        say: (at) => `Add an entry in ${at.a}.`,
        do: [{ region: "a", line: add("detour") }],
        until: (at) => at.has("b", "detour"),
        told: (at) => `${at.b} has it, by way of ${at.c}. A region passes on what it gets, and nobody applies an effect twice.`,
      },
      {
        say: (at) => `Cut ${at.a} off from ${at.c} as well.`,
        do: [{ cut: ["a", "c"] }],
        until: (at) => at.isCut(at.a, at.b) && at.isCut(at.a, at.c),
        told: (at) => `Now the cluster has two sides: ${at.a}, and ${at.b} with ${at.c}.`,
      },
      {
        say: "Write on both sides.",
        do: [{ region: "a", line: add("island") }, { region: "b", line: add("mainland") }],
        until: (at) => at.has("a", "island") && at.has("b", "mainland") && at.has("c", "mainland"),
        told: (at) => `There is no majority that may write and no minority that may not. ${at.c} has what ${at.b} wrote, and ${at.a} has its own.`,
      },
      {
        say: (at) => `Heal the link between ${at.a} and ${at.c} only.`,
        do: [{ heal: ["a", "c"] }],
        until: (at) => !at.isCut(at.a, at.c) && ["island", "mainland"].every(at.everywhere),
        told: (at) => `One link is enough. ${at.a} asked for what its vector lacked, and got that and nothing else.`,
      },
      {
        say: (at) => `Heal the last link, between ${at.a} and ${at.b}.`,
        do: [{ heal: ["a", "b"] }],
        until: (at) => !at.isCut(at.a, at.b),
        told: "All regions have applied the same effects. The line at the top says so.",
      },
    ],
  },
];
