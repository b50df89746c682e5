"""Links on asyncio and gRPC. They carry values, and decide nothing.

Reading order:

- `tls`: contexts of TLS, and which member a certificate is for.
- `relay`: bytes between the network and grpc, which has local sockets only.
- `front`: the port of the other regions: it accepts connections, and passes bytes on to grpc.
- `tunnel`: a connection of TLS that this region has dialled.
- `carrier`: messages over gRPC.
- `manager`: links, which carry values between the driver and the carrier.
"""
