"""Anti-entropy between regions (S2). Read in this order:

1. `messages`: what two regions say to each other. `parts`, `codec`: the same as bytes (proto/, generated into `wire`). `doors`: what
   is expected of the region that is served.
2. `handshake`: who may talk to whom. `receiver`: one link that was dialled. `sender`: one link that was accepted. `puller`: when to
   ask whom for a snapshot; `snapshots`: serving them. `attesting`: saying what is on disk. `links`, `switchboard`: connections.
   `hub`: all links of one region, and its decisions across them. Nothing up to here knows sockets, clocks or event loops: the
   simulator drives the hub as it is.
3. `carrier`: messages over gRPC. `manager`: carries values between hub, carrier, engine and database.
"""
