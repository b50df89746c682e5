"""Links on asyncio and gRPC. They carry values, and decide nothing.

Reading order:

- `front`: the port of the other regions: it accepts connections, and passes bytes on to grpc.
- `carrier`: messages over gRPC.
- `manager`: links, which carry values between the driver and the carrier.
"""
