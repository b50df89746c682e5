"""The `anabranch` command.

Reading order:

- `main`: the entry point and the table of commands.
- `usage`: the form of help texts.
- `signatures`: options that several commands share.
- `errors`: the errors that end a command, with their exit codes.
- `interrupting`: how signals end a command that has something to end first.
- `files`: checks of files that commands write, and their names in errors.
- `terminal`: escapes of control characters, counts with nouns, columns.
- `addresses`: finds the regions of a running cluster.
- `passwords`: finds the password of the regions.
- `client`: asks one region over RESP3.
- `keys`: keys as they are typed.
- `lost`: which regions were said to be lost.
- `ports`: whether a port is free, and which process holds it.
- `serve`: `anabranch serve`, one region in this process.
- `up`: `anabranch up`, a cluster on this machine.
- `up_certificates`: the certificates of `anabranch up --tls`.
- `supervisor`: starts, watches, restarts and stops the processes of `anabranch up`.
- `greeting`: the commands that `anabranch up` suggests.
- `certificates`: `anabranch cert`, certificates of regions and clients.
- `status`: `anabranch status`, regions, links, vectors, lag and digests.
- `top`: `anabranch top`, throughput and lag, live.
- `facts`: the facts that `status` asks the regions for.
- `problems`: the problems that `status` lists.
- `link_control`: the condition of links, read and changed in the regions or at toxiproxy.
- `link_flapping`: `anabranch link flap`, cuts and mends links in turn.
- `link_status`: `anabranch link status`, what was done to every link, and where.
- `links`: `anabranch link`, partitions and slow links.
- `console`: `anabranch console`, regions, links and streams in the browser.
- `explain`: `anabranch explain`, why entries and groups are or are not in a region.
- `drawn_history`: `anabranch log --svg`, the history of a key in all regions as a diagram.
- `diff`: `anabranch diff`, the differences between two regions.
- `whatif`: `anabranch whatif region-lost`, what a loss of a region would cost.
- `data`: `anabranch check`, `backup`, `restore` and `repair`, a region's data directory.
- `export`: `anabranch export`, what only a lost region holds.
- `clocks`: `anabranch clock`, the word of the operator about clocks.
- `cluster_file`: `anabranch cluster show`, a cluster file made from running regions.
- `members`: `anabranch member lost`, ends the waiting for a lost region.
- `scenario`: `anabranch scenario run`, calls `sim.scenario`.
- `recording`: `anabranch scenario record`, a live session as a scenario file.
- `simulate`: `anabranch simulate`, calls the simulator.
- `judge`: `anabranch judge`, tapes of live regions beside a naive engine.
- `chaos`: `anabranch chaos`, real regions under real faults.
- `pipeline`: `anabranch pipeline`, jobs on Spark.
- `bench`: `anabranch bench`, calls the benchmarks of a source tree.
"""
