"""The sessions of all links of one region (S2). Sans-IO: the simulator drives the hub unchanged.

Reading order:

- `messages`: the messages between two regions, as plain values.
- `fields`: the conversion of parts of messages to and from protobuf.
- `codec`: the conversion of messages to and from bytes.
- `interfaces`: the interface of the region that sync serves.
- `handshake`: the checks of Hello and Welcome, and the limits of a link.
- `receiver`: the state machine of one link that this region dialled.
- `log_requests`: the questions that senders ask of the effect log on disk.
- `log_tail`: the end of the committed effect log, in memory.
- `log_reader`: the position of one sender in the effect log.
- `bodies`: the block bodies that a peer asked for.
- `sender`: the state machine of one link that a peer dialled.
- `puller`: the decision when to ask which peer for a snapshot.
- `held_messages`: the messages that a delay or limit of CRDT.LINK holds back.
- `unnamed`: the connections that have not said who they are.
- `links`: connections, and the links that this region dials.
- `snapshots`: serving snapshots to peers.
- `announcer`: attestations, and the times at which they are sent.
- `start_asking`: the questions and answers of a start.
- `events`: events for the operator's log.
- `work`: the tasks that the hub hands to the driver.
- `refusal_log`: the refusals of links for the operator's log.
- `connections`: all connections: they open, are refused, close and fail.
- `question_rates`: how often a peer may ask and report.
- `claims`: what a peer may claim.
- `contested`: the Hellos that would end living connections.
- `announcements`: what this region tells its peers of itself.
- `doubles`: two processes that run as one region.
- `opening`: the handshakes of all connections.
- `merging`: the merging of what peers have sent.
- `link_requests`: the requests of CRDT.LINK.
- `leaving`: the end of the links of a region that stops in order.
- `hub`: all links of one region, and the decisions across them.
"""
