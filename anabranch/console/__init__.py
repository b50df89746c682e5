"""The console: regions, links and streams in the browser.

The server asks regions over RESP and sends the page what it shows, as JSON. It keeps no data. The
page is in `page/`: HTML, styles and modules without a framework, and no build step.

Reading order:

- `regions`: connections to regions, made anew after a failure.
- `overview`: the state of the cluster.
- `interruptions`: what keeps effects from a region, and since when.
- `rates`: effects and bytes in a second.
- `poller`: notices changes while somebody watches.
- `view`: a stream in one region, and the rows that show several regions.
- `groups`: groups of a stream as a region has them.
- `tail`: the newest removals, from the log of a region.
- `stream`: a window of a stream in several regions, live.
- `past`: a stream as it was.
- `why`: explanations and histories.
- `keys`: the keys of the cluster.
- `links`: the links between regions.
- `words`: a command line as words.
- `replies`: replies as redis-cli prints them.
- `commands`: the command tables of regions.
- `sessions`: the connections of the command lines.
- `files`: the files of the page.
- `pace`: how often a busy stream is looked at.
- `live`: changes as server-sent events.
- `security`: who may ask the console.
- `login`: the token that opens the page, and the cookie of a browser.
- `app`: the routes.
- `player`: scenarios step by step.
- `server`: the process.
"""
