// The bars of groups beside the lanes: which entries of a region log a group has handed out, and
// which are acknowledged. A bar is continuous where neighbours in the log have the same state.

import { own } from "./dom.js";

const SPANS = ["acked", "done", "below"];
export const WORDS = {
  acked: "acknowledged everywhere",
  done: "acknowledged here, not announced yet",
  pending: "pending",
  dropped: "dropped with its consumer",
  below: "below the start of the group",
  open: "not handed out yet",
};

// rows × lanes of one view → for each row and lane a list of [group, state], one for each group.
export function barsOf(rows, view, lanes, groups) {
  const made = rows.map(() => new Map(lanes.map((lane) => [lane, []])));
  for (const lane of lanes) {
    for (const group of groups) {
      let last = -1;
      let lastState = "";
      rows.forEach((row, index) => {
        const mine = row.dot[0] === lane ? own(row.in[view]?.groups, group) : undefined;
        if (!mine) return;
        const [state, consumer] = mine;
        if (lastState === state && SPANS.includes(state)) {
          for (let between = last + 1; between < index; between += 1) {
            made[between].get(lane).push([group, state, ""]);
          }
        }
        made[index].get(lane).push([group, state, consumer ?? ""]);
        [last, lastState] = [index, state];
      });
    }
  }
  return made;
}
