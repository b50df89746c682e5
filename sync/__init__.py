"""Anti-entropy between regions (S2). Read in this order:

1. `messages`: what two regions say to each other. `codec`: the same as bytes (proto/, generated into `wire`). `doors`: what is
   expected of the region that is served.
2. `handshake`: who may talk to whom. `receiver`: one link that was dialled. `sender`: one link that was accepted.
   `puller`: when to ask whom for a snapshot. `links`: when to dial. `hub`: all links of one region, its decisions across them.
   Nothing up to here knows sockets, clocks or event loops: the simulator drives the hub as it is.
3. `carrier`: messages over gRPC. `manager`: carries values between hub, carrier, engine and database.
"""
