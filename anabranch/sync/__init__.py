"""Anti-entropy between regions (S2).

A link has one direction: the region that dialled receives.

Reading order:

- `session`: all decisions, as state machines: messages and ticks in, messages and tasks out.
- `wire`: the protobuf modules that are generated from proto/.
- `generate`: the script that writes the modules in `wire`.
- `live`: links on asyncio and gRPC.
"""
