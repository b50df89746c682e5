"""The world of a run: real regions on simulated clocks, network and disks.

Read in this order: `scheduler` (time), `disk`, `network`, `clients` (their connections), `region` (a process), `faults`, `world`; `trace`
tells what happened, `draining` reads groups to their ends when all is over.
"""
